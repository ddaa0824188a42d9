// What a generated program is made of: each verb does something that another run would do otherwise, and notes what it found.
// Runs in: a program that generate.py wrote; the text stands in front of it.
// May call: anything. ONE_BY_ONE: the order of recording lets one thread run at a time, so races are allowed.
// Owns: the objects that the threads share, and the line that a program prints at its end.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#pragma GCC diagnostic ignored "-Wunused-function" // no program has all of it
#pragma GCC diagnostic ignored "-Wunused-variable"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MUTEXES = 5, RWLOCKS = 2, SEMS = 2, QUEUES = 3, PIPES = 2, SHELF = 12, BLOCKS = 6, ONCES = 3, MOST = 64 };

struct self {
	int number;
	uint64_t hash;
	volatile sig_atomic_t signals;
	struct { unsigned char *p; size_t size; } block[BLOCKS];
};

static __thread struct self *me;
static struct self selves[MOST];
static pthread_t threads[MOST];
static pthread_mutex_t mutex[MUTEXES], shelf_lock = PTHREAD_MUTEX_INITIALIZER, births = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock[RWLOCKS] = {PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};
static pthread_spinlock_t spin;
static sem_t sem[SEMS], ended;
static struct { pthread_mutex_t lock; pthread_cond_t more; unsigned count, first; uint64_t item[4096]; } queue[QUEUES];
static int pipes[PIPES][2];
static struct { unsigned char *p; size_t size; } shelf[SHELF];
static pthread_once_t once[ONCES] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};
static pthread_barrier_t barrier, everybody;
static pthread_key_t key;
static uint64_t order[MUTEXES], written[RWLOCKS], spun, onces[ONCES], keys, held[SEMS], shelved;
static int born;
static volatile uint64_t racy[4];
static atomic_uint flags[MOST];
static FILE *out;
static uint64_t handled;

static uint64_t mix(uint64_t hash, uint64_t x)
{
	hash = (hash ^ x) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 29;
}

static void note(uint64_t x)
{
	me->hash = mix(me->hash, x);
}

static void must(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		_exit(99);
	}
}
#define MUST(ok) must(!!(ok), #ok)

