// Two cashiers draw on one account. Every access holds the lock, and still the balance can go below zero:
// the check and the withdrawal hold it separately, and the other cashier may come in between.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CASHIERS 2
#define ROUNDS 500000
#define PRICE 100
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance;
static long sales[CASHIERS];
static char last_sale[CASHIERS][64];

static int covered(void)
{
	pthread_mutex_lock(&lock);
	if (balance == 0)
		balance += PRICE; // somebody pays in what one sale costs
	int yes = balance >= PRICE;
	pthread_mutex_unlock(&lock);
	return yes;
}

static void withdraw(int cashier)
{
	pthread_mutex_lock(&lock);
	balance -= PRICE;
	sales[cashier]++;
	pthread_mutex_unlock(&lock);
}

static void *serve(void *arg)
{
	int cashier = *(int *)arg;
	for (int round = 0; round < ROUNDS && covered(); round++) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		snprintf(last_sale[cashier], 64, "%ld.%09ld: %d", now.tv_sec, now.tv_nsec, PRICE); // for the sales log
		withdraw(cashier);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[CASHIERS];
	int number[CASHIERS] = { 0, 1 };
	pthread_mutex_lock(&lock); // nobody begins before everybody is there
	for (int i = 0; i < CASHIERS; i++)
		pthread_create(&thread[i], NULL, serve, &number[i]);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < CASHIERS; i++)
		pthread_join(thread[i], NULL);
	fprintf(stderr, "%ld and %ld sales, balance %ld\n", sales[0], sales[1], balance);
	if (balance < 0)
		abort(); // long after the fact, in a thread that did nothing wrong
	return 0;
}
