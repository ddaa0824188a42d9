// Accesses to places of any size; see pages.h.
// Runs in: threads of a leaf; the handlers of SIGSEGV and SIGTRAP.
// May call: core, ctl, replay.
// Owns: the protection of these pages, and a copy of each that is open for one instruction.
#include "pages.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../ctl/slot.h"
#include "../heap/heap.h"
#include "../replay/gate.h"

#define EFLAGS_TF 0x100
#define EFLAGS_DF 0x400
#define EFLAGS_RF 0x10000LL
#define ERROR_WRITE 2 // of a page fault
#define ERROR_FETCH 16
#define OPEN 32 // pages of one instruction: a vector may be scattered over sixteen, each part over two
#define PARTS 64
#define PAGE ((uint64_t)GR_PAGE)

static struct { uint64_t from, to; uint32_t point; bool reads; } areas[GR_WATCHES];
static struct { uint64_t from, to; int how; } parts[PARTS]; // what is mapped of their pages, and how
static uint32_t count, part_count;
static bool reads;  // one of the areas is for reads, too
static bool closed; // the pages are protected
static bool stale;  // an operation may have mapped something there since the parts were looked up
static uint64_t opened[OPEN];
static uint8_t was[OPEN][GR_PAGE] __attribute__((aligned(8)));
static uint32_t open_pages;
static uint64_t touched[GR_WATCHES]; // where the instruction under way has touched an area; 0: not

static void protect(uint64_t from, uint64_t to, int how)
{
	long ret = GR_RAW(SYS_mprotect, from, to - from, how);
	if (GR_IS_ERR(ret))
		gr_panic(gr_self, GR_PANIC_REFUSED, "to protect the page at 0x%x (error %d)\nwatch a part of the place", from, -ret);
}

static int as_closed(int how)
{
	return reads ? PROT_NONE : how & ~PROT_WRITE;
}

// ---------------------------------------------------------------- what is mapped there
static void add_parts(uint64_t start, uint64_t end, int how)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t from = areas[i].from & ~(PAGE - 1), to = (areas[i].to + PAGE - 1) & ~(PAGE - 1);
		from = from < start ? start : from;
		to = to > end ? end : to;
		if (from >= to)
			continue;
		if (part_count == PARTS)
			gr_panic(gr_self, GR_PANIC_REFUSED, "a place in more than %u mappings\nwatch a part of it", PARTS, 0);
		parts[part_count].from = from;
		parts[part_count].to = to;
		parts[part_count++].how = how;
	}
}

// The handlers need the thread's descriptor and the engine's own variables beside it.
static void refuse_descriptors(void)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		const struct gr_thread *t = gr_thread_block(i);
		uint64_t own = (uint64_t)&gr_self - gr_self->fs_base + t->fs_base;
		for (uint32_t part = 0; gr_thread_lives(t) && part < part_count; part++)
			if ((parts[part].from <= t->fs_base && t->fs_base < parts[part].to) || (parts[part].from <= own && own < parts[part].to))
				gr_panic(gr_self, GR_PANIC_REFUSED, "reads beside the descriptor of thread %u\nwatch a part of the place", t->pub.index + 1, 0);
	}
}

static char *line_end(char *p, const char *end)
{
	while (p < end && *p != '\n')
		p++;
	return p < end ? p : NULL;
}

