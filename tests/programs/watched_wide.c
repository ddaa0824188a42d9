// Large areas that change rarely, with something beside them that changes all the time; one is filled by one instruction.
// Runs in: tests/gdb.
// May call: the kernel.
// Owns: nothing.
#include <stdio.h>
#include <unistd.h>

static struct {
	int before;
	char data[20000];
	int behind;
} area;
static char filled[9000];

static void pause_here(void)
{
	area.behind++;
	if (write(1, "", 0))
		area.before = 0;
}

int main(void)
{
	for (int i = 0; i < 24; i++) {
		area.before++;
		if (i % 10 == 3)
			area.data[(i + 1) * 7919 % 20000]++;
		pause_here();
		if (i == 15) {
			area.data[17777] = 5;
			area.data[17777] = 0;
		}
		if (i == 20) {
			char *to = filled;
			long count = sizeof filled;
			__asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
		}
	}
	printf("%d\n", area.before + area.behind);
	return 0;
}
