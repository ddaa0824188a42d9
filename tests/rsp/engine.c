// A tiny engine for the proxy's tests: two threads, operations in a fixed order, landing by single steps.
// Runs in: tests/rsp/program, as libgdbrr.so. May call: libc, outside of the traced code.
// Owns: struct fake, shared with tests/rsp/fake.py, which mirrors its layout.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { STARTING, RUNNING, STANDING, TRAPPED, ENDED };

struct regs {
	uint64_t r[20]; // rax rbx rcx rdx rsi rdi rbp rsp r8-r15 rip eflags fs_base gs_base
};

struct view {
	uint64_t tid, in_engine, trapped, tick, ops, ret_pc, on_rip;
	struct regs regs;
};

struct entry {
	uint64_t tick, thread, value;
	struct regs regs;
};

#define ENTRIES 40000
#define TICKS 64

struct fake {
	uint64_t state, seq, stop_tick, tick, ticks, debugged, trap_pc;
	uint64_t want_tick, want_pc, want_nth;
	uint64_t tracing, watch_addr, watch_len, entries;
	uint64_t live, crash;
	uint64_t order[TICKS];
	struct view view[2];
	struct entry entry[ENTRIES];
};

static struct fake *fake;
// INVARIANT(turn-is-given): a thread goes on when the one that parked last has given it the turn, and by nothing that it
// could see for itself: one that wakes late would run while the other is about to stand.
static volatile int turns, parked, turn = -1;
static uint64_t found;
extern char gr_fake_op_end[], gr_fake_trap_end[];
static __thread int self = -1;

static void futex_wait(volatile void *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, 0, 0, 0);
}

static void futex_wake(volatile void *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 100, 0, 0, 0);
}

void gr_fake_trap(void);
__asm__(".text\n.globl gr_fake_trap\ngr_fake_trap: int3\n.globl gr_fake_trap_end\ngr_fake_trap_end: ret\n");

// Tell the controller where we are, and wait for its word.
static void stand(uint64_t state)
{
	uint32_t seq = *(volatile uint32_t *)&fake->seq;
	// Read first: behind the announcement the controller may attach a debugger for the *next* run.
	bool debugged = *(volatile uint64_t *)&fake->debugged;
	__atomic_store_n(&fake->state, state, __ATOMIC_RELEASE);
	if (debugged && state != TRAPPED)
		gr_fake_trap();
	while (*(volatile uint32_t *)&fake->seq == seq)
		futex_wait(&fake->seq, seq);
	fake->state = RUNNING;
}

static void turn_over(void)
{
	__atomic_store_n(&turn, (int)fake->order[fake->tick], __ATOMIC_RELEASE);
	__atomic_add_fetch(&turns, 1, __ATOMIC_SEQ_CST);
	futex_wake(&turns);
}

// Returns whether the segment that begins here is to be single-stepped.
__attribute__((visibility("hidden"))) uint64_t gr_fake_gate(struct regs *regs)
{
	if (self < 0)
		self = syscall(SYS_gettid) != getpid();
	struct view *view = &fake->view[self];
	view->regs = *regs;
	view->ret_pc = regs->r[16];
	view->regs.r[16] -= 5; // shown at its call
	view->tid = (uint64_t)syscall(SYS_gettid);
	view->in_engine = 1;
	if (__atomic_add_fetch(&parked, 1, __ATOMIC_SEQ_CST) == 2) {
		if (fake->tick == fake->ticks) {
			if (fake->live)
				_exit(7);
			// As the real engine: released at the end, it runs what was under way behind the last operation.
			for (;;) {
				stand(ENDED);
				if (fake->crash) {
					view->in_engine = 0;
					*(volatile int *)8 = 1;
				}
			}
		}
		if (fake->tick == fake->stop_tick)
			stand(STANDING);
		turn_over();
	}
	for (;;) {
		int seen = turns;
		if (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) == self)
			break;
		futex_wait(&turns, (uint32_t)seen);
	}
	turn = -1;
	view->tick = fake->tick++;
	view->ops++;
	view->in_engine = 0;
	found = 0;
	__atomic_sub_fetch(&parked, 1, __ATOMIC_SEQ_CST);
	return fake->tracing || (fake->want_pc && fake->want_tick == view->tick);
}

