// Destructors of a thread's keys, which set keys again; and what threads leave in them, in the order of their ends.
#include "sync.h"

#include <pthread.h>

static pthread_key_t first, second;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void note(char c)
{
	pthread_mutex_lock(&mutex);
	mark(c);
	pthread_mutex_unlock(&mutex);
}

static void end_first(void *value)
{
	note(*(char *)value);
	pthread_setspecific(second, value);
}

static void end_second(void *value)
{
	work_a_little();
	note(*(char *)value - 'a' + 'A');
}

static void *work(void *name)
{
	work_a_little();
	pthread_setspecific(first, name);
	if (*(char *)name % 2)
		pthread_exit(name);
	return name;
}

int main(void)
{
	pthread_t threads[8];
	pthread_key_create(&first, end_first);
	pthread_key_create(&second, end_second);
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abcdefgh"[i]));
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	printf("%s keys %u %u\n", line, first, second);
	return 0;
}
