// What cannot be recorded; argv[1] says which.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[65536];

static int child(void *unused)
{
	return unused != NULL;
}

static void *wait_for_ever(void *arg)
{
	pause();
	return arg;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "exec"))
		execl("/bin/true", "true", (char *)NULL);
	if (!strcmp(what, "fork-shared")) {
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (fork() == 0)
			_exit(0);
	}
	if (!strcmp(what, "fork-unshared")) { // not inherited: no reason to refuse
		char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		madvise(p, 4096, MADV_DONTFORK);
		if (fork() == 0)
			_exit(0);
		wait(NULL);
	}
	if (!strcmp(what, "clone-vm"))
		clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
	if (!strcmp(what, "clone-files"))
		clone(child, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
	if (!strcmp(what, "traced")) {
		if (vfork() == 0) {
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		wait(NULL);
	}
	if (!strcmp(what, "int-0x80")) {
		int pid;
		__asm__ volatile("int $0x80" : "=a"(pid) : "a"(20) : "memory");
	}
	if (!strcmp(what, "io_uring"))
		syscall(SYS_io_uring_setup, 1, NULL);
	if (!strcmp(what, "set-ids")) {
		pthread_t thread;
		pthread_create(&thread, NULL, wait_for_ever, NULL);
		if (setgid(getgid()))
			return 1;
	}
	puts("done");
	return 0;
}
