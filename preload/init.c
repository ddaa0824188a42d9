// The constructor: the engine finds its pages, sets itself up under the program, and opens the first operation.
// Runs in: the main thread, before every other constructor (-z initfirst).
// May call: everything below; dlvsym through it.
// Owns: the order in which the parts come up.
#include <elf.h>
#include <errno.h>
#include <linux/auxvec.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <signal.h>

#include "ckpt/ckpt.h"
#include "ckpt/wake.h"
#include "core/guard.h"
#include "core/nolibc.h"
#include "core/ops.h"
#include "core/panic.h"
#include "core/raw.h"
#include "digest/digest.h"
#include "digest/kept.h"
#include "digest/loader.h"
#include "heap/heap.h"
#include "heap/stack.h"
#include "log/edge.h"
#include "log/log.h"
#include "log/turn.h"
#include "patch/locks.h"
#include "count/count.h"
#include "ctl/slot.h"
#include "patch/patch.h"
#include "replay/cancel.h"
#include "replay/gate.h"
#include "signal/loop/loop.h"
#include "signal/signal.h"
#include "sync/once.h"
#include "syscall/descriptor.h"
#include "syscall/dispatch.h"
#include "syscall/fd/output.h"
#include "syscall/memory/memory.h"
#include "syscall/query/query.h"
#include "watch/points.h"

#define RSEQ_SIGNATURE 0x53053053 // glibc's on x86

extern const ptrdiff_t __rseq_offset __attribute__((weak)); // glibc 2.35
extern const unsigned __rseq_size __attribute__((weak));
extern const char gr_debug_trapped[], gr_debug_called[];

static uint8_t standard_fds[3];

// ---------------------------------------------------------------- pages
#define TAKEN "memory at 0x%x is taken by something else\nstart the program without tools that map memory into it, such as sanitizers"

static long map(int fd, uint64_t addr, uint64_t size, int prot, int flags)
{
	long ret = GR_RAW(SYS_mmap, addr, size, prot, flags | MAP_FIXED_NOREPLACE, fd, 0);
	GR_RAW(SYS_close, fd);
	return ret;
}

// False when no controller started this process: then the engine stays off.
static bool open_pages(void)
{
	struct stat st;
	if (GR_RAW(SYS_fstat, GR_FD_CTL, &st) || (uint64_t)st.st_size < sizeof(struct gr_ctl))
		return false;
	gr_void_init(GR_FD_CTL);
	if (map(GR_FD_CTL, GR_CTL_ADDR, sizeof(struct gr_ctl), PROT_READ | PROT_WRITE, MAP_SHARED) != (long)GR_CTL_ADDR)
		return false;
	if (memcmp(gr_ctl->magic, "gdbrrctl", 8) || gr_ctl->abi != GR_ABI_VERSION)
		return false;
	bool recording = gr_ctl->mode == GR_MODE_RECORD;
	long data = map(GR_FD_DATA, GR_DATA_ADDR, gr_ctl->data_size, recording ? PROT_READ | PROT_WRITE : PROT_READ,
			recording ? MAP_SHARED | MAP_NORESERVE : MAP_PRIVATE);
	// Where a file system reads ahead in megabytes, it makes that much at the first touch of a hole, too: in the page and in a
	// log that stays short, one page at a time is what will be needed.
	GR_RAW(SYS_madvise, GR_CTL_ADDR, sizeof(struct gr_ctl), MADV_RANDOM);
	if (recording && data == (long)GR_DATA_ADDR)
		GR_RAW(SYS_madvise, GR_DATA_ADDR, GR_LOG_SHORT, MADV_RANDOM);
	gr_slot->pid = gr_pid();
	// INVARIANT(on-or-refused): a program that a controller started runs recorded or not at all.
	if (data == -EEXIST)
		gr_panic(NULL, GR_PANIC_REFUSED, TAKEN, GR_DATA_ADDR, 0);
	if (data != (long)GR_DATA_ADDR)
		gr_panic(NULL, GR_PANIC_REFUSED, "no address space for a log of %u bytes\n" GR_HEAP_ROOM, gr_ctl->data_size, 0);
	return true;
}

