// Another program in place of this one; see process.h.
// Runs in: application threads, on the engine's stack.
// May call: the dispatcher, raw system calls.
// Owns: nothing.
#include <fcntl.h>
#include <unistd.h>

#include "../../core/raw.h"
#include "../dispatch.h"
#include "process.h"

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

// Who looks for a program tries one folder after the other.
long gr_exec(struct gr_call *call)
{
	if (gr_mode == GR_MODE_REPLAY)
		return call->result;
	const uint64_t *a = call->arg;
	long ret = call->nr == SYS_execve ? GR_RAW(SYS_faccessat, AT_FDCWD, a[0], X_OK) : GR_RAW(SYS_faccessat2, a[0], a[1], X_OK, a[4]);
	if (!ret)
		gr_refuse(call);
	return ret;
}