// thread-self, not self: a leader that has left has no mappings of its own any more. Only while nothing is protected.
static void look_up(void)
{
	static char text[8192];
	size_t have = 0;
	long n, fd = GR_RAW(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (GR_IS_ERR(fd))
		gr_panic(gr_self, GR_PANIC_REFUSED, "to read the list of mappings (error %d)\nwatch a part of the place", -fd, 0);
	stale = false;
	part_count = 0;
	while ((n = GR_RAW(SYS_read, fd, text + have, sizeof text - have)) > 0) {
		char *line = text, *end;
		have += n;
		while ((end = line_end(line, text + have))) {
			const char *p = line;
			uint64_t start = gr_hex(&p), stop = (p++, gr_hex(&p));
			int how = (p[1] == 'r' ? PROT_READ : 0) | (p[2] == 'w' ? PROT_WRITE : 0) | (p[3] == 'x' ? PROT_EXEC : 0);
			if (how)
				add_parts(start, stop, how);
			line = end + 1;
		}
		have -= line - text;
		memmove(text, line, have);
	}
	GR_RAW(SYS_close, fd);
	if (reads)
		refuse_descriptors();
}

// ---------------------------------------------------------------- open and closed
// INVARIANT(a-watched-page-is-closed): but for the one instruction that is stepped over, and what the kernel does for an operation,
// nobody can touch it unseen.
static void close_all(void)
{
	if (stale)
		look_up();
	closed = true;
	for (uint32_t i = 0; i < part_count; i++) {
		protect(parts[i].from, parts[i].to, as_closed(parts[i].how));
	}
}

static void open_all(void)
{
	for (uint32_t i = 0; closed && i < part_count; i++)
		protect(parts[i].from, parts[i].to, parts[i].how);
	closed = false;
}

static bool fault(siginfo_t *info, void *context);

void gr_pages_arm(uint32_t i, uint64_t from, uint64_t to, bool also_reads)
{
	areas[count].from = from;
	areas[count].to = to;
	areas[count].reads = also_reads;
	areas[count++].point = i;
	reads |= also_reads;
	stale = true;
}

// What maps memory, and births and deaths, work on open pages; all else is seen as the program's own accesses are, but for what the
// kernel does for a call, which is told it by gr_copy_lift.
static bool may_map(enum gr_op op, uint16_t nr)
{
	static const uint16_t calls[] = {
		SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_brk, SYS_madvise, SYS_pkey_mprotect, SYS_shmat, SYS_shmdt, SYS_clone, SYS_clone3,
	};
	if (op != GR_OP_SYS_START && op != GR_OP_SYS_END)
		return op == GR_OP_START || op == GR_OP_EXIT || op == GR_OP_CREATE || op == GR_OP_JOIN || op == GR_OP_LAST || op == GR_OP_DETACH;
	for (uint32_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (nr == calls[i] + 1)
			return true;
	return false;
}

static void taken(enum gr_op op, uint16_t nr)
{
	if (!may_map(op, nr))
		return;
	open_all();
	stale = true;
}

// In the middle of a segment: a heap goes on to addresses that were none of its memory.
static void heap_opens(bool done)
{
	static bool before;
	if (!done) {
		before = closed;
		open_all();
		stale = true;
	} else if (before) {
		close_all();
	}
}

static uint32_t part_of(uint64_t at)
{
	uint32_t i = 0;
	while (closed && i < part_count && !(parts[i].from <= at && at < parts[i].to))
		i++;
	return closed ? i : part_count;
}

// For who only looks, by way of the kernel, at N bytes from AT: true if pages there were opened for it.
static bool lift(uint64_t at, size_t n)
{
	bool there = false;
	for (uint32_t i = 0; closed && i < part_count; i++)
		there |= at < parts[i].to && parts[i].from < at + n;
	if (there)
		open_all();
	return there;
}

static void put_back(void)
{
	close_all();
	for (uint32_t i = 0; i < open_pages; i++)
		protect(opened[i], opened[i] + PAGE, parts[part_of(opened[i])].how);
}

void gr_pages_begin(void)
{
	if (!count)
		return;
	gr_copy_protected = fault;
	gr_heap_on_open = heap_opens;
	if (reads) {
		gr_copy_lift = lift;
		gr_copy_put_back = put_back;
		gr_gate_on_taken = taken;
		gr_gate_on_out = close_all;
	}
	close_all();
}

void gr_pages_disarm(void)
{
	open_all();
	gr_copy_protected = NULL;
	gr_heap_on_open = NULL;
	gr_copy_lift = NULL;
	gr_copy_put_back = NULL;
	gr_gate_on_taken = NULL;
	gr_gate_on_out = NULL;
	count = part_count = open_pages = 0;
	reads = false;
}

static bool is_open(uint64_t page)
{
	for (uint32_t i = 0; i < open_pages; i++)
		if (opened[i] == page)
			return true;
	return false;
}

static void open_page(uint64_t page)
{
	if (open_pages == OPEN)
		gr_panic(gr_self, GR_PANIC_BUG, "an instruction that touches more than %u pages", OPEN, 0);
	protect(page, page + PAGE, parts[part_of(page)].how);
	gr_peek(was[open_pages], page, PAGE); // INVARIANT(a-look-is-no-hit): a register may watch the first byte
	opened[open_pages++] = page;
}

// The first watched word of an open page that is not what it was; 0: none.
static uint64_t changed_word(const uint8_t *before, uint64_t page, uint32_t area)
{
	static uint64_t now[GR_PAGE / 8];
	const uint64_t *then = (const uint64_t *)before;
	const uint8_t *bytes = (const uint8_t *)now;
	gr_peek(now, page, PAGE);
	for (uint64_t i = 0; i < PAGE / 8; i++) {
		uint64_t at = page + i * 8;
		if (now[i] == then[i] || at + 8 <= areas[area].from || at >= areas[area].to)
			continue;
		for (uint64_t byte = at; byte < at + 8; byte++)
			if (byte >= areas[area].from && byte < areas[area].to && bytes[byte - page] != before[byte - page])
				return at;
	}
	return 0;
}

// N bytes from AT are touched by the instruction under way. What an operation only reads is no hit.
static void touch(const struct gr_thread *self, uint64_t at, uint64_t n, bool writes)
{
	if (!writes && self->pub.state != GR_T_RUNNING)
		return;
	for (uint32_t i = 0; i < count; i++)
		if (areas[i].reads && !touched[i] && at < areas[i].to && areas[i].from < at + n)
			touched[i] = at > areas[i].from ? at : areas[i].from;
}

static void close_pages(struct gr_thread *self, void *context)
{
	uint64_t hits[GR_WATCHES] = {0};
	uint32_t points[GR_WATCHES], n = count;
	for (uint32_t i = 0; i < count; i++)
		hits[i] = touched[i];
	for (uint32_t i = 0; i < open_pages; i++) {
		for (uint32_t area = 0; area < count; area++)
			if (!hits[area])
				hits[area] = changed_word(was[i], opened[i], area);
		protect(opened[i], opened[i] + PAGE, as_closed(parts[part_of(opened[i])].how));
	}
	open_pages = 0;
	memset(touched, 0, sizeof touched);
	for (uint32_t i = 0; i < n; i++)
		points[i] = areas[i].point; // who stops at a hit may come back with other points
	for (uint32_t i = 0; i < n; i++)
		if (hits[i])
			gr_points_touched(self, points[i], hits[i], context);
}

// ---------------------------------------------------------------- repeated string instructions
// A byte of it that a debug register watches is the processor's to touch.
static bool has_register(uint64_t at, uint64_t n)
{
	for (uint32_t i = 0; i < gr_slot->points && i < GR_WATCHES; i++) {
		const struct gr_point *point = &gr_slot->point[i];
		if (point->kind != GR_POINT_EXEC && point->len <= 8 && at < point->addr + point->len && point->addr < at + n)
			return true;
	}
	return false;
}

// A step would go round once. So as much of one as fits into the pages is done here, as the processor does it: what it has left
// to do is in its registers. False where it is none, or one that is not plain.
static bool repeat(struct gr_thread *self, uint64_t at, ucontext_t *context)
{
	static uint8_t bytes[GR_PAGE];
	greg_t *regs = context->uc_mcontext.gregs;
	uint8_t code[15];
	uint64_t have = gr_peek(code, regs[REG_RIP], sizeof code), n = 0, size;
	bool rep = false, word = false, wide = false;
	for (; n < have && (code[n] == 0x66 || code[n] == 0xf2 || code[n] == 0xf3); n++) {
		rep |= code[n] != 0x66;
		word |= code[n] == 0x66;
	}
	if (n < have && (code[n] & 0xf0) == 0x40)
		wide = code[n++] & 8;
	if (!rep || n >= have || regs[REG_EFL] & EFLAGS_DF)
		return false;
	uint8_t op = code[n];
	bool moves = op == 0xa4 || op == 0xa5;
	if (!moves && op != 0xaa && op != 0xab)
		return false;
	size = !(op & 1) ? 1 : wide ? 8 : word ? 2 : 4;
	uint64_t to = regs[REG_RDI], from = regs[REG_RSI], times = (PAGE - to % PAGE) / size;
	if (moves && (PAGE - from % PAGE) / size < times)
		times = (PAGE - from % PAGE) / size;
	if ((uint64_t)regs[REG_RCX] < times)
		times = regs[REG_RCX];
	uint64_t len = times * size, page = to & ~(PAGE - 1), source = from & ~(PAGE - 1);
	uint32_t part = part_of(to);
	if (!times || (moves && from < to + len && to < from + len) || has_register(to, len) || (moves && has_register(from, len)))
		return false;
	if (at < to || at >= to + len ? !moves || at < from || at >= from + len : false)
		return false;
	// What is not watched there may fault by itself.
	if (part < part_count ? !(parts[part].how & PROT_WRITE) : gr_peek(bytes, to, len) != len)
		return false;
	if (moves && gr_peek(bytes, from, len) != len)
		return false;
	for (uint64_t i = 0; !moves && i < len; i++)
		bytes[i] = ((const uint8_t *)&regs[REG_RAX])[i % size];
	if (part < part_count)
		open_page(page);
	else if (gr_poke(to, bytes, len) != len)
		return false;
	if (moves && source != page && part_of(from) < part_count)
		open_page(source);
	if (part < part_count)
		memcpy((void *)to, bytes, len);
	if (moves)
		touch(self, from, len, false);
	touch(self, to, len, true);
	regs[REG_RDI] += len;
	regs[REG_RSI] += moves ? len : 0;
	regs[REG_RCX] -= times;
	if (!regs[REG_RCX]) {
		regs[REG_RIP] += n + 1;
		regs[REG_EFL] &= ~EFLAGS_RF; // that was the fault's: the instruction behind may be a point
	}
	close_pages(self, context);
	return true;
}

// ---------------------------------------------------------------- the handlers
static bool fault(siginfo_t *info, void *context)
{
	uint64_t at = (uint64_t)info->si_addr, page = at & ~(PAGE - 1);
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	struct gr_thread *self = gr_self;
	if (!self || info->si_code != SEGV_ACCERR || part_of(at) == part_count || is_open(page))
		return false; // it is the program's own fault
	if (open_pages || !repeat(self, at, context)) {
		if (!(regs[REG_ERR] & ERROR_FETCH))
			touch(self, at, 1, regs[REG_ERR] & ERROR_WRITE);
		open_page(page);
		regs[REG_EFL] |= EFLAGS_TF;
	}
	return true;
}

bool gr_pages_stepped(struct gr_thread *self, void *context)
{
	if (!open_pages)
		return false;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)EFLAGS_TF;
	close_pages(self, context);
	return true;
}
