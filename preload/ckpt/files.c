// Places in files; see files.h.
// Runs in: the thread of a replay that stands; a copy just made from a frozen one, which has one task.
// May call: core, syscall; raw calls.
// Owns: the places.
#include "files.h"

#include <fcntl.h>

#include "../core/nolibc.h"
#include "../core/raw.h"
#include "../syscall/descriptor.h"

static int64_t places[GR_DESCRIPTORS]; // pages of it exist where a program has such descriptors

void gr_files_note(void)
{
	for (uint32_t fd = gr_fd_native(0); fd < GR_DESCRIPTORS; fd = gr_fd_native(fd + 1))
		places[fd] = GR_RAW(SYS_lseek, fd, 0, SEEK_CUR);
}

static void put(uint32_t from, uint32_t fd)
{
	long inherits = GR_RAW(SYS_fcntl, fd, F_GETFD);
	GR_RAW(SYS_dup3, from, fd, inherits & FD_CLOEXEC ? O_CLOEXEC : 0);
}

// Through /proc, because the name may be another's by now, or gone. What cannot be opened so (its mode has changed since) stays
// shared: where its place is another one then, what is read differs, and is reported.
static void reopen(uint32_t fd)
{
	char link[40];
	long flags = GR_RAW(SYS_fcntl, fd, F_GETFL);
	if (GR_IS_ERR(flags) || flags & O_PATH || places[fd] < 0)
		return;
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)fd);
	flags = (flags & (O_NONBLOCK | O_DIRECTORY | O_DIRECT | O_NOATIME)) | O_RDONLY | O_CLOEXEC;
	long made = GR_RAW(SYS_openat, AT_FDCWD, link, flags);
	if (GR_IS_ERR(made))
		return;
	if (places[fd])
		GR_RAW(SYS_lseek, made, places[fd], SEEK_SET);
	put(made, fd);
	GR_RAW(SYS_close, made);
}

void gr_files_reopen(void)
{
	for (uint32_t fd = gr_fd_native(0); fd < GR_DESCRIPTORS; fd = gr_fd_native(fd + 1)) {
		uint32_t first = gr_fd_native(0);
		while (first < fd && gr_fd_opening(first) != gr_fd_opening(fd))
			first = gr_fd_native(first + 1);
		if (first < fd)
			put(first, fd);
		else
			reopen(fd);
	}
}
