// What a digest leaves out; see mask.h.
// Runs in: application threads.
// May call: core.
// Owns: the known primitives.
#include "mask.h"

#include <pthread.h>
#include <stddef.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../heap/stack.h"
#include "../replay/cancel.h"
#include "digest.h"
#include "kept.h"
#include "loader.h"

#define PRIMITIVES 0x20000
#define CHAINS 0x10000
#define GRANULE 512U // bytes whose primitives stand in one chain
#define RECENT 0x20000
#define KIND_SIMPLE 3 // __kind of a mutex: normal, recursive and errorcheck ones are below, adaptive, robust and PI ones not
#define SPANS (8 * GR_LIVE_THREADS + DEAD_STACKS + 2)
#define DESCRIPTOR 0x900 // bytes of a thread's descriptor (glibc 2.35 and 2.36)
#define DEAD_STACKS 4096 // heap/stack.c knows no more

enum kind { NONE, MUTEX, CONDITION, RWLOCK, BARRIER, SEMAPHORE };

#define LARGEST sizeof(pthread_rwlock_t)
_Static_assert(LARGEST <= GRANULE, "one granule in front of a page is looked at");

// INVARIANT(chains-only-grow): a chain is sorted by address, nothing is ever taken out of it, and what is put in is whole; so it is read
// and added to without a lock, by any number of threads, and in the middle of each other.
static struct primitive { uint64_t addr; uint32_t kind, next; } primitives[PRIMITIVES]; // the first is none
static uint32_t chains[CHAINS]; // by granule, several in one
static uint32_t primitives_count;
static uint64_t recent[RECENT]; // addresses with kinds, by address: these are in a chain
static struct span { uint64_t start, end; } spans[SPANS]; // sorted by address
static uint32_t spans_count, spans_at;
static uint32_t tids[GR_LIVE_THREADS * (2 + GR_FORMER)], tids_count;
static uint64_t tids_bits[16]; // by the low 10 bits: most words are not there
static uint64_t main_lowest, main_left, main_descriptor;

// ---------------------------------------------------------------- primitives
static uint32_t *chain_of(uint64_t addr)
{
	return &chains[gr_hash_word(GR_HASH_SEED, addr / GRANULE) % CHAINS];
}

// The first one that is not below `addr`, 0 if there is none, and the link that leads there.
static uint32_t find(uint64_t addr, uint32_t **ret_link)
{
	uint32_t *link = chain_of(addr), at;
	while ((at = __atomic_load_n(link, __ATOMIC_ACQUIRE)) && primitives[at].addr < addr)
		link = &primitives[at].next;
	*ret_link = link;
	return at;
}

