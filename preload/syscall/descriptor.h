// Which class each of the program's descriptors belongs to, and which are its output.
// Runs in: application threads.
// May call: raw system calls (while recording).
// Owns: the descriptor table. It is the same in recording and replay: what the kernel was asked is in the demo.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "call.h"
#include "fd/kind.h"
#include "memory/memory.h"

#define GR_DESCRIPTORS 0x10000
#define GR_FD_NONE 0x1f   // class bits: not open
#define GR_FD_CLASS 0x1f
#define GR_FD_OUT 0x20    // what was descriptor 1 at the start
#define GR_FD_ERR 0x40    // what was descriptor 2
#define GR_FD_RECORDED 0x80 // made by a recorded call: on replay the kernel does not know it

// The three that a program is started with.
void gr_fd_standard(const uint8_t classes[3]);
uint8_t gr_fd_get(uint64_t fd);
void gr_fd_set(uint64_t fd, uint8_t value);

// What the kernel says about a descriptor, as a class; remembers its kind and which file it is. On replay only of one that
// was made natively.
uint8_t gr_fd_probe(int fd);

// What happened to the call that made this descriptor: its own calls share that.
enum gr_action gr_fd_rule(int fd);

// Its kind, as gr_fd_probe found it.
enum gr_kind gr_fd_kind(int fd);

// Recording: does it lead to a file that was large when it was opened?
#define GR_LARGE 0x100000
bool gr_fd_large(int fd);

// The first descriptor from `fd` on of a file or directory that was opened natively, GR_DESCRIPTORS when there is none; and
// which of all openings it leads to, as far as the program made copies of descriptors (replay).
uint32_t gr_fd_native(uint32_t fd);
uint32_t gr_fd_opening(uint32_t fd);

// A number for the file behind a descriptor or path, 0 for what is no regular file or directory. Two files may have
// the same one: whoever asks must do no harm then. Recording only.
#define GR_KEY_MEMORY 2 // of no file, whose keys are odd: the memory of this process, as /proc shows it
uint32_t gr_fd_key(int fd);
uint32_t gr_file_key(int dirfd, uint64_t path, int flags);

// Recording: others have it too and may move its position, so from here on its calls are recorded. Of a message that is
// sent: what it carries; of a new process: all that it inherits.
void gr_fd_sent(const struct gr_call *call);
void gr_fd_inherited(void);

// True when a child or the receiver of a message may have the same openings.
bool gr_fd_given(void);

// Marks what a call received in a message (SCM_RIGHTS) as recorded descriptors.
void gr_fd_received(const struct gr_call *call);

// True if the result is a descriptor whose number a replay must choose.
bool gr_fd_numbers(const struct gr_call *call);

// Replay: a recorded call that read from a native file moved its position on.
void gr_fd_advance(const struct gr_call *call);

// rules.c: what happens to a call, decided while recording; a replay finds it in the demo.
enum gr_action gr_rule_action(const struct gr_call *call);
bool gr_rule_allows(const struct gr_call *call); // replay: may this call be made, by the profile?
void gr_rule_done(const struct gr_call *call); // behind a call: what it may have changed is native no more
void gr_rule_chdir(const struct gr_call *call, struct gr_stores *stores);
bool gr_rule_writes(const struct gr_call *call); // does it open a file in order to change it?
bool gr_rule_moves_root(long nr);                // do paths lead to other files behind it?
void gr_rule_children(void);                   // from here on other processes may change any file

// Moves the table on behind a call that made, copied or closed descriptors; `cls` is the class of a new one.
void gr_fd_update(const struct gr_call *call, uint8_t cls);

// True if the call makes descriptors; the class of what it made is in the flags of its SYS_END event.
bool gr_fd_makes(const struct gr_call *call);
