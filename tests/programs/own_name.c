// Prints the name by which it was started.
#include <stdio.h>

int main(int argc, char **argv)
{
	(void)argc;
	puts(argv[0]);
}
