// As many operations as the argument says, three in each pass: two of a mutex and a system call.
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *nothing(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	pthread_create(&thread, NULL, nothing, NULL);
	pthread_join(thread, NULL);
	for (int i = 0; argc == 2 && i < atoi(argv[1]); i++) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		syscall(SYS_getppid);
	}
	return 0;
}
