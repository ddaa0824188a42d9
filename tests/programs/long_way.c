// One segment with all kinds of code that counting has to know: ROUNDS of it, between two calls of the kernel.
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef long (*operation)(long);
volatile long stored, seldom, sum;
long many[64];
static jmp_buf back;

__attribute__((noinline)) static long add(long x) { return x + 3; }
__attribute__((noinline)) static long twice(long x) { return 2 * x + (x >> 7); }
__attribute__((noinline)) static long mix(long x) { return x ^ (x << 5) ^ 0x55; }
static const operation table[] = {add, twice, mix, add};

__attribute__((noinline)) static long fibonacci(long n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__attribute__((noinline)) static double vectors(long seed)
{
	double x[16], y = 1;
	for (int i = 0; i < 16; i++)
		x[i] = (double)(seed + i) / 3;
	for (int i = 0; i < 16; i++)
		y = y * 0.5 + x[i];
	return y;
}

// What runs in as few bytes as jumps allow, and on flags that live across it.
__attribute__((noinline)) static long flags(long n)
{
	long result = 0, count = n & 15;
	__asm__ volatile("mov %1, %%rcx\n\t"
			 "inc %%rcx\n"
			 "1:\tadd $7, %0\n\t"
			 "loop 1b\n\t"
			 "jrcxz 2f\n\t"
			 "ud2\n"
			 "2:\tstc\n\t"
			 "jmp 3f\n"
			 "3:\tadc $0, %0\n\t"
			 "mov $0x7fffffff, %%ecx\n\t"
			 "add $1, %%ecx\n\t"
			 "jmp 4f\n"
			 "4:\tseto %%cl\n\t"
			 "movzbl %%cl, %%ecx\n\t"
			 "add %%rcx, %0\n\t"
			 "pushf\n\t"
			 "pop %%rcx\n\t"
			 "and $0x8d5, %%ecx\n\t"
			 "add %%rcx, %0"
			 : "+r"(result) : "r"(count) : "rcx", "cc", "memory");
	return result;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

__attribute__((noinline)) static void out(long n) { if (n % 3 == 0) longjmp(back, 1); }

__attribute__((noinline)) static long machine(const char *code, long x)
{
	static void *const labels[] = {&&more, &&less, &&half, &&end};
	goto *labels[(int)*code];
more:
	x += 5;
	goto *labels[(int)*++code];
less:
	x -= 3;
	goto *labels[(int)*++code];
half:
	x >>= 1;
	goto *labels[(int)*++code];
end:
	return x;
}

static void one_round(long i)
{
	static char bytes[6000];
	char text[64];
	int numbers[24];
	char *block = malloc(24 + i % 500);
	memset(block, (int)i, 24);
	sum += block[i % 24];
	free(realloc(block, 700));
	stored = table[i & 3](stored);
	many[i % 64] += stored;
	if (i % 50 == 17)
		seldom = i;
	sum += fibonacci(7) + (long)vectors(i) + flags(i) + machine("\0\1\2\0\0\2\1\3", i);
	memset(bytes, (int)i, 2000 + i % 900);
	memcpy(bytes + 3000, bytes, 2500);
	__asm__ volatile("rep stosb" : : "D"(bytes + 10), "a"(i), "c"(i % 40) : "memory");
	for (int k = 0; k < 24; k++)
		numbers[k] = (int)(i * 7919 >> (k % 9)) & 255;
	qsort(numbers, 24, sizeof *numbers, compare);
	sum += numbers[5] + bytes[3100];
	if (!setjmp(back))
		out(i);
	if (i % 4 == 0)
		sum += snprintf(text, sizeof text, "%ld %.3f", i, (double)sum / 7);
}

int main(int argc, char **argv)
{
	long rounds = atol(argv[1]);
	free(malloc(10));
	getppid();
	for (long i = 0; i < rounds; i++)
		one_round(i);
	getppid();
	stored = argc;
	return sum == 42;
}
