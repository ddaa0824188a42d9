// A thread of the program as the engine knows it, and how it comes to the engine and leaves it.
// Runs in: application threads; blocks live at GR_THREADS_ADDR in private memory.
// May call: core only.
// Owns: struct gr_thread, the table of blocks, the thread-local pointer to one's own.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../abi.h"
#include "offsets.h"

// Callee-saved registers, stack and resume address of a parked thread.
struct gr_ctx { uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip; };

// As deep below a stack pointer as the engine's own signal frames may ever reach: what stands there is dead.
#define GR_DEAD_STACK 0x40000

#define GR_ONCE_DEPTH 16
struct gr_onces { uint64_t object[GR_ONCE_DEPTH]; };
#define GR_HOLDS 16
struct gr_holds { uint64_t object[GR_HOLDS]; };
struct gr_attr { uint64_t word[7]; }; // a pthread_attr_t
// A siginfo_t as the kernel writes it, and an alternate stack as the program set it.
struct gr_siginfo { uint64_t word[16]; };
struct gr_altstack { uint64_t sp, size; uint32_t flags; };

// A thread's name as the kernel keeps it, with its end.
struct gr_name { char text[16]; };

// Signals that the engine never lets the kernel block and that the program cannot have yet: GR_SIGNALS_KEPT, in this order.
struct gr_stash { uint64_t signals; struct gr_siginfo info[4]; };

// A call that was made on the short way (syscall/query) and needs a frame: its start is in the log, or its end, too, and a signal waits.
enum gr_begun { GR_BEGUN_NOT, GR_BEGUN, GR_BEGUN_ENDED };

// Memory that could be written, and how many changes of memory there had been by then.
#define GR_STORABLES 16
struct gr_storables { struct { uint64_t from, to, then; } at[GR_STORABLES]; };

// A handler that runs in the middle of an operation, which goes on behind it: signal/within.c.
struct gr_within { struct gr_within *outer; const struct gr_regs *operation; };

// Where a thread stands while one at a time runs (log/turn.h).
struct gr_seat {
	struct gr_thread *next, *prev; // in the list of those who want the turn, or of those who wait
	uint32_t state;
	uint32_t post;                 // futex: 1 look again, 2 it has the turn
	uint64_t object;               // what it waits for
	uint32_t kind, mask, why;
	bool sleeps;                   // waits without looking now and then who has the turn
	bool stays;                    // keeps the turn at its next operation
	bool gave;                     // it gave the turn away in the middle of its operation
	bool again;                    // has computed without an operation since it was stopped the last time
	bool stores;                   // its system call changes the program's memory before its end is logged
	uint32_t calls;                // in a system call
	uint32_t streak;               // operations since it has the turn
	uint32_t lost;                 // how often it was woken in vain since its last operation
	uint32_t looks;
	uint32_t asked;                // enum gr_ask: others want it to give way
	bool poked;                    // that was said by a signal, which may still be on its way
	uint64_t seen, cpu;            // at its first look at whoever has the turn: steps, and processor time of that thread
	uint64_t hands, since;         // the same of its first look since the turn changed hands
	int64_t priority;
};

// INVARIANT(one-frees): who was detached before his end frees what the library keeps for him himself, at his end; else whoever joins
// or detaches him does. For the library his end is a moment without an operation, so it does not learn that he was detached until
// the engine says so, behind that. Which of DETACH and EXIT came first is said under the latch, while recording.
enum gr_detached { GR_JOINABLE, GR_DETACHED, GR_BORN_DETACHED }; // of the last one the library knows

struct gr_thread {
	struct gr_thread_pub pub;
#define FIELD(type, name, doc) type name;
#include "../tables/thread.def"
#undef FIELD
};

_Static_assert(sizeof(struct gr_regs) == GR_FRAME, "entry.S builds a struct gr_regs");
_Static_assert(offsetof(struct gr_thread, stack) == GR_OFF_STACK, "entry.S");
_Static_assert(offsetof(struct gr_thread, program_rsp) == GR_OFF_RSP, "entry.S");
_Static_assert(offsetof(struct gr_thread, nest) == GR_OFF_NEST, "entry.S");
_Static_assert(offsetof(struct gr_thread, held) == GR_OFF_NEST + 4, "entry.S");
_Static_assert(offsetof(struct gr_thread, cancel) == GR_OFF_CANCEL, "entry.S");
_Static_assert(offsetof(struct gr_thread, turn) == GR_OFF_CANCEL + 4, "entry.S");
_Static_assert(offsetof(struct gr_thread, word) == GR_OFF_WORD, "entry.S");
_Static_assert(offsetof(struct gr_thread, chunk) == GR_OFF_CHUNK, "entry.S");
_Static_assert(offsetof(struct gr_thread, ctx) == GR_OFF_CTX, "entry.S");
_Static_assert(GR_SYS_MAX == GR_SYS_NUMBERS, "entry.S");
_Static_assert(offsetof(struct gr_thread, stash) == GR_OFF_STASH, "entry.S");
_Static_assert(offsetof(struct gr_thread, pub.tid) == GR_OFF_TID, "entry.S");
_Static_assert(offsetof(struct gr_thread, pub.recorded_tid) == GR_OFF_RECORDED, "entry.S");
_Static_assert(offsetof(struct gr_thread, pub.tick) == GR_OFF_TICK, "entry.S");
_Static_assert(offsetof(struct gr_thread, left) == GR_OFF_LEFT, "entry.S");
_Static_assert(offsetof(struct gr_thread, run_left) == GR_OFF_RUN, "entry.S");
_Static_assert(offsetof(struct gr_thread, run_hash) == GR_OFF_RUN + 4, "entry.S");
_Static_assert(offsetof(struct gr_thread, quick) == GR_OFF_QUICK, "entry.S");
_Static_assert(offsetof(struct gr_slot, tick) == GR_SLOT_TICK, "entry.S");
_Static_assert(offsetof(struct gr_thread, pub.ops) == GR_OFF_OPS, "entry.S");
_Static_assert(offsetof(struct gr_chunk, run) == GR_CHUNK_RUN, "entry.S");
_Static_assert(sizeof(struct gr_thread) <= GR_BLOCK_XSAVE, "block layout");

