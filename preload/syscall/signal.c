// Handlers and masks: the program's own are installed for real, those the engine needs are kept out of its sight.
// Runs in: application threads; gr_fault in whatever the fault interrupted.
// May call: core, log, replay.
// Owns: SIGSYS and SIGTRAP as the program sees them, and the default action of the four synchronous faults.
#include <signal.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../replay/gate.h"
#include "dispatch.h"

struct ksigaction { void *handler; uint64_t flags; void *restorer; uint64_t mask; };

#define BIT(sig) (1ULL << ((sig)-1))
// Never blocked: a blocked SIGSYS kills the process at its next call, a blocked SIGTRAP loses the hits of a search.
// A fault in gr_copy ends it, so SIGSEGV and SIGBUS stay open too.
#define KEPT (BIT(SIGSYS) | BIT(SIGTRAP) | BIT(SIGSEGV) | BIT(SIGBUS))

static bool is_fault(long sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL;
}

// A fault that the program does not handle is the thread's last operation. On replay it recurs by itself; the tick says
// when. Behind it the default action takes its course.
static void fault(int sig, siginfo_t *info, void *context)
{
	struct gr_thread *self = gr_self;
	struct ksigaction dfl = {0};
	if (gr_copy_recover(context))
		return;
	bool own = info->si_code > 0;
	if (gr_mode != GR_MODE_OFF && self && self->pub.state == GR_T_RUNNING && own) {
		struct gr_event ev = {.kind = GR_OP_FAULT, .nr = sig, .object = (uint64_t)info->si_addr};
		gr_show_context(self, context);
		self->pub.state = GR_T_ENGINE;
		self->pub.ret_pc = 0;
		if (gr_mode == GR_MODE_RECORD) {
			gr_log(self, &ev);
		} else {
			gr_gate_next(self, GR_OP_FAULT, sig, ev.object, &ev);
			gr_gate_behind(self);
		}
	}
	GR_RAW(SYS_rt_sigaction, sig, &dfl, 0, 8);
	if (!own)
		GR_RAW(SYS_tgkill, gr_pid(), gr_tid(), sig);
}

static const struct ksigaction fault_action = {
	.handler = fault, .flags = SA_SIGINFO | SA_NODEFER | 0x04000000, .restorer = gr_restorer, .mask = 0,
};

void gr_fault_init(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
		GR_RAW(SYS_rt_sigaction, signals[i], &fault_action, 0, 8);
	uint64_t kept = KEPT;
	GR_RAW(SYS_rt_sigprocmask, SIG_UNBLOCK, &kept, 0, 8);
	gr_copy_guarded = true;
}

// What the program believes about the signals that are the engine's; it never reaches the kernel.
static struct ksigaction believed[2];

long gr_sigaction(struct gr_call *call)
{
	long sig = call->arg[0];
	const struct ksigaction *act = (const struct ksigaction *)call->arg[1];
	struct ksigaction *old = (struct ksigaction *)call->arg[2];
	struct ksigaction mine, was = {0};
	if (sig == SIGSYS || (sig == SIGTRAP && gr_mode == GR_MODE_REPLAY)) {
		struct ksigaction *mine_believed = &believed[sig == SIGTRAP];
		was = *mine_believed;
		if (act)
			*mine_believed = *act;
		if (old)
			*old = was;
		return 0;
	}
	if (act) {
		mine = *act;
		mine.mask &= ~KEPT;
		if (is_fault(sig) && mine.handler == SIG_DFL)
			mine = fault_action;
	}
	if (act && (sig == SIGSEGV || sig == SIGBUS) && mine.handler != fault_action.handler)
		gr_copy_guarded = false; // for good: two signals, many threads
	long ret = GR_RAW(SYS_rt_sigaction, sig, act ? &mine : NULL, &was, call->arg[3]);
	if (!ret && old) {
		if (was.handler == (void *)fault)
			was = (struct ksigaction){0};
		*old = was;
	}
	return ret;
}

long gr_sigprocmask(struct gr_call *call)
{
	const uint64_t *set = (const uint64_t *)call->arg[1];
	uint64_t mine = set ? *set & ~KEPT : 0;
	return GR_RAW(SYS_rt_sigprocmask, call->arg[0], set ? &mine : NULL, call->arg[2], call->arg[3]);
}
