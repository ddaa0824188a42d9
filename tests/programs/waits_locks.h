// Ways to wait for other threads: the primitives of pthreads and of C11.
#pragma once

#include "waits.h"

#include <semaphore.h>
#include <threads.h>

// ---------------------------------------------------------------- objects, made anew for each line
static pthread_mutex_t mutex;
static pthread_cond_t cond;
static pthread_rwlock_t rwlock;
static pthread_spinlock_t spinlock;
static pthread_barrier_t barrier;
static pthread_once_t once;
static sem_t sem, inside;
static mtx_t mtx;
static cnd_t cnd;
static thrd_t thrd;
static pthread_t other;
static int word, ends[2];
static char byte;
static bool joined;

static void post(void)
{
	CHECK(write(ends[1], "x", 1) == 1);
}

static void none(void)
{
}

static void open_pipe(void)
{
	CHECK(!pipe(ends));
}

static void close_pipe(void)
{
	close(ends[0]);
	close(ends[1]);
}

// ---------------------------------------------------------------- mutexes
static void lock_mutex(int type, int protocol, int robust)
{
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutexattr_setrobust(&attr, robust);
	CHECK(!pthread_mutex_init(&mutex, &attr));
	if (!is_free)
		pthread_mutex_lock(&mutex);
}

static void begin_normal(void) { lock_mutex(PTHREAD_MUTEX_NORMAL, 0, 0); }
static void begin_recursive(void) { lock_mutex(PTHREAD_MUTEX_RECURSIVE, 0, 0); }
static void begin_errorcheck(void) { lock_mutex(PTHREAD_MUTEX_ERRORCHECK, 0, 0); }
static void begin_adaptive(void) { lock_mutex(PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0); }
static void begin_robust(void) { lock_mutex(PTHREAD_MUTEX_NORMAL, 0, PTHREAD_MUTEX_ROBUST); }
static void begin_inherits(void) { lock_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0); }
static long wait_mutex(void) { return pthread_mutex_lock(&mutex); }
static long wait_mutex_timed(void) { return pthread_mutex_timedlock(&mutex, limit(CLOCK_REALTIME)); }
static long wait_mutex_clock(void) { return pthread_mutex_clocklock(&mutex, chosen(CLOCK_MONOTONIC), limit(CLOCK_MONOTONIC)); }
static long wait_mutex_real(void) { return pthread_mutex_clocklock(&mutex, chosen(CLOCK_REALTIME), limit(CLOCK_REALTIME)); }
static void give_mutex(void) { pthread_mutex_unlock(&mutex); }

static void begin_mtx(void)
{
	CHECK(mtx_init(&mtx, mtx_timed) == thrd_success);
	if (!is_free)
		mtx_lock(&mtx);
}

static long wait_mtx(void) { return mtx_lock(&mtx); }
static long wait_mtx_timed(void) { return mtx_timedlock(&mtx, limit(CLOCK_REALTIME)); }
static void give_mtx(void) { mtx_unlock(&mtx); }

// ---------------------------------------------------------------- conditions: who is cancelled has the mutex again
static void unlock_held(void *arg)
{
	(void)arg;
	holds = pthread_mutex_unlock(&mutex) == 0;
}

static void begin_cond(void)
{
	pthread_condattr_t attr;
	is_free = true; // the mutex
	begin_errorcheck();
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	CHECK(!pthread_cond_init(&cond, &attr));
	word = 0;
}

static long wait_cond_with(int how)
{
	long ret = 0;
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock_held, NULL);
	while (!word && !ret)
		ret = how == 0 ? pthread_cond_wait(&cond, &mutex)
		    : how == 1 ? pthread_cond_timedwait(&cond, &mutex, limit(CLOCK_MONOTONIC))
			       : pthread_cond_clockwait(&cond, &mutex, chosen(CLOCK_REALTIME), limit(CLOCK_REALTIME));
	pthread_cleanup_pop(1);
	return ret;
}

static long wait_cond(void) { return wait_cond_with(0); }
static long wait_cond_timed(void) { return wait_cond_with(1); }
static long wait_cond_clock(void) { return wait_cond_with(2); }

static void give_cond(void)
{
	pthread_mutex_lock(&mutex);
	word = 1;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
}

static void begin_cnd(void)
{
	CHECK(mtx_init(&mtx, mtx_plain) == thrd_success && cnd_init(&cnd) == thrd_success);
	word = 0;
}

static void unlock_mtx(void *arg)
{
	(void)arg;
	holds = mtx_trylock(&mtx) == thrd_busy && mtx_unlock(&mtx) == thrd_success;
}

static long wait_cnd_with(bool timed)
{
	long ret = thrd_success;
	mtx_lock(&mtx);
	pthread_cleanup_push(unlock_mtx, NULL);
	while (!word && ret == thrd_success)
		ret = timed ? cnd_timedwait(&cnd, &mtx, limit(CLOCK_REALTIME)) : cnd_wait(&cnd, &mtx);
	pthread_cleanup_pop(1);
	return ret;
}

