// Where a program's libraries lie, although the loader's cache has another size than while recording.
// Runs in: included by the launcher.
// May call: nothing; declarations only.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Whether the loader's cache has other pages than these by now.
bool gr_libraries_move(uint64_t cache_pages);

// `child` has not executed an instruction; afterwards its loader has done its work.
void gr_libraries_place(pid_t child, uint64_t cache_pages);
