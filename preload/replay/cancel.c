// Cancellation; see cancel.h.
// Runs in: application threads; the handler of the kick in whatever it interrupted.
// May call: core, log; dlvsym, pthread_setcancelstate and -type in the constructor.
// Owns: signal 32 of the process being recorded; where the library keeps a thread's cancellation state.
#include "cancel.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../patch/decode.h"
#include "gate.h"

#define KICK 32 // glibc's own signal for this purpose, which it never gets to use
#define TCB_BYTES 0x2000 // more than any thread descriptor of glibc has
#define TCB_THREADS 0x18 // tcbhead_t.multiple_threads

void gr_canceled(void);
void gr_canceled_between(void);

void (*gr_cancel_on_open)(struct gr_thread *self, bool acts);

// The one byte of a thread's descriptor that a call changed, and which bits of it. It differs between versions of glibc.
struct spot { uint32_t offset; uint8_t bits; };
static struct spot asynchronous, disabled, cleanup;

static uint32_t links; // offset

// glibc 2.36 leaves out its cancellation points while this says so; before, a word of each thread's descriptor did.
static char *single_threaded;

static uint8_t before[TCB_BYTES];
static uint32_t before_bytes;

static struct spot changed(uint64_t fs_base)
{
	const uint8_t *now = (const uint8_t *)fs_base;
	for (uint32_t i = 0; i < before_bytes; i++)
		if (now[i] != before[i])
			return (struct spot){i, now[i] ^ before[i]};
	return (struct spot){0, 0};
}

static bool is_set(const struct gr_thread *t, struct spot spot)
{
	return *(const volatile uint8_t *)(t->fs_base + spot.offset) & spot.bits;
}

void gr_cancel_words(const struct gr_thread *t, uint64_t ret[2])
{
	ret[0] = asynchronous.bits ? (t->fs_base + asynchronous.offset) & ~7ULL : 0;
	ret[1] = cleanup.bits ? (t->fs_base + cleanup.offset) & ~7ULL : 0;
}

uint64_t gr_cancel_links(const struct gr_thread *t)
{
	return links ? t->fs_base + links : 0;
}

// glibc 2.41 makes the calls of its cancellation points at one place, __syscall_cancel_arch, and sets nothing: where they come back to.
static uint64_t point_behind;

static bool is_in_point(const struct gr_thread *t)
{
	return point_behind && (t->called == point_behind || (t->pub.state == GR_T_ENGINE && t->pub.ret_pc == point_behind));
}

static bool acts_anywhere(const struct gr_thread *t)
{
	return is_set(t, asynchronous) || is_in_point(t);
}

bool gr_cancel_in_point(const struct gr_thread *self)
{
	return acts_anywhere(self);
}

bool gr_cancel_open(const struct gr_thread *self)
{
	if (point_behind)
		__atomic_thread_fence(__ATOMIC_SEQ_CST); // the library stores nothing there
	return acts_anywhere(self) && !is_set(self, disabled);
}

// ---------------------------------------------------------------- the kick
static uint64_t libc_start, libc_end;

static int find_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	uint64_t inside = (uint64_t)data;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		if (info->dlpi_phdr[i].p_type != PT_LOAD || inside < start || inside >= start + info->dlpi_phdr[i].p_memsz)
			continue;
		libc_start = start;
		libc_end = start + info->dlpi_phdr[i].p_memsz;
		return 1;
	}
	return 0;
}

// INVARIANT(no-lost-kick): the flag is set before the kick. A kick in front of the check finds it set there; one between
// the check and the call, or in a call that the kernel would restart, moves the thread behind the call.
static void kicked(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t pc = regs[REG_RIP];
	struct gr_thread *self = gr_self;
	(void)sig;
	(void)info;
	if (gr_mode != GR_MODE_RECORD || !self)
		return;
	if (pc >= (uint64_t)gr_wait_check && pc < (uint64_t)gr_wait_done) {
		regs[REG_RAX] = GR_RESTART;
		regs[REG_RIP] = (greg_t)gr_wait_done;
		return;
	}
	// Where threads take turns it is at an operation, or was stopped for us.
	if (!gr_turn_on && self->cancel == 1 && gr_cancel_open(self))
		gr_cancel_on_open(self, false);
}

bool gr_cancel_is_due(const struct gr_thread *self, uint64_t pc)
{
	return self->cancel == 1 && gr_cancel_open(self) && (pc < libc_start || pc >= libc_end);
}

