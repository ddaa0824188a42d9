// Stores to places of any size; see pages.h.
// Runs in: threads of a leaf, in the program's code of one segment; the handlers of SIGSEGV and SIGTRAP.
// May call: core, ctl.
// Owns: the protection of these pages, and a copy of each that is open for one instruction.
#include "pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../ctl/slot.h"

#define EFLAGS_TF 0x100
#define EFLAGS_DF 0x400
#define OPEN 32 // pages of one instruction: a vector may be scattered over sixteen, each part over two
#define PAGE ((uint64_t)GR_PAGE)

static struct { uint64_t from, to; uint32_t point; } areas[GR_WATCHES];
static uint32_t count;
static uint64_t opened[OPEN];
static uint8_t was[OPEN][GR_PAGE];
static uint32_t open_pages;

static void protect(uint64_t from, uint64_t to, int how)
{
	from &= ~(PAGE - 1);
	to = (to + PAGE - 1) & ~(PAGE - 1);
	long ret = GR_RAW(SYS_mprotect, from, to - from, how);
	if (GR_IS_ERR(ret))
		gr_panic(gr_self, GR_PANIC_REFUSED, "to protect the page at 0x%x (error %d)\nwatch a part of the place", from, -ret);
}

// INVARIANT(a-watched-page-is-closed): but for the one instruction that is stepped over, nobody can store to it unseen.
static bool fault(siginfo_t *info, void *context);

void gr_pages_arm(uint32_t i, uint64_t from, uint64_t to)
{
	areas[count].from = from;
	areas[count].to = to;
	areas[count++].point = i;
	gr_copy_protected = fault;
	protect(from, to, PROT_READ);
}

void gr_pages_disarm(void)
{
	gr_copy_protected = NULL;
	while (count) {
		count--;
		protect(areas[count].from, areas[count].to, PROT_READ | PROT_WRITE);
	}
	open_pages = 0;
}

static bool is_watched(uint64_t page)
{
	for (uint32_t i = 0; i < count; i++)
		if (areas[i].from < page + PAGE && page < areas[i].to)
			return true;
	return false;
}

static void open_page(uint64_t page)
{
	if (open_pages == OPEN)
		gr_panic(gr_self, GR_PANIC_BUG, "an instruction that stores to more than %u pages", OPEN, 0);
	memcpy(was[open_pages], (const void *)page, PAGE);
	opened[open_pages++] = page;
	protect(page, page + PAGE, PROT_READ | PROT_WRITE);
}

// The first watched word of an open page that is not what it was; 0: none.
static uint64_t changed_word(const uint8_t *before, uint64_t page, uint32_t area)
{
	const uint64_t *now = (const uint64_t *)page, *then = (const uint64_t *)before;
	for (uint64_t i = 0; i < PAGE / 8; i++) {
		uint64_t at = page + i * 8;
		if (now[i] == then[i] || at + 8 <= areas[area].from || at >= areas[area].to)
			continue;
		for (uint64_t byte = at; byte < at + 8; byte++)
			if (byte >= areas[area].from && byte < areas[area].to &&
			    *(const uint8_t *)byte != before[byte - page])
				return at;
	}
	return 0;
}

static void close_pages(struct gr_thread *self, void *context)
{
	uint64_t changed[GR_WATCHES] = {0};
	uint32_t points[GR_WATCHES], n = count;
	for (uint32_t i = 0; i < open_pages; i++) {
		for (uint32_t area = 0; area < count; area++)
			if (!changed[area])
				changed[area] = changed_word(was[i], opened[i], area);
		protect(opened[i], opened[i] + PAGE, PROT_READ);
	}
	open_pages = 0;
	for (uint32_t i = 0; i < n; i++)
		points[i] = areas[i].point; // who stops at a hit may come back with other points
	for (uint32_t i = 0; i < n; i++)
		if (changed[i])
			gr_points_changed(self, points[i], changed[i], context);
}

// ---------------------------------------------------------------- repeated string instructions
// A step would go round once. So as much of one as fits into the page is done here, as the processor does it: what it has left
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
	uint64_t to = regs[REG_RDI], page = at & ~(PAGE - 1), from = regs[REG_RSI], times = (page + PAGE - to) / size;
	if (to < page || to >= page + PAGE)
		return false;
	if ((uint64_t)regs[REG_RCX] < times)
		times = regs[REG_RCX];
	uint64_t len = times * size;
	if (!times || (moves && from < to + len && to < from + len))
		return false;
	if (moves && gr_peek(bytes, from, len) != len)
		return false;
	for (uint64_t i = 0; !moves && i < len; i++)
		bytes[i] = ((const uint8_t *)&regs[REG_RAX])[i % size];
	open_page(page);
	memcpy((void *)to, bytes, len);
	regs[REG_RDI] += len;
	regs[REG_RSI] += moves ? len : 0;
	regs[REG_RCX] -= times;
	if (!regs[REG_RCX])
		regs[REG_RIP] += n + 1;
	close_pages(self, context);
	return true;
}

// ---------------------------------------------------------------- the handlers
static bool fault(siginfo_t *info, void *context)
{
	uint64_t at = (uint64_t)info->si_addr, page = at & ~(PAGE - 1);
	struct gr_thread *self = gr_self;
	if (!self || info->si_code != SEGV_ACCERR || !is_watched(page))
		return false;
	for (uint32_t i = 0; i < open_pages; i++)
		if (opened[i] == page)
			return false; // it is the program's own fault
	if (open_pages || !repeat(self, at, context)) {
		open_page(page);
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= EFLAGS_TF;
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
