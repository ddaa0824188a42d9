// A child that the program believes to share its memory (vfork, posix_spawn): it gets a copy, and what it changes there
// until its exec or end is reported to the thread that waits for it.
// Runs in: the child, on the engine's stack of the thread that made it; gr_child_prepare and gr_child_report in that thread.
// May call: core.
// Owns: the shared area of the thread, the snapshot.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../signal/signal.h"
#include "../dispatch.h"
#include "process.h"

// The report, at the head of the shared area.
struct report { uint64_t used; uint32_t full, refused, traced; };

#define PAGE 4096ULL
#define PAGEMAP_EXCLUSIVE (1ULL << 56)
#define PAGEMAP_SWAPPED (1ULL << 62)
#define PAGEMAP_PRESENT (1ULL << 63)
#define BATCH 64

// The child's own: the engine's memory is a copy there, too.
static struct gr_thread *watched; // NULL in processes that are on their own
static long snapshot;             // a process that never runs: memory as it was at the child's birth or last report
static bool forked;               // pages may be shared with a child of the child

static uint64_t area_of(const struct gr_thread *parent)
{
	return GR_SHARE_ADDR + (uint64_t)parent->block * GR_SHARE_SIZE;
}

uint64_t gr_child_prepare(struct gr_thread *parent)
{
	long ret = GR_RAW(SYS_mmap, area_of(parent), GR_SHARE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return GR_IS_ERR(ret) ? 0 : ret;
}

const uint8_t *gr_child_report(struct gr_thread *parent, uint64_t *len)
{
	const struct report *report = (const struct report *)area_of(parent);
	*len = report->full || report->refused ? ~0ULL : report->used;
	return (const uint8_t *)(report + 1);
}

bool gr_child_traced(const struct gr_thread *parent)
{
	return ((const struct report *)area_of(parent))->traced;
}

void gr_child_forget(struct gr_thread *parent)
{
	GR_RAW(SYS_munmap, area_of(parent), GR_SHARE_SIZE);
}

// ---------------------------------------------------------------- the child's side
static void report_add(enum gr_store_kind kind, uint64_t addr, uint64_t len, uint32_t arg, const void *bytes)
{
	struct report *report = (struct report *)area_of(watched);
	uint8_t *first = (uint8_t *)(report + 1);
	struct gr_stores stores = {first + report->used, (uint8_t *)report + GR_SHARE_SIZE, report->full};
	gr_store_add(&stores, kind, addr, len, arg, bytes);
	report->used = stores.at - first;
	report->full = stores.full;
}

static void snapshot_take(void)
{
	long child = gr_pid();
	snapshot = GR_RAW(SYS_clone, 0, 0, 0, 0, 0);
	if (snapshot == 0) {
		uint64_t all = ~0ULL;
		GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
		GR_RAW(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
		if (GR_RAW(SYS_getppid) != child) // it is gone already, so no signal will say so
			GR_RAW(SYS_exit_group, 0);
		for (;;)
			GR_RAW(SYS_pause);
	}
}

static void snapshot_drop(void)
{
	if (snapshot > 0) {
		GR_RAW(SYS_kill, snapshot, SIGKILL);
		GR_RAW(SYS_wait4, snapshot, 0, __WALL, 0);
	}
	snapshot = 0;
}

void gr_child_born(struct gr_thread *self)
{
	watched = self;
	forked = false;
	gr_sud_init();
	snapshot_take();
}

// ---------------------------------------------------------------- what changed
// The bytes of a page that differ, in runs; what is equal for less than a header's worth of bytes goes along.
static void compare_page(uint64_t addr, const uint8_t *then, const uint8_t *now)
{
	for (uint64_t i = 0; i < PAGE;) {
		if (then[i] == now[i]) {
			i++;
			continue;
		}
		uint64_t from = i, end = i + 1;
		for (; i < PAGE && i < end + sizeof(struct gr_store); i++)
			if (then[i] != now[i])
				end = i + 1;
		report_add(GR_STORE_BYTES, addr + from, end - from, 0, now + from);
		i = end;
	}
}

static void compare(uint64_t addr)
{
	uint8_t then[PAGE];
	struct iovec local = {then, PAGE}, remote = {(void *)addr, PAGE};
	if (GR_RAW(SYS_process_vm_readv, snapshot, &local, 1, &remote, 1, 0) != (long)PAGE)
		memset(then, 0, PAGE); // mapped by the child
	compare_page(addr, then, (const uint8_t *)addr);
}

// Pages that this process alone has: with the snapshot alive, those are the ones it has written to. Without a pagemap,
// or when a child of its own shares them, every page is looked at.
static void compare_range(long pagemap, uint64_t from, uint64_t to)
{
	uint64_t entries[BATCH];
	while (from < to) {
		uint64_t n = (to - from) / PAGE < BATCH ? (to - from) / PAGE : BATCH;
		long got = pagemap < 0 ? -1 : GR_RAW(SYS_pread64, pagemap, entries, n * 8, from / PAGE * 8);
		for (uint64_t i = 0; i < n; i++) {
			uint64_t e = got == (long)(n * 8) ? entries[i] : PAGEMAP_SWAPPED;
			if (e & PAGEMAP_SWAPPED || (e & PAGEMAP_PRESENT && (forked || e & PAGEMAP_EXCLUSIVE)))
				compare(from + i * PAGE);
		}
		from += n * PAGE;
	}
}

// PAGEMAP_SCAN (Linux 6.7), which passes over what was never touched: heaps are ranges of 32 GiB with a few pages in use.
struct scan_region { uint64_t start, end, categories; };
struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t inverted, mask, anyof, returned;
};
#define SCAN 0xc0606610
#define SCAN_PRESENT 8
#define SCAN_SWAPPED 16

static void compare_used(long pagemap, uint64_t from, uint64_t to)
{
	struct scan_region found[32];
	while (from < to) {
		struct scan scan = {
			.size = sizeof scan, .start = from, .end = to, .vec = (uint64_t)found, .vec_len = 32,
			.anyof = SCAN_PRESENT | SCAN_SWAPPED, .returned = SCAN_PRESENT | SCAN_SWAPPED,
		};
		long n = pagemap < 0 ? -1 : GR_RAW(SYS_ioctl, pagemap, SCAN, &scan);
		if (n < 0) { // an older kernel
			compare_range(pagemap, from, to);
			return;
		}
		for (long i = 0; i < n; i++)
			compare_range(pagemap, found[i].start, found[i].end);
		if (scan.walk_end <= from)
			return;
		from = scan.walk_end;
	}
}

extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

// One line of the list of mappings: private writable memory that is not the engine's.
static void compare_line(long pagemap, const char *line)
{
	uint64_t from = gr_hex(&line);
	line++;
	uint64_t to = gr_hex(&line);
	bool wanted = line[1] == 'r' && line[2] == 'w' && line[4] == 'p';
	bool zone = from >= GR_ZONE && from < GR_ZONE_END;
	bool engine = from < ((uint64_t)_end + PAGE - 1) / PAGE * PAGE && to > (uint64_t)__ehdr_start;
	if (wanted && !zone && !engine)
		compare_used(pagemap, from, to);
}

static void compare_all(void)
{
	char text[2048];
	size_t have = 0;
	long pagemap = GR_RAW(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
	long maps = GR_RAW(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (GR_IS_ERR(maps) || snapshot <= 0)
		((struct report *)area_of(watched))->refused = 1;
	bool skip = false; // the rest of a line that was longer than the buffer
	for (long n; !GR_IS_ERR(maps) && (n = GR_RAW(SYS_read, maps, text + have, sizeof text - have)) > 0;) {
		size_t start = 0;
		have += n;
		for (size_t i = 0; i < have; i++) {
			if (text[i] != '\n')
				continue;
			if (!skip)
				compare_line(GR_IS_ERR(pagemap) ? -1 : pagemap, text + start);
			skip = false;
			start = i + 1;
		}
		if (start == 0 && have == sizeof text) {
			if (!skip)
				compare_line(GR_IS_ERR(pagemap) ? -1 : pagemap, text);
			skip = true;
			have = 0;
			continue;
		}
		have -= start;
		memmove(text, text + start, have);
	}
	if (!GR_IS_ERR(maps))
		GR_RAW(SYS_close, maps);
	if (!GR_IS_ERR(pagemap))
		GR_RAW(SYS_close, pagemap);
}

// INVARIANT(report-before-leaving): the child reports before each exec and before its end, because the thread that waits
// for it goes on at once.
static void report_all(void)
{
	compare_all();
	snapshot_drop();
}

// Mappings that the child makes would be there in its parent.
static long mapping(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	long ret = gr_call_kernel(call);
	uint64_t len = (a[1] + PAGE - 1) / PAGE * PAGE;
	if (GR_IS_ERR(ret))
		return ret;
	switch (call->nr) {
	case SYS_brk:
		report_add(GR_STORE_BREAK, ret, 0, 0, NULL);
		break;
	case SYS_mmap:
		report_add(GR_STORE_MAP, ret, len, a[2], NULL);
		break;
	case SYS_munmap:
		report_add(GR_STORE_UNMAP, a[0], len, 0, NULL);
		break;
	case SYS_mprotect:
		report_add(GR_STORE_PROTECT, a[0], len, a[2], NULL);
		break;
	default:
		((struct report *)area_of(watched))->refused = 1;
	}
	return ret;
}

// A child of the child is on its own.
static long grandchild(struct gr_call *call, uint64_t flags, uint64_t stack)
{
	if (flags & CLONE_THREAD)
		return -EPERM;
	forked = true;
	long ret = GR_RAW(SYS_clone, flags & ~(uint64_t)(CLONE_VM | CLONE_SETTLS), 0, call->arg[2], call->arg[3], 0);
	if (ret == 0) {
		watched = NULL;
		gr_signal_forked(call->self);
		gr_thread_leave();
		if (stack)
			call->frame->rsp = stack;
	}
	return ret;
}

static long watched_call(struct gr_call *call)
{
	uint64_t *a = call->arg;
	switch (call->nr) {
	case SYS_execve:
	case SYS_execveat: {
		// Looking for a program along PATH: nothing to report when it is not there.
		int dirfd = call->nr == SYS_execveat ? (int)a[0] : AT_FDCWD;
		uint64_t path = a[call->nr == SYS_execveat];
		if (GR_RAW(SYS_faccessat, dirfd, path, 0) == -ENOENT)
			return gr_call_kernel(call);
		report_all();
		long ret = gr_call_kernel(call);
		snapshot_take(); // still here: what it stores from now on is the next report's
		return ret;
	}
	case SYS_exit:
	case SYS_exit_group:
		report_all();
		return gr_call_kernel(call);
	case SYS_ptrace: // the next trap would stop it for a tracer that waits for its exec
		((struct report *)area_of(watched))->traced = 1;
		report_all();
		return GR_RAW(SYS_exit_group, 127);
	case SYS_clone:
		return grandchild(call, a[0], a[1]);
	case SYS_clone3: {
		uint64_t args[8] = {0};
		gr_peek(args, a[0], a[1] < sizeof args ? a[1] : sizeof args);
		a[2] = args[3];
		a[3] = args[2];
		return grandchild(call, args[0] | args[4], args[5] ? args[5] + args[6] : 0);
	}
	case SYS_fork:
	case SYS_vfork:
		a[2] = a[3] = 0;
		return grandchild(call, call->nr == SYS_vfork ? CLONE_VFORK | SIGCHLD : SIGCHLD, 0);
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_brk:
		return mapping(call);
	}
	return gr_call_waiting(call);
}

long gr_child_call(struct gr_call *call)
{
	return watched ? watched_call(call) : gr_call_waiting(call);
}
