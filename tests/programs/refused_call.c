// Makes one call that cannot be recorded, by the name on its command line. Without the engine it just goes on.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const argv_true[] = {"/bin/true", NULL};

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char params[120] = {0};
	uint64_t base = 0;
	puts("before");
	fflush(stdout);
	if (!strcmp(what, "io_uring_setup")) {
		syscall(425, 1, params);
	} else if (!strcmp(what, "unshare")) {
		syscall(SYS_unshare, 0);
	} else if (!strcmp(what, "execve")) {
		syscall(SYS_execve, argv_true[0], argv_true, NULL);
	} else if (!strcmp(what, "arch_prctl")) {
		syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
		syscall(SYS_arch_prctl, ARCH_SET_FS, base);
	} else if (!strcmp(what, "clone")) {
		syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_FS | CLONE_FILES, 0, 0, 0, 0);
	} else if (!strcmp(what, "unknown")) {
		syscall(511);
	}
	puts("after");
	return 0;
}
