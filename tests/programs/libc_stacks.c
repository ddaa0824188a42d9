// A thread that makes others while the lock of the C library's list of stacks is taken, and one that looks whether the library has it wait, with
// a frame on its stack.
// Natively different: it does, and how often it comes to that.
#include "sync.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 10
#define PATIENCE 100000000 // passes: in a replay nobody runs beside it, so nobody comes
#define FRAMES 4096        // bytes

static sem_t go, made;
static char *volatile stack;

// Three lists of stacks: none of the library's in use, the program's, and none in reserve; two numbers; the lock (glibc 2.35 and 2.36).
static volatile uint32_t *find(void)
{
	uint64_t *p = dlvsym(RTLD_DEFAULT, "_rtld_global", "GLIBC_PRIVATE");
	for (int i = 0; p && i < 1000; i++, p++)
		if (p[0] == (uint64_t)p && p[1] == p[0] && p[4] == (uint64_t)&p[4] && p[5] == p[4] && p[2] == p[3] && p[2] > 0x1000 &&
		    *(uint64_t *)p[2] == (uint64_t)&p[2])
			return (uint32_t *)&p[8];
	return NULL;
}

// Is there where a call of this function returns to?
static int is_called(const char *function)
{
	Dl_info of, here;
	CHECK(dladdr(function, &of));
	for (const uint64_t *p = (const uint64_t *)(stack - FRAMES); p < (const uint64_t *)stack; p++) {
		const char *behind = (const char *)*p;
		int32_t distance;
		if (*p < 0x10000 || *p >> 47 || !dladdr(behind, &here) || here.dli_fbase != of.dli_fbase || behind[-5] != '\xe8')
			continue;
		memcpy(&distance, behind - 4, sizeof distance);
		if (behind + distance == function)
			return 1;
	}
	return 0;
}

static void *end(void *arg)
{
	return arg;
}

static void *make(void *arg)
{
	stack = __builtin_frame_address(0);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread;
		CHECK(!sem_wait(&go));
		CHECK(!pthread_create(&thread, NULL, end, NULL));
		CHECK(!pthread_join(thread, NULL));
		CHECK(!sem_post(&made));
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	int waits = 0;
	volatile uint32_t *lock = find();
	const char *function = dlvsym(RTLD_DEFAULT, "__lll_lock_wait_private", "GLIBC_PRIVATE");
	CHECK(lock && function);
	CHECK(!sem_init(&go, 0, 0) && !sem_init(&made, 0, 0));
	CHECK(!pthread_create(&thread, NULL, make, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!__atomic_exchange_n(lock, 1, __ATOMIC_SEQ_CST));
		CHECK(!sem_post(&go));
		for (int n = 0; n < PATIENCE && *lock == 1; n++)
			;
		if (*lock == 2) {
			waits++;
			CHECK(!is_called(function));
		}
		__atomic_exchange_n(lock, 0, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1);
		CHECK(!sem_wait(&made));
	}
	CHECK(!pthread_join(thread, NULL));
	CHECK(write(STDERR_FILENO, &"no\nyes\n"[waits ? 3 : 0], waits ? 4 : 3));
	puts("end");
	return 0;
}
