// Which class each of the program's descriptors belongs to, and which are its output.
// Runs in: application threads.
// May call: raw system calls (while recording).
// Owns: the descriptor table. It is the same in recording and replay: what the kernel was asked is in the demo.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "call.h"

#define GR_DESCRIPTORS 0x10000
#define GR_FD_NONE 0x1f   // class bits: not open
#define GR_FD_CLASS 0x1f
#define GR_FD_OUT 0x20    // what was descriptor 1 at the start
#define GR_FD_ERR 0x40    // what was descriptor 2
#define GR_FD_RECORDED 0x80 // made by a recorded call: on replay the kernel does not know it

void gr_fd_init(void);

// The three that a program is started with.
void gr_fd_standard(const uint8_t classes[3]);
uint8_t gr_fd_get(uint64_t fd);

// What the kernel says about a descriptor, as a class. Recording only.
uint8_t gr_fd_probe(int fd);

// Moves the table on behind a call that made, copied or closed descriptors; `cls` is the class of a new one.
void gr_fd_update(const struct gr_call *call, uint8_t cls);

// True if the call makes descriptors; the class of what it made is in the flags of its SYS_END event.
bool gr_fd_makes(const struct gr_call *call);