static long wait_cnd(void) { return wait_cnd_with(false); }
static long wait_cnd_timed(void) { return wait_cnd_with(true); }

static void give_cnd(void)
{
	mtx_lock(&mtx);
	word = 1;
	cnd_broadcast(&cnd);
	mtx_unlock(&mtx);
}

// ---------------------------------------------------------------- the other primitives
static void begin_read(void)
{
	CHECK(!pthread_rwlock_init(&rwlock, NULL));
	if (!is_free)
		pthread_rwlock_wrlock(&rwlock);
}

static void begin_write(void)
{
	CHECK(!pthread_rwlock_init(&rwlock, NULL));
	if (!is_free)
		pthread_rwlock_rdlock(&rwlock);
}

static long wait_read(void) { return pthread_rwlock_rdlock(&rwlock); }
static long wait_read_timed(void) { return pthread_rwlock_timedrdlock(&rwlock, limit(CLOCK_REALTIME)); }
static long wait_read_clock(void) { return pthread_rwlock_clockrdlock(&rwlock, chosen(CLOCK_MONOTONIC), limit(CLOCK_MONOTONIC)); }
static long wait_write(void) { return pthread_rwlock_wrlock(&rwlock); }
static long wait_write_timed(void) { return pthread_rwlock_timedwrlock(&rwlock, limit(CLOCK_REALTIME)); }
static long wait_write_clock(void) { return pthread_rwlock_clockwrlock(&rwlock, chosen(CLOCK_MONOTONIC), limit(CLOCK_MONOTONIC)); }
static void give_rwlock(void) { pthread_rwlock_unlock(&rwlock); }

static void begin_spin(void)
{
	pthread_spin_init(&spinlock, 0);
	pthread_spin_lock(&spinlock);
}

static long wait_spin(void) { return pthread_spin_lock(&spinlock); }
static void give_spin(void) { pthread_spin_unlock(&spinlock); }

static void begin_barrier(void) { pthread_barrier_init(&barrier, NULL, 2); }
static long wait_barrier(void) { return pthread_barrier_wait(&barrier), 0; } // which of them is the serial one may differ
static void give_barrier(void) { pthread_barrier_wait(&barrier); }

static void begin_sem(void) { CHECK(!sem_init(&sem, 0, is_free)); }
static long wait_sem(void) { return sem_wait(&sem); }
static long wait_sem_timed(void) { return sem_timedwait(&sem, limit(CLOCK_REALTIME)); }
static long wait_sem_clock(void) { return sem_clockwait(&sem, chosen(CLOCK_MONOTONIC), limit(CLOCK_MONOTONIC)); }
static void give_sem(void) { sem_post(&sem); }

static void read_once(void)
{
	sem_post(&inside);
	CHECK(read(ends[0], &byte, 1) == 1);
}

static void *run_once(void *arg)
{
	pthread_once(&once, read_once);
	return arg;
}

static void begin_once(void)
{
	open_pipe();
	once = PTHREAD_ONCE_INIT;
	sem_init(&inside, 0, 0);
	CHECK(!pthread_create(&other, NULL, run_once, NULL));
	sem_wait(&inside);
}

static long wait_once(void) { return pthread_once(&once, read_once); }
static long wait_call_once(void) { return call_once((once_flag *)&once, read_once), 0; }

static void end_once(void)
{
	pthread_join(other, NULL);
	close_pipe();
}

// ---------------------------------------------------------------- threads
static void *read_byte(void *arg)
{
	CHECK(read(ends[0], &byte, 1) == 1);
	return arg;
}

static int read_byte_c11(void *arg)
{
	return read_byte(arg) != NULL;
}

static void begin_join(void)
{
	open_pipe();
	joined = false;
	CHECK(!pthread_create(&other, NULL, read_byte, NULL));
}

static void begin_join_c11(void)
{
	open_pipe();
	joined = false;
	CHECK(thrd_create(&thrd, read_byte_c11, NULL) == thrd_success);
}

static long is_joined(long ret)
{
	joined = ret == 0;
	return ret;
}

static long wait_join(void) { return is_joined(pthread_join(other, NULL)); }
static long wait_join_timed(void) { return is_joined(pthread_timedjoin_np(other, NULL, limit(CLOCK_REALTIME))); }
static long wait_join_clock(void) { return is_joined(pthread_clockjoin_np(other, NULL, chosen(CLOCK_MONOTONIC), limit(CLOCK_MONOTONIC))); }
static long wait_join_c11(void) { return is_joined(thrd_join(thrd, NULL)); }

static void end_join(void)
{
	if (!joined)
		pthread_join(other, NULL);
	close_pipe();
}

static void end_join_c11(void)
{
	if (!joined)
		thrd_join(thrd, NULL);
	close_pipe();
}
