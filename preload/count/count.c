// Counting; see count.h.
// Runs in: the thread whose segment is counted: behind its copies' exits, in the engine's handlers, and where it stands.
// May call: core, ctl, patch/decode, replay, syscall/memory.
// Owns: GR_COUNT_ADDR, the areas, and the protection of the program's code while copies run.
#include "count.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../patch/patch.h"
#include "../replay/gate.h"
#include "../signal/loop/loop.h"
#include "../syscall/memory/memory.h"
#include "blocks.h"

#define EFLAGS_TF 0x100
#define AREAS 32
#define NEAR 0x60000000 // so far an area may be from the code that is copied there
#define BUCKETS 0x10000
#define RANGES 4096
#define BLOCKS 0x100000
#define STEPS 0x1000000

struct range { uint64_t start, end; };

// At GR_COUNT_ADDR. What is never touched takes no memory.
struct work {
	struct gr_fast fast[GR_FAST];
	uint32_t bucket[BUCKETS]; // 1 + the newest block
	struct range text[RANGES], wild[RANGES];
	struct gr_block block[BLOCKS];
	struct gr_insn_copy step[STEPS];
};
#define WORK ((struct work *)GR_COUNT_ADDR)
_Static_assert(GR_COUNT_ADDR + sizeof(struct work) <= GR_ZONE_END, "zone layout");

static struct {
	bool wanted;   // this run is counted
	bool on;       // copies run, and the program's code cannot
	bool valid;    // all of the segment up to here was counted
	bool stopped;  // where it was stopped it can go on from
	bool halting;  // it is to stop as soon as it stands between two instructions
	bool stepping; // up to there it goes by single steps
	bool pending;  // a hit, which waits for that, too
	bool stops;    // where it halts it is to stop, and not only to look at such a hit
	bool watches;  // data, by debug registers
	uint64_t tick; // of the segment
	bool listed;   // the ranges are those of this segment
	uint64_t stop_pc;
	uint64_t *back;           // where on the stack a copy is returned to
	uint64_t resume;          // in a copy, behind a hit that was looked at
	const struct gr_block *at; // where the program is shown to be, and how much of it was executed
	uint32_t done;
	bool at_counted;
	uint32_t generation, blocks, steps, texts, wilds, areas;
	struct gr_area *area[AREAS];
	uint64_t left;            // instructions, where they are counted down
	struct gr_wish wish;
	siginfo_t hit;
} count;

bool (*gr_count_passed)(struct gr_thread *self, uint32_t point, const long long *regs);
void gr_count_glue(void) __attribute__((visibility("hidden")));
extern long long gr_count_regs[23] __attribute__((visibility("hidden")));

bool gr_count_wanted(void)
{
	return count.wanted;
}

