// What happens to a thread that waits, for waits.c: the events, and the line that is printed of each.
#pragma once

#include "sync.h"

#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#define POINT 1    // a cancellation point
#define LIMITED 2  // the wait has a limit, a moment of some clock
#define CLOCKED 4  // which is an argument
#define LASTS 8    // the limit is a span
#define SLEEPS 16  // nothing is waited for but the time
#define SPINS 32   // the thread does not sleep meanwhile
#define FREE 64    // it may be there already
#define FRAIL 128  // glibc (2.36) waits for ever where the limit is none, or forgets what it waits for where it is interrupted

struct way {
	const char *name;
	void (*begin)(void);
	long (*wait)(void);
	void (*give)(void), (*end)(void);
	unsigned flags;
};

extern const struct way ways[];

#define EVENTS(EVENT) \
	EVENT(given, ~0u) EVENT(late, LIMITED | LASTS) EVENT(past, LIMITED) EVENT(nanos, LIMITED) EVENT(strange, CLOCKED) \
	EVENT(free_past, FREE) EVENT(free_nanos, FREE) EVENT(free_strange, FREE) EVENT(handler, ~0u) EVENT(restart, ~0u) EVENT(process, ~0u) \
	EVENT(deferred, ~0u) EVENT(async, ~0u) EVENT(disabled, ~0u) EVENT(pending, ~0u)

enum event {
#define EVENT(name, flags) name,
	EVENTS(EVENT)
#undef EVENT
};

static enum event event;
static const struct way *way;
static pthread_t worker;
static bool is_free;
static int holds, slept, left, handlers, cleaned;
static int tid, done; // under `guard`
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER, gate = PTHREAD_MUTEX_INITIALIZER;
static sem_t ran;
static struct timespec began;
static struct { long ret; int error, handlers, slept, again; } seen;

static bool is(enum event one, enum event two, enum event three)
{
	return event == one || event == two || event == three;
}

// ---------------------------------------------------------------- time
static void start(void)
{
	clock_gettime(CLOCK_MONOTONIC, &began);
}

static long passed(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec;
}

// Nanoseconds: shorter than what comes meanwhile, or much longer.
static long duration(void)
{
	if (event == late)
		return 50000000;
	if (way->flags & SLEEPS && event == given)
		return 20000000;
	return way->flags & SLEEPS && (is(handler, restart, process) || event == disabled) ? 400000000 : 20000000000;
}

static const struct timespec *limit(clockid_t clock)
{
	static struct timespec at;
	at = soon(clock, event == late ? 50000 : 20000000);
	if (is(past, free_past, past))
		at = (struct timespec){1, 0};
	if (is(nanos, free_nanos, nanos))
		at.tv_nsec = 1000000000;
	return &at;
}

static clockid_t chosen(clockid_t usual)
{
	return is(strange, free_strange, strange) ? CLOCK_PROCESS_CPUTIME_ID : usual;
}

// ---------------------------------------------------------------- the thread that waits
static void handle(int sig)
{
	int error = errno;
	(void)sig;
	handlers++;
	sem_post(&ran);
	errno = error;
}

static void put(int *place, int value)
{
	pthread_mutex_lock(&guard);
	*place = value;
	pthread_mutex_unlock(&guard);
}

static int get(const int *place)
{
	pthread_mutex_lock(&guard);
	int ret = *place;
	pthread_mutex_unlock(&guard);
	return ret;
}

static void clean(void *arg)
{
	(void)arg;
	cleaned = 1;
}

// One for the process comes to the thread that waits: all others block it.
static void let_in(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(how, &set, NULL));
}

