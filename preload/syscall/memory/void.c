// Memory behind the end of a file, on replay: there is no such file, and an access has to be SIGBUS all the same.
// Runs in: application threads of a replay, on the engine's stack; gr_void_init in the constructor.
// May call: core.
// Owns: the mapping at GR_VOID_ADDR.
#include <sys/mman.h>

#include "../../core/page.h"
#include "../../core/raw.h"
#include "memory.h"

#define BEHIND 0x10000000000 // where no file of ours has anything

_Static_assert(GR_CTL_ADDR + sizeof(struct gr_ctl) <= GR_VOID_ADDR && GR_VOID_ADDR + GR_VOID_SIZE <= GR_THREADS_ADDR, "zone layout");

// The fence lets a replay make no file, so one that it has anyway is mapped far behind its end, once.
void gr_void_init(int fd)
{
	GR_RAW(SYS_mmap, GR_VOID_ADDR, GR_VOID_SIZE, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, BEHIND);
}

// From there it is moved to where it is wanted, and stays: a mapping that is moved with MREMAP_DONTUNMAP leaves one like itself
// behind, since Linux 5.13 one of a file, too.
bool gr_void_map(uint64_t addr, uint64_t len, int prot)
{
	for (uint64_t at = addr, end = addr + len; at < end; at += GR_VOID_SIZE) {
		uint64_t some = end - at < GR_VOID_SIZE ? end - at : GR_VOID_SIZE;
		if (GR_RAW(SYS_mremap, GR_VOID_ADDR, some, some, MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* MREMAP_DONTUNMAP */, at) != (long)at)
			return false;
	}
	return GR_RAW(SYS_mprotect, addr, len, prot) == 0;
}