// ---------------------------------------------------------------- the program's code
static const struct range *find(const struct range *ranges, uint32_t n, uint64_t pc)
{
	uint32_t low = 0, high = n;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (ranges[middle].end <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && ranges[low].start <= pc ? &ranges[low] : NULL;
}

static const struct range *text_at(uint64_t pc)
{
	return find(WORK->text, count.texts, pc);
}

// Code that may be written to may change without anybody being told.
static void list(const struct gr_map *map, void *arg)
{
	bool *full = arg, wild = map->prot & PROT_WRITE;
	uint32_t *n = wild ? &count.wilds : &count.texts;
	if (!(map->prot & PROT_EXEC) || gr_map_is_engines(map) || map->start >> 47)
		return;
	if (*n == RANGES)
		*full = true;
	else
		(wild ? WORK->wild : WORK->text)[(*n)++] = (struct range){map->start, map->end};
}

static void protect(bool on)
{
	for (uint32_t i = 0; i < count.texts; i++)
		GR_RAW(SYS_mprotect, WORK->text[i].start, WORK->text[i].end - WORK->text[i].start, on ? PROT_READ : PROT_READ | PROT_EXEC);
	gr_patch_rests = on;
	count.on = on;
}

static void give_up(void)
{
	protect(false);
	count.wanted = count.valid = count.stopped = false;
	gr_slot->counted = 0;
}

// ---------------------------------------------------------------- areas
static bool is_near(const struct gr_area *area, uint64_t pc)
{
	uint64_t start = (uint64_t)area;
	return (start > pc ? start - pc : pc - start) < NEAR;
}

static struct gr_area *area_at(uint64_t where)
{
	long got = GR_RAW(SYS_mmap, where, GR_COUNT_AREA, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (got == (long)where)
		return (struct gr_area *)where;
	if (!GR_IS_ERR(got))
		GR_RAW(SYS_munmap, got, GR_COUNT_AREA);
	return NULL;
}

// In front of the code, or else behind it: in front of a stack there is room that it may grow into.
static struct gr_area *area_near(uint64_t pc)
{
	struct gr_area *area = NULL;
	for (uint32_t i = 0; i < count.areas; i++)
		if (is_near(count.area[i], pc))
			return count.area[i];
	if (count.areas == AREAS)
		return NULL;
	uint64_t base = pc & ~(uint64_t)(GR_COUNT_AREA - 1);
	for (uint64_t far = GR_COUNT_AREA; !area && far < NEAR; far += GR_COUNT_AREA)
		if (base > far)
			area = area_at(base - far);
	for (uint64_t far = GR_COUNT_AREA; !area && far < NEAR - GR_COUNT_AREA; far += GR_COUNT_AREA)
		area = area_at(base + far);
	if (!area)
		return NULL;
	count.area[count.areas++] = area;
	area->glue = (uint64_t)gr_count_glue;
	gr_area_begin(area, WORK->fast);
	return area;
}

static void drop_areas(void)
{
	while (count.areas)
		GR_RAW(SYS_munmap, count.area[--count.areas], GR_COUNT_AREA);
}

// ---------------------------------------------------------------- records
static uint32_t *bucket_of(uint64_t pc)
{
	return &WORK->bucket[(pc ^ pc >> 16) % BUCKETS];
}

static struct gr_block *live_at(uint64_t pc)
{
	for (uint32_t i = *bucket_of(pc); i; i = WORK->block[i - 1].next)
		if (WORK->block[i - 1].pc == pc && WORK->block[i - 1].generation == count.generation)
			return &WORK->block[i - 1];
	return NULL;
}

// The record of what begins at PC and has so many instructions; they need no second one.
static struct gr_block *record_of(const struct gr_block *like, const struct gr_insn_copy *steps, struct gr_area *area)
{
	uint32_t *bucket = bucket_of(like->pc);
	for (uint32_t i = *bucket; i; i = WORK->block[i - 1].next)
		if (WORK->block[i - 1].pc == like->pc && WORK->block[i - 1].insns == like->insns)
			return &WORK->block[i - 1];
	if (count.blocks == BLOCKS || count.steps + like->insns + 1U > STEPS ||
	    sizeof *area + 8 * area->counts_used >= GR_AREA_CODE - sizeof(uint64_t))
		return NULL;
	struct gr_block *made = &WORK->block[count.blocks++];
	*made = *like;
	made->generation = 0;
	made->count = &area->count[area->counts_used++];
	made->next = *bucket;
	made->steps = count.steps;
	memcpy(&WORK->step[count.steps], steps, (like->insns + 1U) * sizeof *steps);
	count.steps += like->insns + 1U;
	*bucket = count.blocks;
	return made;
}

// What was executed of a block that is left in its middle.
static void leave_block(const struct gr_block *block, uint32_t done, bool counted)
{
	if (!block || (done == block->insns && counted))
		return;
	if (done == block->insns) {
		++*block->count;
		return;
	}
	if (counted)
		--*block->count;
	if (!done)
		return;
	struct gr_block part = *block;
	struct gr_insn_copy *steps = &WORK->step[block->steps];
	part.insns = (uint8_t)done;
	part.bytes = 0;
	for (uint32_t i = 0; i < done; i++)
		part.bytes = (uint16_t)(part.bytes + steps[i].len);
	struct gr_block *record = record_of(&part, steps, area_near(block->pc));
	if (record)
		++*record->count;
	else
		count.valid = false;
}

// How many of its instructions begin in this range.
static uint32_t steps_in(const struct gr_block *block, uint64_t pc, uint64_t len)
{
	const struct gr_insn_copy *step = &WORK->step[block->steps];
	uint64_t at = block->pc;
	uint32_t found = 0;
	if (at >= pc && at - pc + block->bytes <= len)
		return block->insns;
	for (uint32_t i = 0; i < block->insns; at += step[i++].len)
		found += at - pc < len;
	return found;
}

uint64_t gr_count_of(uint64_t pc, uint64_t len)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < count.blocks; i++) {
		const struct gr_block *block = &WORK->block[i];
		if (block->pc < pc + len && pc < block->pc + block->bytes)
			sum += *block->count * steps_in(block, pc, len);
	}
	return sum;
}