// False if there is no room for one more.
static bool add(uint64_t addr, enum kind kind)
{
	uint32_t *link, fresh = 0;
	for (;;) {
		uint32_t at = find(addr, &link);
		if (at && primitives[at].addr == addr) { // what was taken in vain, because somebody else was faster, stays unused
			__atomic_store_n(&primitives[at].kind, kind, __ATOMIC_RELAXED);
			return true;
		}
		if (!fresh) {
			if (__atomic_load_n(&primitives_count, __ATOMIC_RELAXED) >= PRIMITIVES - 1)
				return false;
			fresh = __atomic_add_fetch(&primitives_count, 1, __ATOMIC_RELAXED);
			if (fresh >= PRIMITIVES)
				return false;
		}
		primitives[fresh] = (struct primitive){addr, kind, at};
		if (__atomic_compare_exchange_n(link, &at, fresh, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return true;
	}
}

static enum kind kind_of(enum gr_op op)
{
	switch (op) {
	case GR_OP_MUTEX_LOCK:
	case GR_OP_MUTEX_TRYLOCK:
	case GR_OP_MUTEX_UNLOCK:
	case GR_OP_MUTEX_STATE:
		return MUTEX;
	case GR_OP_COND_WAIT:
	case GR_OP_COND_WOKEN:
	case GR_OP_COND_SIGNAL:
	case GR_OP_COND_STATE:
		return CONDITION;
	case GR_OP_RWLOCK_READ:
	case GR_OP_RWLOCK_WRITE:
	case GR_OP_RWLOCK_UNLOCK:
		return RWLOCK;
	case GR_OP_BARRIER_ARRIVE:
	case GR_OP_BARRIER_LEAVE:
	case GR_OP_BARRIER_STATE:
		return BARRIER;
	case GR_OP_SEM_WAIT:
	case GR_OP_SEM_POST:
	case GR_OP_SEM_READ:
		return SEMAPHORE;
	default: // spinlocks and what happens once are kept byte by byte
		return NONE;
	}
}

static bool is_simple(uint64_t mutex)
{
	return (uint32_t)((pthread_mutex_t *)mutex)->__data.__kind < KIND_SIMPLE;
}

// INVARIANT(same-primitives): what is known depends on the operations so far, not on their order, so a recording and its
// replay know the same ones whenever everybody stands.
void gr_mask_primitive(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	enum kind kind = kind_of(op);
	uint64_t *place = &recent[(object / 8 ^ object >> 20) % RECENT], word = object | kind;
	if (kind == NONE || __atomic_load_n(place, __ATOMIC_RELAXED) == word)
		return;
	// On replay the engine keeps a simple mutex as the library does, but for who waits for it. That nobody looks at while others
	// may wait, but where one thread at a time runs (every order but `parallel`).
	if (!gr_digest_on() && gr_ctl->knob[GR_KNOB_order] == 0 && kind == MUTEX && (op == GR_OP_MUTEX_STATE || is_simple(object)))
		return;
	if (add(object, kind)) {
		__atomic_store_n(place, word, __ATOMIC_RELAXED);
		gr_kept_changed(object, object + LARGEST);
	}
	else if (gr_digest_on())
		gr_panic(self, GR_PANIC_REFUSED, "digests of a program with more than %u locks\n"
			 "record without --digest", PRIMITIVES, 0);
}

// ---------------------------------------------------------------- this process, now
static void add_span(uint64_t start, uint64_t end)
{
	uint32_t i = spans_count++;
	for (; i && spans[i - 1].start > start; i--)
		spans[i] = spans[i - 1];
	spans[i] = (struct span){start, end};
}

static void add_tid(uint32_t tid)
{
	tids[tids_count++] = tid;
	tids_bits[tid / 64 % 16] |= 1ULL << tid % 64;
}

// While the library waits on behalf of an operation, which it does not on replay, a thread's descriptor says so: how it may be
// cancelled meanwhile, and that somebody is about to join it, whose descriptor stands there. And which block the engine has for it.
static void add_waiting(const struct gr_thread *self, const struct gr_thread *t)
{
	uint64_t words[2], at[DESCRIPTOR / 8], block = t->fs_base + ((uint64_t)&gr_self - self->fs_base);
	gr_cancel_words(t, words);
	for (unsigned i = 0; i < 2; i++)
		if (words[i])
			add_span(words[i], words[i] + 8);
	add_span(block, block + 8);
	size_t n = gr_peek(at, t->fs_base, sizeof at) / 8;
	for (size_t i = 0; i < n; i++)
		if (at[i] && at[i] % 64 == 0 && at[i] != t->fs_base && gr_thread_by_descriptor(at[i])) {
			add_span(t->fs_base + i * 8, t->fs_base + i * 8 + 8);
			return;
		}
}

// What threads do with each other's descriptors behind the engine's back: where two really run beside each other, in which order is in
// no recording. A thread that was born detached takes itself out of the library's list, and keeps the neighbours it had then.
static void add_links(const struct gr_thread *t)
{
	uint64_t links = gr_cancel_links(t);
	if (links)
		add_span(links, links + 16);
}

static void add_thread(const struct gr_thread *self, const struct gr_thread *t, uint64_t lowest)
{
	add_waiting(self, t);
	// Below that a stack is dead: there stand the frames of the engine's own signals.
	add_span(lowest - GR_DEAD_STACK, lowest);
	// The kernel's id of a thread in its descriptor.
	if (t->ctid)
		add_span((uint64_t)t->ctid, (uint64_t)t->ctid + sizeof *t->ctid);
	// The list of robust mutexes it holds: the library's pointer to its end, then the kernel's to its beginning, to its offset
	// and to the one that is about to be taken, which some functions of glibc 2.36 leave there when they have failed.
	if (t->robust)
		add_span(t->robust - 8, t->robust + 24);
	add_tid(t->pub.tid);
	if (t->pub.recorded_tid != t->pub.tid) // by which the engine names owners: some copy may have that number, too
		add_tid(t->pub.recorded_tid);
	for (unsigned i = 0; i < GR_FORMER && t->pub.was[i]; i++) // a lock that it has held since before this copy was made
		add_tid(t->pub.was[i]);
	if (t->pub.index == 0)
		main_lowest = lowest;
}

void gr_mask_main_left(const struct gr_thread *self, uint64_t lowest)
{
	main_left = lowest;
	main_descriptor = self->fs_base;
}

void gr_mask_begin(struct gr_thread *self, uint64_t lowest)
{
	spans_count = spans_at = tids_count = 0;
	main_lowest = 0;
	memset(tids_bits, 0, sizeof tids_bits);
	add_thread(self, self, lowest);
	struct gr_counters counters = gr_loader_counters();
	add_span(counters.start, counters.end);
	if (main_left) { // its block may be another's by now
		add_span(main_left - GR_DEAD_STACK, main_left);
		add_span(main_descriptor, main_descriptor + DESCRIPTOR);
		main_lowest = main_left;
	}
	uint64_t start, end;
	for (uint32_t i = 0; gr_stack_next_dead(&i, &start, &end);)
		add_span(start, end);
	bool beside = !gr_ctl->knob[GR_KNOB_order] && !gr_thread_is_alone(self);
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (t != self && gr_thread_lives(t))
			add_thread(self, t, gr_thread_stands(t)->rsp - GR_RED_ZONE);
		if (beside && gr_thread_lives(t))
			add_links(t);
	}
}

uint64_t gr_mask_start(const struct gr_area *area)
{
	if (area->stack && main_lowest >= area->start && main_lowest < area->end)
		return main_lowest & ~(uint64_t)(GR_PAGE - 1);
	return area->start;
}

// ---------------------------------------------------------------- a page
static bool is_tid(uint32_t word)
{
	if (!word || !(tids_bits[word / 64 % 16] & 1ULL << word % 64))
		return false;
	for (uint32_t i = 0; i < tids_count; i++)
		if (tids[i] == word)
			return true;
	return false;
}

// A lock names its owner by the kernel's id of the thread, which is another one in every process: it is looked for where the
// words around say that it is one, because libc and the loader have locks of their own. What is kept is whether there is an owner.
//	pthread_mutex_t:  lock, count, OWNER, users, kind, spins, list[4]   (robust and PI: the id is in `lock` too; who waits for a
//	                  condition is one of the users)
//	pthread_rwlock_t: readers, writers, phase, writers' futex, 0, 0, OWNER, shared
// INVARIANT(no-owner-by-chance): every word of the lock is looked at; numbers that happen to be a thread's id are frequent.
static bool owns_mutex(uint64_t at)
{
	uint32_t m[10];
	if (gr_peek(m, at - 8, sizeof m) != sizeof m || !m[3] || m[3] > GR_LIVE_THREADS || m[4] >= 0x400 || m[1] >= 0x10000 || m[5] >= 0x10000)
		return false;
	bool robust = m[4] & 16, inherits = m[4] & 32;
	if (robust || inherits)
		return (m[0] & 0x3fffffff) == m[2];
	return (m[0] == 1 || m[0] == 2) && !(m[6] | m[7] | m[8] | m[9]);
}

static bool owns_rwlock(uint64_t at)
{
	uint32_t m[8];
	return gr_peek(m, at - 24, sizeof m) == sizeof m && (m[0] & 3) == 3 && (m[2] == 1 || m[2] == 3) && m[3] <= 3 && !m[4] &&
	       !m[5] && m[7] <= 1;
}

static void clear_owner(uint64_t addr, uint32_t *words, unsigned i)
{
	bool mutex = owns_mutex(addr + i * 4);
	if (!mutex && !owns_rwlock(addr + i * 4))
		return;
	words[i] = 1;
	if (mutex && i >= 2)
		words[i - 2] = 1;
}

static void clear(uint64_t addr, uint8_t *page, uint64_t start, uint64_t end)
{
	start = start > addr ? start : addr;
	end = end < addr + GR_PAGE ? end : addr + GR_PAGE;
	if (start < end)
		memset(page + (start - addr), 0, end - start);
}

static void flatten(uint64_t addr, uint8_t *page, uint64_t at)
{
	uint32_t word;
	if (at < addr || at + sizeof word > addr + GR_PAGE)
		return;
	memcpy(&word, page + (at - addr), sizeof word);
	word = word != 0;
	memcpy(page + (at - addr), &word, sizeof word);
}

static void shift(uint64_t addr, uint8_t *page, uint64_t at, unsigned bits)
{
	uint32_t word;
	if (at < addr || at + sizeof word > addr + GR_PAGE)
		return;
	memcpy(&word, page + (at - addr), sizeof word);
	word >>= bits;
	memcpy(page + (at - addr), &word, sizeof word);
}

// The library counts who waits for reading among the readers: they stand at the lock.
static bool is_stood_at(uint64_t object)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (gr_thread_lives(t) && gr_thread_stands_at(t, object))
			return true;
	}
	return false;
}