// Where the library links the handlers of its own functions that wait.
static void find_cleanup(uint64_t fs_base)
{
	struct { uint64_t word[4]; } buffer = {{0}}; // struct _pthread_cleanup_buffer
	void (*push)(void *, void (*)(void *), void *) = dlvsym(RTLD_DEFAULT, "_pthread_cleanup_push", "GLIBC_2.2.5");
	void (*pop)(void *, int) = dlvsym(RTLD_DEFAULT, "_pthread_cleanup_pop", "GLIBC_2.2.5");
	if (!push || !pop)
		return;
	push(&buffer, NULL, NULL);
	cleanup = changed(fs_base);
	pop(&buffer, 0);
}

// It is some direct calls away from each such function, and looks for itself whether its thread is cancelled before it calls.
#define FARTHEST 3
#define LOOKED_AT 128
static uint64_t find_point(uint64_t function, unsigned away)
{
	static const uint8_t landing[] = LANDING;
	static const uint8_t begins[] = {0x8b, 0x07, 0xf6, 0x07, 0x08}; // mov (%rdi),%eax; testb $8,(%rdi)
	static const uint8_t calls[] = {0x0f, 0x05, 0xc3}; // syscall; ret
	struct gr_insn insn;
	if (function < libc_start || function + LOOKED_AT > libc_end)
		return 0;
	if (!memcmp((const void *)function, landing, sizeof landing))
		function += sizeof landing;
	bool is_it = !memcmp((const void *)function, begins, sizeof begins);
	for (uint64_t pc = function; pc < function + LOOKED_AT && gr_decode((const uint8_t *)pc, 15, &insn); pc += insn.length) {
		if (is_it && !memcmp((const void *)pc, calls, sizeof calls))
			return pc + 2;
		bool leads_on = !is_it && away && (insn.kind == GR_INSN_CALL || insn.kind == GR_INSN_JMP) && insn.rel;
		uint64_t found = leads_on ? find_point(pc + insn.length + (uint64_t)(int64_t)insn.rel, away - 1) : 0;
		if (found)
			return found;
	}
	return 0;
}

void gr_cancel_init(uint64_t fs_base)
{
	static const struct { void *handler; uint64_t flags; void *restorer; uint64_t mask; } action = {
		kicked, SA_SIGINFO | SA_ONSTACK | SA_RESTART | 0x04000000, gr_restorer, ~GR_SIGNALS_KEPT,
	};
	// glibc 2.35 has 0x9c0 bytes and keeps the state near their end; 2.36 has 0x940, and nothing may be mapped behind them.
	const uint32_t *size = dlvsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread", "GLIBC_PRIVATE");
	const uint32_t *list = dlvsym(RTLD_DEFAULT, "_thread_db_pthread_list", "GLIBC_PRIVATE"); // bits, elements, offset
	int old;
	links = list ? list[2] : 0;
	before_bytes = size && *size <= sizeof before ? *size : 0;
	memcpy(before, (void *)fs_base, before_bytes);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	asynchronous = changed(fs_base);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	disabled = changed(fs_base);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	find_cleanup(fs_base);
	// A replay needs no kick, but see INVARIANT(same-lookups).
	dl_iterate_phdr(find_libc, gr_real[GR_WRAP_pthread_create]);
	single_threaded = dlvsym(RTLD_NEXT, "__libc_single_threaded", "GLIBC_2.32");
	point_behind = find_point((uint64_t)dlvsym(RTLD_DEFAULT, "pause", "GLIBC_2.2.5"), FARTHEST);
	if (gr_ctl->mode == GR_MODE_RECORD)
		GR_RAW(SYS_rt_sigaction, KICK, &action, 0, 8);
}

