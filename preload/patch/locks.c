// Finding the locks inside the C library and patching them; see locks.h.
// Runs in: the only thread there is; lookups in application threads and in the handler of faults.
// May call: the loader's _dl_find_object.
// Owns: the table of locks.
#include "locks.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>

#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "decode.h"
#include "patch.h"

#define LOCKS 2048
#define IN_FUNCTION 128
#define JUMP 5
#define PM_PRESENT (1ULL << 63)
#define PM_SWAPPED (1ULL << 62)
#define PM_OF_FILE (1ULL << 61)

__thread uint64_t gr_lock_rcx, gr_lock_r11;

static struct gr_lock locks[LOCKS];
static uint32_t count;
static bool found; // all of them
static uint64_t sum;
static uint64_t slow_start, slow_end;     // where a lock is waited for, and waiters are woken
static uint64_t loader_start, loader_end; // the loader's data
static struct gr_text text;
static const char *why;
static uint64_t where;

static const char *const slow_names[] = {"__lll_lock_wait_private", "__lll_lock_wake_private"};
static uint64_t slow[2], try_stream;

void gr_lock_init(uint64_t loader)
{
	for (int i = 0; i < 2; i++)
		slow[i] = (uint64_t)dlvsym(RTLD_DEFAULT, slow_names[i], "GLIBC_PRIVATE");
	try_stream = (uint64_t)dlvsym(RTLD_DEFAULT, "ftrylockfile", "GLIBC_2.2.5");
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)loader;
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)(loader + (loader ? ehdr->e_phoff : 0));
	for (int i = 0; loader && i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type != PT_LOAD || !(phdr[i].p_flags & PF_W))
			continue;
		loader_start = loader + phdr[i].p_vaddr;
		loader_end = loader_start + phdr[i].p_memsz;
	}
}

static bool fail(const char *text_of_it, uint64_t pc)
{
	why = text_of_it;
	where = pc;
	return false;
}

// ---------------------------------------------------------------- one instruction
static const uint8_t place[] = {0, 2, 3, 1, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}; // in struct gr_regs

static uint64_t *reg_at(const struct gr_regs *regs, uint8_t number)
{
	return (uint64_t *)regs + place[number];
}

// `lock cmpxchg` or `xchg` of 32 bits with memory. The words of locks have no other size.
static bool parse(const uint8_t *code, uint64_t addr, uint8_t length, struct gr_lock *ret)
{
	const uint8_t *p = code;
	uint8_t rex = 0;
	bool locked = *p == 0xf0;
	p += locked;
	if ((*p & 0xf0) == 0x40)
		rex = *p++;
	bool compares = locked && p[0] == 0x0f && p[1] == 0xb1;
	if (rex & 8 || (!compares && p[0] != 0x87) || length > GR_LOCK_LONGEST)
		return false;
	p += compares ? 2 : 1;
	uint8_t modrm = *p++, mod = modrm >> 6, rm = modrm & 7;
	if (mod == 3)
		return false;
	*ret = (struct gr_lock){
		.addr = addr, .behind = addr + length, .length = length, .exchange = !compares, .index = GR_LOCK_NONE,
		.base = rm | (rex & 1) << 3, .reg = (modrm >> 3 & 7) | (rex & 4) << 1,
	};
	memcpy(ret->bytes, code, length);
	if (rm == 4) {
		uint8_t sib = *p++, index = (sib >> 3 & 7) | (rex & 2) << 2;
		ret->base = (sib & 7) | (rex & 1) << 3;
		ret->index = index == 4 ? GR_LOCK_NONE : index;
		ret->shift = sib >> 6;
		if ((sib & 7) == 5 && mod == 0)
			return false; // an absolute address
	}
	int32_t far = 0;
	if (mod == 2 || (mod == 0 && rm == 5))
		memcpy(&far, p, 4);
	ret->fixed = (uint64_t)(int64_t)(mod == 1 ? (int8_t)*p : far);
	if (mod == 0 && rm == 5) {
		ret->base = GR_LOCK_NONE;
		ret->fixed += addr + length;
	}
	return true;
}

