// What would be random in a program's start; see random.c.
// Runs in: included by the launcher.
// May call: nothing; declarations only.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Of `child`, which has not executed an instruction: the bytes at AT_RANDOM become these. False, with errno, if it cannot be.
bool gr_random_set(pid_t child, const uint8_t bytes[16]);

// The kernel's library has no random generator, for whoever looks for one.
bool gr_random_hide(pid_t child);
