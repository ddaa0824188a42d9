// The tables of system calls and ioctl requests as constant data: expands syscalls.def and ioctls.def.
// Runs in: application threads (read only), host-side unit tests.
// May call: nothing.
// Owns: gr_sys_table, gr_ioctl_find. The words of the .def files are macros here and nowhere else.
#include "effects.h"

#include "../abi.h"

#include <stddef.h>

#define BLOCKS GR_SF_BLOCKS
#define IRREV GR_SF_IRREVOCABLE
#define BY_FD GR_SF_BY_FD
#define SPECIAL GR_SF_SPECIAL
#define REFUSED GR_SF_REFUSED
#define NORETURN GR_SF_NORETURN

// Lengths expand to the last three fields of struct gr_fx.
#define BYTES(n) GR_LEN_BYTES, 0, n
#define ARG(a) GR_LEN_ARG, a, 1
#define ARGX(a, n) GR_LEN_ARG, a, n
#define ARG_PLUS(a, n) GR_LEN_ARG_PLUS, a, n
#define RET GR_LEN_RET, 0, 1
#define RETX(n) GR_LEN_RET, 0, n
#define RET_TO(a) GR_LEN_RET, a, 1
#define RETX_TO(n, a) GR_LEN_RET, a, n
#define RET_PLUS(n) GR_LEN_RET_PLUS, 0, n
#define RET_PLUS_TO(n, a) GR_LEN_RET_PLUS, a, n
#define AT(a) GR_LEN_AT, a, 1
#define FDSET(a) GR_LEN_FDSET, a, 1
#define SELF(n) GR_LEN_SELF, 0, n
#define PAGES(a) GR_LEN_PAGES, a, 1
#define NODES(a) GR_LEN_NODES, a, 1
#define FLEX(n, m, k) GR_LEN_FLEX, m, (k) << 16 | (n)
#define WHEN(n) GR_LEN_WHEN, 0, n
#define OWN GR_LEN_OWN, 0, 0
#define NO_LENGTH GR_LEN_NONE, 0, 0

#define FD(a) { GR_FX_FD, a, NO_LENGTH }
#define STR(a) { GR_FX_STR, a, NO_LENGTH }
#define IN(a, ...) { GR_FX_IN, a, __VA_ARGS__ }
#define OUT(a, ...) { GR_FX_OUT, a, __VA_ARGS__ }
#define OUT_ANY(a, ...) { GR_FX_OUT_ANY, a, __VA_ARGS__ }
#define INOUT(a, ...) { GR_FX_INOUT, a, __VA_ARGS__ }
#define IOV_IN(a, b) { GR_FX_IOV_IN, a, GR_LEN_NONE, b, 0 }
#define IOV_OUT(a, b) { GR_FX_IOV_OUT, a, GR_LEN_NONE, b, 0 }
#define MSG_IN(a) { GR_FX_MSG_IN, a, NO_LENGTH }
#define MSG_OUT(a) { GR_FX_MSG_OUT, a, NO_LENGTH }
#define MMSG_IN(a, b) { GR_FX_MMSG_IN, a, GR_LEN_NONE, b, 0 }
#define MMSG_OUT(a, b) { GR_FX_MMSG_OUT, a, GR_LEN_NONE, b, 0 }
#define BEHIND(a, n, pointer, length) { GR_FX_BEHIND, a, GR_LEN_NONE, pointer, (length) << 16 | (n) }
#define STRV(a) { GR_FX_STRV, a, NO_LENGTH }
#define MAKES { GR_FX_MAKES, 0, NO_LENGTH }
#define MAKES_IF(a) { GR_FX_MAKES, a, NO_LENGTH }
#define MAKES_AT(a, n) { GR_FX_MAKES_AT, a, GR_LEN_NONE, 0, n }
#define CLOSES(a) { GR_FX_CLOSES, a, NO_LENGTH }
#define DUPS(a) { GR_FX_DUPS, a, NO_LENGTH }
#define DUPS_TO(a, b) { GR_FX_DUPS_TO, a, GR_LEN_NONE, b, 0 }
#define MAPS { GR_FX_MAPS, 0, NO_LENGTH }

#define SYS(nr, sys_name, sys_class, sys_flags, sys_nargs, ...) \
	[nr] = { .name = #sys_name, .cls = GR_CLASS_##sys_class, .flags = sys_flags, .nargs = sys_nargs, \
		.fx = { __VA_ARGS__ } },

const struct gr_sys gr_sys_table[GR_SYS_MAX] = {
#include "../tables/syscalls.def"
};

// The same words for ioctls: the argument is always the third.
#undef IN
#undef OUT
#undef INOUT
#define IN(...) { GR_FX_IN, 3, __VA_ARGS__ }
#define OUT(...) { GR_FX_OUT, 3, __VA_ARGS__ }
#define INOUT(...) { GR_FX_INOUT, 3, __VA_ARGS__ }
#define VALUE { GR_FX_NONE, 0, NO_LENGTH }

#undef BEHIND
#define BEHIND(n, pointer, length) { GR_FX_BEHIND, 3, GR_LEN_NONE, pointer, (length) << 16 | (n) }
#define DEEP(n) { GR_FX_COMPARE, 3, GR_LEN_NONE, 0, n }
#undef REFUSED
#define REFUSED { GR_FX_REFUSED, 3, NO_LENGTH }

#define IOCTL(ioctl_name, number, ...) { number, __VA_ARGS__, #ioctl_name },

static const struct gr_ioctl gr_ioctls[] = {
#include "../tables/ioctls.def"
};

const struct gr_ioctl *gr_ioctl_find(uint32_t request)
{
	for (size_t i = 0; i < sizeof gr_ioctls / sizeof *gr_ioctls; i++)
		if (gr_ioctls[i].request == request)
			return &gr_ioctls[i];
	return NULL;
}
