// What lies below the stack pointer, as nobody has written there since.
#pragma once

#define BELOW_WORDS 64

__attribute__((noinline)) static unsigned long below(void)
{
	unsigned long sum = 0;
	for (long i = 1; i <= BELOW_WORDS; i++) {
		unsigned long word;
		__asm__ volatile("mov (%1), %0" : "=r"(word) : "r"((char *)__builtin_frame_address(0) - 8 * i));
		sum = sum * 31 + word;
	}
	return sum;
}
