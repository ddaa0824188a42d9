// Everything that tells the time, and the processor that told it.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <time.h>

int main(void)
{
	struct timespec ts;
	struct timeval tv;
	struct tms tms;
	struct rusage usage;
	struct timex tx = {0};
	for (clockid_t clock = 0; clock < 8; clock++)
		if (clock_gettime(clock, &ts) == 0)
			printf("%d %ld.%09ld\n", clock, (long)ts.tv_sec, ts.tv_nsec);
	gettimeofday(&tv, NULL);
	printf("%ld %ld %ld\n", (long)tv.tv_sec, (long)tv.tv_usec, (long)time(NULL));
	printf("%ld\n", (long)times(&tms));
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld %ld\n", (long)usage.ru_stime.tv_usec, usage.ru_minflt);
	printf("%d %ld\n", adjtimex(&tx), (long)tx.time.tv_usec);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	printf("%ld %d\n", ts.tv_nsec, sched_getcpu());
	ts = (struct timespec){0, 1000};
	printf("%d\n", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts));
	return 0;
}
