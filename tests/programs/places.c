// Stores and loads of every width to places on both sides of a page's end: by plain, vector and string instructions, by the
// C library, by the kernel. What is stored is new in each of its bytes, but for `same_OFFSET_LENGTH` and some of the C library's.
// These and loads, `load_OFFSET_LENGTH`, are named by where in the window and how many bytes. Natively different: the process's id.
// Runs in: tests/timeline.
// May call: the C library, the kernel.
// Owns: nothing.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIDE 96 // as below
#define ONCE __attribute__((noinline, noclone))
#define NAMED(name) ".globl " name "\n" name ": "

char area[8192] __attribute__((aligned(4096)));
extern char window[2 * SIDE]; // half of it on either page
__asm__(".globl window\n.set window, area + 4096 - 96");
static char source[256] __attribute__((aligned(64)));
static unsigned char rounds;

// Another byte than any before, all over the source, and in all of a word.
static unsigned long fresh(void)
{
	unsigned long value = ++rounds * 0x0101010101010101UL;
	for (unsigned i = 0; i < sizeof source / 8; i++)
		((volatile unsigned long *)source)[i] = value;
	return value;
}

ONCE static void plain(void)
{
	for (int at = 84; at < 110; at += 5) {
		*(volatile unsigned long *)(window + at) = fresh();
		*(volatile unsigned *)(window + 2 * at - 100) = (unsigned)fresh();
		*(volatile unsigned short *)(window + at - 30) = (unsigned short)fresh();
		*(volatile unsigned char *)(window + at + 20) = (unsigned char)fresh();
	}
}

// By an address that is in the instruction, in a loop.
ONCE static void direct(void)
{
	for (int i = 0; i < 3; i++) {
		unsigned long value = fresh();
		__asm__ volatile("movq %0, window+93(%%rip)\n\tnop\n\tmovl %k0, window+126(%%rip)\n\tnop" : : "r"(value) : "memory");
	}
}

ONCE static void vectors(void)
{
	fresh();
	__asm__ volatile("movups (%1), %%xmm0\n\tmovups %%xmm0, 91(%0)\n\tnop" : : "r"(window), "r"(source) : "xmm0", "memory");
	fresh();
	__asm__ volatile("movaps (%1), %%xmm1\n\tmovaps %%xmm1, 80(%0)\n\tnop" : : "r"(window), "r"(source) : "xmm1", "memory");
	if (!__builtin_cpu_supports("avx"))
		return;
	fresh();
	__asm__ volatile("vmovups (%1), %%ymm0\n\tvmovups %%ymm0, 75(%0)\n\tnop\n\tvmovups %%ymm0, 120(%0)\n\tvzeroupper"
			 : : "r"(window), "r"(source) : "xmm0", "memory");
	if (!__builtin_cpu_supports("avx512f"))
		return;
	fresh();
	__asm__ volatile("vmovups (%1), %%zmm0\n\tvmovups %%zmm0, 70(%0)\n\tnop\n\tvzeroupper" : : "r"(window), "r"(source) : "xmm0", "memory");
}

struct some { char bytes[56]; };

ONCE __attribute__((optimize("O2"))) static void assigned(void)
{
	fresh();
	*(struct some *)(window + 65) = *(struct some *)source;
}

ONCE static void copied(void)
{
	fresh();
	memcpy(window + 72, source, 61);
	fresh();
	memmove(window + 3, source, 129);
	memset(window + 90, (int)fresh(), 45);
}

// String instructions, each executed twice. In front of some is a store that ends where they begin, or behind them one that
// begins where they end.
ONCE static void repeated(void)
{
	void *to, *from;
	unsigned long n, value;
	for (int i = 0; i < 2; i++) {
		fresh();
		to = window + 77, from = source, n = 40;
		__asm__ volatile("rep movsb\n\tnop" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
		fresh();
		to = window + 69, from = source, n = 9;
		__asm__ volatile("rep movsq\n\tnop" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
		value = fresh();
		to = window + 90, n = 30;
		__asm__ volatile("movb %b2, -1(%0)\n\trep stosb\n\tnop" : "+D"(to), "+c"(n) : "a"(value) : "memory");
		value = fresh();
		to = window + 100, n = 17;
		__asm__ volatile("movl %k2, window+96(%%rip)\n\trep stosb\n\tmovb %b2, (%0)\n\tnop" : "+D"(to), "+c"(n) : "a"(value) : "memory");
		value = fresh();
		to = window + 130, n = 40;
		__asm__ volatile("std\n\trep stosb\n\tcld" : "+D"(to), "+c"(n) : "a"(value) : "memory");
	}
}

// What leaves the value as it is, what only looks, and a stack that is in the window for a moment.
ONCE static void looked_at(void)
{
	void *to = source, *from = window + 80;
	unsigned long n = 33;
	__asm__ volatile(NAMED("load_61_8") "movq 61(%0), %%rax\n\t" NAMED("same_61_8") "movq %%rax, 61(%0)\n\tnop" : : "r"(window) : "rax", "memory");
	__asm__ volatile(NAMED("load_88_16") "movups 88(%0), %%xmm0\n\t" NAMED("same_88_16") "movups %%xmm0, 88(%0)\n\tnop" : : "r"(window) : "xmm0", "memory");
	__asm__ volatile(NAMED("load_93_8") "movq window+93(%%rip), %%rax\n\t" NAMED("same_107_1") "orb $0, 107(%0)" : : "r"(window) : "rax", "memory");
	__asm__ volatile(NAMED("load_80_33") "rep movsb\n\tnop" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	from = window + 112, n = 9;
	__asm__ volatile(NAMED("load_112_9") "rep lodsb\n\tnop" : "+S"(from), "+c"(n) : : "rax");
	__asm__ volatile("movq %%rsp, %%rbx\n\tleaq 101(%1), %%rsp\n\tpushq %0\n\tpushq %0\n\t" NAMED("load_85_8") "popq %%rcx\n\tmovq %%rbx, %%rsp\n\tnop"
			 : : "r"(fresh()), "r"(window) : "rbx", "rcx", "memory");
}

int main(void)
{
	int ends[2];
	getppid();
	plain();
	getppid();
	direct();
	vectors();
	assigned();
	getppid();
	copied();
	getppid();
	repeated();
	getppid();
	looked_at();
	fresh();
	if (pipe(ends) || write(ends[1], source, 150) != 150 || read(ends[0], window + 20, 70) != 70 || read(ends[0], window + 91, 33) != 33)
		return 1;
	direct();
	int byte;
	__asm__ volatile(NAMED("load_100_1") "movsbl 100(%1), %0" : "=r"(byte) : "r"(window));
	printf("%d %d\n", byte, getpid());
	return 0;
}