static void *work(void *arg)
{
	int old;
	(void)arg;
	let_in(SIG_UNBLOCK);
	pthread_cleanup_push(clean, NULL);
	put(&tid, gettid());
	if (event == pending) {
		pthread_mutex_lock(&gate); // no cancellation point
		pthread_mutex_unlock(&gate);
	}
	if (event == disabled)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	if (event == async)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	errno = 0;
	seen.ret = way->wait();
	seen.error = seen.ret == -1 ? errno : 0;
	seen.handlers = handlers;
	seen.slept = slept;
	if (way->flags & SLEEPS && is(handler, restart, process))
		seen.again = way->wait() == 0 && slept; // a handler ends one sleep and not the next one
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	put(&done, 1);
	return NULL;
}

// ---------------------------------------------------------------- what happens to it
static char state_of(int thread)
{
	char path[64], text[256] = "", *end;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	int fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		text[0] = 0;
	close(fd);
	end = strrchr(text, ')');
	return end ? end[2] : 'X';
}

static void await_wait(void)
{
	while (!get(&tid))
		usleep(1000);
	for (int quiet = 0; quiet < 3 && !get(&done); quiet += state_of(get(&tid)) != 'R' || way->flags & SPINS)
		usleep(15000);
}

static void happen(void)
{
	if (event == pending) {
		while (!get(&tid))
			usleep(1000);
		pthread_cancel(worker);
		pthread_mutex_unlock(&gate);
	}
	if (event >= handler && !(event == pending && way->flags & POINT))
		await_wait();
	if (is(handler, restart, process)) {
		CHECK(event == process ? !kill(getpid(), SIGUSR1) : !pthread_kill(worker, SIGUSR1));
		sem_wait(&ran);
	}
	if (is(deferred, async, disabled))
		pthread_cancel(worker);
	if (event >= handler)
		usleep(50000);
	if (event == given && !(way->flags & SLEEPS))
		await_wait();
}

static void try_way(void)
{
	void *result;
	bool ends = is(async, deferred, pending) && (event == async || way->flags & POINT);
	bool waits = !ends && (event == given || event >= handler);
	is_free = is(free_past, free_nanos, free_strange);
	memset(&seen, 0, sizeof seen);
	handlers = cleaned = holds = slept = left = 0;
	tid = done = 0;
	sem_init(&ran, 0, 0);
	if (event == pending)
		pthread_mutex_lock(&gate);
	way->begin();
	printf("%s:", way->name);
	fflush(stdout);
	CHECK(!pthread_create(&worker, NULL, work, NULL));
	happen();
	if (waits)
		way->give();
	CHECK(!pthread_join(worker, &result));
	if (!waits && !is_free)
		way->give();
	way->end();
	printf(" %ld errno %d handlers %d cancelled %d cleaned %d holds %d slept %d again %d left %d\n", seen.ret, seen.error, seen.handlers,
	       result == PTHREAD_CANCELED, cleaned, holds, seen.slept, seen.again, left);
}

static bool is_wanted(int count, char **names)
{
	bool wanted = count == 0;
	for (int i = 0; i < count; i++)
		wanted |= strcmp(names[i], way->name) == 0;
	return wanted;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; unsigned flags; } events[] = {
#define EVENT(name, flags) {#name, flags},
		EVENTS(EVENT)
#undef EVENT
	};
	const unsigned count = sizeof events / sizeof *events;
	CHECK(argc > 1);
	while (event < count && strcmp(events[event].name, argv[1]))
		event++;
	CHECK(event < count);
	struct sigaction act = {.sa_handler = handle, .sa_flags = event == restart ? SA_RESTART : 0};
	sigaction(SIGUSR1, &act, NULL);
	if (event == process)
		let_in(SIG_BLOCK);
	for (way = ways; way->name; way++) {
		bool fits = events[event].flags == ~0u || way->flags & events[event].flags;
		fits = fits && !(way->flags & FRAIL && (event == nanos || (is(handler, async, process))));
		if (event == free_strange)
			fits = way->flags & FREE && way->flags & CLOCKED;
		if ((fits || argc > 2) && is_wanted(argc - 2, argv + 2))
			try_way();
	}
	return 0;
}
