// Functions of pthreads that are given what is not there. Usage: waits_faults FUNCTION die|leave|mend: the fault ends the program, its
// handler leaves by siglongjmp, or it puts something there and the function goes on.
#include "sync.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <threads.h>
#include <unistd.h>

static char *place;
static sigjmp_buf out;
static volatile int faults;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int value;

static void nothing(void)
{
}

static long lock(void) { return pthread_mutex_lock((void *)place); }
static long trylock(void) { return pthread_mutex_trylock((void *)place); }
static long unlock(void) { return pthread_mutex_unlock((void *)place); }
static long destroy(void) { return pthread_mutex_destroy((void *)place); }
static long timedlock(void) { return pthread_mutex_timedlock((void *)place, &(struct timespec){1, 0}); }
static long signals(void) { return pthread_cond_signal((void *)place); }
static long broadcast(void) { return pthread_cond_broadcast((void *)place); }
static long wait_mutex(void) { return pthread_mutex_trylock(&mutex), pthread_cond_timedwait((void *)place, &mutex, &(struct timespec){1, 0}); }
static long wait_other(void) { return pthread_cond_timedwait(&cond, (void *)place, &(struct timespec){1, 0}); }
static long rdlock(void) { return pthread_rwlock_rdlock((void *)place); }
static long wrlock(void) { return pthread_rwlock_wrlock((void *)place); }
static long rwunlock(void) { return pthread_rwlock_unlock((void *)place); }
static long spin(void) { return pthread_spin_lock((void *)place); }
static long spinunlock(void) { return pthread_spin_unlock((void *)place); }
static long barrier(void) { return pthread_barrier_wait((void *)place); }
static long semwait(void) { return sem_timedwait((void *)place, &(struct timespec){1, 0}); }
static long post(void) { return sem_post((void *)place); }
static long getvalue(void) { return sem_getvalue((void *)place, &value); }
static long once(void) { return pthread_once((void *)place, nothing); }
static long create(void) { return pthread_create((void *)place, NULL, (void *(*)(void *))(void *)getpid, NULL); }
static long attributes(void)
{
	pthread_t thread;
	return pthread_create(&thread, (void *)place, (void *(*)(void *))(void *)getpid, NULL);
}
static long type(void) { return pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, (void *)place); }
static long mtx(void) { return mtx_lock((void *)place); }

static void handle(int sig, siginfo_t *info, void *context)
{
	bool there = (char *)info->si_addr >= place && (char *)info->si_addr < place + 4096;
	(void)context;
	printf("signal %d, there %d\n", sig, there);
	fflush(stdout);
	faults++;
	if (faults < 3 && mprotect(place, 4096, PROT_READ | PROT_WRITE) == 0)
		return;
	_exit(4);
}

static void leave(int sig)
{
	faults++;
	siglongjmp(out, sig);
}

static void *idle(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; long (*act)(void); } functions[] = {
		{"lock", lock}, {"trylock", trylock}, {"unlock", unlock}, {"destroy", destroy}, {"timedlock", timedlock}, {"signal", signals},
		{"broadcast", broadcast}, {"wait", wait_mutex}, {"wait_other", wait_other}, {"rdlock", rdlock}, {"wrlock", wrlock},
		{"rwunlock", rwunlock}, {"spin", spin}, {"spinunlock", spinunlock}, {"barrier", barrier}, {"semwait", semwait}, {"post", post},
		{"getvalue", getvalue}, {"once", once}, {"create", create}, {"attributes", attributes}, {"type", type}, {"mtx", mtx},
	};
	struct sigaction mends = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO}, leaves = {.sa_handler = leave};
	pthread_t thread;
	CHECK(argc > 2);
	place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(place != MAP_FAILED);
	if (!strcmp(argv[1], "spin"))
		pthread_spin_init((void *)place, 0);
	if (!strcmp(argv[1], "barrier"))
		pthread_barrier_init((void *)place, NULL, 1);
	CHECK(!mprotect(place, 4096, PROT_NONE));
	CHECK(!pthread_create(&thread, NULL, idle, NULL) && !pthread_join(thread, NULL));
	if (!strcmp(argv[2], "mend"))
		sigaction(SIGSEGV, &mends, NULL);
	if (!strcmp(argv[2], "leave"))
		sigaction(SIGSEGV, &leaves, NULL);
	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
		if (strcmp(functions[i].name, argv[1]))
			continue;
		printf("%s\n", argv[1]);
		fflush(stdout);
		for (volatile int round = 0; round < 3; round++) {
			if (!strcmp(argv[2], "mend"))
				mprotect(place, 4096, PROT_NONE);
			faults = strcmp(argv[2], "mend") ? faults : 0;
			if (!sigsetjmp(out, 1))
				printf("%ld\n", functions[i].act());
			else
				printf("left\n");
			if (!strcmp(argv[2], "mend"))
				break;
		}
		printf("faults %d, mutex %d\n", faults, pthread_mutex_trylock(&mutex));
		CHECK(!pthread_create(&thread, NULL, idle, NULL) && !pthread_join(thread, NULL));
	}
	return 0;
}
