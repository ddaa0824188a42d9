// Prints the length of every instruction of a file's executable part as this engine sees it: `START LENGTH` in hexadecimal.
// Runs in: a program of its own, driven by tests/unit/test_decode.py with the starts that objdump found.
// May call: libc.
// Owns: nothing.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "patch/decode.h"

// Standard input: `OFFSET LENGTH` of each instruction as objdump has it, decimal. Prints those that differ.
int main(int argc, char **argv)
{
	struct stat st;
	int fd = open(argv[argc - 1], O_RDONLY);
	if (argc != 2 || fd < 0 || fstat(fd, &st))
		return 2;
	const uint8_t *file = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	unsigned long offset, length, count = 0;
	while (scanf("%lu %lu", &offset, &length) == 2) {
		struct gr_insn insn = {0};
		bool valid = gr_decode(file + offset, st.st_size - offset, &insn);
		count++;
		if (!valid || insn.length != length) {
			printf("%#lx: %u, not %lu:", offset, valid ? insn.length : 0, length);
			for (unsigned long i = 0; i < length; i++)
				printf(" %02x", file[offset + i]);
			printf("\n");
		}
	}
	printf("%lu instructions\n", count);
	return 0;
}
