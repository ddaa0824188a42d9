// Batches of events for Python's speed, and the k-way merge of threads by stamp.
// Runs in: Python through cffi; never part of the engine.
// May call: libc.
// Owns: the heap of threads, smallest next stamp first.
#include "merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../core/ops.h"

size_t gr_batch_encode(uint8_t *dst, size_t room, const struct gr_event *events, size_t n, uint64_t *last_stamp,
                       size_t *used)
{
	size_t done = 0, at = 0;
	for (; done < n && room - at >= GR_EVENT_MAX_HEAD && room - at - GR_EVENT_MAX_HEAD >= events[done].len; done++)
		at += gr_event_encode(dst + at, &events[done], last_stamp);
	*used = at;
	return done;
}

size_t gr_batch_decode(const uint8_t *src, size_t avail, struct gr_event *ret, size_t n, size_t enough,
                       uint64_t *last_stamp, size_t *used)
{
	struct gr_event scratch;
	size_t done = 0, at = 0;
	while (done < n && at < enough) {
		size_t took = gr_event_decode(src + at, avail - at, ret ? &ret[done] : &scratch, last_stamp);
		if (!took)
			break;
		at += took;
		done++;
	}
	*used = at;
	return done;
}

static void scan(const uint8_t *src, size_t avail, size_t max_events, unsigned until, uint64_t base, struct gr_span *ret)
{
	struct gr_event ev;
	*ret = (struct gr_span){ 0 };
	while (ret->events < max_events) {
		uint64_t before = base;
		size_t took = gr_event_decode(src + ret->bytes, avail - ret->bytes, &ev, &base);
		if (!took || ev.kind == until)
			break;
		if (!ret->events)
			ret->first = ev.stamp;
		ret->newest = ret->bytes;
		ret->newest_events = ret->events;
		ret->newest_base = before;
		ret->last = ev.stamp;
		ret->bytes += took;
		ret->events += gr_event_ops(&ev);
	}
}

void gr_span_scan(const uint8_t *src, size_t avail, size_t max_events, uint64_t base, struct gr_span *ret)
{
	scan(src, avail, max_events, 0, base, ret);
}

void gr_span_until(const uint8_t *src, size_t avail, unsigned kind, uint64_t base, struct gr_span *ret)
{
	scan(src, avail, SIZE_MAX, kind, base, ret);
}

// ---------------------------------------------------------------- what can be taken out of a log
static struct gr_chunk *chunk_at(const uint8_t *log, uint32_t unit)
{
	return (struct gr_chunk *)(log + (uint64_t)unit * GR_UNIT);
}

// Chunks of other sizes stay in the log: the first ones of a thread, and large events.
static void find_chunks(struct gr_drain *drain, const uint8_t *log, uint64_t units)
{
	while (drain->seen < units && drain->known < GR_DRAIN_KNOWN) {
		const struct gr_chunk *chunk = chunk_at(log, drain->seen);
		uint32_t magic = __atomic_load_n(&chunk->magic, __ATOMIC_ACQUIRE), length = chunk->units;
		if ((magic != GR_CHUNK_MAGIC && magic != GR_KEPT_MAGIC) || length == 0 || length > units - drain->seen)
			break; // taken, and not begun yet
		if (magic == GR_CHUNK_MAGIC && length == GR_CHUNK_UNITS)
			drain->unit[drain->known++] = drain->seen;
		drain->seen += length;
	}
}

static void copy_chunk(struct gr_drain *drain, const struct gr_chunk *chunk)
{
	struct gr_chunk *head = &drain->head[drain->count];
	uint64_t room = GR_CHUNK_UNITS * GR_UNIT - sizeof *chunk;
	*head = *chunk;
	head->full = 0;
	head->used = head->used < room ? head->used : room;
	memcpy(drain->body + drain->bytes, chunk + 1, head->used);
	drain->bytes += head->used;
}

uint32_t gr_drain_take(struct gr_drain *drain, const uint8_t *log, uint64_t units, uint64_t size)
{
	uint32_t kept = 0;
	drain->count = drain->bytes = 0;
	find_chunks(drain, log, units < size ? units : size);
	for (uint32_t i = 0; i < drain->known; i++) {
		const struct gr_chunk *chunk = chunk_at(log, drain->unit[i]);
		bool full = __atomic_load_n(&chunk->full, __ATOMIC_ACQUIRE) && __atomic_load_n(&chunk->magic, __ATOMIC_ACQUIRE) == GR_CHUNK_MAGIC;
		if (full && drain->count < GR_DRAIN_MOST) {
			copy_chunk(drain, chunk);
			drain->taken[drain->count++] = drain->unit[i];
		} else {
			drain->unit[kept++] = drain->unit[i];
		}
	}
	drain->known = kept;
	return drain->count;
}

