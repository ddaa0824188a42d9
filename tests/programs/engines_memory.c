// Looks into the engine's own memory (its control page, preload/abi.h), which is other in a recording than in each of its replays,
// as programs do that go through all of theirs: no replay keeps to what follows.
// What differs natively: without the engine it ends there.
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static const uint32_t *const control = (const uint32_t *)0x280000000000;
static int known;

static void before(void)
{
	for (int i = 0; i < 10; i++)
		known += getppid() != 0;
}

static void behind(void)
{
	puts("behind");
}

int main(void)
{
	before();
	for (uint32_t times = 30 - 10 * control[3]; times; times--) // enum gr_mode
		getppid();
	behind();
	return known != 10;
}