uint64_t gr_lock_word(const struct gr_lock *lock, const struct gr_regs *regs)
{
	uint64_t word = lock->fixed;
	if (lock->base != GR_LOCK_NONE)
		word += *reg_at(regs, lock->base);
	if (lock->index != GR_LOCK_NONE)
		word += *reg_at(regs, lock->index) << lock->shift;
	return word;
}

// What nobody can see the order of: words of the loader's data, where the library keeps the stacks of threads, but for the
// loader's mutexes. INVARIANT(none-under-a-primitive): of all words only these are also used by library functions that run on
// behalf of an operation, and not at all on replay.
bool gr_lock_counts(const struct gr_lock *lock, uint64_t word)
{
	return lock->mutex || word < loader_start || word >= loader_end;
}

bool gr_lock_takes(const struct gr_lock *lock, const struct gr_regs *regs)
{
	return !lock->exchange && (uint32_t)regs->rax == 0 && (uint32_t)*reg_at(regs, lock->reg) == 1;
}

bool gr_lock_gives(const struct gr_lock *lock, const struct gr_regs *regs)
{
	return lock->exchange && (uint32_t)*reg_at(regs, lock->reg) == 0;
}

// As the processor does it: a cmpxchg that succeeds leaves rax as it is, all the others clear the upper half.
void gr_lock_perform(const struct gr_lock *lock, struct gr_regs *regs, uint64_t word)
{
	uint64_t *reg = reg_at(regs, lock->reg), rax = regs->rax, flags;
	if (lock->exchange) {
		*reg = __atomic_exchange_n((uint32_t *)word, (uint32_t)*reg, __ATOMIC_SEQ_CST);
		return;
	}
	__asm__ volatile("lock cmpxchgl %k3, (%2)\n\t"
			 "lea -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "popq %1\n\t"
			 "lea 128(%%rsp), %%rsp"
			 : "+a"(rax), "=&r"(flags)
			 : "r"(word), "r"(*reg)
			 : "memory", "cc");
	regs->rax = rax;
	regs->eflags = (regs->eflags & ~0x8d5ULL) | (flags & 0x8d5); // the six of an arithmetic
}

// ---------------------------------------------------------------- many bytes
// The first byte from P on that is A or B, or END. Most are neither, so eight are asked at once.
#define EACH 0x0101010101010101ULL

static inline uint64_t zeros(uint64_t word)
{
	return (word - EACH) & ~word & 0x80 * EACH; // the lowest one is right
}

static inline const uint8_t *next_of(const uint8_t *p, const uint8_t *end, uint8_t a, uint8_t b)
{
	for (uint64_t word; p + sizeof word <= end; p += sizeof word) {
		memcpy(&word, p, sizeof word);
		uint64_t hits = zeros(word ^ a * EACH) | zeros(word ^ b * EACH);
		if (hits)
			return p + __builtin_ctzll(hits) / 8;
	}
	while (p < end && *p != a && *p != b)
		p++;
	return p;
}

// ---------------------------------------------------------------- one function
static uint8_t code[0x10000] __attribute__((aligned(GR_PAGE)));

// The bytes as they are in the file: a debugger has breakpoints in the memory.
static bool from_file(const struct gr_function *f)
{
	const struct link_map *map = text.map;
	long fd = GR_RAW(SYS_open, map->l_name, O_RDONLY | O_CLOEXEC, 0), n = 0;
	if (GR_IS_ERR(fd))
		return false;
	n = GR_RAW(SYS_pread64, fd, code, f->end - f->start, f->start - text.start + text.offset);
	GR_RAW(SYS_close, fd);
	return n == (long)(f->end - f->start);
}

static bool has_breakpoint(const struct gr_function *f)
{
	struct gr_insn insn;
	const uint8_t *end = code + (f->end - f->start);
	if (next_of(code, end, 0xcc, 0xcc) == end)
		return false; // what cannot be decoded is found by who looks for locks
	for (uint64_t at = 0; at < f->end - f->start; at += insn.length)
		if (code[at] == 0xcc || !gr_decode(code + at, f->end - f->start - at, &insn))
			return true;
	return false;
}

static bool is_slow(uint64_t target)
{
	return target >= slow_start && target < slow_end;
}

