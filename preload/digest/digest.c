// Digests; see digest.h.
// Runs in: application threads, leaving an operation; the thread of a replay that stands.
// May call: core, log, replay.
// Owns: operations of the kind DIGEST.
#include "digest.h"

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/panic.h"
#include "../ctl/slot.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../replay/gate.h"
#include "../replay/halt.h"
#include "areas.h"
#include "compare.h"
#include "mask.h"
#include "rename.h"

#define OUT_ADDR (GR_WORK_ADDR + GR_WORK_LIST)
#define OUT_SIZE GR_EVENT_DATA

static uint8_t page[GR_PAGE] __attribute__((aligned(64)));

void gr_digest_primitive(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	gr_mask_primitive(self, op, object);
}

// ---------------------------------------------------------------- registers
// A system call destroys rcx and r11; single-stepping is the debugger's, not the program's.
static struct gr_regs visible(const struct gr_regs *frame, uint64_t fs_base)
{
	struct gr_regs regs = *frame;
	regs.rcx = regs.r11 = regs.gs_base = 0;
	regs.eflags &= ~0x10100ULL; // RF, TF
	regs.fs_base = fs_base;
	return regs;
}

// MXCSR, XMM and the upper halves of YMM; what of the area is not there stays 0.
static uint64_t hash_vectors(void)
{
	static uint8_t area[1024] __attribute__((aligned(64)));
	memset(area, 0, sizeof area);
	__asm__ volatile("xsave64 (%0)" : : "r"(area), "a"(6), "d"(0) : "memory");
	uint64_t hash = gr_hash(GR_HASH_SEED, area + 24, 4);
	hash = gr_hash(hash, area + 160, 256);
	return gr_hash(hash, area + 576, 256);
}

// Behind a library function they belong to nobody, but the next system call's digest sees them. INVARIANT(forgotten-by-both):
// what the function left in XMM, or did not where it does not run on replay, is overwritten in both modes. Not by zeros: whether
// the processor takes zeros for a state in use is its own affair, and the loader saves what is in use on the program's stack.
static void forget_vectors(void)
{
	uint8_t area[576] __attribute__((aligned(64)));
	memset(area, 0, sizeof area);
	memset(area + 160, 0xa5, 256);
	area[512] = 2; // the state of SSE follows
	__asm__ volatile("stmxcsr (%0)" : : "r"(area + 24) : "memory");
	__asm__ volatile("xrstor64 (%0)" : : "r"(area), "a"(2), "d"(0) : "memory");
}

static struct gr_regs standing[GR_LIVE_THREADS];

// Of all threads, by index: `frame` of this one, of the others what is shown. Returns how many there are.
static uint32_t all_registers(const struct gr_thread *self, const struct gr_regs *frame)
{
	static uint32_t indices[GR_LIVE_THREADS];
	uint32_t threads = 0;
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (!gr_thread_lives(t))
			continue;
		uint32_t at = threads++;
		for (; at && indices[at - 1] > t->pub.index; at--) {
			indices[at] = indices[at - 1];
			standing[at] = standing[at - 1];
		}
		indices[at] = t->pub.index;
		standing[at] = visible(t == self ? frame : gr_thread_stands(t), t->fs_base);
	}
	return threads;
}

// ---------------------------------------------------------------- memory
struct out {
	uint8_t *pos, *end;
	bool full;
	struct gr_digest_range *range;
};

static void *put(struct out *out, size_t size)
{
	if ((size_t)(out->end - out->pos) < size) {
		out->full = true;
		return NULL;
	}
	out->pos += size;
	return out->pos - size;
}

static uint8_t *masked(uint64_t addr, bool file)
{
	if (file) {
		size_t n = gr_peek(page, addr, GR_PAGE); // behind the end of a file there is no memory
		memset(page + n, 0, GR_PAGE - n);
	} else {
		memcpy(page, (const void *)addr, GR_PAGE);
	}
	gr_mask_apply(addr, page);
	return page;
}

static uint32_t hash_page(const uint8_t *bytes)
{
	const uint64_t *words = (const uint64_t *)bytes;
	uint64_t any = 0, a = GR_HASH_SEED, b = ~GR_HASH_SEED;
	for (unsigned i = 0; i < GR_PAGE / 8; i += 2) {
		any |= words[i] | words[i + 1];
		a = gr_hash_word(a, words[i]);
		b = gr_hash_word(b, words[i + 1]);
	}
	if (!any)
		return 0;
	uint64_t hash = gr_hash_word(a, b);
	return (uint32_t)(hash ^ hash >> 32) ?: 1;
}