// ---------------------------------------------------------------- what the program must not see
// The launcher put the engine first in LD_PRELOAD; what a user had there follows behind a colon.
static void hide_preload(char **envp)
{
	static const char name[] = "LD_PRELOAD=";
	for (char **e = envp; *e; e++) {
		if (memcmp(*e, name, sizeof name - 1))
			continue;
		char *rest = *e + sizeof name - 1;
		while (*rest && *rest != ':')
			rest++;
		if (*rest) {
			memmove(*e + sizeof name - 1, rest + 1, gr_strlen(rest + 1) + 1);
			return;
		}
		for (; *e; e++)
			e[0] = e[1];
		return;
	}
}

// The auxiliary vector stands behind the environment.
static uint64_t auxiliary(char **envp, uint64_t type)
{
	while (*envp)
		envp++;
	for (const Elf64_auxv_t *aux = (const Elf64_auxv_t *)(envp + 1); aux->a_type != AT_NULL; aux++)
		if (aux->a_type == type)
			return aux->a_un.a_val;
	return 0;
}

// The kernel writes the number of the processor there whenever it likes.
static void drop_rseq(uint64_t fs_base)
{
	if (&__rseq_offset && &__rseq_size && __rseq_size)
		GR_RAW(SYS_rseq, fs_base + __rseq_offset, 32, 1, RSEQ_SIGNATURE); // RSEQ_FLAG_UNREGISTER
}

// glibc keeps the kernel's id of a thread in its descriptor, behind the thread pointer, and asks the kernel to clear it
// there. The main thread's was registered before we came. Kernels built without CHECKPOINT_RESTORE do not tell where: then it
// is the word that holds our id. INVARIANT(id-is-no-pointer): only words at multiples of 8 are looked at, because the upper
// half of a pointer (0x7fff) is a process id, too.
static uint32_t *find_ctid(uint64_t fs_base, uint32_t tid)
{
	uint32_t *told = NULL;
	if (GR_RAW(SYS_prctl, PR_GET_TID_ADDRESS, &told, 0, 0, 0) == 0)
		return told;
	for (uint32_t *p = (uint32_t *)fs_base; p < (uint32_t *)(fs_base + 0x900); p += 2)
		if (*p == tid)
			return p;
	return NULL;
}

static struct gr_thread *adopt_main(void)
{
	uint64_t robust[2] = {0};
	struct gr_thread *self = gr_thread_alloc(0);
	GR_RAW(SYS_arch_prctl, 0x1003, &self->fs_base); // ARCH_GET_FS
	self->pub.tid = self->pub.recorded_tid = gr_tid();
	self->ctid = self->clears = find_ctid(self->fs_base, self->pub.tid);
	GR_RAW(SYS_prctl, PR_GET_NAME, self->name.text, 0, 0, 0);
	if (GR_RAW(SYS_get_robust_list, 0, &robust[0], &robust[1]) == 0) {
		self->robust = robust[0];
		self->robust_len = robust[1];
	}
	return self;
}

// ---------------------------------------------------------------- commands of the controller
static void on_command(struct gr_thread *self, enum gr_cmd cmd)
{
	if (cmd == GR_CMD_FREEZE) {
		gr_kept_freeze(self);
		gr_ckpt_freeze(self, gr_slot->arg_slot);
	} else if (cmd == GR_CMD_DIGEST) {
		gr_digest_command(self);
	} else if (cmd == GR_CMD_COUNT) {
		gr_count_tell();
		gr_slot_announce(gr_slot->state);
	} else if (cmd == GR_CMD_PAGES) {
		gr_digest_pages(self);
	} else if (cmd == GR_CMD_CHECK) {
		gr_kept_check(self);
	} else if (cmd == GR_CMD_RUN) {
		gr_kept_run();
		gr_points_arm();
	}
}

