// The classes of small blocks.
// Runs in: application threads.
// May call: nothing.
// Owns: the mapping between sizes and classes.
#include "heap.h"

// 16 .. 128 in steps of 16 are classes 0 .. 7; then 160, 192, 224, 256, 320 ... 8192.
unsigned gr_class_of(size_t size)
{
	if (size <= 128)
		return size ? (size - 1) / 16 : 0;
	unsigned log = 63 - __builtin_clzll(size - 1); // 7 for 129 .. 256
	return 8 + (log - 7) * 4 + (((size - 1) >> (log - 2)) & 3);
}

size_t gr_class_size(unsigned cls)
{
	if (cls < 8)
		return (cls + 1) * 16;
	unsigned log = 7 + (cls - 8) / 4;
	return ((size_t)1 << log) + (((cls - 8) % 4) + 1) * ((size_t)1 << (log - 2));
}
