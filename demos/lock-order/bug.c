// Two accounts, two locks. Each transfer locks the account that is paid from first, so two transfers in opposite
// directions can wait for each other for ever. A watchdog gives up after a second.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct account {
	pthread_mutex_t lock;
	long balance;
};

static struct account left = {PTHREAD_MUTEX_INITIALIZER, 1000};
static struct account right = {PTHREAD_MUTEX_INITIALIZER, 1000};

static void transfer(struct account *from, struct account *to, long amount)
{
	pthread_mutex_lock(&from->lock);
	pthread_mutex_lock(&to->lock);
	from->balance -= amount;
	to->balance += amount;
	pthread_mutex_unlock(&to->lock);
	pthread_mutex_unlock(&from->lock);
}

static void *eastward(void *arg)
{
	for (int i = 0; i < 100; i++)
		transfer(&left, &right, 1);
	return arg;
}

static void *westward(void *arg)
{
	for (int i = 0; i < 100; i++)
		transfer(&right, &left, 1);
	return arg;
}

int main(void)
{
	pthread_t one, two;
	struct timespec limit;
	pthread_create(&one, NULL, eastward, NULL);
	pthread_create(&two, NULL, westward, NULL);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec++;
	if (pthread_timedjoin_np(one, NULL, &limit) || pthread_timedjoin_np(two, NULL, &limit)) {
		fprintf(stderr, "nothing moves any more\n");
		abort();
	}
	return 0;
}
