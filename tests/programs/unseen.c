// What gdbrr does not see: the time stamp counter, kept in places of every kind. Natively different: all of them; nothing is printed of it.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

unsigned long counter;
unsigned long *block;

int main(int argc, char **argv)
{
	volatile unsigned long local = 0, none;
	char where = argc > 1 ? *argv[1] : 'n';
	block = malloc(40);
	for (int i = 0; i < 40; i++) {
		volatile unsigned long *to = where == 'g' ? &counter : where == 'h' ? &block[2] : where == 's' ? &local : &none;
		if (i >= 20 && to != &none) // behind some checkpoints; no register keeps it
			__asm__ volatile("rdtsc; mov %%eax, (%0); xor %%eax, %%eax; xor %%edx, %%edx" : : "r"(to) : "eax", "edx", "memory");
		getppid();
	}
	printf("end %d\n", where == 's' && !local);
	return 0;
}
