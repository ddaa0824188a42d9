// Writing the log; see log.h.
// Runs in: application threads while recording.
// May call: core, codec, raw system calls.
// Owns: the chunk each thread fills.
#include "log.h"

#include <sys/mman.h>
#include <time.h>

#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "edge.h"
#include "put.h"
#include "turn.h"

// Here, or by the controller while a debugger had the program stopped.
static bool closed(void)
{
	if (!gr_closed) {
		gr_closed = true;
		gr_counting = gr_counting_cells = false;
		gr_turn_close();
	}
	return false;
}

// INVARIANT(space-before-touch): the pages of a chunk are populated before they are touched, so a full disk is an
// error here and not a SIGBUS in the middle of an event.
//
// What happens when there is none is the profile's choice. Where the program goes on, each thread leaves the engine: its
// wrappers from the next call on (sync/op.c), the door at its next system call (syscall/dispatch.c).
static bool full(struct gr_thread *self, const char *why, uint64_t a, uint64_t b)
{
	if (gr_ctl->knob[GR_KNOB_when_full] == 0)
		gr_panic(self, GR_PANIC_LOG_FULL, why, a, b);
	__atomic_fetch_or(&gr_ctl->clock, GR_CLOSED, __ATOMIC_SEQ_CST);
	return closed();
}

// A file's pages come cheaper in large pieces, by a factor of eight on ext4: what lies behind the chunk is made with it, where there
// is room. INVARIANT(made-without-gaps): everything in front of `made` is, also what other threads are about to make themselves.
#define PIECE 0x40000

// INVARIANT(log-is-no-burden): of the log the program's memory has two pieces and what threads are writing: what is full, what nobody
// writes any more and what is made ahead are in the file alone. A page comes back by itself. In pieces, for the same reason.
static uint64_t gone = GR_DATA_ADDR; // what lies in front of it

static void let_go(uint64_t from, uint64_t to)
{
	GR_RAW(SYS_madvise, from, to - from, MADV_DONTNEED);
}

