// Output that does not pass the program's memory, or goes out under another name.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: nothing.
#include "echo.h"

#include <unistd.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "../descriptor.h"
#include "output.h"

bool gr_echo_splice(const struct gr_call *call)
{
	return (call->nr == SYS_splice && gr_output_behind(call->arg[2])) ||
	       (call->nr == SYS_tee && gr_output_behind(call->arg[1]));
}

void gr_echo_keep(const struct gr_call *call, struct gr_stores *stores)
{
	char page[4096];
	const uint64_t *a = call->arg;
	bool send = call->nr == SYS_sendfile;
	if ((!send && call->nr != SYS_copy_file_range) || call->result <= 0)
		return;
	uint32_t which = gr_output_behind(send ? a[0] : a[2]);
	int in = send ? a[1] : a[0];
	uint64_t pointer = send ? a[2] : a[1], left = call->result, end;
	if (!which)
		return;
	if (!pointer || gr_peek(&end, pointer, sizeof end) != sizeof end)
		end = GR_RAW(SYS_lseek, in, 0, SEEK_CUR);
	for (uint64_t at = end - left; left;) {
		long n = GR_RAW(SYS_pread64, in, page, left < sizeof page ? left : sizeof page, at);
		if (n <= 0)
			return;
		gr_store_add(stores, GR_STORE_ECHO, 0, n, which, page);
		at += n;
		left -= n;
	}
}

uint8_t gr_echo_reopened(const struct gr_call *call)
{
	static const struct { const char *path; uint8_t fd; } names[] = {
		{"/dev/stdout", 1},       {"/dev/stderr", 2},       {"/dev/fd/1", 1},
		{"/dev/fd/2", 2},         {"/proc/self/fd/1", 1},   {"/proc/self/fd/2", 2},
	};
	char path[20] = {0};
	if (call->nr != SYS_open && call->nr != SYS_openat && call->nr != SYS_creat)
		return 0;
	gr_peek(path, call->arg[call->nr == SYS_openat], sizeof path - 1);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (gr_strcmp(path, names[i].path) == 0)
			return gr_fd_get(names[i].fd) & (GR_FD_OUT | GR_FD_ERR);
	return 0;
}
