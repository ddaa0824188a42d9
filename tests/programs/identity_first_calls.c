// Two threads call each of many functions of the library for the first time, at once: the loader looks some of them up for both, some
// for one. What that leaves below the stack pointer is printed.
#define _GNU_SOURCE
#include <ctype.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

static pthread_barrier_t together;
static const char text[] = "17";

__attribute__((noinline)) static uint64_t leftovers(void)
{
	uint64_t words[640], sum = 0;
	uint64_t *volatile p = words; // nobody has written to them
	for (int i = 0; i < 640; i++)
		sum = (sum ^ p[i]) * 0x9e3779b97f4a7c15;
	return sum;
}

#define FIRST(call) do { \
	pthread_barrier_wait(&together); \
	(void)!(call); \
	*sum = *sum * 31 + leftovers(); \
} while (0)

static void *work(void *arg)
{
	uint64_t *sum = arg;
	div_t q;
	FIRST(atoi(text));
	FIRST(atol(text));
	FIRST(atoll(text));
	FIRST(strtol(text, NULL, 10) != 0);
	FIRST(strtoul(text, NULL, 10) != 0);
	FIRST(strtoll(text, NULL, 10) != 0);
	FIRST(labs(atol(text)) != 0);
	FIRST((q = div(atoi(text), 3)).quot);
	FIRST(iswalpha('a'));
	FIRST(iswdigit('1'));
	FIRST(iswpunct('.'));
	FIRST(iswlower('a'));
	FIRST(iswupper('A'));
	FIRST(towlower('A'));
	FIRST(towupper('a'));
	FIRST(wcwidth('a'));
	FIRST(isalnum('a'));
	FIRST(toupper('a'));
	FIRST(tolower('A'));
	FIRST(ffs(atoi(text)));
	FIRST(memccpy(sum + 1, text, 0, 0) == NULL);
	FIRST(strpbrk(text, "7") != NULL);
	FIRST(strspn(text, "1") != 0);
	FIRST(strcspn(text, "7") != 0);
	FIRST(strcoll(text, "17"));
	FIRST(strverscmp(text, "17"));
	FIRST(strcasestr(text, "7") != NULL);
	FIRST(memmem(text, 2, "7", 1) != NULL);
	FIRST(wcslen(L"a") != 0);
	FIRST(difftime(1, 0) != 0);
	FIRST(getpagesize());
	return NULL;
}

int main(void)
{
	static uint64_t sums[2][2];
	pthread_t threads[2];
	pthread_barrier_init(&together, NULL, 2);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, sums[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%016llx %016llx\n", (unsigned long long)sums[0][0], (unsigned long long)sums[1][0]);
	fflush(stdout);
	return getppid() == 0; // an operation while there is one thread
}
