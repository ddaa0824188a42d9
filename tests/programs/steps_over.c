// Calls behind each other, each with a statement of its own behind it; one of them calls many times (argv[1]).
#include <stdlib.h>

int total;

__attribute__((noinline)) void add(int number)
{
	total += number;
}

__attribute__((noinline)) void add_often(int times)
{
	for (int i = 0; i < times; i++)
		add(1);
}

int main(int argc, char **argv)
{
	add(10);
	total += 1;
	add(20);
	total += 2;
	add_often(argc > 1 ? atoi(argv[1]) : 3);
	total += 3;
	return 0;
}
