// The order of operations without a clock of all: each object remembers its last user.
// Runs in: application threads while recording; the words also on replay.
// May call: core, log.
// Owns: the words in the program's mutexes, the cells of other objects, the run that each thread has under way.
//
// INVARIANT(order-by-stamp): a stamp belongs to an event and to the run behind it. Where an operation depends on one of
// another thread, its stamp is the greater one; so the events of all threads, sorted by stamp, are in an order in which
// the program can have run. What does not depend on each other may have equal stamps.
//
// A mutex's word is the stamp of its last operation and the index of the thread that did it. An operation takes the next
// stamp behind the word's and its thread's, and begins a run: this is an edge. It joins the run under way where that
// already says all: the last user was the same thread, or its stamp lies behind us. No word of another mutex is read or
// written, and nothing that all threads share. The clock of all (gr_ctl->clock) orders everything else; it is read and
// raised by those operations, and once in GR_RUN_MOST of these.
//
// INVARIANT(word-in-the-mutex): the word stands in the links that the library only uses for robust mutexes, so it is
// injective, nobody else's, and comes with the cache line of the lock. It is read and written by whoever holds the mutex,
// and by replays with the same value.
//
// Spinlocks, read-write locks and semaphores have no room for a word, or no one holder who could write it. Their words stand
// in cells, which are found by the object's address. What takes such an object lies behind what gave it: it joins the run
// under way where that follows from its thread's stamp, else it is an edge. What gives one writes its own stamp, if no greater
// one is there, and waits for nobody: two who post one semaphore, or read under one lock, are in no order.
//
// A lock inside the C library has a cell, too (sync/lock.c), whose latch is held meanwhile: the cell is read and written as a
// mutex's word is.
//
// INVARIANT(cell-only-rises): a stamp in a cell is never made smaller, and is there before the object is given. So a cell may
// serve several objects: they are in more of an order than they need, which is true all the same, and none of them in less.
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "../core/ops.h"
#include "../core/thread.h"

// Mutexes have words, in a recording and in its replay. Other objects have cells.
//
// INVARIANT(runs-in-turns): in order `serial` mutexes have words, too, but the stamps are the clock's: the first operation of a
// thread that was given the turn begins a run with the next one, behind all that others did. Up to its hand-over
// nobody else takes a place in the order, so all the mutexes of that time belong to the thread's runs.
extern bool gr_edges;
extern bool gr_cells;

// sync/quick.S may count operations on mutexes, and on other objects: a recording with words, or cells, and without anything
// that wants to see each of them.
extern bool gr_counting __attribute__((visibility("hidden")));
extern bool gr_counting_cells __attribute__((visibility("hidden")));

#define GR_WORD_SHIFT 16

static inline uint64_t gr_word(uint64_t stamp, uint32_t index)
{
	return stamp << GR_WORD_SHIFT | (uint16_t)index;
}

static inline uint64_t *gr_edge_word(uint64_t mutex)
{
	return (uint64_t *)&((pthread_mutex_t *)mutex)->__data.__list.__next;
}

// Normal, recursive, errorcheck and adaptive mutexes of one process.
static inline bool gr_edge_has(uint64_t mutex)
{
	return gr_edges && !(((pthread_mutex_t *)mutex)->__data.__kind & ~3);
}

// The word of a thread whose stamp is an old one: it was without the turn, or stood for a digest.
#define GR_WORD_NONE (~0ULL)

// Words of a thread and of its own stamp; of several threads with one stamp none is the last user.
#define GR_SEVERAL GR_MOST_THREADS

// What gives (`given`), and who reads under a read-write lock (`read`): a writer is behind both.
struct gr_cell { _Alignas(64) uint64_t given; uint64_t read; };
enum gr_cell_word { GR_CELL_GIVEN, GR_CELL_READ };

void gr_edge_init(void);
void gr_edge_start(void); // the first operation is in the log

// While recording: an operation on a mutex with a word, which this thread holds, has succeeded or (unlock) will.
void gr_edge_log(struct gr_thread *self, enum gr_op op, uint64_t mutex);

// While recording: a lock inside the C library whose word holds `held` is taken, given back or asked for in vain, by who has the
// latch of its cell. `alone`: it has an event of its own, which says who has the lock.
void gr_edge_library(struct gr_thread *self, uint64_t *cell, uint64_t word, uint32_t held, bool alone);

// While recording: this thread has taken the object, or is about to give it. `alone`: as a writer.
void gr_cell_take(struct gr_thread *self, enum gr_op op, uint64_t object, bool alone);
void gr_cell_give(struct gr_thread *self, enum gr_op op, uint64_t object, enum gr_cell_word which);

// While recording: what this thread's newest event gave, those who take it find.
void gr_cell_mark(struct gr_thread *self, uint64_t object);

// An operation that nothing depends on.
void gr_cell_count(struct gr_thread *self, enum gr_op op, uint64_t object);

// A stamp that lies in front of everything that is behind what was given so far.
uint64_t gr_cell_stamp(uint64_t object);

// What this thread holds, as far as there is room: the mark of a thread that waits names who has it (0: nobody known).
void gr_hold(struct gr_thread *self, uint64_t object, bool holds);
uint32_t gr_holder(uint64_t object);

// The stamp in the word of a mutex that this thread holds; 0: it has none.
uint64_t gr_edge_stamp(const struct gr_thread *self, uint64_t mutex);

// Writes this thread's word, if it holds the mutex; behind the newest event.
void gr_edge_mark(const struct gr_thread *self, uint64_t mutex);

// Writes the run under way into the log, as an event. There is always room for one.
void gr_edge_flush(struct gr_thread *self);

// This thread has no turn any more, or stood for a digest: the run ends, and its next one has a stamp behind those of others.
void gr_edge_rest(struct gr_thread *self);

// One more step of the rolling hash, and what of it stands in an event. Of a lock inside the C library what its word holds is
// added to its address.
static inline uint32_t gr_run_hash(uint32_t hash, enum gr_op op, uint64_t mutex)
{
	return (hash + (uint32_t)mutex + (uint32_t)op) * GR_RUN_PRIME;
}

static inline uint16_t gr_run_fold(uint32_t hash)
{
	return (uint16_t)(hash ^ hash >> 16);
}