static struct timespec soon(clockid_t clock, long us)
{
	struct timespec at;
	clock_gettime(clock, &at);
	at.tv_nsec += us * 1000;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

// ---------------------------------------------------------------- sections: [order of takers] under the lock itself
#define LOCK(i) do { note(pthread_mutex_lock(&mutex[i])); order[i] = mix(order[i], me->number); note(order[i])
#define UNLOCK(i) note(pthread_mutex_unlock(&mutex[i])); } while (0)
#define TRYLOCK(i) do { int got = pthread_mutex_trylock(&mutex[i]); note(got); if (got) break; order[i] = mix(order[i], me->number)
#define TIMEDLOCK(i, us) do { struct timespec at = soon(CLOCK_REALTIME, us); \
	int got = pthread_mutex_timedlock(&mutex[i], &at); note(got); if (got) break; order[i] = mix(order[i], me->number)
#define READ(i) do { note(pthread_rwlock_rdlock(&rwlock[i])); note(written[i])
#define TRYREAD(i) do { int got = pthread_rwlock_tryrdlock(&rwlock[i]); note(got); if (got) break; note(written[i])
#define WRITE(i) do { note(pthread_rwlock_wrlock(&rwlock[i])); written[i] = mix(written[i], me->number); note(written[i])
#define UNRW(i) note(pthread_rwlock_unlock(&rwlock[i])); } while (0)
#define SPIN do { note(pthread_spin_lock(&spin)); spun = mix(spun, me->number); note(spun)
#define UNSPIN note(pthread_spin_unlock(&spin)); } while (0)
#define SEM(i) do { while (sem_wait(&sem[i])) note(errno); \
	note(__atomic_add_fetch(&held[i], 0, __ATOMIC_SEQ_CST))
#define UNSEM(i) note(sem_post(&sem[i])); } while (0)
#define TRYSEM(i) do { int got = sem_trywait(&sem[i]); note(got); if (got) break
#define LIMITSEM(i, us) do { struct timespec at = soon(CLOCK_REALTIME, us); int got = sem_timedwait(&sem[i], &at); \
	note(got ? errno : 0); if (got) break

// ---------------------------------------------------------------- giving and getting
static void put(int q, int all)
{
	pthread_mutex_lock(&queue[q].lock);
	queue[q].item[(queue[q].first + queue[q].count++) % 4096] = me->hash;
	note(all ? pthread_cond_broadcast(&queue[q].more) : pthread_cond_signal(&queue[q].more));
	pthread_mutex_unlock(&queue[q].lock);
}

// us: 0 waits without a limit.
static void get(int q, long us)
{
	pthread_mutex_lock(&queue[q].lock);
	while (!queue[q].count) {
		struct timespec at = soon(CLOCK_REALTIME, us);
		note(us ? pthread_cond_timedwait(&queue[q].more, &queue[q].lock, &at) : pthread_cond_wait(&queue[q].more, &queue[q].lock));
	}
	note(queue[q].item[queue[q].first++ % 4096]);
	queue[q].count--;
	pthread_mutex_unlock(&queue[q].lock);
}

static void tell(int p)
{
	uint64_t what = me->hash;
	MUST(write(pipes[p][1], &what, sizeof(what)) == sizeof(what));
}

static void hear(int p, int polls)
{
	uint64_t what = 0;
	for (int tries = 0; polls && tries < 3; tries++) {
		struct pollfd wait = {pipes[p][0], POLLIN, 0};
		note(poll(&wait, 1, 1));
		note(wait.revents);
	}
	while (read(pipes[p][0], &what, sizeof(what)) < 0)
		note(errno);
	note(what);
}

static void meet(void)
{
	note(pthread_barrier_wait(&barrier));
}

// All threads are known by their names from here on.
static void meet_main(void)
{
	note(pthread_barrier_wait(&everybody));
}

// ---------------------------------------------------------------- memory
static void checked(const unsigned char *p, size_t size)
{
	if (p && (p[0] != (unsigned char)size || p[size - 1] != (unsigned char)size)) {
		fprintf(stderr, "a block of %zu bytes was overwritten\n", size);
		_exit(98);
	}
}

static void give_back(int slot)
{
	checked(me->block[slot].p, me->block[slot].size);
	free(me->block[slot].p);
	me->block[slot].p = NULL;
}

static void take(int slot, size_t size, int how)
{
	give_back(slot);
	unsigned char *p = how == 0 ? malloc(size) : how == 1 ? calloc(1, size) : how == 2 ? aligned_alloc(256, size) : realloc(malloc(7), size);
	MUST(p);
	note((uint64_t)p);
	p[0] = p[size - 1] = (unsigned char)size;
	me->block[slot].p = p;
	me->block[slot].size = size;
}

static void swap(int slot, int place)
{
	unsigned char *p = me->block[slot].p;
	size_t size = me->block[slot].size;
	pthread_mutex_lock(&shelf_lock);
	me->block[slot].p = shelf[place].p;
	me->block[slot].size = shelf[place].size;
	shelf[place].p = p;
	shelf[place].size = size;
	shelved = mix(shelved, (uint64_t)me->block[slot].p);
	pthread_mutex_unlock(&shelf_lock);
	note((uint64_t)me->block[slot].p);
}

static void map(size_t pages)
{
	unsigned char *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(p != MAP_FAILED);
	p[pages * 4096 - 1] = 1;
	note((uint64_t)p);
	MUST(!munmap(p, pages * 4096));
}

// ---------------------------------------------------------------- system calls
static void look_at_clock(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	note(now.tv_nsec);
}

static void draw(void)
{
	uint64_t x;
	MUST(getrandom(&x, sizeof(x), 0) == sizeof(x));
	note(x);
}

static void nap(long us)
{
	struct timespec time = {0, us * 1000}, left = {0, 0};
	note(nanosleep(&time, &left) ? left.tv_nsec : 0);
}

static void identify(void)
{
	note(getpid());
	note(syscall(SYS_gettid));
}

static void read_file(void)
{
	char text[128] = "";
	int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	MUST(file >= 0);
	note(file);
	note(read(file, text, sizeof(text)));
	for (unsigned i = 0; i < sizeof(text); i += 8)
		note(*(uint64_t *)(text + i));
	close(file);
}

static void talk_to_yourself(void)
{
	int ends[2];
	uint64_t x = me->hash;
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	note(ends[0] << 8 | ends[1]);
	MUST(send(ends[0], &x, 5, 0) == 5);
	note(recv(ends[1], &x, sizeof(x), 0));
	close(ends[0]);
	close(ends[1]);
}

static void have_child(void)
{
	int status = 0;
	pid_t child = fork();
	if (!child)
		_exit(me->number + 1);
	note(child);
	while (waitpid(child, &status, 0) < 0)
		note(errno);
	note(status);
}

static void compute(long rounds)
{
	volatile uint64_t x = me->hash;
	for (long i = 0; i < rounds; i++)
		x = mix(x, i);
	note(x);
}

// ---------------------------------------------------------------- signals
static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	int before = errno;
	if (me) {
		me->signals++;
		note(number + info->si_value.sival_int);
	}
	__atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
	errno = before;
}

