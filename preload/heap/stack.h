// Stacks of threads, at addresses that a replay can repeat. The library's own cache of stacks is not used: which of them is
// free depends on when the kernel is done with a thread, and no operation says so.
// Runs in: application threads, on the engine's stack.
// May call: core, raw system calls.
// Owns: the address range of stacks, the table of stacks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where a thread's descriptor keeps its kernel id, counted from the descriptor.
void gr_stack_init(uint64_t tid_offset);

// Recording: a stack that nobody uses, of `size` bytes above `guard` bytes that cannot be touched; 0 when there is none.
// Replaying: the one at `where`; 0 when it cannot be had.
uint64_t gr_stack_take(uint64_t where, uint64_t size, uint64_t guard, bool detached);

// What becomes of the stack that holds this descriptor. Stacks that the program brought are not in the table.
void gr_stack_born(uint64_t descriptor);
void gr_stack_detached(uint64_t descriptor);
void gr_stack_back(uint64_t address);

// What a thread that has ended left below its descriptor belongs to nobody until the stack is used again, and may differ in a
// replay: the loader saves vector registers there, in a form that depends on whether the kernel had switched threads meanwhile.
// The end of that, if `address` is in it; else 0.
uint64_t gr_stack_dead(uint64_t address);

// The same for all of them, one by one; `at` begins with 0. Here the descriptor is dead, too: the kernel clears
// the id in it some time after the thread's end, and the library leaves there what it was about to do to robust mutexes.
bool gr_stack_next_dead(uint32_t *at, uint64_t *start, uint64_t *end);

// Is this in the range of stacks that the engine gives?
bool gr_stack_is(uint64_t address);

// The size of the guard in front of the stack that begins at `address`; 0 where that is none of these.
uint64_t gr_stack_guard(uint64_t address);
