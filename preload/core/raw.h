// The kernel as the engine sees it: every system call the engine makes is made by gr_raw, in the gate section.
// Runs in: application threads, handlers, frozen copies.
// May call: nothing.
// Owns: the section `gr_gate`, the only place from which Syscall User Dispatch lets calls through.
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>

#define GR_RAW(nr, ...) GR_RAW_(nr, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define GR_RAW_(nr, a, b, c, d, e, f, ...) \
	gr_raw6((long)(nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
long gr_raw6(long nr, long a, long b, long c, long d, long e, long f);

extern const char __start_gr_gate[] __attribute__((visibility("hidden")));
extern const char __stop_gr_gate[] __attribute__((visibility("hidden")));

// A call that may wait: not made with *held set, or *cancel 1, and broken off by a handler that moves a thread found from
// gr_wait_check on to gr_wait_done. Then GR_RESTART, which is the kernel's own word for a call to be made again.
#define GR_RESTART (-512L)
long gr_wait6(long nr, long a, long b, long c, long d, long e, long f, const uint32_t *held, const uint32_t *cancel);
extern const char gr_wait_check[] __attribute__((visibility("hidden")));
extern const char gr_wait_done[] __attribute__((visibility("hidden")));

#define GR_BIT(sig) (1ULL << ((sig)-1))
// Never blocked: a blocked SIGSYS kills the process at its next call; SIGTRAP brings the hits of a search, single steps and
// the engine's own timer; SIGSEGV and SIGBUS end a copy from or to the program (core/copy.h).
#define GR_SIGNALS_KEPT (GR_BIT(SIGSEGV) | GR_BIT(SIGBUS) | GR_BIT(SIGSYS) | GR_BIT(SIGTRAP))

#define GR_TRAP_PERF 6 // si_code of a SIGTRAP; glibc before 2.36 has no name for it

void gr_restorer(void);                                  // sa_restorer of the engine's handlers
_Noreturn void gr_sigreturn(uint64_t rsp);               // ends the program's handler whose frame is at rsp

#define GR_IS_ERR(ret) ((unsigned long)(ret) > -4096UL)

static inline long gr_pid(void)
{
	return GR_RAW(SYS_getpid);
}

static inline long gr_tid(void)
{
	return GR_RAW(SYS_gettid);
}

// A word that one thread holds for some dozens of instructions, never across an operation; others yield.
static inline void gr_latch(uint32_t *held)
{
	while (__atomic_exchange_n(held, 1, __ATOMIC_ACQUIRE))
		GR_RAW(SYS_sched_yield);
}

static inline void gr_unlatch(uint32_t *held)
{
	__atomic_store_n(held, 0, __ATOMIC_RELEASE);
}
