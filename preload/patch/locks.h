// Locks inside the C library: the instructions that take them and give them back become operations on their words.
// Runs in: application threads, on the engine's stack; gr_lock_init in the constructor.
// May call: core; the loader's _dl_find_object, which takes no lock.
// Owns: these instructions' places in the text of the C library, their stubs.
//
// Streams, `random`, directories, the environment, atexit, the loader and many more take a lock that is compiled into each
// of their functions: `lock cmpxchg` takes it, `xchg` gives it back, and where it is not free both call one of four functions.
// So the functions to look at are those that call one of the four. INVARIANT(all-of-a-word): every instruction of this kind
// in these functions is found or none is patched at all, so no word changes but by an operation.
//
// While recording, and on a replay that only runs, each is a jump to a stub. Where copies are made its first byte is that of
// one that faults: no instruction but the lock's own is touched, and copies that a debugger looks at keep it. INVARIANT(same-places): which they are follows from the
// text in the file alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../core/thread.h"

#define GR_LOCK_LONGEST 10 // bytes of such an instruction

struct gr_lock {
	uint64_t addr;
	uint64_t behind;  // where the thread goes on
	uint64_t native;  // the same instruction in the stub; 0: it has none
	uint64_t fixed;   // a part of the address: the displacement, from rip if need be
	uint8_t length;
	uint8_t base, index, shift; // numbers of registers; GR_LOCK_NONE: none
	uint8_t reg;
	bool exchange;    // else cmpxchg
	bool mutex;       // in the functions of pthread_mutex_t
	uint8_t window;   // bytes that the jump and what it moved take
	uint8_t bytes[GR_LOCK_LONGEST];
};

#define GR_LOCK_NONE 16

// `loader`: where the loader lies (AT_BASE).
void gr_lock_init(uint64_t loader);

// In a replay that will make threads, from the constructor: later the text may hold a debugger's breakpoints.
void gr_lock_find(struct gr_thread *self);

// Before the second thread is made: from here on they are operations. NULL, or why they cannot be.
const char *gr_lock_patch(struct gr_thread *self, uint64_t *ret_where);

// How many there are, and a number that stands for all their places. 0 before they are patched.
uint64_t gr_lock_sum(void);

// The one at an address; by the start of its stub. NULL: none.
const struct gr_lock *gr_lock_at(uint64_t addr);
const struct gr_lock *gr_lock_of_stub(uint64_t stub);

// The word that it is about, and whether that is anybody's business.
uint64_t gr_lock_word(const struct gr_lock *lock, const struct gr_regs *regs);
bool gr_lock_counts(const struct gr_lock *lock, uint64_t word);

// Is it an attempt to take a lock that was not free? Is a futex at `pc`, on `word`, followed by one?
bool gr_lock_waited(const struct gr_lock *lock);
bool gr_lock_retries(uint64_t pc, uint64_t word);

// Is `pc` where the library waits for a lock of its own, once there was a second thread?
bool gr_lock_is_wait(uint64_t pc);

// Does it take the lock if that is free, and nothing else? And give it back, whoever waits?
bool gr_lock_takes(const struct gr_lock *lock, const struct gr_regs *regs);
bool gr_lock_gives(const struct gr_lock *lock, const struct gr_regs *regs);

// Does what it does, to the word and to the registers but rip.
void gr_lock_perform(const struct gr_lock *lock, struct gr_regs *regs, uint64_t word);

// A fault at `pc` is one of this instruction's, which is executed in its stub; 0: it is not.
uint64_t gr_lock_fault(uint64_t pc);

// Where a thread goes on that shall go on at `pc`; the same if nothing was moved there.
uint64_t gr_lock_place(uint64_t pc);

// Makes the one at `addr` an instruction again.
void gr_lock_restore(const struct gr_lock *lock);

// rcx and r11 as the program had them, for the engine's entry.
extern __thread uint64_t gr_lock_rcx __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern __thread uint64_t gr_lock_r11 __attribute__((tls_model("initial-exec"), visibility("hidden")));

// lockway.S: from a stub, and from a trap.
void gr_lock_stub(void);
void gr_lock_trapped(void);

// ---------------------------------------------------------------- the parts
struct gr_plan;
// lockstub.c: room for the stubs; false if it is not to be had or out of reach of the text.
bool gr_lockstub_open(const struct gr_thread *self, uint64_t start, uint64_t end);
// Writes the stub; where the site's jump goes, 0 if there is no room. `follows` is what else it moves.
uint64_t gr_lockstub_make(struct gr_lock *lock, const struct gr_plan *follows);
void gr_lockstub_close(void);
