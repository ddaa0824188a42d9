// Actions: the kernel gets the engine's handler for every signal that the program handles; see action.h.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: the table of actions and its lock.
#include "action.h"

#include <errno.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"

#define KNOWN_FLAGS 0xdc000007ULL // what the kernel keeps of sa_flags, with SA_RESTORER
#define PASSED_ON (SA_NOCLDSTOP | SA_NOCLDWAIT)
#define UNBLOCKABLE (GR_BIT(SIGKILL) | GR_BIT(SIGSTOP))
#define ASKING (GR_BIT(SIGHUP) | GR_BIT(SIGINT) | GR_BIT(SIGQUIT) | GR_BIT(SIGTERM) | GR_BIT(SIGUSR1) | GR_BIT(SIGUSR2))
#define STOPPING (GR_BIT(SIGTSTP) | GR_BIT(SIGTTIN) | GR_BIT(SIGTTOU))

static struct gr_sigact table[GR_SIGNALS];
static uint32_t locked;
uint64_t gr_sigact_handled;

// No handler of the engine takes the lock in a thread that holds it: they do so only in the program's code.
void gr_sigact_lock(void)
{
	gr_latch(&locked);
}

void gr_sigact_unlock(void)
{
	gr_unlatch(&locked);
}

static bool is_engines(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGSYS || sig == SIGTRAP;
}

// INVARIANT(always-restart): the engine's handler is installed with SA_RESTART whatever the program wants, so that a
// call which the kernel would restart stands at its instruction again when the handler sees it; what the program gets
// is decided behind it (gr_signal_wait).
static void install(int sig, const struct gr_sigact *wanted)
{
	struct gr_sigact act = *wanted;
	if (gr_mode == GR_MODE_REPLAY || is_engines(sig))
		return;
	if (gr_sigact_runs(wanted))
		act = (struct gr_sigact){
			.handler = (uint64_t)gr_signal_arrive,
			.flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | GR_SA_RESTORER | (wanted->flags & PASSED_ON),
			.restorer = (uint64_t)gr_restorer,
			.mask = ~GR_SIGNALS_KEPT,
		};
	GR_RAW(SYS_rt_sigaction, sig, &act, 0, 8);
}

static void put(int sig, const struct gr_sigact *act)
{
	table[sig] = *act;
	if (gr_sigact_runs(act))
		gr_sigact_handled |= GR_BIT(sig) & ~GR_SIGNALS_KEPT;
	else
		gr_sigact_handled &= ~GR_BIT(sig);
}

// INVARIANT(meant-for-the-recorded): copies of the program have its name, and who signals all that have it means the one that is
// being recorded. What a replay gets is in its demo. A debugger is told all the same.
static void deafen(void)
{
	const struct gr_sigact ignored = {.handler = 1};
	for (int sig = 1; sig < GR_SIGNALS; sig++)
		if ((ASKING | STOPPING) & GR_BIT(sig))
			GR_RAW(SYS_rt_sigaction, sig, &ignored, 0, 8);
}

void gr_sigact_init(void)
{
	for (int sig = 1; sig < GR_SIGNALS; sig++)
		GR_RAW(SYS_rt_sigaction, sig, 0, &table[sig], 8);
	if (gr_ctl->mode == GR_MODE_REPLAY)
		deafen();
}

void gr_sigact_give_back(bool alone)
{
	static uint32_t given;
	if (__atomic_exchange_n(&given, 1, __ATOMIC_ACQ_REL)) // by another thread; the program may have changed them since
		return;
	for (int sig = 1; sig < GR_SIGNALS; sig++)
		if ((is_engines(sig) && (sig != SIGSYS || alone)) || gr_sigact_runs(&table[sig]))
			GR_RAW(SYS_rt_sigaction, sig, &table[sig], 0, 8);
}

const struct gr_sigact *gr_sigact_all(void)
{
	return table;
}

struct gr_sigact gr_sigact_get(int sig)
{
	gr_sigact_lock();
	struct gr_sigact act = table[sig];
	gr_sigact_unlock();
	return act;
}

bool gr_sigact_is_default(int sig)
{
	return !__atomic_load_n(&table[sig].handler, __ATOMIC_RELAXED);
}

struct gr_sigact gr_sigact_take(int sig)
{
	struct gr_sigact act = table[sig];
	if (act.flags & SA_RESETHAND && gr_sigact_runs(&act)) {
		struct gr_sigact gone = act;
		gone.handler = 0;
		put(sig, &gone);
		install(sig, &gone);
	}
	return act;
}

bool gr_sigact_ignores(const struct gr_sigact *act, int sig)
{
	bool by_default = sig == SIGCHLD || sig == SIGWINCH || sig == SIGURG || sig == SIGCONT;
	return act->handler == 1 || (act->handler == 0 && by_default);
}

void gr_signal_requeue(int sig, const struct gr_siginfo *info)
{
	GR_RAW(SYS_rt_tgsigqueueinfo, gr_pid(), gr_tid(), sig, info);
}

void gr_sigact_default(int sig, const struct gr_siginfo *info)
{
	const struct gr_sigact dfl = {0};
	uint64_t only = GR_BIT(sig);
	GR_RAW(SYS_rt_sigaction, sig, &dfl, 0, 8);
	gr_signal_requeue(sig, info);
	GR_RAW(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, 0, 8);
}

long gr_sigaction(long sig, uint64_t act, uint64_t old, uint64_t size)
{
	struct gr_sigact wanted, was;
	if (size != 8 || sig < 1 || sig >= GR_SIGNALS || (act && (sig == SIGKILL || sig == SIGSTOP)))
		return -EINVAL;
	if (act && gr_peek(&wanted, act, sizeof wanted) != sizeof wanted)
		return -EFAULT;
	was = table[sig];
	if (act) {
		wanted.flags &= KNOWN_FLAGS;
		wanted.mask &= ~UNBLOCKABLE;
		put(sig, &wanted);
		install(sig, &wanted);
	}
	return old && gr_poke(old, &was, sizeof was) != sizeof was ? -EFAULT : 0;
}