// On replay the library's functions do not run (sync/op.h); the engine keeps what a program or a person can ask of a
// primitive, and that stays: whether it is held, how often, by how many readers. What says how the library waits goes.
static void clear_primitive(uint64_t addr, uint8_t *page, uint64_t object, enum kind kind)
{
	switch (kind) {
	case NONE:
		break;
	case MUTEX: // who holds it (by kernel id), how long the last one spun, the list of robust ones
		flatten(addr, page, object + offsetof(struct __pthread_mutex_s, __lock));
		flatten(addr, page, object + offsetof(struct __pthread_mutex_s, __owner));
		clear(addr, page, object + offsetof(struct __pthread_mutex_s, __spins), object + offsetof(struct __pthread_mutex_s, __elision));
		clear(addr, page, object + offsetof(struct __pthread_mutex_s, __list), object + sizeof(struct __pthread_mutex_s));
		break;
	case CONDITION: // not touched on replay, where the order says who wakes
		clear(addr, page, object, object + sizeof(pthread_cond_t));
		break;
	case RWLOCK: // below the number of readers stand three bits that say whose turn it is
		if (is_stood_at(object))
			clear(addr, page, object, object + sizeof(uint32_t));
		else
			shift(addr, page, object + offsetof(struct __pthread_rwlock_arch_t, __readers), 3);
		clear(addr, page, object + offsetof(struct __pthread_rwlock_arch_t, __writers),
		      object + offsetof(struct __pthread_rwlock_arch_t, __cur_writer));
		flatten(addr, page, object + offsetof(struct __pthread_rwlock_arch_t, __cur_writer));
		break;
	case SEMAPHORE: // how many wait, above the value
		clear(addr, page, object + 4, object + 8);
		break;
	case BARRIER: // not touched on replay, either: who came in, the round, and behind two words of attributes who went out
		clear(addr, page, object, object + 8);
		clear(addr, page, object + 16, object + 20);
		break;
	}
}

