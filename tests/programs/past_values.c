// Variables that change in many ways: behind a pointer that moves, in a recursion, in two threads. What natively differs
// is whose turn it is.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
	long key;
	struct node *next;
	int payload[4];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *head;
static long sum;
static char wide[48];
static struct { unsigned low : 3, high : 5; } bits;

static long fibonacci(int n)
{
	long a = n;
	if (n >= 2) {
		a = fibonacci(n - 1);
		a += fibonacci(n - 2);
	}
	return a;
}

static void add(long key)
{
	struct node *node = calloc(1, sizeof *node);
	node->key = key;
	node->next = head;
	head = node;
	sum += key;
	wide[key % 48]++;
	bits.low = key % 8, bits.high = key;
}

static void *work(void *first)
{
	for (long i = 0; i < 3; i++) {
		pthread_mutex_lock(&lock);
		add((long)first + i);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	pthread_t a, b;
	pthread_create(&a, NULL, work, (void *)10);
	pthread_create(&b, NULL, work, (void *)20);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	head->payload[2] = (int)fibonacci(5);
	printf("%ld %ld\n", sum, head->key);
	return 0;
}