uint32_t gr_digest_page(uint64_t addr, bool file)
{
	return hash_page(masked(addr, file));
}

static bool has_hash(const uint8_t *bytes, uint64_t wanted)
{
	return hash_page(bytes) == wanted;
}

bool gr_digest_page_may_be(uint64_t addr, uint32_t hash)
{
	return gr_rename_bytes(masked(addr, true), GR_PAGE, has_hash, hash);
}

static void add_area(struct out *out, const struct gr_area *area, uint64_t start)
{
	// Groups begin at multiples of their size, so that areas which are one in the recording and two in the replay, or
	// the other way round, give the same groups: a group that two areas share is opened once.
	static struct gr_digest_group *group;
	while (start < area->end && !out->full) {
		uint64_t first = start & ~(uint64_t)(GR_DIGEST_PAGES * GR_PAGE - 1);
		uint64_t end = first + GR_DIGEST_PAGES * GR_PAGE;
		end = end < area->end ? end : area->end;
		uint64_t present = gr_areas_present(area, start, (end - start) / GR_PAGE);
		if (!present) {
			start = gr_areas_skip(area, end);
			continue;
		}
		for (uint64_t addr = start; present; addr += GR_PAGE, present >>= 1) {
			uint32_t hash = present & 1 ? gr_digest_page(addr, area->file) : 0;
			if (!hash)
				continue;
			if (!out->range->groups || group->start != first) {
				if (!(group = put(out, sizeof *group)))
					return;
				*group = (struct gr_digest_group){first, 0};
				out->range->groups++;
			}
			uint8_t *check = put(out, sizeof hash);
			if (!check)
				return;
			memcpy(check, &hash, sizeof hash);
			group->pages |= 1ULL << (addr - first) / GR_PAGE;
		}
		start = end;
	}
}

// The whole of it, with the registers of so many threads; returns its length, 0 when there is not enough room.
static size_t take(struct gr_thread *self, uint32_t threads, uint64_t vectors, uint8_t *dst, size_t room)
{
	gr_areas_read(self); // makes the room for it, too
	struct out out = {dst, dst + room, false, NULL};
	struct gr_digest *head = put(&out, sizeof *head);
	struct gr_regs *all = put(&out, threads * sizeof *all);
	*head = (struct gr_digest){threads, 0, vectors};
	for (uint32_t i = 0; i < threads; i++)
		all[i] = standing[i];
	struct gr_area area;
	for (const char *at = NULL; !out.full && gr_areas_next(&at, &area);) {
		uint64_t start = gr_mask_start(&area);
		if (out.range && out.range->end == start) {
			out.range->end = area.end;
		} else {
			if (!(out.range = put(&out, sizeof *out.range)))
				break;
			*out.range = (struct gr_digest_range){.start = start, .end = area.end};
			head->ranges++;
		}
		add_area(&out, &area, start);
	}
	gr_areas_done();
	return out.full ? 0 : (size_t)(out.pos - dst);
}

// ---------------------------------------------------------------- behind an operation
static void begin(struct gr_thread *self, const struct gr_regs *frame, bool call)
{
	gr_mask_begin(self, frame->rsp - (call ? GR_RED_ZONE : 0));
}

static size_t take_here(struct gr_thread *self, const struct gr_regs *frame, bool call)
{
	uint64_t hash = call ? hash_vectors() : 0;
	uint32_t threads = all_registers(self, frame);
	begin(self, frame, call);
	size_t len = take(self, threads, hash, (uint8_t *)OUT_ADDR, OUT_SIZE);
	if (!len)
		gr_panic(self, GR_PANIC_REFUSED, "a digest of more memory than fits into %u bytes\nrecord without --digest", OUT_SIZE, 0);
	return len;
}

// It stands where the program goes on.
static void show(struct gr_thread *self, const struct gr_regs *frame)
{
	self->pub.shown = *frame;
	self->pub.shown.fs_base = self->fs_base;
	self->pub.ret_pc = frame->rip;
}

void gr_digest_pass(struct gr_thread *self)
{
	if (!gr_turn_on)
		self->digest_seen = self->pub.ops;
}

static bool others_stand(struct gr_thread *self)
{
	if (!gr_digest_beside())
		return false;
	if (gr_halt_others(self))
		return true;
	self->digest_at = self->pub.ops + gr_ctl->knob[GR_KNOB_digest];
	return false;
}

