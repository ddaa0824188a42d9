// Copies from and to memory that may not be there.
// Runs in: everywhere in the engine; gr_copy_recover in the handler of SIGSEGV and SIGBUS.
// May call: raw system calls.
// Owns: gr_copy_guarded.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

// Returns the bytes that were copied.
size_t gr_peek(void *dst, uint64_t src, size_t n);
size_t gr_poke(uint64_t dst, const void *src, size_t n);

// The first thing every handler of SIGSEGV and SIGBUS does: if the fault was in gr_copy, the copy ends early and the
// handler has nothing else to do.
bool gr_copy_recover(ucontext_t *context);

// Both signals have a handler that begins so and are not blocked, and no debug register is armed. INVARIANT(guard-before-copy):
// while false, gr_peek and gr_poke ask the kernel.
extern bool gr_copy_guarded;

size_t gr_copy(void *dst, const void *src, size_t n);
