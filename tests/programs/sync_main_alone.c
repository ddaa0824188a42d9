// The only thread leaves by pthread_exit: the process ends as by exit(0).
#include "sync.h"

#include <pthread.h>
#include <unistd.h>

static void at_exit(void)
{
	printf("%d\n", getpid());
}

int main(void)
{
	atexit(at_exit);
	pthread_exit((void *)3);
}
