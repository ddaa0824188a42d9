// Room for stubs, within reach of the libraries.
// Runs in: nothing; stub.c and lockstub.c fill it.
// May call: nothing.
// Owns: the sections gr_stubs and gr_lockstubs.
#include "../core/offsets.h"

	.section gr_stubs, "ax", @progbits
	.balign 4096
	.fill GR_STUBS_SIZE, 1, 0xcc

	.section gr_lockstubs, "ax", @progbits
	.balign 4096
	.fill GR_LOCKSTUBS_SIZE, 1, 0xcc

	.section .note.GNU-stack, "", @progbits