static uint64_t instructions(void)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < count.blocks; i++)
		sum += *WORK->block[i].count * WORK->block[i].insns;
	return sum;
}

void gr_count_tell(void)
{
	gr_slot->counted = count.valid;
	gr_slot->instructions = count.valid ? instructions() : 0;
	for (uint32_t i = 0; count.valid && i < gr_slot->points && i < GR_WATCHES; i++)
		gr_slot->executed[i] = gr_count_of(gr_slot->point[i].addr, gr_slot->point[i].len);
	__atomic_store_n(&gr_slot->told, gr_slot->cmd_seq, __ATOMIC_RELEASE);
}

// ---------------------------------------------------------------- copies
static uint64_t linked(struct gr_area *area, uint64_t pc)
{
	const struct gr_block *block = live_at(pc);
	return block && block->code - (uint64_t)area < GR_COUNT_AREA ? block->code : 0;
}

static struct gr_block *copied(uint64_t pc, const struct range *text)
{
	struct gr_insn_copy steps[GR_BLOCK_INSNS + 1];
	struct gr_area *area = area_near(pc);
	struct gr_block block = {.pc = pc};
	if (!area || area->code_used > GR_COUNT_AREA - GR_BLOCK_ROOM)
		return NULL;
	// How long it is decides which record it has, and that is where it counts.
	struct gr_emit emit = {.area = area, .wish = &count.wish, .fast = WORK->fast, .linked = linked};
	if (!gr_block_look(&emit, &block, steps, text->end - pc))
		return NULL;
	struct gr_block *record = record_of(&block, steps, area);
	if (!record)
		return NULL;
	record->counts = block.counts; // it may have been a part of another one
	record->last = block.last;
	if (!gr_block_emit(&emit, record, &WORK->step[record->steps]))
		return NULL;
	record->generation = count.generation;
	return record;
}

// Where the program's code at PC is executed: a copy, or where it stands if that is none of the program's. 0: not possible.
static uint64_t code_of(uint64_t pc)
{
	const struct range *text = text_at(pc);
	if (!text)
		return find(WORK->wild, count.wilds, pc) ? 0 : pc;
	const struct gr_block *block = live_at(pc);
	if (!block)
		block = copied(pc, text);
	return block ? block->code : 0;
}

static uint64_t code_or_none(uint64_t pc)
{
	uint64_t code = code_of(pc);
	if (!code) {
		give_up();
		return pc;
	}
	return code;
}

static uint64_t stop_at(const struct gr_area *area, uint64_t pc)
{
	count.stop_pc = pc;
	return area->halt;
}

// ---------------------------------------------------------------- the allocator
// Functions of the engine that are no operations, and often called. INVARIANT(back-is-put-back): while one of them runs, its return
// address is a copy's, which nobody sees: wherever the thread stands, it is the program's again. A watched stack sees the store.
static void *const allocator[] = {
	malloc, free, calloc, realloc, reallocarray, memalign, aligned_alloc, posix_memalign, valloc, pvalloc, malloc_usable_size,
};

static bool is_allocator(uint64_t pc)
{
	for (unsigned i = 0; i < sizeof allocator / sizeof *allocator; i++)
		if (pc == (uint64_t)allocator[i])
			return true;
	return false;
}

