// Files that the program has mapped to be shared, and that others may write: what can be known is refused, the rest is told.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../call.h"

// A shared mapping was made by this call; ends the recording when another process can be seen to write to the same memory.
// Of a file that the demo refers to, the time is enough.
void gr_outside_mapped(const struct gr_call *call, uint32_t key, bool may_write, bool referred);

// From here on the program itself changes the file, or what is mapped there: its contents say nothing about others.
void gr_outside_own_file(uint32_t key);
void gr_outside_own_range(uint64_t addr, uint64_t len);

// The memory goes away, or the program does: what of it changed meanwhile was changed by somebody else.
void gr_outside_leaves(uint64_t addr, uint64_t len);
void gr_outside_moved(uint64_t from, uint64_t old_len, uint64_t to);
void gr_outside_end(void);

// peers.c: who else has the file of a mapping, as far as /proc shows it.
struct gr_peer { long pid; bool mapped; };
// `addr` is in the mapping, `dev` and `ino` are its file's. Relatives that only hold a descriptor do not count: it was
// inherited, in one direction or the other. False when nobody was found.
bool gr_peer_find(uint64_t addr, uint64_t dev, uint64_t ino, struct gr_peer *ret);
// Whether anybody has the file open for writing; but for this descriptor, where it is for writing itself: 1, 0, or -1 when the
// kernel does not say.
int gr_peer_writes(int fd, bool but_this);
