// Operations that carry no data: what the wrappers are made of.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: nothing.
#pragma once

#include "../core/guard.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../log/edge.h"

// INVARIANT(order-of-stamps): what takes something away from others is stamped after it was taken, what gives it is
// stamped before, so the stamps of one object's operations are in the order in which it changed hands.
//
// INVARIANT(state-is-the-demo's): on replay the library's functions do not run. Who gets what is read from the demo, and
// the object's words are set as a debugger shall see them; owners are the recorded ids, so that a woken copy, whose
// threads have other ids, finds nothing that is not true in it.

// An operation whose place in the order is now, recording or replaying.
void gr_op(struct gr_thread *self, enum gr_op op, uint64_t object);

// Recording: one that has happened, with its result.
void gr_op_log(struct gr_thread *self, enum gr_op op, uint64_t object, long result);

// The same for one that has succeeded in taking an object with a cell, or not; `alone`: as a writer.
void gr_op_taken(struct gr_thread *self, enum gr_op op, uint64_t object, long result, bool alone);

// As gr_op, for one that gives an object with a cell.
void gr_op_given(struct gr_thread *self, enum gr_op op, uint64_t object, enum gr_cell_word which);

// Recording: the thread waits for the object, in order to do `op`. If the demo ends here, this says for what.
void gr_op_block(struct gr_thread *self, enum gr_op op, uint64_t object);

// Recording: the library's function behind an operation that may have to wait. INVARIANT(library-decides): it is called as the program
// calls it, and what is wrong with its arguments, or free, is found by itself; if it waits, the engine says so (BLOCK) when it does.
#define GR_REAL_BLOCKING(self, op, object, name, ...) \
	({ \
		(self)->blocks = (op); \
		(self)->blocks_on = (object); \
		long blocking_ret = GR_REAL(self, name, ##__VA_ARGS__); \
		(self)->blocks = GR_OP_NONE; \
		blocking_ret; \
	})

// Replaying: waits for its tick; the recorded result.
long gr_op_result(struct gr_thread *self, enum gr_op op, uint64_t object);

// Behind an operation that was stamped before the real call: how that ended, which was 0 unless it is recorded.
long gr_op_outcome(struct gr_thread *self, uint64_t object, long real);

// One that gives something: stamped first.
#define GR_GIVE(self, op, object, name, ...) \
	({ \
		gr_op(self, op, object); \
		gr_op_outcome(self, object, gr_mode == GR_MODE_RECORD ? GR_REAL(self, name, ##__VA_ARGS__) : 0); \
	})

// One that takes something or is told something: stamped last.
#define GR_TAKE(self, op, object, name, ...) \
	({ \
		long take_ret; \
		if (gr_mode == GR_MODE_RECORD) { \
			take_ret = GR_REAL(self, name, ##__VA_ARGS__); \
			gr_op_log(self, op, object, take_ret); \
		} else { \
			take_ret = gr_op_result(self, op, object); \
		} \
		take_ret; \
	})

// One that takes an object with a cell (log/edge.h); and where it may have to wait.
#define GR_TAKE_CELL(self, op, object, alone, name) \
	({ \
		long take_ret; \
		if (gr_mode == GR_MODE_RECORD) { \
			take_ret = GR_REAL(self, name, object); \
			gr_op_taken(self, op, object, take_ret, alone); \
		} else { \
			take_ret = gr_op_result(self, op, object); \
		} \
		take_ret; \
	})

#define GR_TAKE_BLOCKING(self, op, object, alone, name, ...) \
	({ \
		long take_ret; \
		if (gr_mode == GR_MODE_RECORD) { \
			take_ret = GR_REAL_BLOCKING(self, op, object, name, ##__VA_ARGS__); \
			gr_op_taken(self, op, object, take_ret, alone); \
		} else { \
			take_ret = gr_op_result(self, op, object); \
		} \
		take_ret; \
	})

// A result of a pthread function as the C11 function of the same purpose gives it.
long gr_op_c11(long error);

// Goes on in a function of the library, as if the program had called it with these registers.
void gr_op_jump(struct gr_regs *frame, void *function);

// entry.S: runs init on the program's stack; goes on with what the program called.
void gr_jump(void);
void gr_create_run(void);
void gr_once_run(void);
void gr_canceled(void);
