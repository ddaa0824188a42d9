// What the manifest is to say about a run: files that are read natively, children, what could not be seen; see input.c.
// Runs in: application threads, while recording.
// May call: raw system calls.
// Owns: nothing.
#pragma once

#include "../../core/thread.h"

// A note of its own kind, where it stands in the control page; NULL when there is no room.
const char *gr_input_said(const char *text);

// Notes the regular file behind a descriptor that was just opened for reading, with its size and time.
void gr_input_note(int fd);

// Notes that the operation this thread finished last changed the file or the directory with this path.
void gr_input_changed(const struct gr_thread *self, const char *path);

// Notes a sentence that the user is told at the end of the recording and at each replay.
void gr_notice(const char *text);

// A system call that no kernel known here has.
void gr_input_unknown(int number);

// One more process was made. Not to be called by two threads at the same time.
void gr_input_child(void);
