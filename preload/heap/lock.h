// A lock for the few words that heaps share. It is held for some dozens of instructions, never across an operation.
// Runs in: application threads.
// May call: raw system calls.
// Owns: struct gr_lock.
#pragma once

#include <stdint.h>

#include "../core/raw.h"

struct gr_lock { uint32_t held; };

static inline void gr_lock(struct gr_lock *lock)
{
	while (__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE))
		GR_RAW(SYS_sched_yield);
}

static inline void gr_unlock(struct gr_lock *lock)
{
	__atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}
