// Nearly all of its time is in a few repeated string instructions, each of which takes long.
#include <stdio.h>
#include <stdlib.h>

#define SIZE (64L << 20)

int main(void)
{
	char *place = malloc(SIZE);
	for (int i = 0; i < 400; i++) {
		void *at = place;
		long left;
		__asm__ volatile("rep stosb" : "=D"(at), "=c"(left) : "0"(place), "1"(SIZE), "a"(i) : "memory");
	}
	printf("%d\n", place[SIZE - 1]);
	return 0;
}