static void comes_back(struct gr_area *area, uint64_t pc)
{
	uint64_t *sp = (uint64_t *)gr_count_regs[REG_RSP];
	if (count.watches || !is_allocator(pc) || !text_at(*sp))
		return;
	count.back = sp;
	area->back = *sp;
	*sp = area->from_engine;
}

static void put_back(void)
{
	for (uint32_t i = 0; count.back && i < count.areas; i++)
		if (*count.back == count.area[i]->from_engine)
			*count.back = count.area[i]->back;
	count.back = NULL;
}

static void log_block(const struct gr_block *block)
{
	uint64_t pc = block->pc;
	for (uint32_t i = 0; i < block->insns; pc += WORK->step[block->steps + i++].len)
		gr_ctl->trace[gr_slot->trace_len++ % GR_TRACE_MAX] = pc;
}

// From glue.S. Where the thread goes on.
__attribute__((visibility("hidden"))) uint64_t gr_count_next(struct gr_area *area)
{
	uint64_t pc = area->target, what = area->reason >> GR_EXIT_BITS, kind = area->reason & ((1 << GR_EXIT_BITS) - 1);
	if (kind == GR_EXIT_STOP || ((count.halting || count.pending) && text_at(pc))) {
		count.stops = kind == GR_EXIT_STOP || count.halting;
		return stop_at(area, pc);
	}
	uint64_t code = code_or_none(pc);
	if (kind == GR_EXIT_PASS && count.on) {
		gr_count_regs[REG_RIP] = (long long)pc;
		count.stops = gr_count_passed(gr_self, (uint32_t)what, gr_count_regs);
		if (count.stops)
			return stop_at(area, pc);
		return code + live_at(pc)->looked;
	}
	if (kind == GR_EXIT_TRACE && count.on) {
		log_block(live_at(pc));
		return code + live_at(pc)->logged;
	}
	if (!count.on)
		return code;
	count.back = NULL;
	if (!text_at(pc)) {
		comes_back(area, pc);
		return code;
	}
	if (kind == GR_EXIT_INDIRECT)
		WORK->fast[pc % GR_FAST] = (struct gr_fast){-pc, code};
	if (kind == GR_EXIT_LINK && code - (uint64_t)area < GR_COUNT_AREA) {
		char *site = (char *)area + what;
		*(int32_t *)site = (int32_t)(code - ((uint64_t)site + 4));
	}
	return code;
}

// ---------------------------------------------------------------- where a copy stands
static const struct gr_block *block_at(uint64_t code)
{
	for (uint32_t i = 0; i < count.blocks; i++)
		if (WORK->block[i].generation == count.generation && code - WORK->block[i].code < WORK->block[i].size)
			return &WORK->block[i];
	return NULL;
}

static bool in_copies(uint64_t pc)
{
	for (uint32_t i = 0; i < count.areas; i++)
		if (pc - (uint64_t)count.area[i] < GR_COUNT_AREA)
			return true;
	return false;
}

// Shows the program where it is. False where it is in the middle of an instruction that takes several here; FAULT: in front of it, then.
static bool shown(greg_t *regs, bool fault)
{
	const struct gr_block *block = block_at((uint64_t)regs[REG_RIP]);
	if (!block)
		return false;
	const struct gr_insn_copy *step = &WORK->step[block->steps];
	uint64_t at = (uint64_t)regs[REG_RIP] - block->code, pc = block->pc;
	uint32_t i = 0;
	for (; i < block->insns && step[i + 1].at <= at; i++)
		pc += step[i].len;
	bool counted = at >= block->counted, apart = block->saves && i + 1U == block->insns, ended = i == block->insns;
	bool clean = at == 0 || (at == step[i].at && (!ended || block->falls)) || (at == block->counted && !apart && !ended);
	if (!clean && !fault)
		return false;
	if (!clean && apart)
		regs[REG_RAX] = (greg_t)area_near(block->pc)->rax;
	count.at = block;
	count.done = i;
	count.at_counted = counted;
	regs[REG_RIP] = (greg_t)pc;
	return true;
}

static void left(void)
{
	leave_block(count.at, count.done, count.at_counted);
	count.at = NULL;
	count.resume = 0;
}

// ---------------------------------------------------------------- runs
static void segment(uint64_t tick);

