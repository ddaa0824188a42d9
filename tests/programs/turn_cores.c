// Two threads that hand a token to each other all the time, and look at their cores in between: as at the start, always.
// `turn_cores ROUNDS` hands it on so often before each look, and in the end prints what its status says.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sync.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long owner, rounds;
static cpu_set_t first;

static void play(long me)
{
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		while (owner != me)
			pthread_cond_wait(&turned, &lock);
		owner = !me;
		pthread_cond_signal(&turned);
		pthread_mutex_unlock(&lock);
	}
}

static void look(const char *who)
{
	cpu_set_t now;
	CHECK(sched_getaffinity(0, sizeof now, &now) == 0);
	dprintf(1, "%s: %s\n", who, CPU_EQUAL(&first, &now) ? "its own" : "others"); // no buffer that a child would have, too
}

static void status(void)
{
	char path[64], line[256];
	snprintf(path, sizeof path, "/proc/self/task/%d/status", gettid());
	FILE *file = fopen(path, "re");
	CHECK(file);
	while (fgets(line, sizeof line, file))
		if (strncmp(line, "Cpus_allowed_list:", 18) == 0)
			fputs(line, stdout);
	fclose(file);
}

static void *born(void *arg)
{
	look("a new thread");
	return arg;
}

static void child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		look("a child");
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void *other(void *arg)
{
	for (int i = 0; i < 5; i++) {
		play(1);
		if (i < 2)
			look("the other");
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread, late;
	rounds = argc > 1 ? atol(argv[1]) : 5000;
	CHECK(sched_getaffinity(0, sizeof first, &first) == 0);
	CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
	play(0);
	look("main");
	play(0);
	child();
	play(0);
	CHECK(pthread_create(&late, NULL, born, NULL) == 0);
	pthread_join(late, NULL);
	play(0);
	play(0);
	pthread_join(thread, NULL);
	status();
	return 0;
}
