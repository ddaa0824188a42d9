// Call sites of every shape, each called often; prints what each call gave and, unless told to be
// blind, whether its text has become a jump.
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE(name, before, after) \
	__asm__(".text\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n" before "\n" #name "_at: syscall\n" after \
		"\n.cfi_endproc\n.size " #name ", .-" #name "\n.balign 16\n"); \
	extern const unsigned char name##_at[]; \
	long name(long nr, long a)

#define NUMBER "mov %rdi, %rax\nmov %rsi, %rdi"
SITE(number, "mov $39, %eax", "ret");                                           // getpid, whatever is asked for
SITE(compared, NUMBER, "cmp $-4096, %rax\nja 1f\nret\n1: mov $-1, %rax\nret");
SITE(tested, NUMBER, "test %eax, %eax\njs 1f\nadd $0, %rax\nret\n1: mov $-1, %rax\nret"); // the jump is moved too
SITE(returned, NUMBER, "ret");
SITE(stored, NUMBER, "mov %rax, -8(%rsp)\nret");                                 // memory: keeps its trap
SITE(entered, NUMBER "\ntest %rdi, %rdi\njs 1f", "1: cmp $-4096, %rax\nret");    // reached from elsewhere: keeps its trap
SITE(tabled, NUMBER, "cmp $-4096, %rax\nja 1f\nret\n1: lea 2f(%rip), %rcx\njmp *%rcx\n2: mov $-1, %rax\nret"); // may be reached
SITE(flagged, NUMBER "\nstc\npush %rbx\nmov $7, %ebx", "mov %ebx, %edx\nmov $0, %ecx\nadc %ecx, %edx\npop %rbx\nlea (%rax,%rdx), %rax\nsub $8, %rax\nret");

static const struct { const char *name; long (*call)(long, long); const unsigned char *at; int back; } sites[] = {
	{"number", number, number_at, 5},   {"compared", compared, compared_at, 0}, {"tested", tested, tested_at, 0},
	{"returned", returned, returned_at, 0}, {"stored", stored, stored_at, 0},   {"entered", entered, entered_at, 0},
	{"tabled", tabled, tabled_at, 0},   {"flagged", flagged, flagged_at, 0},
};

int main(int argc, char **argv)
{
	(void)argv;
	long pid = getpid();
	for (unsigned i = 0; i < sizeof sites / sizeof *sites; i++) {
		long good = 0, bad = 0;
		for (int n = 0; n < 500; n++) {
			good += sites[i].call(39, 0) == pid;
			bad += sites[i].call(3, 1000) < 0;
		}
		printf("%s %ld %ld %s\n", sites[i].name, good, bad, argc > 1 ? "blind" : sites[i].at[-sites[i].back] == 0xe9 ? "jump" : "as built");
	}
	// A child runs without the engine, on the same text.
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		long sum = 0;
		for (unsigned i = 0; i < sizeof sites / sizeof *sites; i++)
			sum += sites[i].call(39, 0) == getpid();
		_exit(sum);
	}
	int status = 0;
	waitpid(child, &status, 0);
	printf("child %d\n", WEXITSTATUS(status));
	return 0;
}
