// A table of names and, behind it, a pointer. One name is longer than its field, and its end is written into
// the pointer. Nobody notices until the pointer is used, much later and somewhere else.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
	char name[4][8];
	const char *owner;
};

static struct table table;
static long work;

static void set_name(int at, const char *name)
{
	char *to = table.name[at];
	while (*name)
		*to++ = *name++;
	*to = 0;
}

static void compute(void)
{
	for (int i = 0; i < 100000; i++)
		work += i % 7;
}

static void report(void)
{
	printf("%s owns %s and %s: %ld\n", table.owner, table.name[0], table.name[3], work);
	printf("that is %zu letters\n", strlen(table.owner));
}

int main(void)
{
	const char *names[] = {"one", "two", "three", "eleven-ish"};
	table.owner = "nobody";
	for (int i = 0; i < 4; i++)
		set_name(i, names[i]);
	compute();
	report();
	return 0;
}
