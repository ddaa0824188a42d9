// Code that looks at its own flags: the one that a debugger steps by is not among them.
#include <stdio.h>
#include <unistd.h>

static unsigned long seen[3];
static unsigned short narrow;

static void look(int which)
{
	unsigned long flags;
	unsigned short half;
	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags));
	seen[which] = flags & 0x100;
	__asm__ volatile("pushfw\n\tpopw %0" : "=r"(half));
	narrow |= half & 0x100;
}

int main(void)
{
	look(0);
	getppid();
	look(1);
	getppid();
	look(2);
	printf("%lx %lx %lx %x\n", seen[0], seen[1], seen[2], narrow);
	return 0;
}
