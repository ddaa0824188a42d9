// The program's own output: which descriptors it goes to, and how it appears again on replay.
// Runs in: application threads, on the engine's stack; gr_echo_init in the constructor of a replay.
// May call: core, replay.
// Owns: two descriptors of a replay that the program cannot close.
#include "echo.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "../../replay/gate.h"
#include "../descriptor.h"

static int outputs[2] = {1, 2};

void gr_echo_init(void)
{
	struct rlimit limit;
	if (GR_RAW(SYS_getrlimit, RLIMIT_NOFILE, &limit))
		return;
	uint64_t hidden = (limit.rlim_cur < GR_DESCRIPTORS ? limit.rlim_cur : GR_DESCRIPTORS) - 4; // behind what a program opens
	for (int i = 0; i < 2; i++) {
		long fd = GR_RAW(SYS_fcntl, i + 1, F_DUPFD_CLOEXEC, hidden);
		if (!GR_IS_ERR(fd))
			outputs[i] = fd;
	}
}

void gr_echo_bytes(uint8_t which, const void *bytes, uint64_t len)
{
	if (!(gr_slot->flags & GR_SLOT_ECHO))
		return;
	while (len) {
		long n = GR_RAW(SYS_write, outputs[which == GR_FD_ERR], bytes, len);
		if (n <= 0)
			return;
		bytes = (const char *)bytes + n;
		len -= n;
	}
}

static uint8_t output_of(uint64_t fd)
{
	uint8_t entry = gr_fd_get((int)fd);
	return entry & GR_FD_OUT ? GR_FD_OUT : entry & GR_FD_ERR;
}

static void vector(uint8_t which, const struct iovec *iov, uint64_t left)
{
	for (; left; iov++) {
		uint64_t n = left < iov->iov_len ? left : iov->iov_len;
		gr_echo_bytes(which, iov->iov_base, n);
		left -= n;
	}
}

void gr_echo(const struct gr_call *call)
{
	struct gr_event end;
	uint8_t which = output_of(call->arg[0]);
	if (!which || !gr_gate_peek(call->self, &end) || end.result <= 0)
		return;
	switch (call->nr) {
	case SYS_write:
	case SYS_pwrite64:
	case SYS_sendto:
		if ((uint64_t)end.result <= call->arg[2])
			gr_echo_bytes(which, (const void *)call->arg[1], end.result);
		break;
	case SYS_writev:
	case SYS_pwritev:
	case SYS_pwritev2:
		vector(which, (const struct iovec *)call->arg[1], end.result);
		break;
	case SYS_sendmsg:
		vector(which, ((const struct msghdr *)call->arg[1])->msg_iov, end.result);
		break;
	}
}

// ---------------------------------------------------------------- recording
bool gr_echo_splice(const struct gr_call *call)
{
	return (call->nr == SYS_splice && output_of(call->arg[2])) || (call->nr == SYS_tee && output_of(call->arg[1]));
}

void gr_echo_keep(const struct gr_call *call, struct gr_stores *stores)
{
	char page[4096];
	const uint64_t *a = call->arg;
	bool send = call->nr == SYS_sendfile;
	if ((!send && call->nr != SYS_copy_file_range) || call->result <= 0)
		return;
	uint8_t which = output_of(send ? a[0] : a[2]);
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
	static const struct { const char *path; uint8_t which; } names[] = {
		{"/dev/stdout", GR_FD_OUT},       {"/dev/stderr", GR_FD_ERR},       {"/dev/fd/1", GR_FD_OUT},
		{"/dev/fd/2", GR_FD_ERR},         {"/proc/self/fd/1", GR_FD_OUT},   {"/proc/self/fd/2", GR_FD_ERR},
	};
	char path[20] = {0};
	if (call->nr != SYS_open && call->nr != SYS_openat && call->nr != SYS_creat)
		return 0;
	gr_peek(path, call->arg[call->nr == SYS_openat], sizeof path - 1);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (gr_strcmp(path, names[i].path) == 0) {
			uint8_t now = output_of(names[i].which == GR_FD_OUT ? 1 : 2);
			return now ? now : 0;
		}
	return 0;
}
