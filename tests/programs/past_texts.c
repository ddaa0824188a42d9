// Texts behind pointers that are overwritten later, and the pointers too. What natively differs is where they stand.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct { long id; char *name; } last;
static struct { char *names[12]; } all;

static void rename_to(const char *name, int i)
{
	last.name = strdup(name);
	last.id = i;
	all.names[i] = last.name;
}

int main(void)
{
	rename_to("anna", 0);
	rename_to("bert", 1);
	rename_to("carl", 2);
	for (int i = 0; i < 3; i++)
		memset(all.names[i], '#', 4);
	printf("%ld %p\n", last.id, (void *)last.name);
	return 0;
}
