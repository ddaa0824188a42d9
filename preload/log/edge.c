// Edges and runs; see edge.h.
// Runs in: application threads while recording.
// May call: core, log, codec.
// Owns: gr_edges, gr_counting.
#include "edge.h"

#include "../core/page.h"
#include "log.h"
#include "turn.h"

// A word that is none (memory that was never made a mutex) may hold anything; stamps do not come this far.
#define STAMP_LIMIT (1ULL << 44)

bool gr_edges;
bool gr_counting;

static enum gr_order_log how;

void gr_edge_init(void)
{
	how = gr_ctl->knob[GR_KNOB_order_log];
	gr_edges = gr_ctl->knob[GR_KNOB_order] == GR_ORDER_PARALLEL && how != GR_LOG_CLOCK;
}

void gr_edge_start(void)
{
	gr_counting = gr_mode == GR_MODE_RECORD && gr_edges && how != GR_LOG_OBJECT && !gr_ctl->knob[GR_KNOB_digest];
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

static void count(struct gr_thread *self, enum gr_op op, uint64_t mutex)
{
	struct gr_chunk *chunk = self->chunk;
	uint64_t run = ((chunk->run >> 32) + 1) << 32 | gr_run_hash((uint32_t)chunk->run, op, mutex);
	__atomic_store_n(&chunk->run, run, __ATOMIC_RELEASE);
	self->pub.ops++;
}

// Begins a run whose first operation has this stamp.
static void begin(struct gr_thread *self, uint64_t stamp)
{
	self->chunk->run_delta = stamp - self->stamp;
	self->stamp = stamp;
	self->word = gr_word(stamp, self->pub.index);
}

static void log_each(struct gr_thread *self, enum gr_op op, uint64_t mutex, uint64_t seen)
{
	struct gr_event ev = {.kind = op, .object = mutex};
	uint64_t stamp = seen >> GR_WORD_SHIFT;
	gr_log_own(self, &ev, stamp < STAMP_LIMIT ? stamp : 0);
	*gr_edge_word(mutex) = self->word;
}

void gr_edge_log(struct gr_thread *self, enum gr_op op, uint64_t mutex)
{
	uint64_t *word = gr_edge_word(mutex), seen = *word, stamp = seen >> GR_WORD_SHIFT;
	bool own = !seen || (uint16_t)seen == self->pub.index, full = self->chunk->run >> 32 >= GR_RUN_MOST;
	if (gr_closed || gr_mode == GR_MODE_OFF)
		return;
	if (how == GR_LOG_OBJECT) {
		log_each(self, op, mutex, seen);
		return;
	}
	bool behind = (own && stamp <= self->stamp) || (how == GR_LOG_TRANSITIVE && stamp < self->stamp);
	if (!behind || full) {
		gr_edge_flush(self);
		if (!gr_log_room(self, 0))
			return;
		if (full || stamp >= STAMP_LIMIT)
			stamp = gr_log_stamp(self, 1, stamp < STAMP_LIMIT ? stamp : 0);
		else
			stamp = (stamp > self->stamp ? stamp : self->stamp) + 1;
		if (stamp & GR_CLOSED)
			return;
		begin(self, stamp);
	}
	*word = self->word;
	count(self, op, mutex);
}
