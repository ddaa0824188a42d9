// Reads the clock in every way that the vDSO serves, 300 times from the same instructions, and what it says fits together.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
				   CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI};

int main(void)
{
	unsigned long wrong = 0, sum = 0;
	for (int round = 0; round < 300; round++) {
		struct timespec first, now, last;
		struct timeval day;
		time_t stored, told;
		clock_gettime(CLOCK_REALTIME, &first);
		gettimeofday(&day, NULL);
		clock_gettime(CLOCK_REALTIME, &last);
		told = time(&stored);
		long at = day.tv_sec * 1000000 + day.tv_usec, from = first.tv_sec * 1000000 + first.tv_nsec / 1000;
		wrong += at < from || at > last.tv_sec * 1000000 + last.tv_nsec / 1000;
		wrong += told != stored || told > last.tv_sec + 1 || told < first.tv_sec - 1;
		int core = sched_getcpu();
		wrong += core < 0 || core > 4096;
		for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
			wrong += clock_gettime(clocks[i], &now) != 0;
			sum = sum * 31 + now.tv_nsec;
		}
		sum = sum * 31 + day.tv_usec + told + core;
	}
	printf("wrong %lu\n%lx\n", wrong, sum);
	return wrong != 0;
}
