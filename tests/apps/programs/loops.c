// Sums by OpenMP: a parallel loop, a reduction, a critical section and tasks.
// Runs in: tests of real programs. May call: libgomp.
// Owns: the sums, and which thread entered the critical section in which order.

#include <omp.h>
#include <stdio.h>

static int entered;

int main(void)
{
	static double cells[20000];
	static int order[4000];
	double sum = 0;
	omp_set_num_threads(4);
#pragma omp parallel for schedule(dynamic, 100)
	for (int i = 0; i < 20000; i++)
		cells[i] = 1.0 / (1 + i);
#pragma omp parallel for reduction(+ : sum)
	for (int i = 0; i < 20000; i++)
		sum += cells[i];
#pragma omp parallel
	for (int i = 0; i < 50; i++)
#pragma omp critical
		order[entered++] = omp_get_thread_num();
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 100; i++)
#pragma omp task
	{
#pragma omp atomic
		entered++;
	}
	printf("%.9f %d", sum, entered);
	for (int i = 0; i < 200; i++)
		printf(" %d", order[i]);
	printf("\n");
	return entered != 300;
}
