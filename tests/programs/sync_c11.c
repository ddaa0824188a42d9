// The threads of C11: every function of theirs.
#include "sync.h"

#include <threads.h>

static mtx_t plain, timed;
static cnd_t cond;
static once_flag flag = ONCE_FLAG_INIT;
static tss_t key;
static int turn, late, busy;

static void happen(void)
{
	mark('!');
}

static void end(void *value)
{
	mtx_lock(&plain);
	mark(*(char *)value);
	mtx_unlock(&plain);
}

static int work(void *name)
{
	int me = *(char *)name - 'a';
	call_once(&flag, happen);
	tss_set(key, name);
	for (int i = 0; i < 20; i++) {
		struct timespec limit = soon(CLOCK_REALTIME, 30);
		int ret = mtx_timedlock(&timed, &limit);
		if (ret == thrd_success) {
			work_a_little();
			mtx_unlock(&timed);
		}
		mtx_lock(&plain);
		late += ret == thrd_timedout;
		if (mtx_trylock(&timed) == thrd_success)
			mtx_unlock(&timed);
		else
			busy++;
		while (turn % 3 != me) {
			limit = soon(CLOCK_REALTIME, 50);
			if (i % 2 ? cnd_timedwait(&cond, &plain, &limit) == thrd_timedout : cnd_wait(&cond, &plain) != thrd_success)
				mark('t');
		}
		turn++;
		cnd_broadcast(&cond);
		mtx_unlock(&plain);
		thrd_yield();
	}
	if (me == 2)
		thrd_exit(30);
	return me * 10;
}

static int leave(void *arg)
{
	mtx_lock(&plain);
	turn += 1000;
	cnd_signal(&cond);
	mtx_unlock(&plain);
	return arg != NULL;
}

int main(void)
{
	thrd_t threads[3], other;
	int result, sum = 0;
	CHECK(mtx_init(&plain, mtx_plain | mtx_recursive) == thrd_success);
	CHECK(mtx_init(&timed, mtx_timed) == thrd_success);
	CHECK(cnd_init(&cond) == thrd_success && tss_create(&key, end) == thrd_success);
	for (int i = 0; i < 3; i++)
		CHECK(thrd_create(&threads[i], work, (void *)&"abc"[i]) == thrd_success);
	for (int i = 0; i < 3; i++) {
		CHECK(thrd_join(threads[i], &result) == thrd_success);
		sum += result;
	}
	CHECK(thrd_create(&other, leave, NULL) == thrd_success && thrd_detach(other) == thrd_success);
	mtx_lock(&plain);
	while (turn < 1000)
		cnd_wait(&cond, &plain);
	mtx_unlock(&plain);
	printf("%s late %d busy %d sum %d\n", line, late, busy, sum);
	mtx_destroy(&timed);
	cnd_destroy(&cond);
	return 0;
}