void gr_fake_op(void);
__asm__(".text\n.globl gr_fake_op\n.type gr_fake_op,@function\ngr_fake_op:\n"
	"pushfq\n push %r15\n push %r14\n push %r13\n push %r12\n push %r11\n push %r10\n push %r9\n push %r8\n"
	"push %rsp\n push %rbp\n push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %rbx\n push %rax\n"
	// rax .. rdi at 0..40, rbp 48, rsp 56, r8 .. r15 at 64..120, eflags 128, return address 136
	"sub $176, %rsp\n"
	"lea 176(%rsp), %rsi\n mov %rsp, %rdi\n mov $16, %ecx\n rep movsq\n"
	"mov 312(%rsp), %rax\n mov %rax, 128(%rsp)\n"  // rip
	"mov 304(%rsp), %rax\n mov %rax, 136(%rsp)\n"  // eflags
	"lea 320(%rsp), %rax\n mov %rax, 56(%rsp)\n"   // rsp before the call
	"mov %fs:0, %rax\n mov %rax, 144(%rsp)\n movq $0, 152(%rsp)\n"
	"mov %rsp, %rdi\n mov %rsp, %rbp\n and $-16, %rsp\n call gr_fake_gate\n mov %rbp, %rsp\n"
	"add $176, %rsp\n shl $8, %rax\n or %rax, 128(%rsp)\n"
	"pop %rax\n pop %rbx\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n pop %rbp\n lea 8(%rsp), %rsp\n"
	"pop %r8\n pop %r9\n pop %r10\n pop %r11\n pop %r12\n pop %r13\n pop %r14\n pop %r15\n popfq\n ret\n"
	".globl gr_fake_op_end\ngr_fake_op_end:\n.size gr_fake_op, .-gr_fake_op\n");

static void context_regs(struct regs *out, const greg_t *g)
{
	static const int from[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
				   REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP, REG_EFL};
	for (int i = 0; i < 18; i++)
		out->r[i] = (uint64_t)g[from[i]];
	out->r[17] &= ~0x10100ull; // TF and RF are ours
	__asm__("mov %%fs:0, %0" : "=r"(out->r[18]));
	out->r[19] = 0;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	ucontext_t *uc = context;
	greg_t *g = uc->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)g[REG_RIP];
	struct view *view = &fake->view[self];
	// Entering the engine ends the segment; leaving it is the instructions of gr_fake_op behind popfq.
	if (pc >= (uint64_t)gr_fake_op && pc < (uint64_t)gr_fake_op_end) {
		if (pc == (uint64_t)gr_fake_op)
			g[REG_EFL] &= ~0x100;
		return;
	}
	if (fake->tracing && fake->entries < ENTRIES) {
		struct entry *e = &fake->entry[fake->entries++];
		e->tick = view->tick;
		e->thread = (uint64_t)self;
		e->value = 0;
		if (fake->watch_addr)
			memcpy(&e->value, (void *)fake->watch_addr, fake->watch_len);
		context_regs(&e->regs, g);
		return;
	}
	if (pc == fake->want_pc && ++found == fake->want_nth) {
		context_regs(&view->regs, g);
		view->in_engine = view->trapped = 1;
		fake->want_pc = 0;
		stand(TRAPPED);
		view->in_engine = view->trapped = 0;
		g[REG_EFL] &= ~0x10100ll;
	}
}

__attribute__((constructor)) static void begin(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	int fd = open(getenv("GDBRR_FAKE"), O_RDWR | O_CLOEXEC);
	fake = mmap(NULL, sizeof *fake, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fake == MAP_FAILED)
		_exit(99);
	close(fd);
	fake->trap_pc = (uint64_t)gr_fake_trap_end;
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	if (!fake->live)
		sigaction(SIGTRAP, &action, NULL);
	fake->state = RUNNING;
	if (fake->live)
		raise(SIGSTOP);
}