static bool is_mutex(const struct gr_function *f)
{
	uint64_t take = (uint64_t)gr_real[GR_WRAP_pthread_mutex_lock], give = (uint64_t)gr_real[GR_WRAP_pthread_mutex_unlock];
	struct gr_insn insn;
	if (f->start == take || f->start == give || (is_slow(f->start) && f->start != slow[0]))
		return true; // mutexes are waited for in the function that serves locks of several processes, too
	for (int i = 0; i < 3 && gr_decode((const uint8_t *)give, 15, &insn); i++, give += insn.length)
		if (insn.kind == GR_INSN_JMP && give + insn.length + (int64_t)insn.rel == f->start)
			return true;
	return false;
}

// Where the branches of the function that is looked at end. A function is decoded once: that is half of all the looking.
#define BRANCHES 8192
static uint64_t branch[BRANCHES];

// Does a branch of the function itself end in what is going to be overwritten, behind its first byte?
static bool is_entered(uint32_t first, uint32_t branches)
{
	for (uint32_t i = first; i < count; i++)
		for (uint32_t k = 0; k < branches; k++)
			if (branch[k] > locks[i].addr && branch[k] < locks[i].addr + locks[i].window)
				return true;
	return false;
}

static bool look_at(const struct gr_function *f)
{
	uint32_t first = count, branches = 0;
	bool mutex = is_mutex(f);
	struct gr_insn insn;
	if (f->end - f->start > sizeof code)
		return fail("a function of the C library is too long", f->start);
	gr_patch_original(f->start, f->end - f->start, code);
	if (has_breakpoint(f) && (gr_mode != GR_MODE_RECORD || !from_file(f)))
		return fail("a function of the C library cannot be read", f->start);
	for (uint64_t at = 0; at < f->end - f->start; at += insn.length) {
		struct gr_lock *lock = &locks[count];
		if (!gr_decode(code + at, f->end - f->start - at, &insn))
			return fail("a function of the C library cannot be read", f->start + at);
		if (insn.rel) {
			if (branches == BRANCHES)
				return fail("a function of the C library is too long", f->start);
			branch[branches++] = f->start + at + insn.length + (int64_t)insn.rel;
		}
		if ((insn.kind != GR_INSN_MEMORY && insn.kind != GR_INSN_RIP) || !parse(code + at, f->start + at, insn.length, lock))
			continue;
		if (++count == LOCKS)
			return fail("the C library has more locks than fit", 0);
		lock->mutex = mutex;
		struct gr_plan follows;
		lock->window = lock->length;
		if (lock->length < JUMP) {
			if (!gr_plan_follow(f, lock->addr + lock->length, lock->addr + JUMP, &follows))
				return fail("a lock of the C library cannot be patched", lock->addr);
			lock->window = (uint8_t)((follows.back ? follows.back : lock->addr + JUMP) - lock->addr);
		}
		if (gr_mode == GR_MODE_RECORD && memcmp(code + at, (const void *)lock->addr, lock->length))
			return fail("a breakpoint is in the way of a lock of the C library", lock->addr);
	}
	return !is_entered(first, branches) || fail("a lock of the C library can be entered in its middle", locks[first].addr);
}

// ---------------------------------------------------------------- all of them
static void sort(void)
{
	for (uint32_t i = 1; i < count; i++) { // mostly sorted as they come
		struct gr_lock lock = locks[i];
		uint32_t k = i;
		for (; k && locks[k - 1].addr > lock.addr; k--)
			locks[k] = locks[k - 1];
		locks[k] = lock;
	}
}

static uint32_t first_behind(uint64_t addr)
{
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (locks[middle].addr <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// Which stretches of LINE bytes hold something that is going to be overwritten: nearly none, so few targets are looked up.
#define LINE 64
#define LINES 0x10000
static uint64_t lines[LINES / 64];

static void mark_lines(void)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t line = (locks[i].addr - text.start) / LINE, last = (locks[i].addr + locks[i].window - text.start) / LINE;
		for (; line <= last; line++)
			lines[line % LINES / 64] |= 1ULL << line % 64;
	}
}