static void disturb(int thread)
{
	note(pthread_kill(threads[thread], SIGUSR1));
}

static void disturb_somebody(int value)
{
	note(sigqueue(getpid(), SIGUSR2, (union sigval){value}));
}

static void mask(int blocked)
{
	sigset_t set, old;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	note(pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, &old));
	note(sigismember(&old, SIGUSR2));
}

// ---------------------------------------------------------------- threads, and what happens at their end
static void at_end(void *value)
{
	pthread_mutex_lock(&births);
	keys = mix(keys, (uint64_t)value);
	pthread_mutex_unlock(&births);
}

static void set_key(void)
{
	note(pthread_setspecific(key, (void *)(uintptr_t)(me->hash | 1)));
}

// Each has its own word: somebody who comes to one that is done looks at it while another one is being done.
#define FIRST(i) static void first_##i(void) { onces[i] = mix(onces[i], me->number); sched_yield(); }
FIRST(0)
FIRST(1)
FIRST(2)

static void once_only(int i)
{
	static void (*const firsts[ONCES])(void) = {first_0, first_1, first_2};
	note(pthread_once(&once[i], firsts[i]));
	note(onces[i]);
}

struct birth { void (*body)(void); int number; int detached; };

static void *live(void *arg)
{
	struct birth birth = *(struct birth *)arg;
	free(arg);
	me = &selves[birth.number];
	me->number = birth.number;
	birth.body();
	for (int i = 0; i < BLOCKS; i++)
		give_back(i);
	if (birth.detached)
		sem_post(&ended);
	return (void *)(uintptr_t)me->hash;
}

static pthread_t bear(void (*body)(void), int detached)
{
	pthread_t thread;
	struct birth *birth = malloc(sizeof(*birth));
	pthread_mutex_lock(&births);
	*birth = (struct birth){body, born++, detached};
	pthread_mutex_unlock(&births);
	MUST(birth->number < MOST);
	MUST(!pthread_create(&thread, NULL, live, birth));
	return thread;
}

static void bear_and_join(void (*body)(void))
{
	void *result;
	MUST(!pthread_join(bear(body, 0), &result));
	note((uint64_t)result);
}

static void bear_and_leave(void (*body)(void))
{
	MUST(!pthread_detach(bear(body, 1)));
	while (sem_wait(&ended))
		note(errno);
}

