// Programs that cannot be executed, by every way that leads to exec: each error is the kernel's.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void make(const char *name, const char *contents, mode_t mode)
{
	int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	if (fd < 0 || write(fd, contents, strlen(contents)) < 0 || fchmod(fd, mode))
		exit(1);
	close(fd);
}

static const char *ending(pid_t pid)
{
	static char text[40];
	int status = 0;
	pid_t got = waitpid(pid, &status, 0);
	snprintf(text, sizeof text, "%s status %x", got == pid ? "own" : "other", status);
	return text;
}

static void say(const char *way, const char *name, int error, pid_t pid)
{
	printf("%-10s %-12s %s%s%s\n", way, name, strerror(error), error ? "" : ", ", error ? "" : ending(pid));
}

static void try(const char *name, char *const argv[])
{
	volatile int error = 0;
	pid_t pid = -1;
	error = posix_spawn(&pid, name, NULL, NULL, argv, environ);
	say("spawn", name, error, pid);
	error = posix_spawnp(&pid, name, NULL, NULL, argv, environ);
	say("spawnp", name, error, pid);
	error = 0;
	pid = vfork();
	if (pid == 0) {
		execve(name, argv, environ);
		error = errno;
		_exit(9);
	}
	if (error)
		waitpid(pid, NULL, 0);
	say("vfork", name, error, pid);
	error = 0;
	pid = vfork();
	if (pid == 0) {
		int fd = open(name, O_PATH);
		if (execveat(fd, "", argv, environ, AT_EMPTY_PATH))
			error = errno;
		_exit(9);
	}
	if (error)
		waitpid(pid, NULL, 0);
	say("execveat", name, error, pid);
	pid = fork();
	if (pid == 0) {
		execve(name, argv, environ);
		_exit(errno);
	}
	say("fork", name, 0, pid);
	char command[300];
	snprintf(command, sizeof command, "%s 2>/dev/null", name);
	printf("system     %-12s %x\n", name, system(command));
	FILE *pipe = popen(command, "r");
	printf("popen      %-12s %x\n", name, pipe ? pclose(pipe) : -1);
}

int main(void)
{
	char place[] = "/tmp/calls-spawn-errors-XXXXXX";
	char *argv[] = {"x", NULL};
	if (!mkdtemp(place) || chdir(place))
		return 1;
	make("./no-right", "#!/bin/sh\nexit 3\n", 0644);
	make("./no-shell", "#!/nonexistent/shell\nexit 3\n", 0755);
	make("./no-line", "exit 3\n", 0755);
	make("./no-elf", "\177ELF rubbish", 0755);
	make("./works", "#!/bin/sh\nexit 3\n", 0755);
	if (mkdir("./directory", 0755) || symlink("./loop", "./loop"))
		return 1;
	static const char *const names[] = {
		"./there-is-none", "./no-right", "./no-shell", "./no-line", "./no-elf", "./directory", "./loop", "./works/x", "./works",
	};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		try(names[i], argv);

	size_t size = 8 << 20;
	char *large = malloc(size);
	memset(large, 'x', size - 1);
	large[size - 1] = 0;
	char *too_large[] = {"x", large, NULL};
	pid_t pid = -1;
	say("spawn", "large", posix_spawn(&pid, "./works", NULL, NULL, too_large, environ), pid);

	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 5, "./there-is-none", O_RDONLY, 0);
	say("spawn", "open", posix_spawn(&pid, "./works", &actions, NULL, argv, environ), pid);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, 77, 5);
	say("spawn", "dup2", posix_spawn(&pid, "./works", &actions, NULL, argv, environ), pid);
	posix_spawn_file_actions_destroy(&actions);

	for (unsigned i = 1; i < sizeof names / sizeof *names; i++)
		remove(names[i]);
	rmdir("./directory");
	return chdir("/") || rmdir(place);
}
