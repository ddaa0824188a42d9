// A named semaphore, opened twice, with another process that gives it too.
#include "sync.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t *sem, *again;

static void *work(void *name)
{
	for (int i = 0; i < 20; i++) {
		CHECK(!sem_wait(i % 2 ? sem : again));
		mark(*(char *)name); // one token: whoever has it is alone
		work_a_little();
		CHECK(!sem_post(sem));
	}
	return NULL;
}

int main(void)
{
	char name[40];
	pthread_t threads[3];
	snprintf(name, sizeof name, "/gdbrr-test-%d", getpid());
	CHECK((sem = sem_open(name, O_CREAT | O_EXCL, 0600, 0)) != SEM_FAILED);
	CHECK((again = sem_open(name, 0)) == sem);
	pid_t child = fork();
	if (child == 0) {
		sem_post(sem);
		_exit(0);
	}
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abc"[i]));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(!sem_close(sem) && !sem_close(again) && !sem_unlink(name));
	printf("%s %s\n", name, line);
	return 0;
}
