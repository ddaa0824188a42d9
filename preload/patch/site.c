// The table of call sites, and patching them under running threads; see patch.h.
// Runs in: application threads, on the engine's stack.
// May call: raw system calls.
// Owns: the table.
#include "patch.h"

#include <linux/membarrier.h>
#include <signal.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "decode.h"

#define TABLE 4096 // sites; a power of two
#define PROBES 64

// How often a site traps before it is patched. A write to the text costs some 15 us, mostly the page's copy; a site that is
// patched forward needs a look through all of the object's code besides, about half a millisecond for libc.
#define WARM_BACKWARD 6
#define WARM_FORWARD 200

static struct gr_site table[TABLE];
static struct gr_site *chain; // all that were ever patched: a child does not look at the pages of the others
static uint64_t lowest = ~0ULL, highest;
static uint32_t locked;
bool gr_patch_rests;
static bool on, stopped;

void gr_plan_init(void);

void gr_patch_init(uint64_t program)
{
	gr_plan_init(); // whatever the knob says: INVARIANT(same-lookups)
	if (!gr_ctl->knob[GR_KNOB_patch])
		return;
	// Now, while there is one thread: later it would wait for all of the kernel.
	if (GR_RAW(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
		return;
	gr_stub_init(program);
	on = true;
}

// ---------------------------------------------------------------- the table
// Pieces of 64 KiB that have sites, by a hash: a program maps and unmaps between its libraries all the time.
#define PIECE 16 // bits of an address in it
#define FEW 64
static uint64_t pieces[64];

static void mark_piece(uint64_t addr)
{
	uint64_t hash = gr_hash_word(GR_HASH_SEED, addr >> PIECE) % (64 * 64);
	__atomic_fetch_or(&pieces[hash / 64], 1ULL << hash % 64, __ATOMIC_RELEASE);
}

static bool may_have_sites(uint64_t addr, uint64_t length)
{
	uint64_t piece = addr >> PIECE, last = (addr + length - 1) >> PIECE;
	if (addr > highest || addr + length <= lowest)
		return false;
	if (last - piece >= FEW)
		return true;
	for (; piece <= last; piece++) {
		uint64_t hash = gr_hash_word(GR_HASH_SEED, piece) % (64 * 64);
		if (__atomic_load_n(&pieces[hash / 64], __ATOMIC_ACQUIRE) >> hash % 64 & 1)
			return true;
	}
	return false;
}

static struct gr_site *find(uint64_t addr, bool add)
{
	uint64_t hash = gr_hash_word(GR_HASH_SEED, addr);
	for (unsigned i = 0; i < PROBES; i++) {
		struct gr_site *site = &table[(hash + i) % TABLE];
		uint64_t here = __atomic_load_n(&site->addr, __ATOMIC_ACQUIRE);
		if (here == addr)
			return site;
		if (here)
			continue;
		if (add) {
			lowest = addr < lowest ? addr : lowest;
			highest = addr > highest ? addr : highest;
			mark_piece(addr);
			__atomic_store_n(&site->addr, addr, __ATOMIC_RELEASE);
			return site;
		}
		break;
	}
	return NULL;
}

// Signals are blocked: a program's handler that makes a call would wait for its own thread.
static uint64_t lock(void)
{
	uint64_t most = ~GR_SIGNALS_KEPT, before = 0;
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &most, &before, 8);
	gr_latch(&locked);
	return before;
}

static void unlock(uint64_t before)
{
	gr_unlatch(&locked);
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
}

// ---------------------------------------------------------------- patching
static void set_state(struct gr_site *site, enum gr_site_state state)
{
	if (state == GR_SITE_PATCHED && !site->chained) {
		site->next = chain;
		site->chained = true;
		chain = site;
	}
	__atomic_store_n(&site->state, state, __ATOMIC_RELEASE);
}

// INVARIANT(tail-from-the-first-trap): what follows a forward site is executed in its stub from the first trap on, so when
// the jump is written over it, no thread is in it or comes to it. Recording under a debugger nothing is moved: nobody would
// come to a breakpoint there.
static void meet(struct gr_thread *self, struct gr_site *site)
{
	struct gr_plan plan;
	site->visits = 0;
	if (!gr_plan_make(self, site->addr, &plan))
		set_state(site, GR_SITE_TRAPS);
	else if (plan.backward)
		set_state(site, GR_SITE_READY); // nothing behind it moves, and its stub may never be needed
	else if (gr_mode == GR_MODE_RECORD && gr_slot->flags & GR_SLOT_DEBUGGED)
		set_state(site, GR_SITE_TRAPS);
	else
		set_state(site, gr_stub_make(site, &plan) ? GR_SITE_READY : GR_SITE_TRAPS);
}

// Nor under one that came later: a breakpoint behind a call would be written into the jump.
static bool is_traced(void)
{
	char text[2048];
	static const char name[] = "\nTracerPid:\t";
	long fd = GR_RAW(SYS_open, "/proc/self/status", 0, 0);
	long n = GR_IS_ERR(fd) ? 0 : GR_RAW(SYS_read, fd, text, sizeof text);
	if (!GR_IS_ERR(fd))
		GR_RAW(SYS_close, fd);
	for (long i = 0; i + (long)sizeof name < n; i++)
		if (memcmp(text + i, name, sizeof name - 1) == 0)
			return text[i + sizeof name - 1] != '0';
	return true;
}

static bool plan_jump(struct gr_thread *self, struct gr_site *site)
{
	struct gr_plan plan;
	if (site->stub)
		return !is_traced() && gr_plan_is_private(self, site->addr);
	return gr_plan_make(self, site->addr, &plan) && plan.backward && gr_stub_make(site, &plan);
}

// Other threads may be anywhere. Behind a backward site's first write, `mov` may load another number; whoever comes to the
// syscall with that one is put right in gr_patch_trapped.
static void patch(struct gr_thread *self, struct gr_site *site)
{
	if (!plan_jump(self, site)) {
		set_state(site, GR_SITE_KEPT);
		return;
	}
	memcpy(site->old, (const void *)site->jump, sizeof site->old);
	bool as_planned = site->backward ? site->old[0] == 0xb8 : site->old[0] == 0x0f;
	if (!as_planned || site->old[1] != site->fresh[1]) {
		set_state(site, GR_SITE_KEPT);
		return;
	}
	set_state(site, GR_SITE_PATCHED);
	if (!gr_text_write(site->jump + 2, site->fresh + 2, 3, GR_TEXT)) {
		set_state(site, GR_SITE_KEPT);
		return;
	}
	GR_RAW(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	gr_text_write(site->jump, site->fresh, 1, GR_TEXT);
}

// A number that was read while its `mov` was being written over: each byte is the old or the new one.
static void mend_number(const struct gr_site *site, struct gr_regs *frame)
{
	uint64_t number = frame->rax;
	if (number >> 32)
		return;
	for (unsigned i = 1; i < 5; i++, number >>= 8)
		if ((number & 0xff) != site->old[i] && (number & 0xff) != site->fresh[i])
			return;
	frame->rax = *(const uint32_t *)(site->old + 1);
}

void gr_patch_trapped(struct gr_thread *self, struct gr_regs *frame)
{
	uint64_t addr = frame->rip - 2;
	if (!on || gr_patch_rests)
		return;
	struct gr_site *site = find(addr, false);
	uint8_t state = site ? __atomic_load_n(&site->state, __ATOMIC_ACQUIRE) : GR_SITE_NEW;
	if ((state == GR_SITE_NEW || state == GR_SITE_GONE) && !stopped) {
		uint64_t before = lock();
		site = find(addr, true);
		if (site && (site->state == GR_SITE_NEW || site->state == GR_SITE_GONE))
			meet(self, site);
		unlock(before);
		state = site ? site->state : state;
	}
	if (!site)
		return;
	if (state == GR_SITE_READY) {
		uint32_t warm = site->stub ? WARM_FORWARD : WARM_BACKWARD;
		if (__atomic_add_fetch(&site->visits, 1, __ATOMIC_RELAXED) == warm) {
			uint64_t before = lock();
			if (site->state == GR_SITE_READY && !stopped)
				patch(self, site);
			unlock(before);
		}
		state = __atomic_load_n(&site->state, __ATOMIC_ACQUIRE);
	}
	if (state == GR_SITE_PATCHED && site->backward)
		mend_number(site, frame);
	if (state != GR_SITE_TRAPS && site->stub && !site->backward)
		frame->gs_base = site->tail;
}

// INVARIANT(all-by-the-door): a thread that makes its calls without the engine goes on behind a call's instruction, where a
// jump must not be written any more.
void gr_patch_stop(void)
{
	uint64_t before = lock();
	stopped = true;
	unlock(before);
}

// INVARIANT(tail-from-the-first-trap) holds for those, too, whom a signal's handler brings back behind the call.
uint64_t gr_patch_place(uint64_t pc)
{
	const struct gr_site *site = on ? find(pc - 2, false) : NULL;
	uint8_t state = site ? __atomic_load_n(&site->state, __ATOMIC_ACQUIRE) : GR_SITE_NEW;
	bool moved = state == GR_SITE_KEPT || state == GR_SITE_READY || state == GR_SITE_PATCHED;
	return moved && site->stub && !site->backward ? site->tail + GR_STUB_MOVED_AT : pc;
}

uint64_t gr_patch_keep(uint64_t code, uint64_t length)
{
	struct gr_insn insn;
	uint64_t n = 0;
	for (; on && n < length; n += insn.length)
		if (!gr_decode((const uint8_t *)code + n, 15, &insn) ||
		    (insn.kind != GR_INSN_PLAIN && insn.kind != GR_INSN_MEMORY))
			return 0;
	return on && n <= GR_STUB_MOVED ? gr_stub_moved((const void *)code, n, code + n) : 0;
}

void gr_patch_fresh(uint64_t code, uint32_t nr, uint8_t ret_bytes[5])
{
	struct gr_plan plan = {.backward = true, .nr = nr};
	ret_bytes[0] = 0xb8;
	memcpy(ret_bytes + 1, &nr, 4);
	struct gr_site *site = on ? find(code + 5, true) : NULL;
	if (!site || !gr_stub_make(site, &plan)) {
		if (site)
			set_state(site, GR_SITE_TRAPS);
		return;
	}
	memcpy(site->old, ret_bytes, sizeof site->old);
	memcpy(ret_bytes, site->fresh, sizeof site->fresh);
	set_state(site, GR_SITE_PATCHED);
}

// ---------------------------------------------------------------- unpatching
void gr_patch_original(uint64_t addr, uint64_t length, uint8_t *ret)
{
	memcpy(ret, (const void *)addr, length);
	for (const struct gr_site *site = chain; site; site = site->next)
		for (unsigned i = 0; i < sizeof site->old && site->state == GR_SITE_PATCHED; i++)
			if (site->jump + i >= addr && site->jump + i - addr < length)
				ret[site->jump + i - addr] = site->old[i];
}

void gr_patch_forget(uint64_t addr, uint64_t length)
{
	if (!may_have_sites(addr, length))
		return;
	uint64_t before = lock();
	for (unsigned i = 0; i < TABLE; i++) {
		struct gr_site *site = &table[i];
		if (site->addr && site->addr >= addr && site->addr - addr < length) {
			site->stub = 0;
			set_state(site, GR_SITE_GONE);
		}
	}
	unlock(before);
}

// Who is in the door goes on where the call stands, not in a stub.
static void leave_stubs(struct gr_thread *t)
{
	for (uint64_t top = (uint64_t)t + GR_BLOCK_STACK; top > t->stack; top -= GR_LEVEL)
		((struct gr_regs *)top - 1)->gs_base = 0;
}

bool gr_patch_undo(struct gr_thread *only)
{
	if (!on)
		return true;
	long fd = gr_text_open();
	on = false;
	for (const struct gr_site *site = chain; site; site = site->next)
		if (site->state == GR_SITE_PATCHED && !gr_text_put(fd, site->jump, site->old, sizeof site->old, GR_TEXT))
			gr_panic(gr_self, GR_PANIC_BUG, "the text at 0x%x cannot be put back", site->jump, 0);
	gr_text_close(fd);
	if (only)
		leave_stubs(only);
	for (unsigned i = 0; !only && i < gr_thread_blocks(); i++) {
		struct gr_thread *t = gr_thread_block(i);
		if (gr_thread_lives(t))
			leave_stubs(t);
	}
	return true;
}
