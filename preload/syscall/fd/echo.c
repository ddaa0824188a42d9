// Output that does not pass the program's memory, or goes out under another name.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: nothing.
#include "echo.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "../../signal/signal.h"
#include "../descriptor.h"
#include "output.h"

#define PIPE 0x10000 // bytes that a new pipe holds
#define FLAGS (SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

// What the call moves, and to which output; 0 for none.
static uint32_t moved(const struct gr_call *call, int *in, uint64_t *pointer)
{
	const uint64_t *a = call->arg;
	*in = call->nr == SYS_sendfile ? a[1] : a[0];
	*pointer = call->nr == SYS_sendfile ? a[2] : a[1];
	switch (call->nr) {
	case SYS_sendfile:
		return gr_output_behind(a[0]);
	case SYS_tee:
		return gr_output_behind(a[1]);
	case SYS_splice:
	case SYS_copy_file_range:
		return gr_output_behind(a[2]);
	}
	return 0;
}

// What lies in a pipe is copied to one of our own, and the call is made for as much as was there.
bool gr_echo_ready(struct gr_call *call, long *ret)
{
	struct stat st;
	int in, ours[2];
	bool splices = call->nr == SYS_splice;
	uint64_t pointer, *length = &call->arg[splices ? 4 : 2], flags = call->arg[splices ? 5 : 3];
	call->echo = -1;
	if ((!splices && call->nr != SYS_tee) || !moved(call, &in, &pointer) || GR_RAW(SYS_fstat, in, &st) || S_ISREG(st.st_mode))
		return true;
	if (flags & ~FLAGS || (splices && S_ISFIFO(st.st_mode) && pointer))
		return true; // an error, most likely, for which the kernel does not wait
	*ret = -EINVAL;
	if (!S_ISFIFO(st.st_mode) || GR_RAW(SYS_pipe2, ours, O_CLOEXEC))
		return false;
	uint64_t tee[6] = {in, ours[1], *length < PIPE ? *length : PIPE, flags & SPLICE_F_NONBLOCK};
	*ret = gr_signal_wait(call->self, SYS_tee, tee, gr_wait_once);
	GR_RAW(SYS_close, ours[1]);
	if (*ret <= 0) {
		GR_RAW(SYS_close, ours[0]);
		return false;
	}
	*length = *ret;
	call->echo = ours[0];
	return true;
}

void gr_echo_keep(struct gr_call *call, struct gr_stores *stores)
{
	char page[4096];
	int in;
	uint64_t pointer, left = call->result > 0 ? call->result : 0, at = 0;
	uint32_t which = moved(call, &in, &pointer);
	if (!which)
		return;
	if (left && call->echo < 0) { // a file
		if (!pointer || gr_peek(&at, pointer, sizeof at) != sizeof at)
			at = GR_RAW(SYS_lseek, in, 0, SEEK_CUR);
		at -= left;
	}
	while (left) {
		size_t some = left < sizeof page ? left : sizeof page;
		long n = call->echo < 0 ? GR_RAW(SYS_pread64, in, page, some, at) : GR_RAW(SYS_read, call->echo, page, some);
		if (n <= 0)
			break;
		gr_store_add(stores, GR_STORE_ECHO, 0, n, which, page);
		at += n;
		left -= n;
	}
	if (call->echo >= 0)
		GR_RAW(SYS_close, call->echo);
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