extern __thread struct gr_thread *gr_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

// The engine is off for this thread from here on, but for the ends of what it has begun (gr_left).
void gr_thread_leave(void);
extern __thread struct gr_thread *gr_left __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Reserves the table of blocks. 0, or the kernel's error: -EEXIST where the address range is taken.
long gr_threads_init(void);

extern uint32_t gr_thread_ending; // the latch

// Takes a free block for thread `index`; NULL when GR_LIVE_THREADS exist at once.
struct gr_thread *gr_thread_alloc(uint32_t index);
// The one whose library descriptor (FS base) this is; NULL when it has ended.
struct gr_thread *gr_thread_by_descriptor(uint64_t descriptor);
struct gr_thread *gr_thread_by_index(uint32_t index);
struct gr_thread *gr_thread_by_tid(uint32_t tid);
struct gr_thread *gr_thread_block(uint32_t block);

// So many blocks were ever taken, the first ones. INVARIANT(no-look-behind): whoever looked at those behind would give each a page
// table, and so every copy of this process.
uint32_t gr_thread_blocks(void);

// Born, and not gone through its end.
static inline bool gr_thread_lives(const struct gr_thread *t)
{
	uint32_t state = __atomic_load_n(&t->pub.state, __ATOMIC_ACQUIRE);
	return state != GR_T_FREE && state != GR_T_EXITED;
}

// Blocks are taken in order: nobody was ever here, nor behind it.
static inline bool gr_thread_untouched(const struct gr_thread *t)
{
	return __atomic_load_n(&t->pub.state, __ATOMIC_ACQUIRE) == GR_T_FREE && t->pub.tid == 0;
}

// The registers at the operation that T has come to. A recording does not know yet that a signal comes first.
static inline const struct gr_regs *gr_thread_stands(const struct gr_thread *t)
{
	return t->stands ? t->stands : &t->pub.shown;
}

// Whether T stands at an operation on OBJECT, its first argument, or will go on with one behind the handlers that it is in.
bool gr_thread_stands_at(const struct gr_thread *t, uint64_t object);

// Does nobody else live?
bool gr_thread_is_alone(const struct gr_thread *self);

// A kernel id as the recording had it: threads of a replay have others, and the C library hands them around. INVARIANT(ids-overlap): the
// program may as well hold the recording's id of one thread, which is the kernel's of another one here. So a number has several
// meanings; this is the NTH, from 0, the likeliest first. False behind the last.
bool gr_thread_recorded(uint32_t tid, uint32_t nth, uint32_t *ret);

// May this be the kernel's id of the thread that had that one in the recording?
bool gr_thread_may_be(uint32_t tid, uint32_t recorded);

// Whether T has this kernel id, or had it in a process that this one is a copy of.
bool gr_thread_is(const struct gr_thread *t, uint32_t tid);

// Whether the C library made it, or knows it: its kernel id stands in its descriptor.
static inline bool gr_thread_of_library(const struct gr_thread *t)
{
	return (uint64_t)t->ctid - t->fs_base < 0x1000;
}

// T becomes a thread of a copy, and is about to get an id there.
void gr_thread_copied(struct gr_thread *t);

// SELF makes one more call, its exit.
void gr_thread_ended(const struct gr_thread *self);

// A block may be taken again once its thread is gone from the kernel.
void gr_thread_release(struct gr_thread *t);

// The word by which that is seen: the program may have anything in one that it has named.
static inline uint32_t *gr_thread_gone_word(const struct gr_thread *t)
{
	return t->clears == t->ctid ? t->ctid : NULL;
}

// Waits until a thread that is on its way out of the kernel is gone, or has at least cleared its word. INVARIANT(no-yield-in-turn): who
// offers the processor again and again to one that needs it comes last on a busy one, on some kernels after seconds.
void gr_thread_await_gone(uint32_t tid, uint32_t *ctid);

// Nanoseconds of a processor that T has had.
uint64_t gr_thread_time(const struct gr_thread *t);

// As if a timer of the engine's had run out for it, which is what handlers and debuggers know.
void gr_thread_poke(const struct gr_thread *t);

// entry.S
void gr_door_trapped(void);                             // a program's `syscall` instruction comes here by a trap,
void gr_door_stub(void);                                // or by a stub, where its site is patched
int gr_ctx_save(struct gr_ctx *ctx) __attribute__((returns_twice)); // 0 now, 1 in a woken copy
_Noreturn void gr_ctx_restore(struct gr_ctx *ctx);
long gr_clone_thread(long nr, long a, long b, long c, long d, long e, struct gr_thread *child);
long gr_clone_remake(long flags, long stack, long ptid, long ctid, long tls, struct gr_thread *thread);
_Noreturn void gr_call_on(uint64_t stack_top, void (*fn)(void *), void *arg);
bool gr_in_engine(uint64_t pc);                         // is this the engine's code?

// INVARIANT(one-owner-per-mapping): what the program maps right behind the engine's image is a mapping of its own, in a
// recording and in its replay. The kernel joins neighbours that are alike, depending on who was touched first; so the
// image's last page is made unlike any other.
void gr_image_apart(void);

