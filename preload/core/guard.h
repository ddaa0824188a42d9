// The verbs of an operation: how engine code enters one, runs real library code inside it, and leaves it.
// Runs in: application threads.
// May call: core.
// Owns: gr_real, the library's own functions behind the exported wrappers and of those that are no operations.
#pragma once

#include <pthread.h>

#include "page.h"
#include "thread.h"

#define WRAP(name, version, op, doc) GR_WRAP_##name,
enum gr_wrap {
#include "../tables/wrappers.def"
	GR_WRAP_COUNT // the constructor's own entry: the first operation of the main thread
};
#undef WRAP

extern void *gr_real[GR_WRAP_COUNT];
extern int (*gr_real_getattr)(pthread_t, pthread_attr_t *);
extern void (*gr_real_exit)(void *), (*gr_real_exit_c11)(int);
extern int (*gr_real_backtrace)(void **, int);
extern const uint64_t gr_wrap_entries[GR_WRAP_COUNT] __attribute__((visibility("hidden"))); // entry.S: the exported wrappers

// Runs the library's function inside an operation: what it asks of the kernel is no operation of its own.
#define GR_REAL(self, name, ...) \
	({ \
		(self)->nest++; \
		int real_ret = ((int (*)())gr_real[GR_WRAP_##name])(__VA_ARGS__); \
		(self)->nest--; \
		real_ret; \
	})

// Finds the library's functions. False with a C library that keeps threads in a library of their own (before 2.34).
bool gr_real_init(void);

// The program's registers at the call of an operation, as a debugger shall see them.
void gr_show_syscall(struct gr_thread *self, const struct gr_regs *frame);
void gr_show_call(struct gr_thread *self, const struct gr_regs *frame);
void gr_show_context(struct gr_thread *self, const void *ucontext);
struct gr_regs gr_regs_of(const long long *gregs); // but for the bases

// init.c: the first operation of the main thread, behind the constructor.
long gr_first_operation(struct gr_thread *self, struct gr_regs *frame);

// sync/heap.c
long gr_exchange_operation(struct gr_thread *self, struct gr_regs *frame);
