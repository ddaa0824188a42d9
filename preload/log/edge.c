// Edges and runs; see edge.h.
// Runs in: application threads while recording.
// May call: core, log, codec.
// Owns: gr_edges, gr_cells, gr_counting, the cells.
#include "edge.h"

#include "../core/nolibc.h"
#include "../core/page.h"
#include "log.h"
#include "turn.h"

// A word that is none (memory that was never made a mutex) may hold anything; stamps do not come this far.
#define STAMP_LIMIT (1ULL << 44)

#define CELLS 4096

bool gr_edges, gr_cells;
bool gr_counting, gr_counting_cells;

static struct gr_cell cells[CELLS];

static enum gr_order_log how;

void gr_edge_init(void)
{
	enum gr_order order = gr_ctl->knob[GR_KNOB_order];
	how = gr_ctl->knob[GR_KNOB_order_log];
	gr_cells = order == GR_ORDER_PARALLEL && how != GR_LOG_CLOCK;
	gr_edges = gr_cells || (order == GR_ORDER_SERIAL && how == GR_LOG_TRANSITIVE);
}

void gr_edge_start(void)
{
	gr_counting = gr_mode == GR_MODE_RECORD && gr_edges && how != GR_LOG_OBJECT && !gr_ctl->knob[GR_KNOB_digest];
	gr_counting_cells = gr_counting && gr_cells;
}

// ---------------------------------------------------------------- words
static bool is_mine(const struct gr_thread *self, uint64_t mutex)
{
	return gr_edge_has(mutex) && ((pthread_mutex_t *)mutex)->__data.__owner == (int)self->pub.recorded_tid;
}

uint64_t gr_edge_stamp(const struct gr_thread *self, uint64_t mutex)
{
	uint64_t stamp = is_mine(self, mutex) ? *gr_edge_word(mutex) >> GR_WORD_SHIFT : 0;
	return stamp < STAMP_LIMIT ? stamp : 0;
}

void gr_edge_mark(const struct gr_thread *self, uint64_t mutex)
{
	if (is_mine(self, mutex))
		*gr_edge_word(mutex) = self->word;
}

// ---------------------------------------------------------------- runs
// INVARIANT(run-or-event): the run is void from the moment on in which its event is committed, because it belongs behind
// fewer bytes than there are then. So a thread that is killed leaves each operation once.
void gr_edge_flush(struct gr_thread *self)
{
	struct gr_chunk *chunk = self->chunk;
	if (!chunk || !(chunk->run >> 32))
		return;
	uint64_t last = self->stamp - chunk->run_delta;
	struct gr_event ev = {
		.kind = GR_OP_RUN, .stamp = self->stamp, .object = chunk->run >> 32, .check = gr_run_fold((uint32_t)chunk->run),
	};
	self->pos += gr_event_encode(self->pos, &ev, &last);
	gr_log_commit(self);
}

void gr_edge_rest(struct gr_thread *self)
{
	gr_edge_flush(self);
	self->word = GR_WORD_NONE;
}

static void count(struct gr_thread *self, enum gr_op op, uint64_t mutex)
{
	struct gr_chunk *chunk = self->chunk;
	uint64_t run = ((chunk->run >> 32) + 1) << 32 | gr_run_hash((uint32_t)chunk->run, op, mutex);
	__atomic_store_n(&chunk->run, run, __ATOMIC_RELEASE);
	self->pub.ops++;
	self->counted = true;
}

// Begins a run whose first operation has this stamp. One that was begun and has no operation yet is moved on.
static void begin(struct gr_thread *self, uint64_t stamp)
{
	self->chunk->run_delta += stamp - self->stamp;
	self->stamp = stamp;
	self->word = gr_word(stamp, self->pub.index);
}

// Joins the run under way, or begins one behind `floor`: with the clock of all where that is due. False: the log is closed.
static bool place(struct gr_thread *self, bool behind, bool raise, uint64_t floor)
{
	bool full = self->chunk->run >> 32 >= GR_RUN_MOST;
	if (behind && !full && self->word != GR_WORD_NONE)
		return true;
	if (full && gr_turn_on)
		self->turn = 1; // it has done much without a look at who else wants to run
	gr_edge_flush(self);
	if (!gr_log_room(self, 0))
		return false;
	bool rested = self->word == GR_WORD_NONE;
	uint64_t stamp = full || raise || rested || gr_turn_on ? gr_log_stamp(self, 1, floor) : (floor > self->stamp ? floor : self->stamp) + 1;
	if (stamp & GR_CLOSED)
		return false;
	begin(self, stamp);
	return true;
}

static bool is_behind(const struct gr_thread *self, uint64_t seen)
{
	uint64_t stamp = seen >> GR_WORD_SHIFT;
	bool own = !seen || ((uint16_t)seen == self->pub.index && (uint16_t)seen != GR_SEVERAL);
	return (own && stamp <= self->stamp) || (how == GR_LOG_TRANSITIVE && stamp < self->stamp);
}

