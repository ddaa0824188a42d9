// Writing the log; see log.h.
// Runs in: application threads while recording.
// May call: core, codec, raw system calls.
// Owns: the chunk each thread fills.
#include "log.h"

#include <sys/mman.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"

// INVARIANT(space-before-touch): the pages of a chunk are populated before they are touched, so a full disk is an
// error here and not a SIGBUS in the middle of an event.
static void new_chunk(struct gr_thread *self, size_t need)
{
	uint64_t units = (sizeof(struct gr_chunk) + need + GR_UNIT - 1) / GR_UNIT;
	uint64_t first = __atomic_fetch_add(&gr_ctl->units, units, __ATOMIC_RELAXED);
	uint64_t size = units * GR_UNIT;
	if ((first + units) * GR_UNIT > gr_ctl->data_size) {
		__atomic_fetch_sub(&gr_ctl->units, units, __ATOMIC_RELAXED); // they do not exist
		gr_panic(self, GR_PANIC_LOG_FULL, "the log has reached its limit of %u bytes", gr_ctl->data_size, 0);
	}
	struct gr_chunk *chunk = (struct gr_chunk *)(GR_DATA_ADDR + first * GR_UNIT);
	long ret = GR_RAW(SYS_madvise, chunk, size, MADV_POPULATE_WRITE);
	if (GR_IS_ERR(ret) && ret != -22) // EINVAL: before Linux 5.14
		gr_panic(self, GR_PANIC_LOG_FULL, "no space for the log (error %d after %u bytes)", -ret, first * GR_UNIT);
	chunk->thread = self->pub.index;
	chunk->seq = self->seq++;
	chunk->units = units;
	chunk->base_stamp = self->stamp;
	chunk->used = 0;
	__atomic_store_n(&chunk->magic, GR_CHUNK_MAGIC, __ATOMIC_RELEASE);
	self->chunk = chunk;
	self->pos = (uint8_t *)(chunk + 1);
	self->end = (uint8_t *)chunk + size;
}

static void room(struct gr_thread *self, size_t need)
{
	if ((size_t)(self->end - self->pos) < need)
		new_chunk(self, need);
}

// INVARIANT(commit-after-event): see abi.h.
static void commit(struct gr_thread *self)
{
	self->pub.ops++;
	__atomic_store_n(&self->chunk->used, self->pos - (uint8_t *)(self->chunk + 1), __ATOMIC_RELEASE);
}

void gr_log(struct gr_thread *self, struct gr_event *ev)
{
	room(self, GR_EVENT_MAX_HEAD + ev->len);
	ev->stamp = __atomic_add_fetch(&gr_ctl->clock, 1, __ATOMIC_SEQ_CST);
	self->pos += gr_event_encode(self->pos, ev, &self->stamp);
	commit(self);
}

static size_t data_length(const struct gr_piece *pieces, unsigned count)
{
	size_t length = 0;
	for (unsigned i = 0; i < count; i++)
		length += sizeof pieces[i].len + pieces[i].len;
	return length;
}

static void put_pieces(struct gr_thread *self, struct gr_event *ev, const struct gr_piece *pieces, unsigned count)
{
	self->pos += gr_event_encode(self->pos, ev, &self->stamp);
	uint8_t *p = self->pos - ev->len;
	for (unsigned i = 0; i < count; i++) {
		memcpy(p, &pieces[i].len, sizeof pieces[i].len);
		memcpy(p + sizeof pieces[i].len, (const void *)pieces[i].addr, pieces[i].len);
		p += sizeof pieces[i].len + pieces[i].len;
	}
}

void gr_log_pieces(struct gr_thread *self, struct gr_event *ev, const struct gr_piece *pieces, unsigned count)
{
	ev->data = NULL;
	ev->len = data_length(pieces, count);
	room(self, GR_EVENT_MAX_HEAD + ev->len);
	ev->stamp = __atomic_add_fetch(&gr_ctl->clock, 1, __ATOMIC_SEQ_CST);
	put_pieces(self, ev, pieces, count);
	commit(self);
}

void gr_log_pair(struct gr_thread *self, struct gr_event *start, struct gr_event *end, const struct gr_piece *pieces,
		 unsigned count)
{
	end->data = NULL;
	end->len = data_length(pieces, count);
	room(self, 2 * GR_EVENT_MAX_HEAD + end->len);
	end->stamp = __atomic_add_fetch(&gr_ctl->clock, 2, __ATOMIC_SEQ_CST);
	start->stamp = end->stamp - 1;
	self->pos += gr_event_encode(self->pos, start, &self->stamp);
	put_pieces(self, end, pieces, count);
	self->pub.ops++;
	commit(self);
}