static bool give(uint32_t unit, uint32_t *places)
{
	for (int i = 0; i < GR_FREE_CHUNKS; i++)
		if (!__atomic_load_n(&places[i], __ATOMIC_RELAXED)) {
			__atomic_store_n(&places[i], unit + 1, __ATOMIC_RELEASE);
			return true;
		}
	return false;
}

uint32_t gr_drain_give(struct gr_drain *drain, uint8_t *log, uint32_t *places)
{
	while (drain->count) {
		uint32_t unit = drain->taken[--drain->count];
		struct gr_chunk *chunk = chunk_at(log, unit);
		chunk->full = 0;
		__atomic_store_n(&chunk->magic, GR_CHUNK_FREE, __ATOMIC_RELEASE);
		if (drain->known == GR_DRAIN_KNOWN || !give(unit, places))
			return unit;
		drain->unit[drain->known++] = unit;
	}
	return 0;
}

#define CLONE 56
#define CLONE3 435

uint64_t gr_tail_scan(const uint8_t *src, size_t avail, uint64_t base, struct gr_tail *tail)
{
	uint64_t done = 0;
	tail->births = 0;
	while (tail->births < GR_BIRTHS) {
		struct gr_event ev;
		size_t took = gr_event_decode(src + done, avail - done, &ev, &base);
		if (!took)
			break;
		if (!done)
			tail->first = ev;
		done += took;
		tail->last = ev;
		tail->several += gr_event_ops(&ev) > 1;
		if (!gr_event_may_miss(&ev))
			tail->solid = ev.stamp;
		if (ev.kind == GR_OP_SYS_START && (ev.nr == CLONE + 1 || ev.nr == CLONE3 + 1) && ev.object)
			tail->birth[tail->births++] = (struct gr_birth){ ev.stamp, ev.object };
	}
	return done;
}

struct gr_cursor {
	const uint8_t *at, *end;
	uint64_t last; // stamp of the newest event taken or peeked at
	uint64_t key;  // by which it is merged: that, but for marks that come late
	uint64_t base; // the one in front of it
	uint64_t size; // bytes of the event peeked at
	uint64_t ops;  // operations of it that are not merged yet
	uint64_t time; // its time, 0 if it carries none
	uint64_t done; // operations merged
	bool bad;      // what was fed does not follow what went before
};

struct gr_merge {
	uint64_t time;    // newest of the merged events
	uint64_t next;    // stamp that is due; 0: any
	bool late;        // gr_merge_late
	uint32_t newest;  // thread that was merged last
	uint32_t threads;
	uint32_t ready;   // threads in the heap: each has a next event
	uint32_t waiting; // threads on the stack at the end of the heap's array: each wants to be fed
	struct gr_cursor *cursor;
	uint32_t *heap;   // [0, ready) the heap, [threads - waiting, threads) the stack
};

// Of equal stamps neither depends on the other: then the thread goes on that had the turn, which costs a replay nothing.
static bool gr_merge_before(const struct gr_merge *m, uint32_t a, uint32_t b)
{
	uint64_t x = m->cursor[a].key, y = m->cursor[b].key;
	return x != y ? x < y : a == m->newest || (b != m->newest && a < b);
}

static void gr_merge_sift_up(struct gr_merge *m, uint32_t at)
{
	uint32_t thread = m->heap[at];
	while (at && gr_merge_before(m, thread, m->heap[(at - 1) / 2])) {
		m->heap[at] = m->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	m->heap[at] = thread;
}

static void gr_merge_sift_down(struct gr_merge *m)
{
	uint32_t at = 0, thread = m->heap[0];
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= m->ready)
			break;
		if (child + 1 < m->ready && gr_merge_before(m, m->heap[child + 1], m->heap[child]))
			child++;
		if (!gr_merge_before(m, m->heap[child], thread))
			break;
		m->heap[at] = m->heap[child];
		at = child;
	}
	m->heap[at] = thread;
}

static void gr_merge_wait(struct gr_merge *m, uint32_t thread)
{
	m->waiting++;
	m->heap[m->threads - m->waiting] = thread;
}

// INVARIANT(marks-depend-on-nothing): that a thread waits is nothing that others see, and it does nothing before its next event. So
// its mark may stand right in front of that, where a replay need not hand the turn over for it.
static uint64_t gr_cursor_key(const struct gr_cursor *c, const struct gr_event *ev)
{
	const uint8_t *at = c->at + c->size;
	uint64_t last = c->last;
	struct gr_event next = *ev;
	while (next.kind == GR_OP_BLOCK && at < c->end) {
		size_t size = gr_event_decode(at, (size_t)(c->end - at), &next, &last);
		if (!size)
			return c->last;
		at += size;
	}
	return next.kind == GR_OP_BLOCK ? c->last : next.stamp;
}