static void begin(void)
{
	static bool mapped;
	if (!mapped && GR_RAW(SYS_mmap, GR_COUNT_ADDR, sizeof(struct work), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != (long)GR_COUNT_ADDR) {
		count.wanted = false;
		return;
	}
	mapped = true;
	drop_areas();
	GR_RAW(SYS_madvise, GR_COUNT_ADDR, sizeof(struct work), MADV_DONTNEED);
	count.generation = count.blocks = count.steps = 0;
	count.listed = false;
	count.valid = true;
	count.tick = gr_replay.tick;
	gr_gate_on_segment = segment;
}

static bool is_trapped(void)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++)
		if (gr_thread_block(i)->pub.state == GR_T_TRAPPED)
			return true;
	return false;
}

// Without a point in the way copies are as good as before; else they are made anew, as their program comes by.
static void wish(void)
{
	memset(&count.wish, 0, sizeof count.wish);
	count.watches = false;
	count.wish.traces = gr_slot->flags & GR_SLOT_TRACE;
	count.left = gr_slot->instructions_wanted - 1;
	if (gr_slot->instructions_wanted)
		count.wish.instructions = &count.left;
	for (uint32_t i = 0; i < gr_slot->points && i < GR_WATCHES; i++) {
		const struct gr_point *point = &gr_slot->point[i];
		count.watches |= point->kind != GR_POINT_EXEC;
		if (point->kind != GR_POINT_EXEC)
			continue;
		count.wish.pc[i] = point->addr;
		count.wish.looks[i] = !point->stop_at || point->thread || point->condition_len || gr_slot->match_on;
	}
	count.generation++;
	if (count.generation > 1)
		GR_RAW(SYS_madvise, WORK->fast, sizeof WORK->fast, MADV_DONTNEED);
	for (uint32_t i = 0; i < count.areas; i++)
		gr_area_begin(count.area[i], WORK->fast);
}

void gr_count_arm(void)
{
	bool inside = is_trapped();
	count.wanted = gr_slot->flags & GR_SLOT_COUNT;
	count.halting = count.stepping = count.pending = false;
	if (count.wanted && !inside)
		begin();
	else if (!count.wanted || !count.stopped)
		count.valid = count.wanted = false;
	count.stopped = false;
	if (!count.wanted)
		gr_gate_on_segment = NULL;
	gr_slot->counted = count.valid;
	if (count.wanted)
		wish();
}

// The thread is about to go on in the program: from its first instruction on it can do so in copies only.
static bool start(void)
{
	bool full = false;
	if (!count.listed) {
		count.texts = count.wilds = 0;
		count.listed = gr_maps_each(list, &full) && !full;
	}
	if (!count.listed || gr_loop_seeks()) {
		give_up();
		return false;
	}
	for (uint32_t i = 0; i < GR_WATCHES; i++)
		if (count.wish.pc[i] && text_at(count.wish.pc[i]) && !area_near(count.wish.pc[i])) {
			give_up();
			return false;
		}
	for (uint32_t i = 0; i < count.areas; i++)
		for (uint32_t k = 0; k < GR_WATCHES; k++)
			count.area[i]->left[k] = k < gr_slot->points ? gr_slot->point[k].stop_at : 0;
	protect(true);
	return true;
}

// INVARIANT(from-the-first): however it leaves the engine, by a jump, a return from a signal or an iretq.
static void segment(uint64_t tick)
{
	if (count.wanted && tick == count.tick && !count.on)
		start();
}

void gr_count_enter(void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	if (start())
		regs[REG_RIP] = (greg_t)code_or_none((uint64_t)regs[REG_RIP]);
}

void gr_count_stand(bool trapped)
{
	if (!count.wanted || !count.valid)
		return;
	if (count.on)
		protect(false);
	left();
	put_back();
	count.stops = count.pending = false;
	count.stop_pc = 0;
	count.stopped = count.valid && trapped;
	gr_count_tell();
	if (!trapped) {
		drop_areas();
		count.valid = false;
	}
}

