// The classes of descriptors; see descriptor.h.
// Runs in: application threads.
// May call: raw system calls (while recording).
// Owns: the descriptor table.
#include "descriptor.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "../core/nolibc.h"
#include "../core/raw.h"

static uint8_t table[GR_DESCRIPTORS];

_Static_assert((int)GR_CLASS_COUNT <= GR_FD_NONE, "class numbers fit beside the flags");

void gr_fd_init(void)
{
	memset(table, GR_FD_NONE, sizeof table);
}

uint8_t gr_fd_get(uint64_t fd)
{
	return fd < GR_DESCRIPTORS ? table[fd] : GR_FD_NONE;
}

static void set(uint64_t fd, uint8_t value)
{
	if (fd < GR_DESCRIPTORS)
		__atomic_store_n(&table[fd], value, __ATOMIC_RELAXED);
}

uint8_t gr_fd_probe(int fd)
{
	struct stat st;
	if (GR_RAW(SYS_fstat, fd, &st))
		return GR_FD_NONE;
	switch (st.st_mode & S_IFMT) {
	case S_IFIFO:
		return GR_CLASS_pipe;
	case S_IFSOCK:
		return GR_CLASS_net;
	case S_IFCHR: {
		unsigned dev_major = major(st.st_rdev);
		return dev_major == 4 || dev_major == 5 || (dev_major >= 136 && dev_major <= 143) ? GR_CLASS_tty : GR_CLASS_device;
	}
	case S_IFBLK:
		return GR_CLASS_device;
	case 0: // anonymous inodes: event descriptors and their kin
		return GR_CLASS_pipe;
	}
	return GR_CLASS_file;
}

bool gr_fd_makes(const struct gr_call *call)
{
	for (int i = 0; i < GR_FX_MAX && call->sys->fx[i].kind; i++)
		if (call->sys->fx[i].kind == GR_FX_MAKES || call->sys->fx[i].kind == GR_FX_MAKES_AT)
			return true;
	return false;
}

void gr_fd_update(const struct gr_call *call, uint8_t cls)
{
	for (int i = 0; i < GR_FX_MAX && call->sys->fx[i].kind; i++) {
		const struct gr_fx *fx = &call->sys->fx[i];
		uint64_t first = fx->arg ? call->arg[fx->arg - 1] : 0;
		switch ((enum gr_fx_kind)fx->kind) {
		case GR_FX_CLOSES: // also when it fails: Linux releases the number first
			set(first, GR_FD_NONE);
			break;
		case GR_FX_MAKES:
			if (call->result >= 0)
				set(call->result, cls);
			break;
		case GR_FX_MAKES_AT:
			for (uint32_t n = 0; call->result >= 0 && n < fx->scale; n++)
				set(((int *)first)[n], cls);
			break;
		case GR_FX_DUPS:
			if (call->result >= 0)
				set(call->result, gr_fd_get(first));
			break;
		case GR_FX_DUPS_TO:
			if (call->result >= 0)
				set(call->arg[fx->len_arg - 1], gr_fd_get(first));
			break;
		default:
			break;
		}
	}
}

void gr_fd_standard(const uint8_t classes[3])
{
	static const uint8_t marks[3] = {GR_FD_RECORDED, GR_FD_RECORDED | GR_FD_OUT, GR_FD_RECORDED | GR_FD_ERR};
	for (int fd = 0; fd < 3; fd++)
		set(fd, classes[fd] == GR_FD_NONE ? GR_FD_NONE : classes[fd] | marks[fd]);
}
