// All of the program's memory locked: without that of the engine, which has set aside more addresses than any limit allows.
// Runs in: application threads while recording, on the engine's stack.
// May call: core, heap.
// Owns: whether what is mapped from now on is locked.
//
// Who may lock without a limit has the kernel do it, each page as it is touched. For whom there is a limit, the kernel compares it with
// all addresses of the process, and mappings of the engine would fail from then on as well. There the engine counts and locks what is the
// program's, mapping by mapping.
#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../../core/raw.h"
#include "../../heap/heap.h"
#include "memory.h"

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif

static uint32_t from_now_on;

static bool is_limited(uint64_t *limit)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct may[2] = {0};
	struct rlimit most = {RLIM_INFINITY, 0};
	GR_RAW(SYS_capget, &header, may);
	GR_RAW(SYS_prlimit64, 0, RLIMIT_MEMLOCK, NULL, &most);
	*limit = most.rlim_cur;
	return !(may[0].effective >> CAP_IPC_LOCK & 1) && most.rlim_cur != RLIM_INFINITY;
}

static void count_range(void *arg, uint64_t from, uint64_t to)
{
	*(uint64_t *)arg += to - from;
}

static void lock_range(void *arg, uint64_t from, uint64_t to)
{
	(void)arg;
	GR_RAW(SYS_mlock2, from, to - from, MLOCK_ONFAULT);
}

struct each { void (*range)(void *arg, uint64_t from, uint64_t to); void *arg; };

static void of_program(const struct gr_map *map, void *arg)
{
	const struct each *each = arg;
	bool heap = map->start >= GR_HEAP_ADDR && map->start < GR_HEAP_ADDR + GR_HEAPS * GR_HEAP_REGION;
	bool kernel = map->start >> 63; // the vsyscall page
	if (heap && map->prot & PROT_WRITE) // what is used of it
		gr_heap_ranges(map->start, map->end, each->range, each->arg);
	else if (!heap && !kernel && !gr_map_is_engines(map))
		each->range(each->arg, map->start, map->end);
}

static void ranges(void (*range)(void *arg, uint64_t from, uint64_t to), void *arg)
{
	struct each each = {range, arg};
	gr_maps_each(of_program, &each);
}

long gr_lock_all(const struct gr_call *call)
{
	uint64_t flags = call->arg[0], limit, size = 0;
	bool valid = flags && !(flags & ~(uint64_t)(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) && flags != MCL_ONFAULT;
	if (call->nr == SYS_munlockall) {
		from_now_on = 0;
		return GR_RAW(SYS_munlockall);
	}
	if (!valid)
		return GR_RAW(SYS_mlockall, flags);
	if (!is_limited(&limit))
		return GR_RAW(SYS_mlockall, flags | MCL_ONFAULT);
	if (!limit)
		return -EPERM;
	ranges(count_range, &size);
	if (flags & MCL_CURRENT && size > limit)
		return -ENOMEM;
	__atomic_store_n(&from_now_on, flags & MCL_FUTURE ? 1 : 0, __ATOMIC_RELAXED);
	if (flags & MCL_CURRENT)
		ranges(lock_range, NULL);
	return 0;
}

long gr_lock_mapped(long addr, uint64_t len)
{
	if (GR_IS_ERR(addr) || !__atomic_load_n(&from_now_on, __ATOMIC_RELAXED))
		return addr;
	long ret = GR_RAW(SYS_mlock2, addr, len, MLOCK_ONFAULT);
	if (ret != -ENOMEM && ret != -EAGAIN)
		return addr;
	GR_RAW(SYS_munmap, addr, len);
	return -EAGAIN;
}
