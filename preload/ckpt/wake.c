// Waking; see wake.h.
// Runs in: a copy just made from a frozen one: first on the wake stack, then in each thread.
// May call: core, ctl, replay.
// Owns: the count of threads made again; who holds locks of the library itself.
#include "wake.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../patch/patch.h"
#include "../ctl/slot.h"
#include "../digest/kept.h"
#include "../log/together.h"
#include "../replay/gate.h"
#include "../replay/park.h"
#include "../signal/signal.h"
#include "../syscall/dispatch.h"
#include "files.h"

static uint32_t expected, arrived;

#define THREAD_FLAGS \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID)

// ---------------------------------------------------------------- locks of the library itself
// The loader and the library (for asynchronous input and name lookup) have recursive mutexes of their own, and read-write locks
// (for locales and messages), taken by the library's own functions, which hold the kernel's id of their owner: on replay that of
// this process's thread, which in a copy has another one.
static struct { uint64_t start, end; } data[2];

#define HELD_MAX 8
static struct { int *owner; struct gr_thread *thread; } held[HELD_MAX];
static unsigned held_count;

static void find_data_of_library(void)
{
	Dl_info info;
	void *function = dlvsym(RTLD_DEFAULT, "gnu_get_libc_version", "GLIBC_2.2.5");
	if (!function || !dladdr(function, &info))
		return;
	const ElfW(Ehdr) *ehdr = info.dli_fbase;
	const ElfW(Phdr) *phdr = (const ElfW(Phdr) *)((const char *)ehdr + ehdr->e_phoff);
	for (int i = 0; i < ehdr->e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_flags & PF_W) {
			data[1].start = ((uint64_t)ehdr + phdr[i].p_vaddr + 7) & ~7ULL;
			data[1].end = (uint64_t)ehdr + phdr[i].p_vaddr + phdr[i].p_memsz;
		}
}