bool gr_count_on(void *context)
{
	bool stops = count.resume && count.stops;
	if (count.resume && !stops)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (greg_t)count.resume;
	count.resume = 0;
	count.at = NULL;
	count.stops = false;
	return stops;
}

static bool is_halt(uint64_t pc)
{
	for (uint32_t i = 0; i < count.areas; i++)
		if (pc == count.area[i]->halt + 1)
			return true;
	return false;
}

// In the engine, or in the middle of what is one instruction of the program's: a few steps more.
static enum gr_count_trap step_on(greg_t *regs, bool in_copies)
{
	count.stepping = in_copies;
	if (in_copies)
		regs[REG_EFL] |= EFLAGS_TF;
	else
		regs[REG_EFL] &= ~(greg_t)EFLAGS_TF;
	return GR_COUNT_DONE;
}

// What follows si_addr; glibc before 2.36 has no name for it.
static uint64_t *data_of(siginfo_t *info)
{
	return (uint64_t *)((char *)info + 24);
}

enum gr_count_trap gr_count_trapped(struct gr_thread *self, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	bool sent = info->si_code == SI_TKILL; // by the controller; nobody else sends this one so
	if (!count.on || !self)
		return sent ? GR_COUNT_DONE : GR_COUNT_OTHER; // too late, or too early: it is told again
	bool inside = in_copies((uint64_t)regs[REG_RIP]);
	if (is_halt((uint64_t)regs[REG_RIP])) {
		regs[REG_RIP] = (greg_t)count.stop_pc;
		count.at = NULL;
		if (!count.pending)
			return GR_COUNT_STOP;
		// INVARIANT(told-where-it-was): behind the instruction that hit it, also where that led through the engine.
		count.pending = false;
		count.resume = code_or_none(count.stop_pc);
		*info = count.hit;
		return GR_COUNT_HIT;
	}
	count.halting |= sent;
	if (!inside)
		return sent || count.stepping ? step_on(regs, false) : GR_COUNT_OTHER;
	bool stepped = info->si_code == TRAP_TRACE && count.stepping, hit = !sent && !stepped;
	uint64_t here = (uint64_t)regs[REG_RIP];
	if (hit && count.pending && info->si_code == GR_TRAP_PERF) // of a tracer: which points were hit
		*data_of(&count.hit) |= *data_of(info);
	else if (hit)
		count.hit = *info;
	count.pending |= hit;
	if (!shown(regs, false))
		return step_on(regs, true);
	count.stepping = false;
	regs[REG_EFL] &= ~(greg_t)EFLAGS_TF;
	count.resume = here;
	count.stops = false;
	if (count.pending) {
		*info = count.hit;
		count.pending = false;
		return GR_COUNT_HIT;
	}
	if (count.halting)
		return GR_COUNT_STOP;
	gr_count_on(context);
	return GR_COUNT_DONE;
}

// A fault of the program's in a copy is shown where the program is; one of its own code, because that cannot be executed, leads to a copy.
static bool fault(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)regs[REG_RIP];
	if (!count.on)
		return false;
	if (in_copies(pc) && shown(regs, true)) {
		// One that faults is executed, as single steps see it: by the engine in its place, or in vain.
		count.done += sig != SIGSYS;
		left();
		return false;
	}
	if (sig != SIGSEGV || info->si_code != SEGV_ACCERR || (uint64_t)info->si_addr != pc || !text_at(pc))
		return false;
	// INVARIANT(only-the-programs): what the engine calls of the library in the middle of an operation is none of the program's
	// doing; at the operation's end its own code is protected again. Elsewhere nobody would do that.
	if (gr_self->pub.state != GR_T_RUNNING) {
		protect(false);
		return true;
	}
	if (gr_self->nest) {
		give_up();
		return true;
	}
	if (count.halting || count.pending) {
		count.stops = count.halting;
		uint64_t halt = count.areas ? count.area[0]->halt : 0;
		count.stop_pc = pc;
		regs[REG_RIP] = (greg_t)(halt ? halt : pc);
		return true;
	}
	regs[REG_RIP] = (greg_t)code_or_none(pc);
	return true;
}

void gr_count_init(void)
{
	gr_copy_elsewhere = fault;
}
