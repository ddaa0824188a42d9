// A thread that cancels itself, or lets in a cancellation that is pending: where it acts, and which cleanup handlers run. `alone` is the
// only thread there ever was.
#include "sync.h"

#include <stdbool.h>
#include <unistd.h>

static int old, reached;

static void clean(void *number)
{
	printf("clean %d at %d\n", *(int *)number, reached);
	fflush(stdout);
	if (*(int *)number == 0)
		_exit(0);
}

static void async(void)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	reached = 1;
	pthread_cancel(pthread_self());
	reached = 2;
}

static void type(void)
{
	pthread_cancel(pthread_self());
	reached = 1;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	reached = 2;
}

static void state(void)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_cancel(pthread_self());
	reached = 1;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	reached = 2;
}

static void test(void)
{
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	reached = 1;
	pthread_testcancel();
	reached = 2;
}

static void write_call(void)
{
	pthread_cancel(pthread_self());
	reached = 1;
	CHECK(write(1, "", 0) == 0);
	reached = 2;
}

static void sleep_call(void)
{
	pthread_cancel(pthread_self());
	reached = 1;
	usleep(1000);
	reached = 2;
}

static void *work(void *arg)
{
	static const int one = 1, two = 2;
	pthread_cleanup_push(clean, (void *)&one);
	pthread_cleanup_push(clean, (void *)&two);
	((void (*)(void))arg)();
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*act)(void); } ways[] = {
		{"async", async}, {"type", type}, {"state", state}, {"test", test}, {"write", write_call}, {"sleep", sleep_call},
	};
	static const int zero = 0;
	for (unsigned i = 0; i < sizeof ways / sizeof *ways && argc > 1; i++) {
		if (strcmp(ways[i].name, argv[1]))
			continue;
		if (argc > 2) {
			pthread_cleanup_push(clean, (void *)&zero);
			ways[i].act();
			pthread_cleanup_pop(0);
		} else {
			pthread_t thread;
			void *result;
			pthread_create(&thread, NULL, work, (void *)ways[i].act);
			pthread_join(thread, &result);
			bool told = ways[i].act != state; // glibc 2.36 forgets the result there
			printf("cancelled %d at %d\n", told && result == PTHREAD_CANCELED, reached);
			return 0;
		}
	}
	printf("not cancelled, at %d\n", reached);
	return 1;
}