static long populate(uint64_t to)
{
	static uint64_t made = GR_DATA_ADDR;
	uint64_t before = __atomic_load_n(&made, __ATOMIC_RELAXED), from = before, piece = (to + PIECE - 1) & -PIECE;
	if (to <= before)
		return 0;
	if (piece > GR_DATA_ADDR + gr_ctl->data_size)
		piece = to;
	long ret = GR_RAW(SYS_madvise, from, piece - from, MADV_POPULATE_WRITE);
	if (GR_IS_ERR(ret) && piece > to)
		ret = GR_RAW(SYS_madvise, from, (piece = to) - from, MADV_POPULATE_WRITE);
	if (GR_IS_ERR(ret))
		return ret;
	while (before < piece && !__atomic_compare_exchange_n(&made, &before, piece, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (to < GR_DATA_ADDR + GR_LOG_SHORT)
		let_go(to, piece);
	let_go(__atomic_exchange_n(&gone, from, __ATOMIC_RELAXED), from);
	return 0;
}

// Where others write much more, this thread's chunk has gone with what lies around it, and come back. Where chunks are written to
// again, it will be, and stays.
static bool again;

static void chunk_is_full(const struct gr_thread *self)
{
	if (self->chunk && (uint64_t)self->chunk < __atomic_load_n(&gone, __ATOMIC_RELAXED) && !__atomic_load_n(&again, __ATOMIC_RELAXED))
		gr_log_let_go(self);
}

void gr_log_let_go(const struct gr_thread *self)
{
	if (self->chunk)
		let_go((uint64_t)self->chunk, (uint64_t)self->chunk + (uint64_t)self->chunk->units * GR_UNIT);
}

// Threads may come and go all the time, and what one leaves empty stays so: its first chunk is small, each further one twice as large.
#define DOUBLED 4 // times
_Static_assert(1 << DOUBLED == GR_CHUNK_UNITS, "each but the first ones");

// One of those that were given back last: at first it is not mapped, then most likely in the processor's caches.
static struct gr_chunk *free_chunk(void)
{
	for (int i = 0; i < GR_FREE_CHUNKS; i++) {
		uint32_t *place = &gr_ctl->free[i], unit = __atomic_load_n(place, __ATOMIC_RELAXED) ? __atomic_exchange_n(place, 0, __ATOMIC_ACQUIRE) : 0;
		if (!unit)
			continue;
		__atomic_store_n(&again, true, __ATOMIC_RELAXED);
		return (struct gr_chunk *)(GR_DATA_ADDR + (uint64_t)(unit - 1) * GR_UNIT);
	}
	return NULL;
}

// So many units of the log, whose pages are there; NULL when there are none, and the recording has ended with that or goes on without.
static struct gr_chunk *take_units(struct gr_thread *self, uint64_t units)
{
	uint64_t first = __atomic_fetch_add(&gr_ctl->units, units, __ATOMIC_RELAXED);
	if ((first + units) * GR_UNIT + __atomic_load_n(&gr_ctl->drained, __ATOMIC_RELAXED) > gr_ctl->data_size) {
		__atomic_fetch_sub(&gr_ctl->units, units, __ATOMIC_RELAXED); // they do not exist
		full(self, "the log has reached its limit of %u bytes", gr_ctl->data_size, 0);
		return NULL;
	}
	struct gr_chunk *chunk = (struct gr_chunk *)(GR_DATA_ADDR + first * GR_UNIT);
	long ret = populate((uint64_t)chunk + units * GR_UNIT);
	if (!GR_IS_ERR(ret) || ret == -22) // EINVAL: before Linux 5.14
		return chunk;
	full(self, "no space for the log (error %d after %u bytes)", -ret, first * GR_UNIT);
	return NULL;
}

struct gr_chunk *gr_log_take(struct gr_thread *self, uint64_t bytes)
{
	uint64_t units = (sizeof(struct gr_chunk) + bytes + GR_UNIT - 1) / GR_UNIT;
	struct gr_chunk *chunk = gr_closed ? NULL : take_units(self, units);
	if (chunk)
		chunk->units = units;
	return chunk;
}

static bool new_chunk(struct gr_thread *self, size_t need)
{
	if (self->pub.index >= GR_MOST_THREADS)
		return full(self, "the log has reached its limit of %u threads\nlet the program go on without, by limits.when_full=go_on", GR_MOST_THREADS, 0);
	uint64_t units = (sizeof(struct gr_chunk) + need + GR_RUN_ROOM + GR_UNIT - 1) / GR_UNIT;
	uint64_t wanted = 1U << (self->seq < DOUBLED ? self->seq : DOUBLED);
	units = units > wanted ? units : wanted;
	if (self->chunk)
		__atomic_store_n(&self->chunk->full, 1, __ATOMIC_RELEASE);
	struct gr_chunk *chunk = units == GR_CHUNK_UNITS ? free_chunk() : NULL;
	if (!chunk && !(chunk = take_units(self, units)))
		return false;
	chunk_is_full(self);
	chunk->thread = self->pub.index;
	chunk->seq = self->seq++;
	chunk->units = units;
	chunk->base_stamp = self->stamp;
	chunk->used = chunk->run = chunk->run_at = chunk->run_delta = chunk->full = 0;
	__atomic_store_n(&chunk->magic, GR_CHUNK_MAGIC, __ATOMIC_RELEASE);
	self->chunk = chunk;
	self->pos = (uint8_t *)(chunk + 1);
	self->end = (uint8_t *)chunk + units * GR_UNIT - GR_RUN_ROOM;
	return true;
}

// ---------------------------------------------------------------- times
// The time is asked for when this many cycles have passed since this thread's last answer: some milliseconds on any
// processor that exists. In between events carry none, which costs reading the counter. A counter that goes back
// (another core's) only means that the time is asked for early.
#define COARSE (1ULL << 24)

uint64_t gr_time_now(void)
{
	struct timespec now;
	GR_RAW(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

// INVARIANT(segment-time): an event that comes COARSE cycles or more behind the last timed one of its thread is timed, so the
// time between two events of a thread is known up to COARSE cycles. Of calls that only ask one in UNTIMED looks at the counter, and
// of those that transfer a few bytes the start does: the time that is known then is too long, never too short.
#define UNTIMED 16

static uint64_t coarse_time(struct gr_thread *self)
{
	uint64_t cycles = gr_tsc_trapped ? gr_time_now() << 12 : __builtin_ia32_rdtsc(); // as if there were four in a nanosecond
	if (cycles - self->timed < COARSE)
		return 0;
	self->timed = cycles;
	uint64_t time = gr_time_now() - gr_ctl->time_base;
	return time ? time : 1;
}

// ---------------------------------------------------------------- events
// The last of `count` stamps. While the program has one thread nobody else takes any, and a signal comes before or behind an
// instruction: then it need not be locked.
static inline uint64_t take_stamps(uint64_t count)
{
	uint64_t before = count;
	if (__atomic_load_n(&gr_ctl->threads, __ATOMIC_RELAXED) != 1)
		return __atomic_add_fetch(&gr_ctl->clock, count, __ATOMIC_SEQ_CST);
	__asm__ volatile("xaddq %0, %1" : "+r"(before), "+m"(gr_ctl->clock) : : "memory", "cc");
	return before + count;
}

// This thread's own clock, or the mutex's, is ahead of that of all.
static __attribute__((noinline)) uint64_t raise_clock(uint64_t least, unsigned stamps)
{
	uint64_t stamp, seen = __atomic_load_n(&gr_ctl->clock, __ATOMIC_SEQ_CST);
	do {
		if (seen & GR_CLOSED)
			return seen;
		stamp = (seen > least ? seen : least) + stamps;
	} while (!__atomic_compare_exchange_n(&gr_ctl->clock, &seen, stamp, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return stamp;
}

uint64_t gr_log_stamp(struct gr_thread *self, unsigned stamps, uint64_t floor)
{
	uint64_t least = floor > self->stamp ? floor : self->stamp;
	uint64_t stamp = take_stamps(stamps);
	return stamp - stamps >= least ? stamp : raise_clock(least, stamps);
}

bool gr_log_room(struct gr_thread *self, size_t need)
{
	return self->end - self->pos >= (ptrdiff_t)need || new_chunk(self, need);
}

// Room for an event and `more` bytes, and the last of `stamps` stamps for it. False when the log is closed: nothing of this
// thread is logged any more.
static bool begin_some(struct gr_thread *self, struct gr_event *ev, size_t more, unsigned stamps, uint64_t floor)
{
	// A child that ends what was begun in its parent shares the log with it.
	if (gr_mode == GR_MODE_OFF)
		return false;
	if (__atomic_load_n(&gr_ctl->clock, __ATOMIC_RELAXED) & GR_CLOSED)
		return closed();
	gr_edge_flush(self);
	if (!gr_log_room(self, GR_EVENT_MAX_HEAD + ev->len + more))
		return false;
	ev->time = coarse_time(self);
	ev->stamp = gr_log_stamp(self, stamps, floor);
	return !(ev->stamp & GR_CLOSED);
}

static bool begin(struct gr_thread *self, struct gr_event *ev)
{
	return begin_some(self, ev, 0, 1, 0);
}

// INVARIANT(commit-after-event): see abi.h.
void gr_log_commit(struct gr_thread *self)
{
	struct gr_chunk *chunk = self->chunk;
	uint64_t used = self->pos - (uint8_t *)(chunk + 1);
	__atomic_store_n(&chunk->used, used, __ATOMIC_RELEASE);
	__atomic_store_n(&chunk->run, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&chunk->run_delta, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&chunk->run_at, used, __ATOMIC_RELEASE);
}

static void commit(struct gr_thread *self)
{
	self->pub.ops++;
	self->word = gr_word(self->stamp, self->pub.index);
	gr_log_commit(self);
}

static void put(struct gr_thread *self, const struct gr_event *ev)
{
	self->pos += gr_event_encode(self->pos, ev, &self->stamp);
	commit(self);
}

void gr_log_behind(struct gr_thread *self, struct gr_event *ev, uint64_t floor)
{
	if (begin_some(self, ev, 0, 1, floor))
		put(self, ev);
}

void gr_log(struct gr_thread *self, struct gr_event *ev)
{
	gr_log_behind(self, ev, 0);
}

void gr_log_own(struct gr_thread *self, struct gr_event *ev, uint64_t floor)
{
	if (self->word == GR_WORD_NONE) {
		gr_log_behind(self, ev, floor);
		return;
	}
	if (gr_closed || !gr_log_room(self, GR_EVENT_MAX_HEAD + ev->len))
		return;
	ev->time = coarse_time(self);
	ev->stamp = (floor > self->stamp ? floor : self->stamp) + 1;
	put(self, ev);
}

void gr_log_more(struct gr_thread *self, const struct gr_piece *piece, uint32_t done, uint64_t shift)
{
	while (done < piece->len) {
		uint32_t n = piece->len - done < GR_EVENT_DATA ? piece->len - done : GR_EVENT_DATA;
		struct gr_event more = {
			.kind = GR_OP_DATA, .object = piece->addr + shift + done, .data = (const uint8_t *)piece->addr + done, .len = n,
		};
		gr_log(self, &more);
		done += n;
	}
}

// What of the pieces an event holds, each behind its length.
static uint32_t pieces_length(const struct gr_piece *pieces, unsigned count)
{
	uint32_t room = GR_EVENT_DATA, length = 0;
	for (unsigned i = 0; i < count; i++) {
		uint32_t n = pieces[i].len < room ? pieces[i].len : room;
		length += sizeof n + n;
		room -= n;
	}
	return length;
}

static void put_pieces(struct gr_thread *self, struct gr_event *ev, const struct gr_piece *pieces, unsigned count)
{
	self->pos += gr_event_encode(self->pos, ev, &self->stamp);
	uint8_t *p = self->pos - ev->len;
	uint32_t room = GR_EVENT_DATA;
	for (unsigned i = 0; i < count; i++) {
		uint32_t n = pieces[i].len < room ? pieces[i].len : room;
		memcpy(p, &n, sizeof n);
		memcpy(p + sizeof n, (const void *)pieces[i].addr, n);
		p += sizeof n + n;
		room -= n;
	}
	commit(self);
}

static void put_rest(struct gr_thread *self, const struct gr_piece *pieces, unsigned count, uint64_t shift)
{
	uint32_t room = GR_EVENT_DATA;
	for (unsigned i = 0; i < count; i++) {
		uint32_t n = pieces[i].len < room ? pieces[i].len : room;
		gr_log_more(self, &pieces[i], n, shift);
		room -= n;
	}
}

void gr_log_pieces(struct gr_thread *self, struct gr_event *ev, const struct gr_piece *pieces, unsigned count, uint64_t shift)
{
	ev->data = NULL;
	ev->len = pieces_length(pieces, count);
	if (!begin(self, ev))
		return;
	put_pieces(self, ev, pieces, count);
	put_rest(self, pieces, count, shift);
}

void gr_log_pair(struct gr_thread *self, struct gr_event *start, struct gr_event *end, const struct gr_piece *pieces,
		 unsigned count)
{
	end->data = NULL;
	end->len = pieces_length(pieces, count);
	if (!begin_some(self, end, GR_EVENT_MAX_HEAD, 2, 0))
		return;
	start->time = end->time;
	end->time = 0;
	start->stamp = end->stamp - 1;
	self->pos += gr_event_encode(self->pos, start, &self->stamp);
	self->pub.ops++;
	put_pieces(self, end, pieces, count);
	put_rest(self, pieces, count, 0);
}

void gr_log_query(struct gr_thread *self, uint16_t nr, uint8_t action, uint32_t check, int64_t result,
		  const struct gr_piece pieces[2], unsigned count)
{
	struct gr_event start = {.kind = GR_OP_SYS_START, .nr = nr + 1, .check = check, .flags = action};
	struct gr_event end = {.kind = GR_OP_SYS_END, .nr = nr + 1, .result = result};
	for (unsigned i = 0; i < count; i++)
		end.len += sizeof pieces->len + pieces[i].len;
	if (++self->untimed == UNTIMED) {
		self->untimed = 0;
		start.time = coarse_time(self);
	}
	gr_edge_flush(self);
	end.stamp = gr_log_stamp(self, 2, 0);
	if (end.stamp & GR_CLOSED)
		return;
	start.stamp = end.stamp - 1;
	uint8_t *p = gr_event_put(self->pos, &start, &self->stamp);
	p = gr_event_put(p, &end, &self->stamp);
	for (unsigned i = 0; i < count; i++) {
		memcpy(p, &pieces[i].len, sizeof pieces->len);
		p += sizeof pieces->len;
		memcpy(p, (const void *)pieces[i].addr, pieces[i].len);
		p += pieces[i].len;
	}
	self->pos = p;
	self->pub.ops++;
	commit(self);
}

bool gr_log_begun(struct gr_thread *self, uint16_t nr, uint32_t check)
{
	struct gr_event start = {.kind = GR_OP_SYS_START, .nr = nr + 1, .check = check, .flags = GR_ACT_RECORD};
	start.time = coarse_time(self);
	gr_edge_flush(self);
	start.stamp = gr_log_stamp(self, 1, 0);
	if (start.stamp & GR_CLOSED)
		return false;
	self->pos = gr_event_put(self->pos, &start, &self->stamp);
	commit(self);
	return true;
}

void gr_log_ended(struct gr_thread *self, uint16_t nr, int64_t result, const struct gr_piece *brought)
{
	struct gr_event end = {.kind = GR_OP_SYS_END, .nr = nr + 1, .result = result};
	if (brought && !gr_log_ready(self, brought->len)) {
		gr_log_pieces(self, &end, brought, 1, 0);
		return;
	}
	end.len = brought ? sizeof brought->len + brought->len : 0;
	end.stamp = gr_log_stamp(self, 1, 0);
	if (end.stamp & GR_CLOSED)
		return;
	uint8_t *p = gr_event_put(self->pos, &end, &self->stamp);
	if (brought) {
		memcpy(p, &brought->len, sizeof brought->len);
		memcpy(p + sizeof brought->len, (const void *)brought->addr, brought->len);
	}
	self->pos = p + end.len;
	commit(self);
}

void gr_log_joined(struct gr_thread *self, struct gr_event *ev, const struct gr_piece *pieces, unsigned count)
{
	uint32_t total = 0;
	for (unsigned i = 0; i < count; i++)
		total += pieces[i].len;
	ev->data = NULL;
	ev->len = total ? sizeof total + total : 0;
	if (!begin(self, ev))
		return;
	self->pos += gr_event_encode(self->pos, ev, &self->stamp);
	uint8_t *p = self->pos - ev->len;
	if (total) {
		memcpy(p, &total, sizeof total);
		p += sizeof total;
	}
	for (unsigned i = 0; i < count; i++) {
		memcpy(p, (const void *)pieces[i].addr, pieces[i].len);
		p += pieces[i].len;
	}
	commit(self);
}