static bool may_hold_lock(uint64_t target)
{
	uint64_t line = (target - text.start) / LINE;
	return lines[line % LINES / 64] >> line % 64 & 1;
}

// A jump from another function, which is what the compiler makes of rarely used parts.
static bool is_jumped_into(void)
{
	const uint8_t *end = (const uint8_t *)text.end - 6;
	mark_lines();
	for (const uint8_t *p = (const uint8_t *)text.start; (p = next_of(p, end, 0x0f, 0xe9)) < end; p++) {
		bool conditional = p[0] == 0x0f && (p[1] & 0xf0) == 0x80;
		if (!conditional && p[0] != 0xe9)
			continue;
		uint64_t behind = (uint64_t)p + 5 + conditional;
		uint64_t target = behind + (uint64_t)(int64_t)*(const int32_t *)(behind - 4);
		bool inside = target >= text.start && target < text.end && may_hold_lock(target);
		uint32_t i = inside ? first_behind(target - 1) : 0;
		if (i && target > locks[i - 1].addr && target < locks[i - 1].addr + locks[i - 1].window)
			return true;
	}
	return false;
}

static const uint8_t *nearest(const uint8_t *p, const uint8_t *end, uint64_t place)
{
	return place > (uint64_t)p && place < (uint64_t)end ? (const uint8_t *)place : end;
}

static bool find_all(struct gr_thread *self)
{
	struct gr_function f = {0, 0}, last;
	if (!slow[0] || slow[1] < slow[0] || slow[1] - slow[0] > 0x1000 || !gr_plan_text(self, slow[0], &text) ||
	    !gr_plan_function(&text, slow[1], &last))
		return fail("the C library waits for its locks in another way", 0);
	slow_start = slow[0];
	slow_end = last.end;
	if (gr_plan_function(&text, last.end, &f) || gr_plan_function(&text, (last.end + 15) & ~15ULL, &f))
		slow_end = f.end; // private ones and others follow each other
	f.end = 0;
	const uint8_t *end = (const uint8_t *)text.end - 5;
	for (const uint8_t *p = (const uint8_t *)text.start; p < end; p++) {
		bool of_it = is_slow((uint64_t)p) || (uint64_t)p == try_stream;
		if (!of_it) {
			const uint8_t *until = nearest(p, end, slow_start);
			p = next_of(p, nearest(p, until, try_stream), 0xe8, 0xe9);
			of_it = (uint64_t)p == slow_start || (uint64_t)p == try_stream;
		}
		if (p == end)
			break;
		if ((uint64_t)p < f.end || (!of_it && !is_slow((uint64_t)p + 5 + (uint64_t)(int64_t)*(const int32_t *)(p + 1))))
			continue;
		if (!gr_plan_function(&text, (uint64_t)p, &f)) {
			f.end = 0;
			continue;
		}
		if (!look_at(&f))
			return false;
	}
	sort();
	return !is_jumped_into() || fail("a lock of the C library can be entered in its middle", 0);
}

// ---------------------------------------------------------------- patching
// An instruction that only the kernel may execute. Which one tells how long the lock's is (gdbrr/rsp/locks.py).
static uint8_t first_byte(const struct gr_lock *lock)
{
	switch (lock->bytes[0]) {
	case 0xf0:
		return 0xf4;
	case 0x87:
		return 0xfa;
	}
	return 0xfb;
}

// INVARIANT(no-copy-of-jumps): what may be copied for a debugger has no jump here.
static bool write_all(struct gr_thread *self)
{
	bool jumps = gr_mode == GR_MODE_RECORD || !(gr_slot->flags & GR_SLOT_HOLD_END);
	uint64_t start = text.start & ~4095ULL, size = ((text.end + 4095) & ~4095ULL) - start;
	if (jumps && !gr_lockstub_open(self, text.start, text.end))
		return fail("there is no room for code near the C library", 0);
	if (GR_RAW(SYS_mprotect, start, size, GR_TEXT | PROT_WRITE))
		return fail("the C library's code cannot be written", 0);
	for (uint32_t i = 0; i < count; i++) {
		struct gr_lock *lock = &locks[i];
		uint8_t *at = (uint8_t *)lock->addr;
		struct gr_plan follows;
		struct gr_function f = {lock->addr, lock->addr + 64};
		if (!jumps) {
			*at = first_byte(lock);
			continue;
		}
		bool moves = lock->length < JUMP && gr_plan_follow(&f, lock->addr + lock->length, lock->addr + JUMP, &follows);
		uint64_t stub = gr_lockstub_make(lock, moves ? &follows : NULL);
		if (!stub)
			return fail("there is no room for code near the C library", lock->addr);
		int32_t distance = (int32_t)(stub - (lock->addr + JUMP));
		*at = 0xe9;
		memcpy(at + 1, &distance, 4);
	}
	GR_RAW(SYS_mprotect, start, size, GR_TEXT);
	if (jumps)
		gr_lockstub_close();
	return true;
}

