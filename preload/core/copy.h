// Copies from and to memory that may not be there.
// Runs in: everywhere in the engine; gr_copy_recover in the handler of SIGSEGV and SIGBUS.
// May call: raw system calls.
// Owns: the variables below.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

// Returns the bytes that were copied. What is poked is an operation's store, which an armed debug register sees.
size_t gr_peek(void *dst, uint64_t src, size_t n);
size_t gr_poke(uint64_t dst, const void *src, size_t n);

// Memory as it was before: no store of the program. Seen by debug registers only in copies of a replay on kernels without
// Landlock, where the fence lets nobody ask the kernel for it (tables/fence.def).
size_t gr_poke_unseen(uint64_t dst, const void *src, size_t n);

// The first thing every handler of SIGSEGV and SIGBUS does: if the fault was in gr_copy, the copy ends early and the
// handler has nothing else to do.
bool gr_copy_recover(ucontext_t *context);

// Both signals have a handler that begins so and are not blocked. INVARIANT(guard-before-copy): while false, gr_peek and gr_poke
// ask the kernel.
extern bool gr_copy_guarded;

// Replay: the memory there was mapped, unmapped or dropped by an operation: a store that no debug register sees. NULL as long
// as nobody wants to know.
extern void (*gr_copy_mapped)(uint64_t from, uint64_t len);

// Debug registers are armed: what is only looked at is asked of the kernel, so that it is no hit.
extern bool gr_copy_watched;

// Replay: pages are protected, because somebody wants to know of each store to them; asked at a fault before all others. NULL as
// long as nobody does.
extern bool (*gr_copy_protected)(siginfo_t *info, void *context);
// A fault where copies of the program's code run (count/count.h). True: nothing more is to be done; else the context may be another.
extern bool (*gr_copy_elsewhere)(int sig, siginfo_t *info, void *context);

// The same, of reads as well: opens what of these pages is there for the kernel (true if there is any), until gr_copy_put_back.
// NULL as long as nobody wants to know.
extern bool (*gr_copy_lift)(uint64_t at, size_t n);
extern void (*gr_copy_put_back)(void);
size_t gr_copy(void *dst, const void *src, size_t n);

// Whether all of [from, to) may be written to: looked at by a store to each page that changes nothing. Only while `gr_copy_guarded`.
bool gr_storable(uint64_t from, uint64_t to);
