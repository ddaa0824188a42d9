// Kernel ids of threads in bytes that are not the recording's.
// Runs in: a replay whose digest is not the demo's.
// May call: core.
// Owns: nothing.
//
// The C library reads ids out of threads' descriptors and hands them to the kernel: as a number, inside of the number of a thread's
// clock, and as text, in the name of a file. They are left in registers and on stacks, where frames of handlers
// and later calls keep them. A digest holds hashes, so what is behind one is tried.
//
// INVARIANT(no-id-by-chance): a number is only taken for a thread's id where it then is the recording's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A thread's id, or its clock's number, as a word of its own.
bool gr_rename_word(uint32_t word, uint32_t recorded);

// Whether `same` says so of these bytes, with ids in them replaced by what the recording called the threads.
bool gr_rename_bytes(uint8_t *bytes, size_t n, bool (*same)(const uint8_t *bytes, uint64_t wanted), uint64_t wanted);
