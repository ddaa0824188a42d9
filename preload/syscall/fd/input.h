// The files that a program reads natively; see input.c.
// Runs in: application threads, while recording.
// May call: raw system calls.
// Owns: nothing.
#pragma once

// Notes the regular file behind a descriptor that was just opened for reading, with its size and time.
void gr_input_note(int fd);
