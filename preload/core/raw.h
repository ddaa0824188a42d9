// The kernel as the engine sees it: every system call the engine makes is made by gr_raw, in the gate section.
// Runs in: application threads, handlers, frozen copies.
// May call: nothing.
// Owns: the section `gr_gate`, the only place from which Syscall User Dispatch lets calls through.
#pragma once

#include <stdint.h>
#include <sys/syscall.h>

#define GR_RAW(nr, ...) GR_RAW_(nr, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define GR_RAW_(nr, a, b, c, d, e, f, ...) \
	gr_raw6((long)(nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
long gr_raw6(long nr, long a, long b, long c, long d, long e, long f);

extern const char __start_gr_gate[] __attribute__((visibility("hidden")));
extern const char __stop_gr_gate[] __attribute__((visibility("hidden")));

// Not made, or broken off by the handler of a signal, once *flag is 1: then -EINTR.
long gr_raw_unless(const uint32_t *flag, const uint64_t arg[6], long nr);
extern const char gr_raw_unless_check[] __attribute__((visibility("hidden")));
extern const char gr_raw_unless_done[] __attribute__((visibility("hidden")));

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
