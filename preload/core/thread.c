// The table of thread blocks; see thread.h.
// Runs in: application threads.
// May call: raw system calls.
// Owns: the memory at GR_THREADS_ADDR.
#include "thread.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "nolibc.h"
#include "page.h"
#include "raw.h"

__thread struct gr_thread *gr_self;
__thread struct gr_thread *gr_left;

uint32_t gr_thread_ending;
static uint32_t blocks;

void gr_thread_leave(void)
{
	gr_left = gr_self;
	gr_self = NULL;
}

#define TABLE_SIZE ((uint64_t)GR_LIVE_THREADS * GR_THREAD_BLOCK)
_Static_assert(GR_THREADS_ADDR + TABLE_SIZE <= GR_DATA_ADDR, "zone layout");

long gr_threads_init(void)
{
	long ret = GR_RAW(SYS_mmap, GR_THREADS_ADDR, TABLE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	return ret == (long)GR_THREADS_ADDR ? 0 : ret;
}

struct gr_thread *gr_thread_block(uint32_t block)
{
	return (struct gr_thread *)(GR_THREADS_ADDR + (uint64_t)block * GR_THREAD_BLOCK);
}

uint32_t gr_thread_blocks(void)
{
	return __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);
}

static void taken(uint32_t block)
{
	uint32_t was = gr_thread_blocks();
	while (was <= block && !__atomic_compare_exchange_n(&blocks, &was, block + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
}

// INVARIANT(no-block-before-death): a block is taken again only when the kernel has forgotten its thread, because the
// thread runs on the block's stack to its very last instruction.
static bool gone(struct gr_thread *t)
{
	return __atomic_load_n(&t->pub.state, __ATOMIC_ACQUIRE) == GR_T_EXITED &&
	       GR_RAW(SYS_tgkill, gr_pid(), t->pub.tid, 0) != 0;
}

// Of those who have ended something is still asked: of what they held, and where the kernel clears their ids. But not of their stacks.
static uint64_t ended[GR_LIVE_THREADS / 64]; // by block
static uint32_t ended_lock;
#define KEPT ((sizeof(struct gr_thread) + GR_PAGE - 1) & -(uint64_t)GR_PAGE)

// Of threads that have ended, or are called otherwise in this copy of the process: what their ids in the memory compared by
// digests mean. INVARIANT(ids-outlive-threads): as many as there may be threads in a demo, and then the newest.
#define PAST 0x10000U
static struct { uint32_t tid, recorded; } past[PAST];
static uint32_t past_count;

static void add_past(const struct gr_thread *t)
{
	if (gr_mode != GR_MODE_REPLAY || !gr_ctl->knob[GR_KNOB_digest])
		return;
	uint32_t at = __atomic_fetch_add(&past_count, 1, __ATOMIC_RELAXED) % PAST;
	past[at].tid = t->pub.tid;
	past[at].recorded = t->pub.recorded_tid;
}

void gr_thread_ended(const struct gr_thread *self)
{
	add_past(self);
	__atomic_fetch_or(&ended[self->block / 64], 1ULL << self->block % 64, __ATOMIC_RELEASE);
}

static void clear_ended(void)
{
	for (uint32_t i = 0; i < GR_LIVE_THREADS / 64; i++)
		for (uint64_t bits = __atomic_load_n(&ended[i], __ATOMIC_ACQUIRE); bits; bits &= bits - 1) {
			uint32_t bit = __builtin_ctzll(bits);
			struct gr_thread *t = gr_thread_block(64 * i + bit);
			if (!gone(t))
				continue;
			__atomic_fetch_and(&ended[i], ~(1ULL << bit), __ATOMIC_RELAXED);
			GR_RAW(SYS_madvise, (uint64_t)t + KEPT, GR_THREAD_BLOCK - KEPT, MADV_DONTNEED);
		}
}

static struct gr_thread *take_block(uint32_t index)
{
	for (uint32_t i = 0; i < GR_LIVE_THREADS; i++) {
		uint32_t block = (index + i) % GR_LIVE_THREADS;
		struct gr_thread *t = gr_thread_block(block);
		taken(block);
		uint32_t state = __atomic_load_n(&t->pub.state, __ATOMIC_ACQUIRE);
		if (state != GR_T_FREE && !gone(t))
			continue;
		if (!__atomic_compare_exchange_n(&t->pub.state, &state, GR_T_BORN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		memset((char *)t + sizeof(t->pub.state), 0, sizeof *t - sizeof(t->pub.state));
		__atomic_fetch_and(&ended[block / 64], ~(1ULL << block % 64), __ATOMIC_RELAXED);
		t->block = block;
		t->pub.index = index;
		t->pub.tick = ~0ULL;
		t->stack = (uint64_t)t + GR_BLOCK_STACK;
		return t;
	}
	return NULL;
}

struct gr_thread *gr_thread_alloc(uint32_t index)
{
	gr_latch(&ended_lock);
	clear_ended();
	struct gr_thread *t = take_block(index);
	gr_unlatch(&ended_lock);
	return t;
}

struct gr_thread *gr_thread_by_index(uint32_t index)
{
	for (uint32_t i = 0; i < GR_LIVE_THREADS; i++) { // mostly it is the first one
		uint32_t block = (index + i) % GR_LIVE_THREADS;
		struct gr_thread *t = gr_thread_block(block);
		if (block < gr_thread_blocks() && gr_thread_lives(t) && t->pub.index == index)
			return t;
	}
	return NULL;
}

struct gr_thread *gr_thread_by_descriptor(uint64_t descriptor)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		struct gr_thread *t = gr_thread_block(i);
		if (gr_thread_lives(t) && t->fs_base == descriptor)
			return t;
	}
	return NULL;
}

struct gr_thread *gr_thread_by_tid(uint32_t tid)
{
	struct gr_thread *t;
	for (uint32_t i = 0; i < GR_LIVE_THREADS && !gr_thread_untouched(t = gr_thread_block(i)); i++)
		if (gr_thread_lives(t) && t->pub.tid == tid)
			return t;
	return NULL;
}

bool gr_thread_stands_at(const struct gr_thread *t, uint64_t object)
{
	if (gr_thread_stands(t)->rdi == object)
		return true;
	for (const struct gr_within *within = t->within; within; within = within->outer)
		if (within->operation && within->operation->rdi == object)
			return true;
	return false;
}

bool gr_thread_is_alone(const struct gr_thread *self)
{
	const struct gr_thread *t;
	for (uint32_t i = 0; i < GR_LIVE_THREADS && !gr_thread_untouched(t = gr_thread_block(i)); i++)
		if (t != self && gr_thread_lives(t))
			return false;
	return true;
}

// INVARIANT(ids-outlive-copies): an id that the program read out of libc's descriptor of a thread may be in a register, or on
// the stack, while a copy is made of the process. It means that thread in the copy as well, whose own id is another one.
bool gr_thread_is(const struct gr_thread *t, uint32_t tid)
{
	for (unsigned i = 0; i < GR_FORMER && t->pub.was[i]; i++)
		if (t->pub.was[i] == tid)
			return true;
	return t->pub.tid == tid;
}

bool gr_thread_recorded(uint32_t tid, uint32_t nth, uint32_t *ret)
{
	const struct gr_thread *t;
	for (unsigned former = 0; former < 2; former++)
		for (uint32_t i = 0; i < GR_LIVE_THREADS && !gr_thread_untouched(t = gr_thread_block(i)); i++)
			if (gr_thread_lives(t) && gr_thread_is(t, tid) && (t->pub.tid != tid) == former && !nth--) {
				*ret = t->pub.recorded_tid;
				return true;
			}
	for (uint32_t i = 0; i < PAST && i < past_count; i++)
		if (past[i].tid == tid && !nth--) {
			*ret = past[i].recorded;
			return true;
		}
	*ret = tid;
	return !nth;
}

bool gr_thread_may_be(uint32_t tid, uint32_t recorded)
{
	uint32_t meant;
	for (uint32_t nth = 0; gr_thread_recorded(tid, nth, &meant); nth++)
		if (meant == recorded)
			return true;
	return false;
}

void gr_thread_copied(struct gr_thread *t)
{
	add_past(t);
	for (unsigned i = GR_FORMER - 1; i; i--)
		t->pub.was[i] = t->pub.was[i - 1];
	t->pub.was[0] = t->pub.tid;
}

void gr_thread_release(struct gr_thread *t)
{
	__atomic_store_n(&t->pub.state, GR_T_FREE, __ATOMIC_RELEASE);
}

void gr_thread_await_gone(uint32_t tid, uint32_t *ctid)
{
	static const struct timespec most = {0, 1000000};
	long pid = gr_pid();
	while (GR_RAW(SYS_tgkill, pid, tid, 0) == 0) {
		uint32_t word = ctid ? __atomic_load_n(ctid, __ATOMIC_ACQUIRE) : 0;
		if (ctid && !word)
			return;
		if (word) // the kernel wakes who waits for that
			GR_RAW(SYS_futex, ctid, FUTEX_WAIT, word, &most, 0, 0);
		else
			GR_RAW(SYS_sched_yield);
	}
}

uint64_t gr_thread_time(const struct gr_thread *t)
{
	struct timespec used = {0, 0};
	GR_RAW(SYS_clock_gettime, (int)(~t->pub.tid << 3 | 6), &used); // CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

void gr_thread_poke(const struct gr_thread *t)
{
	struct { int32_t signal, error, code, pad; uint32_t timer, overrun; uint64_t value, rest[12]; } info = {
		.signal = SIGTRAP, .code = SI_TIMER, .value = (uint64_t)t,
	};
	_Static_assert(sizeof info == 128, "the kernel's siginfo_t");
	GR_RAW(SYS_rt_tgsigqueueinfo, gr_pid(), t->pub.tid, SIGTRAP, &info);
}

extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

void gr_image_apart(void)
{
	uint64_t last = ((uint64_t)_end - 1) & ~0xfffULL;
	GR_RAW(SYS_madvise, last, 0x1000, MADV_DONTDUMP);
}

bool gr_in_engine(uint64_t pc)
{
	return (pc >= (uint64_t)__ehdr_start && pc < (uint64_t)_end) || (pc >= gr_outpost.start && pc < gr_outpost.end);
}