// ---------------------------------------------------------------- asking and acting
void gr_cancel_ask(struct gr_thread *t)
{
	uint32_t none = 0;
	if (!asynchronous.bits || !disabled.bits)
		gr_panic(gr_self, GR_PANIC_REFUSED,
			 "pthread_cancel: where this C library keeps the cancellation state of a thread is not known", 0, 0);
	if (!__atomic_compare_exchange_n(&t->cancel, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	// The library leaves out its cancellation points as long as a process has one thread, which may well cancel itself.
	*(volatile int *)(t->fs_base + TCB_THREADS) = 1;
	if (single_threaded)
		*(volatile char *)single_threaded = 0;
	if (gr_turn_on && t != gr_self)
		gr_turn_break(gr_self, t);
	// INVARIANT(no-needless-kick): it would end a wait that is no cancellation point. Who comes to one later looks at the flag behind the
	// library's atomic store that opens it.
	if (gr_mode == GR_MODE_RECORD && t->pub.tid && t != gr_self && gr_cancel_open(t))
		GR_RAW(SYS_tgkill, gr_pid(), t->pub.tid, KICK);
}

// INVARIANT(which-test): several pthread_testcancel may stand in one segment; the event says which of them acted.
static uint64_t count_of(const struct gr_thread *self, enum gr_cancel_at at)
{
	return at == GR_CANCEL_CHANGE ? self->changed : self->tested;
}

static bool acts_on_replay(struct gr_thread *self, enum gr_cancel_at at)
{
	struct gr_event ev;
	if (!gr_gate_peek(self, &ev) || ev.kind != GR_OP_CANCELED || ev.flags != at || ev.object != count_of(self, at))
		return false;
	gr_gate_next(self, GR_OP_CANCELED, 0, 0, &ev);
	return true;
}

// A loop of tests is in the engine nearly all the time, where nobody is stopped (signal/preempt): who is asked to give way
// does so here. INVARIANT(stopped-before-others): see there.
static void give_way(struct gr_thread *self)
{
	struct gr_event ev = {.kind = GR_OP_CANCELED, .flags = GR_CANCEL_GIVES, .object = self->tested}, on = {.kind = GR_OP_RESUME};
	if (gr_mode == GR_MODE_RECORD && gr_turn_asked(self)) {
		gr_log(self, &ev);
		gr_turn_step(self, GR_STEP_STOP);
		self->pub.op = GR_OP_RESUME;
		gr_log(self, &on);
	} else if (gr_mode != GR_MODE_RECORD && acts_on_replay(self, GR_CANCEL_GIVES)) {
		self->pub.op = GR_OP_RESUME;
		if (self->left) // else the recording ended before it went on
			gr_gate_next(self, GR_OP_RESUME, 0, 0, &on);
	}
}

bool gr_cancel_acts(struct gr_thread *self, enum gr_cancel_at at, bool point)
{
	if (self->tested_ops != self->pub.ops)
		self->tested = self->changed = 0;
	self->tested_ops = self->pub.ops;
	self->tested += at == GR_CANCEL_TEST;
	self->changed += at == GR_CANCEL_CHANGE;
	if (at == GR_CANCEL_TEST)
		give_way(self);
	if (self->cancel == 2 || is_set(self, disabled) || (!point && !acts_anywhere(self)))
		return false;
	if (gr_mode == GR_MODE_RECORD) {
		struct gr_event ev = {.kind = GR_OP_CANCELED, .flags = at, .object = count_of(self, at)};
		if (!__atomic_load_n(&self->cancel, __ATOMIC_SEQ_CST))
			return false;
		gr_cancel_on_open(self, true);
		gr_log(self, &ev);
	} else if (!acts_on_replay(self, at)) {
		return false;
	}
	self->cancel = 2;
	return true;
}

void gr_cancel_within(struct gr_thread *self)
{
	struct gr_leave *leave = self->leave;
	if (!leave || self->cancel == 2 || !gr_cancel_open(self) || !gr_cancel_acts(self, GR_CANCEL_WITHIN, true))
		return;
	self->leave = leave->outer;
	self->stack = leave->stack;
	self->program_rsp = leave->rsp;
	self->point = leave->point;
	self->blocks = GR_OP_NONE;
	self->called = 0;
	self->nest = 0;
	gr_ctx_restore(&leave->ctx);
}

// INVARIANT(unwinding-finds-it): gr_canceled_between knows that its caller's stack pointer is so much higher.
#define RED_ZONE 128

void gr_cancel_turn_between(uint64_t *rsp, uint64_t *rip)
{
	*rsp -= RED_ZONE + 8;
	*(uint64_t *)*rsp = *rip;
	*rip = (uint64_t)gr_canceled_between;
}

void gr_cancel_turn(struct gr_regs *frame)
{
	frame->rsp -= 8;
	*(uint64_t *)frame->rsp = frame->rip;
	frame->rip = (uint64_t)gr_canceled;
}
