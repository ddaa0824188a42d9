// The command of a checkout: runs its Python, in an environment that is the user's own, to the last variable. A shell would add PWD.
// Runs in: a program of its own, .venv/bin/gdbrr, until it is another one.
// May call: raw system calls; there is no libc, whose start would take longer than everything here.
// Owns: nothing. gdbrr/__main__.py says what `-IS` is for.
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/syscall.h>

static long call(long number, long a, long b, long c)
{
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return ret;
}

static char *put(char *to, const char *text)
{
	while ((*to = *text++))
		to++;
	return to;
}

static _Noreturn void give_up(void)
{
	static const char why[] = "gdbrr: this checkout is not whole. Run: make build\n";
	call(SYS_write, 2, (long)why, sizeof why - 1);
	for (;;)
		call(SYS_exit_group, 127, 0, 0);
}

// STACK is as the kernel left it: how many arguments, they, NULL, the environment.
__attribute__((used)) _Noreturn void gr_front(char **stack)
{
	static char python[PATH_MAX + 16], file[PATH_MAX + 32];
	long count = (long)stack[0], size = call(SYS_readlink, (long)"/proc/self/exe", (long)file, PATH_MAX);
	if (size <= 0 || size >= PATH_MAX || count < 1)
		give_up();
	char *end = file + size; // CHECKOUT/.venv/bin/gdbrr
	while (end > file && *end != '/')
		end--;
	*end = 0;
	put(put(python, file), "/python");
	for (int up = 0; up < 2; up++)
		while (end > file && *--end != '/')
			;
	put(end, "/gdbrr/__main__.py");
	char *words[count + 3];
	words[0] = python;
	words[1] = "-IS";
	words[2] = file;
	for (long i = 1; i <= count; i++)
		words[i + 2] = stack[i + 1]; // the last one is NULL
	call(SYS_execve, (long)python, (long)words, (long)(stack + 1 + count + 1));
	give_up();
}

__asm__(".globl _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call gr_front\n");
