// Brings a script for whoever debugs it, in a section that GDB looks into.
// Runs in: tests/confine.
// May call: the C library.
// Owns: nothing.
#include <stdio.h>

__asm__(".pushsection \".debug_gdb_scripts\", \"MS\", @progbits, 1\n"
	".byte 4\n" // Python, as text
	".ascii \"inlined\\n\"\n"
	".ascii \"import os; open(os.environ['MARK'], 'a').write('inside ')\\n\"\n"
	".byte 0\n"
	".popsection\n");

int main(void)
{
	puts("hello");
	return 0;
}