bool gr_mask_spans(uint64_t addr)
{
	while (spans_at < spans_count && spans[spans_at].end <= addr)
		spans_at++;
	return spans_at < spans_count && spans[spans_at].start < addr + GR_PAGE;
}

void gr_mask_apply(uint64_t addr, uint8_t page[GR_PAGE])
{
	uint32_t *words = (uint32_t *)page;
	for (unsigned i = 0; i < GR_PAGE / 4; i += 2) // locks are aligned to 8 bytes
		if (is_tid(words[i]))
			clear_owner(addr, words, i);
	gr_mask_spans(addr);
	for (uint32_t i = spans_at; i < spans_count && spans[i].start < addr + GR_PAGE; i++)
		clear(addr, page, spans[i].start, spans[i].end);
	gr_mask_only_primitives(addr, page);
}

bool gr_mask_only_primitives(uint64_t addr, uint8_t page[GR_PAGE])
{
	bool any = false;
	if (!__atomic_load_n(&primitives_count, __ATOMIC_RELAXED))
		return false;
	for (uint64_t start = addr - GRANULE; start != addr + GR_PAGE; start += GRANULE)
		for (uint32_t at = __atomic_load_n(chain_of(start), __ATOMIC_ACQUIRE); at; at = __atomic_load_n(&primitives[at].next, __ATOMIC_ACQUIRE)) {
			uint64_t object = primitives[at].addr;
			if (object / GRANULE != start / GRANULE || object + LARGEST <= addr)
				continue;
			any = true;
			if (page)
				clear_primitive(addr, page, object, __atomic_load_n(&primitives[at].kind, __ATOMIC_RELAXED));
		}
	return any;
}
