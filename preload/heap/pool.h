// The pool between heaps, for the operation that guards it (sync/heap.c).
// Runs in: application threads, on the engine's stack.
// May call: nothing.
// Owns: the names of the pool's verbs.
#pragma once

#include "heap.h"

void gr_pool_lock(void);
void gr_pool_unlock(void);
void gr_pool_exchange(struct gr_exchange *exchange);

// entry.S: the exchange as an operation of its own; gr_exchange_operation does the work.
void gr_heap_operation(struct gr_exchange *exchange);