static void log_each(struct gr_thread *self, enum gr_op op, uint64_t object, long result, uint64_t floor)
{
	struct gr_event ev = {.kind = op, .object = object, .result = result};
	gr_log_own(self, &ev, floor);
}

// Of an object with a word that this thread alone reads and writes now.
static inline void log_owned(struct gr_thread *self, uint64_t *word, enum gr_op op, uint64_t object, uint32_t held)
{
	uint64_t seen = *word, stamp = seen >> GR_WORD_SHIFT;
	bool none = stamp >= STAMP_LIMIT;
	if (gr_closed || gr_mode == GR_MODE_OFF)
		return;
	if (how == GR_LOG_OBJECT)
		log_each(self, op, object, held, none ? 0 : stamp);
	else if (!place(self, is_behind(self, seen), none, none ? 0 : stamp))
		return;
	*word = self->word;
	if (how != GR_LOG_OBJECT)
		count(self, op, object + held);
}

void gr_edge_log(struct gr_thread *self, enum gr_op op, uint64_t mutex)
{
	log_owned(self, gr_edge_word(mutex), op, mutex, 0);
}

void gr_edge_library(struct gr_thread *self, uint64_t *cell, uint64_t word, uint32_t held, bool alone)
{
	if (!alone) {
		log_owned(self, cell, GR_OP_LIBRARY_LOCK, word, held);
		return;
	}
	struct gr_event ev = {.kind = GR_OP_LIBRARY_LOCK, .object = word, .result = held, .check = gr_holder(word)};
	gr_log_behind(self, &ev, *cell >> GR_WORD_SHIFT);
	*cell = self->word;
}

// ---------------------------------------------------------------- cells
static struct gr_cell *cell_of(uint64_t object)
{
	return &cells[gr_hash_word(GR_HASH_SEED, object) % CELLS];
}

void gr_cell_count(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	if (gr_closed || gr_mode == GR_MODE_OFF)
		return;
	if (how == GR_LOG_OBJECT)
		log_each(self, op, object, 0, 0);
	else if (place(self, true, false, 0))
		count(self, op, object);
}

void gr_cell_take(struct gr_thread *self, enum gr_op op, uint64_t object, bool alone)
{
	struct gr_cell *cell = cell_of(object);
	uint64_t given = __atomic_load_n(&cell->given, __ATOMIC_ACQUIRE);
	uint64_t read = alone ? __atomic_load_n(&cell->read, __ATOMIC_ACQUIRE) : 0;
	uint64_t floor = (given > read ? given : read) >> GR_WORD_SHIFT;
	if (gr_closed || gr_mode == GR_MODE_OFF)
		return;
	if (how == GR_LOG_OBJECT)
		log_each(self, op, object, 0, floor);
	else if (place(self, is_behind(self, given) && is_behind(self, read), false, floor))
		count(self, op, object);
}

// INVARIANT(cell-only-rises): where several threads give with the same stamp, none of them may take it for its own: the others
// come in no order with it.
static void raise(struct gr_thread *self, uint64_t *word)
{
	uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	while (seen != self->word && seen >> GR_WORD_SHIFT <= self->stamp) {
		bool tie = seen >> GR_WORD_SHIFT == self->stamp;
		uint64_t next = tie ? gr_word(self->stamp, GR_SEVERAL) : self->word;
		if (seen == next || __atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
			return;
	}
}

void gr_cell_give(struct gr_thread *self, enum gr_op op, uint64_t object, enum gr_cell_word which)
{
	struct gr_cell *cell = cell_of(object);
	if (gr_closed || gr_mode == GR_MODE_OFF)
		return;
	if (how == GR_LOG_OBJECT)
		log_each(self, op, object, 0, 0);
	else if (!place(self, true, false, 0))
		return;
	raise(self, which == GR_CELL_READ ? &cell->read : &cell->given);
	if (how != GR_LOG_OBJECT)
		count(self, op, object);
}

void gr_cell_mark(struct gr_thread *self, uint64_t object)
{
	raise(self, &cell_of(object)->given);
}

uint64_t gr_cell_stamp(uint64_t object)
{
	return __atomic_load_n(&cell_of(object)->given, __ATOMIC_ACQUIRE) >> GR_WORD_SHIFT;
}

void gr_hold(struct gr_thread *self, uint64_t object, bool holds)
{
	self->holds.object[object / 8 % GR_HOLDS] = holds ? object : 0;
}

uint32_t gr_holder(uint64_t object)
{
	for (uint32_t i = 0; i < GR_LIVE_THREADS; i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (gr_thread_untouched(t))
			break;
		if (__atomic_load_n(&t->holds.object[object / 8 % GR_HOLDS], __ATOMIC_RELAXED) == object)
			return t->pub.index + 1;
	}
	return 0;
}