// ---------------------------------------------------------------- races, where one thread at a time runs
#ifdef ONE_BY_ONE
static void race(int i, int rounds)
{
	for (int n = 0; n < rounds; n++) {
		uint64_t seen = racy[i];
		if (n % 7 == 0)
			look_at_clock();
		racy[i] = seen + 1;
	}
	note(racy[i]);
}

static void raise_flag(int i)
{
	atomic_fetch_add_explicit(&flags[i], 1, memory_order_release);
}

static void await_flag(int i, unsigned value)
{
	for (unsigned n = 0; atomic_load_explicit(&flags[i], memory_order_acquire) < value; n++) {
		note(n);
		sched_yield();
	}
}

#else
#define race(i, rounds) compute(rounds)
#define raise_flag(i) ((void)0)
#define await_flag(i, value) ((void)0)
#endif

// Locks inside the C library.
#ifdef LIBRARY
static void say(void)
{
	note(fprintf(out, "%d %016llx\n", me->number, (unsigned long long)me->hash));
	note(ftell(out));
}

static void roll(void)
{
	note(random());
}
#else
#define say() look_at_clock()
#define roll() draw()
#endif

// ---------------------------------------------------------------- beginning and end
static void begin(const int *kinds, const int *robust, const int *inherits, int parties, int restart)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | (restart ? SA_RESTART : 0)};
	me = &selves[0];
	born = 1;
	for (int i = 0; i < MUTEXES; i++) {
		pthread_mutexattr_t attr;
		pthread_mutexattr_init(&attr);
		pthread_mutexattr_settype(&attr, kinds[i]);
		pthread_mutexattr_setrobust(&attr, robust[i] ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
		pthread_mutexattr_setprotocol(&attr, inherits[i] ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
		MUST(!pthread_mutex_init(&mutex[i], &attr));
	}
	for (int i = 0; i < QUEUES; i++) {
		pthread_mutex_init(&queue[i].lock, NULL);
		pthread_cond_init(&queue[i].more, NULL);
	}
	for (int i = 0; i < PIPES; i++)
		MUST(!pipe(pipes[i]));
	MUST(!sem_init(&sem[0], 0, 1) && !sem_init(&sem[1], 0, 2) && !sem_init(&ended, 0, 0));
	MUST(!pthread_spin_init(&spin, 0) && !pthread_barrier_init(&barrier, NULL, parties) &&
	     !pthread_barrier_init(&everybody, NULL, parties + 1) && !pthread_key_create(&key, at_end));
	MUST(!sigaction(SIGUSR1, &action, NULL) && !sigaction(SIGUSR2, &action, NULL));
	out = tmpfile();
	MUST(out);
}

static int finish(int parties)
{
	meet_main();
	for (int i = 0; i < parties; i++) {
		void *result;
		MUST(!pthread_join(threads[i], &result));
		note((uint64_t)result);
	}
	for (int i = 0; i < 24; i++) // alone again: digests are taken here
		look_at_clock();
	for (int i = 0; i < born; i++)
		printf("%d %016llx %d\n", i, (unsigned long long)selves[i].hash, (int)selves[i].signals);
	for (int i = 0; i < MUTEXES; i++)
		printf("%016llx ", (unsigned long long)order[i]);
	printf("\n%016llx %016llx %016llx %016llx %016llx %016llx\n", (unsigned long long)written[0], (unsigned long long)written[1],
	       (unsigned long long)spun, (unsigned long long)mix(mix(onces[0], onces[1]), onces[2]), (unsigned long long)keys, (unsigned long long)shelved);
	printf("%llu %llu %llu %llu, %llu handled\n", (unsigned long long)racy[0], (unsigned long long)racy[1],
	       (unsigned long long)racy[2], (unsigned long long)racy[3], (unsigned long long)handled);
	return 0;
}
