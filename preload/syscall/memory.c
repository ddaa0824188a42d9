// Mappings on replay: at their recorded addresses, with their recorded contents.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: a window for looking at files that are being mapped.
#include <sys/mman.h>
#include <sys/stat.h>

#include "../core/nolibc.h"
#include "../core/raw.h"
#include "dispatch.h"

// One window per thread block, above the log's or image's mapping.
#define WINDOW_ADDR 0x290000000000
#define WINDOW_SIZE 0x100000000

// The bytes of the file behind a fresh mapping: not all of it, pages beyond the end of the file are no memory.
static uint64_t file_bytes(const struct gr_call *call)
{
	struct stat st;
	uint64_t offset = call->arg[5], len = call->arg[1];
	if (GR_RAW(SYS_fstat, call->arg[4], &st) || (uint64_t)st.st_size <= offset)
		return 0;
	uint64_t n = st.st_size - offset;
	n = n < len ? n : len;
	return n < WINDOW_SIZE ? n : 0;
}

void gr_map_log(struct gr_call *call, struct gr_event *ev, bool contents)
{
	ev->result = call->result;
	uint64_t n = contents && !GR_IS_ERR(call->result) ? file_bytes(call) : 0;
	uint64_t window = WINDOW_ADDR + (uint64_t)call->self->block * WINDOW_SIZE;
	if (!n || GR_RAW(SYS_mmap, window, n, PROT_READ, MAP_PRIVATE | MAP_FIXED, call->arg[4], call->arg[5]) != (long)window) {
		gr_log(call->self, ev);
		return;
	}
	const struct gr_piece piece = {window, (uint32_t)n};
	gr_log_pieces(call->self, ev, &piece, 1, call->result - window);
	GR_RAW(SYS_munmap, window, n);
}

// Shared mappings become private ones: the processes that shared them are not there, the copies of the replay are.
long gr_map_again(struct gr_call *call, const struct gr_event *ev, bool contents)
{
	const uint64_t *a = call->arg;
	uint64_t flags = a[3] & ~(uint64_t)(MAP_SHARED | MAP_SHARED_VALIDATE);
	flags |= MAP_PRIVATE | (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE) ? 0 : MAP_FIXED_NOREPLACE);
	if (!contents)
		return GR_RAW(SYS_mmap, ev->result, a[1], a[2], flags, a[4], a[5]);
	long ret = GR_RAW(SYS_mmap, ev->result, a[1], PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	if (ret != ev->result)
		return ret;
	if (ev->len > 4 && ev->len - 4 <= a[1])
		memcpy((void *)ret, ev->data + 4, ev->len - 4);
	gr_call_more(call, ret, a[1]);
	GR_RAW(SYS_mprotect, ret, a[1], a[2]);
	return ret;
}

long gr_remap_again(struct gr_call *call, const struct gr_event *ev)
{
	const uint64_t *a = call->arg;
	if (ev->result == (long)a[0])
		return GR_RAW(SYS_mremap, a[0], a[1], a[2], 0, 0);
	return GR_RAW(SYS_mremap, a[0], a[1], a[2], a[3] | MREMAP_MAYMOVE | MREMAP_FIXED, ev->result);
}