// ---------------------------------------------------------------- from entry.S
// True if the engine is on; the first operation follows.
__attribute__((visibility("hidden"))) bool gr_init(int argc, char **argv, char **envp)
{
	(void)argc;
	gr_state_stack_top = (uint64_t)argv;
	bool threads = gr_real_init();
	gr_heap_init();
	gr_once_init();
	if (!open_pages())
		return false;
	uint64_t program = auxiliary(envp, AT_PHDR), vdso = auxiliary(envp, AT_SYSINFO_EHDR), loader = auxiliary(envp, AT_BASE);
	hide_preload(envp);
	if (!threads)
		gr_panic(NULL, GR_PANIC_REFUSED, "a C library before glibc 2.34\nuse glibc 2.34 or newer", 0, 0);
	long table = gr_threads_init();
	if (table)
		gr_panic(NULL, GR_PANIC_REFUSED, table == -EEXIST ? TAKEN : "no address space for threads\n" GR_HEAP_ROOM, GR_THREADS_ADDR, 0);
	struct gr_thread *self = adopt_main();
	drop_rseq(self->fs_base);
	gr_image_apart();
	gr_tsc_recorded = gr_tsc_trapped = gr_ctl->class_action[GR_CLASS_tsc] == GR_ACT_RECORD;
	gr_patch_init(program);
	if (vdso)
		gr_vdso_init(vdso);
	if (loader)
		gr_loader_forget(loader);
	gr_stack_init((uint64_t)self->ctid - self->fs_base);
	gr_clone_init();
	gr_lock_init(loader);
	gr_futex_init();
	gr_signal_init(self);
	// INVARIANT(same-lookups): a recording and its replay call the same functions of the loader. It counts the symbols it
	// looks up, in memory that digests see, and leaves its work in vector registers, which they see too.
	gr_wake_init();
	gr_cancel_init(self->fs_base);
	gr_gate_on_command = on_command;
	gr_ctl->call_pc = (uint64_t)gr_debug_called;
	if (gr_ctl->mode == GR_MODE_RECORD) {
		gr_ctl->actions = (uint64_t)gr_sigact_all();
		gr_ctl->threads = 1;
		gr_ctl->time_base = gr_time_now();
		for (int fd = 0; fd < 3; fd++)
			standard_fds[fd] = gr_fd_probe(fd);
	} else {
		gr_ctl->trap_pc = (uint64_t)gr_debug_trapped;
		gr_ckpt_init();
		gr_points_init();
		gr_output_init();
		struct gr_event first;
		gr_points_foreign = gr_signal_foreign;
		if ((gr_image->threads > 1 || gr_image->grown) && gr_ctl->knob[GR_KNOB_locks])
			gr_lock_find(self);
		gr_gate_open(self);
		if (gr_gate_peek(self, &first))
			self->pub.recorded_tid = first.result;
	}
	self->heap = gr_heap_take(0);
	if (!self->heap)
		gr_panic(self, GR_PANIC_REFUSED, "no address space for a heap\n" GR_HEAP_ROOM, 0, 0);
	if (!gr_sud_init())
		gr_panic(self, GR_PANIC_REFUSED, "a kernel without Syscall User Dispatch\nuse Linux 5.11 or newer, outside of sandboxes that refuse it", 0, 0);
	gr_mode = gr_ctl->mode;
	gr_edge_init();
	gr_self = self;
	if (gr_mode == GR_MODE_RECORD)
		gr_turn_init(self);
	if (gr_mode == GR_MODE_RECORD)
		gr_query_init();
	__atomic_store_n(&gr_ctl->started, 1, __ATOMIC_RELEASE);
	return true;
}

// The demo's first event also says what the three standard descriptors are, and the process's id.
long gr_first_operation(struct gr_thread *self, struct gr_regs *frame)
{
	struct gr_event ev = {
		.kind = GR_OP_START, .object = self->heap->number + 1, .result = self->pub.tid, .data = standard_fds, .len = sizeof standard_fds,
	};
	if (gr_mode == GR_MODE_RECORD) {
		gr_log(self, &ev);
		gr_queue_init();
		gr_edge_start();
	} else {
		gr_gate_next(self, GR_OP_START, 0, 0, &ev);
		if (ev.len == sizeof standard_fds)
			memcpy(standard_fds, ev.data, sizeof standard_fds);
	}
	gr_fd_standard(standard_fds);
	gr_loader_clear_stack(frame->rsp);
	return frame->rax;
}
