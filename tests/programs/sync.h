// What the programs about threads share: checks, a little irregular work, and a line of letters in the order of winners.
#pragma once

#ifndef _GNU_SOURCE // g++ has it
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE 400

// Under the caller's lock.
static char line[LINE + 1];
static int written;

__attribute__((unused)) static void mark(char c)
{
	if (written < LINE)
		line[written++] = c;
}

__attribute__((unused)) static void check(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(99);
	}
}
#define CHECK(ok) check(!!(ok), #ok)

// Works for a time that is another one in every run.
__attribute__((unused)) static void work_a_little(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_nsec % 4 == 0) {
		struct timespec nap = {0, now.tv_nsec % 30000};
		nanosleep(&nap, NULL);
	}
	for (long i = now.tv_nsec % 8192; i > 0; i--)
		__asm__ volatile("");
}

// Some microseconds from now, of the given clock.
__attribute__((unused)) static struct timespec soon(clockid_t clock, long microseconds)
{
	struct timespec at;
	clock_gettime(clock, &at);
	at.tv_nsec += microseconds * 1000;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

// Long enough for another thread to come to its wait.
__attribute__((unused)) static void nap(void)
{
	struct timespec time = {0, 50000000};
	nanosleep(&time, NULL);
}

// What each of so many threads has seen, which get their numbers.
__attribute__((unused)) static void print_all(long threads, void *(*work)(void *))
{
	pthread_t thread[threads];
	for (long i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (long i = 0; i < threads; i++) {
		void *seen;
		pthread_join(thread[i], &seen);
		printf("%lx ", (unsigned long)seen);
	}
}