static bool all_stand(struct gr_thread *self, bool *ret_halted)
{
	*ret_halted = false;
	if (gr_thread_is_alone(self))
		return true;
	if (gr_turn_on)
		return gr_turn_all_stand(self);
	return *ret_halted = others_stand(self);
}

static void record(struct gr_thread *self, const struct gr_regs *frame, bool call)
{
	// INVARIANT(behind-an-operation): behind a call that is none, as the library's own waiting, a replay may not come by at all. And
	// while others run, memory as a whole has no meaning: then it is put off.
	bool is_behind = self->pub.ops != self->digest_seen, halted;
	self->digest_seen = self->pub.ops;
	if (!is_behind || self->pub.ops < self->digest_at || gr_closed || !all_stand(self, &halted))
		return;
	show(self, frame);
	size_t len = take_here(self, frame, call);
	struct gr_event ev = {.kind = GR_OP_DIGEST, .data = (const uint8_t *)OUT_ADDR, .len = len};
	gr_log(self, &ev);
	if (halted)
		gr_halt_end(self);
	self->digest_at = self->pub.ops + gr_ctl->knob[GR_KNOB_digest];
	self->digest_seen = self->pub.ops;
}

// INVARIANT(left-in-front): behind its last operation a thread of a replay stands right there, where in the recording it had come to
// another one, which is not in the demo: such a state cannot be compared.
static bool somebody_is_behind(const struct gr_thread *self)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (t != self && gr_thread_lives(t) && t->behind)
			return true;
	}
	return false;
}

static void compare(struct gr_thread *self, const struct gr_regs *frame, bool call)
{
	struct gr_event ev;
	if (!gr_gate_peek(self, &ev) || ev.kind != GR_OP_DIGEST)
		return;
	show(self, frame);
	gr_gate_next(self, GR_OP_DIGEST, 0, 0, &ev);
	if (somebody_is_behind(self))
		return;
	size_t len = take_here(self, frame, call);
	if (len == ev.len && memcmp((const void *)OUT_ADDR, ev.data, len) == 0)
		return;
	begin(self, frame, call);
	gr_digest_rename(ev.data, ev.len, (uint8_t *)OUT_ADDR, len);
	if (len == ev.len && memcmp((const void *)OUT_ADDR, ev.data, len) == 0)
		return;
	char text[GR_PANIC_TEXT];
	uint64_t where = gr_digest_difference(ev.data, ev.len, (const uint8_t *)OUT_ADDR, len, text, sizeof text);
	gr_gate_desync(self, &ev, GR_OP_DIGEST, 0, where, text);
}

void gr_digest_leave(struct gr_thread *self, struct gr_regs *frame, bool call)
{
	if (!call)
		forget_vectors();
	if (gr_mode == GR_MODE_RECORD)
		record(self, frame, call);
	else if (gr_mode == GR_MODE_REPLAY)
		compare(self, frame, call);
}

// ---------------------------------------------------------------- standing
void gr_digest_command(struct gr_thread *self)
{
	uint32_t threads = all_registers(self, gr_thread_stands(self));
	gr_mask_begin(self, gr_thread_stands(self)->rsp - GR_RED_ZONE);
	gr_ctl->digest_len = take(self, threads, 0, gr_ctl->digest, sizeof gr_ctl->digest);
	gr_slot_announce(gr_slot->state);
}

uint64_t gr_digest_registers(const struct gr_thread *self, uint32_t *ret_threads)
{
	*ret_threads = all_registers(self, gr_thread_stands(self));
	return gr_hash(GR_HASH_SEED, standing, *ret_threads * sizeof *standing);
}

// Pages that are not there any more are zeros.
void gr_digest_pages(struct gr_thread *self)
{
	static uint64_t wanted[GR_PAGES_MOST];
	uint64_t count = gr_ctl->digest_len / sizeof *wanted;
	count = count < GR_PAGES_MOST ? count : GR_PAGES_MOST;
	memcpy(wanted, gr_ctl->digest, count * sizeof *wanted);
	gr_mask_begin(self, gr_thread_stands(self)->rsp - GR_RED_ZONE);
	for (uint64_t i = 0; i < count; i++)
		memcpy(gr_ctl->digest + i * GR_PAGE, masked(wanted[i], true), GR_PAGE);
	gr_ctl->digest_len = count * GR_PAGE;
	gr_slot_announce(gr_slot->state);
}
