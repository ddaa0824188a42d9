// A runtime with atomics, locks and waiting loops of its own: OpenMP's, whose threads are still there when the program ends.
#include <omp.h>
#include <stdio.h>

#define PARTS 64
#define TASKS 50

int main(void)
{
	long sum = 0;
	unsigned parts = 0, tasks = 0;
#pragma omp parallel for schedule(dynamic, 3) reduction(+ : sum) num_threads(4)
	for (int i = 0; i < 2000; i++)
		sum += i * i % 7;
#pragma omp parallel for schedule(guided) num_threads(4)
	for (int i = 0; i < PARTS; i++)
#pragma omp critical
		parts = parts * 31 + (unsigned)(i * 10 + omp_get_thread_num());
#pragma omp parallel num_threads(4)
#pragma omp single
	for (int i = 0; i < TASKS; i++)
#pragma omp task
#pragma omp critical
		tasks = tasks * 33 + (unsigned)(i + omp_get_thread_num());
	printf("%ld %u %u\n", sum, parts, tasks);
	return 0;
}