void gr_lock_find(struct gr_thread *self)
{
	found = find_all(self);
}

// All of the library has been looked at, a megabyte of which the program itself comes to a part. What is not changed goes, and comes
// back from its file. INVARIANT(one-thread-yet): nobody changes any of it meanwhile, which a debugger might.
static void let_go(void)
{
	uint64_t entries[256], start = text.object_start, page = start;
	long fd = GR_RAW(SYS_open, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0), n = 0;
	for (uint64_t i = 0; page < text.object_end; page += GR_PAGE, i++) {
		if (i * 8 >= (uint64_t)n) {
			i = 0;
			n = GR_RAW(SYS_pread64, fd, entries, sizeof entries, page / GR_PAGE * 8);
			if (n < 8)
				break;
		}
		if (!(entries[i] & PM_SWAPPED) && (entries[i] & PM_OF_FILE || !(entries[i] & PM_PRESENT)))
			continue;
		GR_RAW(SYS_madvise, start, page - start, MADV_DONTNEED);
		start = page + GR_PAGE;
	}
	GR_RAW(SYS_madvise, start, page - start, MADV_DONTNEED);
	GR_RAW(SYS_madvise, code, sizeof code, MADV_DONTNEED);
	GR_RAW(SYS_close, fd);
}

const char *gr_lock_patch(struct gr_thread *self, uint64_t *ret_where)
{
	if (!found && !why)
		gr_lock_find(self);
	if (!sum && !why && write_all(self)) {
		sum = gr_hash_word(GR_HASH_SEED, count);
		for (uint32_t i = 0; i < count; i++)
			sum = gr_hash_word(sum, locks[i].addr - text.start);
		if (gr_mode == GR_MODE_RECORD && !(gr_slot->flags & GR_SLOT_DEBUGGED))
			let_go();
	}
	*ret_where = where;
	return why;
}

uint64_t gr_lock_sum(void)
{
	return sum;
}

void gr_lock_restore(const struct gr_lock *lock)
{
	gr_text_write(lock->addr, lock->bytes, 1, GR_TEXT);
}

// ---------------------------------------------------------------- lookups
const struct gr_lock *gr_lock_at(uint64_t addr)
{
	uint32_t i = sum && addr >= text.start && addr < text.end ? first_behind(addr) : 0;
	return i && locks[i - 1].addr == addr ? &locks[i - 1] : NULL;
}

bool gr_lock_waited(const struct gr_lock *lock)
{
	return is_slow(lock->addr);
}

bool gr_lock_is_wait(uint64_t pc)
{
	return is_slow(pc);
}

// Such a function waits behind the attempt, and comes back to it.
bool gr_lock_retries(uint64_t pc, uint64_t word)
{
	uint32_t i = sum && is_slow(pc) ? first_behind(pc) : 0;
	return i && gr_lock_waited(&locks[i - 1]) && gr_lock_counts(&locks[i - 1], word);
}

uint64_t gr_lock_fault(uint64_t pc)
{
	for (uint32_t i = 0; i < count; i++)
		if (locks[i].native && locks[i].native == pc)
			return locks[i].addr;
	return 0;
}

uint64_t gr_lock_place(uint64_t pc)
{
	uint32_t i = sum && pc >= text.start && pc < text.end ? first_behind(pc - 1) : 0;
	return i && locks[i - 1].addr + locks[i - 1].length == pc ? locks[i - 1].behind : pc;
}
