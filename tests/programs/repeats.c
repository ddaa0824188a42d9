// Repeated string instructions of each kind that goes through memory, and what is in front of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char from[64], to[64];
static volatile int number;

static void in_front(void)
{
	number++;
}

int main(int argc, char **argv)
{
	int which = argc > 1 ? atoi(argv[1]) : 0;
	void *source = from, *target = to;
	long count;
	memset(from, 7, sizeof from);
	in_front();
	switch (which) {
	case 0:
		__asm__ volatile("rep stosb" : "=D"(target), "=c"(count) : "0"(to), "1"(40), "a"(7) : "memory");
		break;
	case 1:
		__asm__ volatile("rep stosq" : "=D"(target), "=c"(count) : "0"(to), "1"(6), "a"(0x0707070707070707) : "memory");
		break;
	case 2:
		__asm__ volatile("rep movsw" : "=D"(target), "=S"(source), "=c"(count) : "0"(to), "1"(from), "2"(20) : "memory");
		break;
	default:
		__asm__ volatile("std; rep movsb; cld" : "=D"(target), "=S"(source), "=c"(count)
				 : "0"(to + 39), "1"(from + 39), "2"(40) : "memory");
	}
	printf("%d %ld %ld\n", to[20], (long)((char *)target - to), count);
	return 0;
}