void gr_wake_init(void)
{
	Dl_info info;
	const ElfW(Sym) *symbol = NULL;
	void *global = dlvsym(RTLD_DEFAULT, "_rtld_global", "GLIBC_PRIVATE");
	if (global && dladdr1(global, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol) {
		data[0].start = (uint64_t)global;
		data[0].end = (uint64_t)global + symbol->st_size;
	}
	find_data_of_library();
}

static void collect(int *owner)
{
	struct gr_thread *t = *owner > 0 ? gr_thread_by_tid(*owner) : NULL;
	if (!t || held_count == HELD_MAX)
		return;
	held[held_count].owner = owner;
	held[held_count++].thread = t;
}

static bool is_locked(const struct __pthread_mutex_s *m)
{
	return m->__lock >= 1 && m->__lock <= 2 && m->__count && m->__kind == PTHREAD_MUTEX_RECURSIVE_NP;
}

// As pthread_rwlock_common.c has it, since glibc 2.25: who gives back a lock that is not his to write gives it back as a reader.
static bool is_written(const struct __pthread_rwlock_arch_t *l)
{
	enum { WRITING = 3, OCCUPIED = 1 }; // its phase is a writer's, who is there
	return (l->__readers & WRITING) == WRITING && l->__wrphase_futex & OCCUPIED && l->__writers_futex & OCCUPIED && !l->__shared;
}

// INVARIANT(collect-then-write): old ids and new ones may overlap, so owners are found before any thread has a new one.
static void collect_owners(void)
{
	held_count = 0;
	for (unsigned i = 0; i < sizeof data / sizeof *data; i++)
		for (uint64_t at = data[i].start; at + sizeof(struct __pthread_mutex_s) <= data[i].end; at += 8) {
			struct __pthread_mutex_s *m = (struct __pthread_mutex_s *)at;
			struct __pthread_rwlock_arch_t *l = (struct __pthread_rwlock_arch_t *)at;
			if (is_locked(m))
				collect(&m->__owner);
			else if (at + sizeof *l <= data[i].end && is_written(l))
				collect(&l->__cur_writer);
		}
}

static void write_owners(void)
{
	for (unsigned i = 0; i < held_count; i++)
		*held[i].owner = held[i].thread->pub.tid;
}

// ---------------------------------------------------------------- threads
// A word that the program has named: made again, a thread has that of the library.
static void clear_at_end(const struct gr_thread *t)
{
	if (t->clears != t->ctid)
		GR_RAW(SYS_set_tid_address, t->clears);
}

_Noreturn void gr_wake(void)
{
	struct gr_thread *main_thread = NULL;
	gr_together_copied();
	gr_files_reopen();
	collect_owners();
	expected = arrived = 0;
	for (uint32_t i = 0; i < gr_thread_blocks(); i++)
		expected += gr_thread_lives(gr_thread_block(i));
	bool leader = gr_thread_by_index(0);
	expected += !leader; // the task itself, which writes owners to the end
	// In the order of their numbers, so that kernel ids rise as in the recording.
	uint32_t made = 0;
	for (uint32_t index = 0; made + !leader < expected; index++) {
		struct gr_thread *t = gr_thread_by_index(index);
		if (!t)
			continue;
		made++;
		gr_thread_copied(t);
		if (index == 0) {
			main_thread = t;
			continue;
		}
		// The thread's own stack is not touched before gr_ctx_restore has set it.
		uint64_t stack = t->ctx.rsp - 128;
		long flags = THREAD_FLAGS | (t->ctid ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0);
		long tid = gr_clone_remake(flags, stack, (long)&t->pub.tid, (long)t->ctid, t->fs_base, t);
		if (tid < 0)
			gr_panic(NULL, GR_PANIC_REFUSED, GR_NO_THREAD, -tid, 0);
	}
	if (!main_thread) { // it has ended: INVARIANT(a-leader-stays)
		write_owners();
		__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
		gr_park_leader(NULL);
	}
	GR_RAW(SYS_arch_prctl, 0x1002, main_thread->fs_base);
	main_thread->pub.tid = gr_pid();
	if (main_thread->ctid) {
		GR_RAW(SYS_set_tid_address, main_thread->ctid);
		*main_thread->ctid = main_thread->pub.tid;
	}
	clear_at_end(main_thread);
	write_owners();
	GR_RAW(SYS_prctl, PR_SET_NAME, main_thread->name.text, 0, 0, 0); // it has that of who made the checkpoint
	gr_ctx_restore(&main_thread->ctx);
}

void gr_wake_remade(struct gr_thread *self)
{
	gr_sud_arm();
	clear_at_end(self);
	gr_signal_born(self);
	GR_RAW(SYS_prctl, PR_SET_NAME, self->name.text, 0, 0, 0);
	if (self->robust)
		GR_RAW(SYS_set_robust_list, self->robust, self->robust_len);
	__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
}

// INVARIANT(all-there-before-standing): nobody is told that a copy stands before each of its threads is there again, or
// a debugger would attach to half a process.
void gr_wake_complete(void)
{
	while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) != expected)
		GR_RAW(SYS_sched_yield);
	// INVARIANT(copies-are-unpatched): whatever looks at code, a debugger, a breakpoint, a trace, looks at a copy, and
	// finds the text there as it is in the file.
	if (!gr_patch_undo(NULL))
		gr_panic(gr_self, GR_PANIC_BUG, "the text of a copy cannot be put back", 0, 0);
	// One process may be looked at by any debugger of the same user, also where Yama asks for it to be said.
	GR_RAW(SYS_prctl, 0x59616d61, -1, 0, 0, 0); // PR_SET_PTRACER, PR_SET_PTRACER_ANY
	gr_kept_run(); // its threads have other ids
	gr_replay.seen = 0;
	gr_slot->tick = gr_replay.tick;
	gr_slot_announce(GR_S_STANDING);
}
