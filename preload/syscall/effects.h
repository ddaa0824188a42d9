// What a system call reads and writes, as data: the C side of tables/syscalls.def.
// Runs in: application threads (read only), host-side unit tests.
// May call: nothing; constant tables only.
// Owns: struct gr_sys and the meaning of each effect term.
#pragma once

#include <stdint.h>

// SYS(nr, name, CLASS, FLAGS, NARGS, EFFECT...) one line per system call. Argument positions count from 1.
// A pointer that is NULL has no effect. Effects are independent: MAKES_AT tells of descriptors, the OUT beside it of
// the bytes. OUT may name more bytes than the kernel writes (never fewer), so the others must keep their value. A call that fails
// with EFAULT has perhaps stored in front of the bad address: then every OUT counts, as far as there is memory.
//
// effects:
//   FD(a)            argument a is a descriptor that is used
//   STR(a)           NUL-terminated string read
//   IN(a, LEN)       bytes read
//   OUT(a, LEN)      bytes written when the call succeeds
//   OUT_ANY(a, LEN)  bytes written also when it fails (e.g. remaining time)
//   INOUT(a, LEN)    both
//   IOV_IN(a, b)     struct iovec[arg b], read          IOV_OUT(a, b)  ... filled up to the result
//   MSG_IN(a)        struct msghdr, read                MSG_OUT(a)     ... filled (name, control, flags, vector)
//   MMSG_IN(a, b)    struct mmsghdr[arg b]; msg_len of the first RESULT are written    MMSG_OUT(a, b)
//   BEHIND(a, n, p, l)  structure of n bytes; its pointer at byte p leads to as many bytes written as the 32-bit number at byte l says
//   STRV(a)          NULL-terminated vector of strings, read
//   MAKES            the result is a new descriptor     MAKES_AT(a, n) n new descriptors written as int[n]
//   MAKES_IF(a)      like MAKES, when argument a is not 0 (it is MAKES with .arg set)
//   CLOSES(a)        descriptor a is closed             DUPS(a)        the result is a copy of descriptor a
//   DUPS_TO(a, b)    descriptor b becomes a copy of a
//   MAPS             the result is an address of a new mapping
// lengths:
//   BYTES(n)  constant           ARG(a)  value of an argument       ARGX(a, n) argument times n
//   RET       the result         RETX(n) result times n
//   AT(a)     socklen_t behind argument a: min of its value before and after
//   FDSET(a)  bytes of an fd_set for nfds = argument a
//   RET_TO(a) the result, at most argument a (calls that tell the size needed)   RETX_TO(n, a) the same times n
//   ARG_PLUS(a, n)  argument plus n   RET_PLUS(n)  result plus n   RET_PLUS_TO(n, a) the same, the result at most argument a
//   SELF(n)   n plus the 32-bit number the buffer begins with: min of its value before and after
//   FLEX(n, m, k) n bytes and behind them as many times k as the 32-bit number at byte m of the buffer says
//   WHEN(n)   the bytes if the result is more than 0, none if it is 0
//   OWN       what gr_call_own_length() says of this call
//   PAGES(a)  one byte for each page of argument a bytes     NODES(a)  (argument - 1) bits in whole 8-byte words
enum gr_fx_kind {
	GR_FX_NONE, GR_FX_FD, GR_FX_STR, GR_FX_IN, GR_FX_OUT, GR_FX_OUT_ANY, GR_FX_INOUT,
	GR_FX_IOV_IN, GR_FX_IOV_OUT, GR_FX_MSG_IN, GR_FX_MSG_OUT, GR_FX_MMSG_IN, GR_FX_MMSG_OUT, GR_FX_STRV,
	GR_FX_MAKES, GR_FX_MAKES_AT, GR_FX_CLOSES, GR_FX_DUPS, GR_FX_DUPS_TO, GR_FX_MAPS,
	GR_FX_BEHIND,  // len_arg: p; scale: l << 16 | n
	GR_FX_COMPARE, // of an ioctl: memory is compared, see memory/compare.c; .scale: bytes of the structure, 0 where nobody knows
	GR_FX_REFUSED, // of an ioctl
};

enum gr_len_kind {
	GR_LEN_NONE, GR_LEN_BYTES, GR_LEN_ARG, GR_LEN_RET, GR_LEN_AT, GR_LEN_FDSET,
	GR_LEN_ARG_PLUS, GR_LEN_RET_PLUS, GR_LEN_SELF, GR_LEN_PAGES, GR_LEN_NODES, GR_LEN_FLEX, GR_LEN_WHEN, GR_LEN_OWN,
};

struct gr_fx {
	uint8_t kind;     // enum gr_fx_kind
	uint8_t arg;      // 1..6, 0 where none
	uint8_t len_kind; // enum gr_len_kind; second argument position for IOV, MMSG and DUPS_TO in len_arg
	uint8_t len_arg;  // the argument a length is taken from; RET: the argument it is at most, 0 for none
	uint32_t scale;   // BYTES: the bytes; ARG, RET: multiplied by; _PLUS, SELF: added; MAKES_AT: how many; FLEX: k << 16 | n
};

// flags of a call
#define GR_SF_BLOCKS 1       // may wait for something that another thread or the world does
#define GR_SF_IRREVOCABLE 2  // changes the world outside the process; an epoch may not be rolled over it natively
#define GR_SF_BY_FD 4        // its class is that of its first FD argument
#define GR_SF_SPECIAL 8      // has a handler of its own in C, by name: gr_special_NAME
#define GR_SF_REFUSED 16     // cannot be supported; refused by name with the reason in refusals.def
#define GR_SF_NORETURN 32

#define GR_FX_MAX 8 // the first that is GR_FX_NONE ends the row

struct gr_sys {
	const char *name; // NULL: no such call
	uint8_t cls;      // enum gr_class
	uint8_t flags;
	uint8_t nargs;
	struct gr_fx fx[GR_FX_MAX];
};

enum gr_class {
#define CLASS(name, ...) GR_CLASS_##name,
#include "../tables/classes.def"
#undef CLASS
	GR_CLASS_COUNT
};

extern const struct gr_sys gr_sys_table[]; // GR_SYS_MAX rows, by number

// ioctl(2) by request: IOCTL(NAME, number, EFFECT_ON_ARG3...) in tables/ioctls.def
struct gr_ioctl { uint32_t request; struct gr_fx fx; const char *name; };
const struct gr_ioctl *gr_ioctl_find(uint32_t request); // NULL: unknown; what it does is seen by comparing memory
