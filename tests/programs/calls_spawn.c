// Children of every kind: their ids and outputs differ; what a vfork child stores is its parent's memory.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int stored[4];
static char *grown;

static void wait_for(pid_t pid)
{
	int status = 0;
	struct rusage usage;
	pid_t got = wait4(pid, &status, 0, &usage);
	printf("%d %d %x\n", (int)pid, got == pid, status);
}

static void spawn(const char *program, char *const argv[])
{
	pid_t pid = -1;
	int error = posix_spawn(&pid, program, NULL, NULL, argv, environ);
	printf("spawn %s: %s\n", program, strerror(error));
	if (!error)
		wait_for(pid);
}

int main(void)
{
	char *echo[] = {"true", NULL};
	char *none[] = {"there-is-no-such-program", NULL};
	char line[100] = "";
	volatile int on_stack = 1;
	pid_t pid;

	spawn("/bin/true", echo);
	spawn("/nonexistent/program", none);
	spawn("/etc/passwd", none);
	int error = posix_spawnp(&pid, "there-is-no-such-program", NULL, NULL, none, environ);
	printf("spawnp: %s\n", strerror(error));

	pid = vfork();
	if (pid == 0) {
		stored[0] = 41;
		stored[3] = getpid();
		on_stack = 2;
		errno = 77;
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	printf("vfork exec: %d %d %d %d\n", stored[0], stored[3] == pid, on_stack, errno);
	wait_for(pid);

	pid = vfork();
	if (pid == 0) {
		execl("/nonexistent/program", "x", (char *)NULL);
		stored[1] = errno;
		grown = malloc(1000000); // makes a mapping
		strcpy(grown, "grown by the child");
		char *small = malloc(3000);
		strcpy(small, "small");
		stored[2] = small[0];
		_exit(7);
	}
	printf("vfork exit: %d %s %d\n", stored[1], grown, stored[2]);
	free(grown);
	wait_for(pid);

	pid = fork();
	if (pid == 0) {
		stored[0] = 0;
		_exit(getpid() % 100);
	}
	wait_for(pid);
	printf("fork: %d\n", stored[0]);

	printf("system: %x %x\n", system("exit 3"), system("kill -9 $$"));
	FILE *pipe = popen("echo $$; date +%N", "r");
	while (pipe && fgets(line, sizeof line, pipe))
		fputs(line, stdout);
	printf("pclose: %x\n", pclose(pipe));

	char path[] = "/tmp/calls-spawn-XXXXXX", command[200];
	int fd = mkstemp(path);
	snprintf(command, sizeof command, "date +%%N >%s", path);
	if (system(command) == 0 && read(fd, line, sizeof line) > 0)
		printf("a child's file: %s", line);
	unlink(path);
	return 0;
}
