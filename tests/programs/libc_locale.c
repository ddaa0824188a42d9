// Asks for locales, again and again, from two threads: the C library looks for their files with a read-write lock of its own
// held, which knows its writer. Natively the same each time; going on from a copy in the middle of it, it came to no end.
#include <libintl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>

int asked;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *ask(void *arg)
{
	for (int i = 0; i < 4; i++) {
		pthread_mutex_lock(&mutex);
		asked += setlocale(LC_ALL, i % 2 ? "xx_XX.UTF-8" : "C") != NULL;
		bindtextdomain("nothing", i % 2 ? "/nowhere" : "/tmp");
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	ask(NULL);
	pthread_create(&thread, NULL, ask, NULL);
	pthread_join(thread, NULL);
	ask(NULL);
	printf("%d\n", asked);
	return 0;
}