// Looks at the thread's next event; false when there is none or it is bad.
static bool gr_cursor_peek(const struct gr_merge *m, struct gr_cursor *c)
{
	struct gr_event ev;
	if (c->bad || c->at == c->end)
		return false;
	c->base = c->last;
	c->size = gr_event_decode(c->at, (size_t)(c->end - c->at), &ev, &c->last);
	c->bad = c->size == 0;
	c->time = c->bad ? 0 : ev.time;
	c->ops = c->bad ? 0 : gr_event_ops(&ev);
	c->key = c->bad || !m->late ? c->last : gr_cursor_key(c, &ev);
	return !c->bad;
}

struct gr_merge *gr_merge_new(uint32_t threads)
{
	struct gr_merge *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->threads = m->newest = threads;
	m->cursor = calloc(threads + (size_t)1, sizeof *m->cursor);
	m->heap = calloc(threads + (size_t)1, sizeof *m->heap);
	if (!m->cursor || !m->heap) {
		gr_merge_free(m);
		return NULL;
	}
	for (uint32_t thread = threads; thread-- > 0;)
		gr_merge_wait(m, thread);
	return m;
}

void gr_merge_free(struct gr_merge *m)
{
	if (!m)
		return;
	free(m->cursor);
	free(m->heap);
	free(m);
}

void gr_merge_feed(struct gr_merge *m, uint32_t thread, const uint8_t *src, size_t len, uint64_t base)
{
	if (!m->waiting || m->heap[m->threads - m->waiting] != thread)
		return; // only the thread that gr_merge_needs() names can be fed
	struct gr_cursor *c = &m->cursor[thread];
	if (len == 0) {
		m->waiting--;
		return;
	}
	c->bad = c->bad || base < c->last;
	c->last = base;
	c->at = src;
	c->end = src + len;
	if (!gr_cursor_peek(m, c))
		return; // bad, and stays the one that is needed
	m->waiting--;
	m->heap[m->ready++] = thread;
	gr_merge_sift_up(m, m->ready - 1);
}

uint32_t gr_merge_needs(const struct gr_merge *m)
{
	return m->waiting ? m->heap[m->threads - m->waiting] : m->threads;
}

uint64_t gr_merge_time(const struct gr_merge *m)
{
	return m->time;
}

void gr_merge_positions(const struct gr_merge *m, uint64_t *ret)
{
	for (uint32_t thread = 0; thread < m->threads; thread++)
		ret[thread] = m->cursor[thread].done;
}

void gr_merge_late(struct gr_merge *m)
{
	m->late = true;
}

void gr_merge_follow(struct gr_merge *m, uint64_t next)
{
	m->next = next;
}

uint64_t gr_merge_left(const struct gr_merge *m, uint32_t thread, uint64_t *base)
{
	const struct gr_cursor *c = &m->cursor[thread];
	*base = c->at == c->end ? c->last : c->base;
	return c->end - c->at;
}

enum gr_merge_state gr_merge_step(struct gr_merge *m, struct gr_run *runs, size_t room, size_t *count,
                                  uint64_t *ticks, uint64_t max_ticks, uint64_t *bytes, uint64_t max_bytes)
{
	for (;;) {
		if (m->waiting)
			return m->cursor[gr_merge_needs(m)].bad ? GR_MERGE_BAD : GR_MERGE_NEED;
		if (!m->ready)
			return GR_MERGE_DONE;
		uint32_t thread = m->heap[0];
		struct gr_cursor *c = &m->cursor[thread];
		// The run lasts until the next thread in the heap has the smaller stamp.
		m->newest = thread;
		uint32_t rival = m->ready > 1 ? m->heap[1] : thread;
		if (m->ready > 2 && gr_merge_before(m, m->heap[2], rival))
			rival = m->heap[2];
		bool more = true;
		do {
			if (m->next && m->next != c->last) {
				gr_merge_sift_down(m);
				return GR_MERGE_GAP;
			}
			if (*ticks >= max_ticks || *bytes >= max_bytes) {
				gr_merge_sift_down(m);
				return GR_MERGE_LIMIT;
			}
			uint64_t ops = c->ops < max_ticks - *ticks ? c->ops : max_ticks - *ticks;
			if (*count && runs[*count - 1].thread == thread && runs[*count - 1].count <= UINT32_MAX - ops) {
				runs[*count - 1].count += (uint32_t)ops;
			} else if (*count < room) {
				runs[(*count)++] = (struct gr_run){ .thread = thread, .count = (uint32_t)ops };
			} else {
				gr_merge_sift_down(m);
				return GR_MERGE_ROOM;
			}
			if (c->time > m->time)
				m->time = c->time;
			c->done += ops;
			c->ops -= ops;
			*ticks += ops;
			if (c->ops)
				continue; // max_ticks is reached within it
			m->next += m->next != 0;
			c->at += c->size;
			*bytes += c->size;
			more = gr_cursor_peek(m, c);
		} while (more && (rival == thread || gr_merge_before(m, thread, rival)));
		if (!more) {
			m->heap[0] = m->heap[--m->ready];
			gr_merge_wait(m, thread);
		}
		if (m->ready)
			gr_merge_sift_down(m);
	}
}
