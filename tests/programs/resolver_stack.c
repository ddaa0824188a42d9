// What the loader leaves below the stack pointer at a function's first call: prints how many words of a vector register are
// found there, and the process's parent. To be linked with -z lazy.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MARK 0x5a17c0de5a17c0deUL
#define DEPTH 16384

static __attribute__((noinline)) void wipe(void)
{
	unsigned char dead[DEPTH];
	memset(dead, 0, sizeof dead);
	__asm__ volatile("" : : "r"(dead) : "memory");
}

static __attribute__((noinline)) int marks(void)
{
	uint64_t dead[DEPTH / 8];
	int found = 0;
	__asm__ volatile("" : : "r"(dead) : "memory"); // for all the compiler knows, somebody filled it
	for (unsigned i = 0; i < DEPTH / 8; i++)
		found += dead[i] == MARK;
	return found;
}

int main(void)
{
	static const uint64_t mark[2] = {MARK, MARK};
	wipe();
	__asm__ volatile("movdqu %0, %%xmm1" : : "m"(mark) : "xmm1");
	int parent = getppid(); // its first call
	__asm__ volatile("pxor %%xmm1, %%xmm1" : : : "xmm1");
	int found = marks();
	printf("%d %d\n", found, parent);
	return 0;
}
