// One system call and one instruction that change several variables at once. What natively differs is nothing.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char text[16];
struct { long a, b; } pair;

typedef long two __attribute__((vector_size(16), aligned(8)));

static void both(long x)
{
	*(two *)&pair = (two){x, x * 10};
}

int main(void)
{
	int ends[2];
	if (pipe(ends) != 0)
		return 1;
	for (int i = 0; i < 4; i++) {
		char sent[16];
		memset(sent, 'a' + i, sizeof sent);
		if (write(ends[1], sent, sizeof sent) != sizeof sent || read(ends[0], text, sizeof sent) != sizeof sent)
			return 1;
		both(i + 1);
	}
	printf("%.16s %ld %ld\n", text, pair.a, pair.b);
	return 0;
}
