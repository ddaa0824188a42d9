// What the loader asks for before the engine starts: written down when a demo is packed, answered from that elsewhere.
// Runs in: gdbrr-launch, as the tracer of a program that stands at its first instruction.
// May call: libc.
// Owns: the form of the table (carried.c).
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum gr_followed { GR_FOLLOWED_TO_ENGINE, GR_FOLLOWED_TO_END, GR_FOLLOWED_NO_ROOM };

// The table at `path`: one to answer from, or with `log` one to write. False when the file cannot be had.
bool gr_carried_open(const char *path, bool log);

// Where the program is executed, or NULL: by a relative name that is as long as the one it shall see.
const char *gr_carried_dir(void);

// Puts back what had to be another for the exec: its name on the stack, and where the file names its loader.
void gr_carried_restore(pid_t child);

// Lets the traced child run until the engine asks for its pages.
enum gr_followed gr_carried_follow(pid_t child);

// An entry of the child's auxiliary vector; 0 where there is none.
uint64_t gr_auxv_get(pid_t child, uint64_t type);
