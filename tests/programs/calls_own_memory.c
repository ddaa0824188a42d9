// A program that writes to its own memory as if it were another process: data, constants, code; by file and by call.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile int number = 1;
static const volatile int constant = 1;
static char text[100];

__attribute__((noinline)) static int answer(void)
{
	return 42;
}

// The byte behind the opcode of `mov $42, %eax`.
static long place_of_42(void)
{
	const char *p = (const char *)answer;
	while (*p != 42)
		p++;
	return (long)p;
}

int main(void)
{
	char name[60], seven = 7;
	int value = 7, same = open("/proc/self/mem", O_RDWR), copy = dup(same);
	printf("%d\n", (int)pwrite(same, &value, sizeof value, (long)&number));
	printf("by pwrite %d\n", number);
	value = 8;
	lseek(copy, (long)&constant, SEEK_SET);
	printf("%d\n", (int)write(copy, &value, sizeof value));
	printf("by write %d\n", constant);
	printf("%d %d\n", answer(), (int)pwrite(same, &seven, 1, place_of_42()));
	printf("code %d\n", answer());

	snprintf(name, sizeof name, "/proc/%d/task/%d/mem", getpid(), gettid());
	int other = open(name, O_RDWR);
	struct iovec parts[2] = {{"in two", 6}, {" parts", 6}};
	printf("%d\n", (int)pwritev(other, parts, 2, (long)text));
	printf("by pwritev %s\n", text);
	lseek(other, (long)text + 3, SEEK_SET);
	printf("%d\n", (int)writev(other, parts, 2));
	printf("by writev %s\n", text);

	struct iovec to[2] = {{text, 3}, {text + 50, 20}};
	printf("%d\n", (int)syscall(SYS_process_vm_writev, gettid(), parts, 2, to, 2, 0));
	printf("by call %.3s %s\n", text, text + 50);

	// Some of it is not there.
	char *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(page + 4096, 4096);
	printf("%d\n", (int)pwrite(same, "at the end", 10, (long)page + 4096 - 6));
	printf("half %.6s\n", page + 4096 - 6);
	return 0;
}
