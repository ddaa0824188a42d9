// Another program in place of this one; see process.h.
// Runs in: application threads, on the engine's stack.
// May call: the dispatcher, raw system calls.
// Owns: nothing.
#include <fcntl.h>
#include <unistd.h>

#include "../../core/raw.h"
#include "../dispatch.h"
#include "process.h"

// Who looks for a program tries one folder after the other.
long gr_exec(struct gr_call *call)
{
	if (gr_mode == GR_MODE_REPLAY)
		return call->result;
	long ret = call->nr == SYS_execve ? GR_RAW(SYS_faccessat, AT_FDCWD, call->arg[0], X_OK) : 0;
	if (!ret)
		gr_refuse(call);
	return ret;
}
