// Files that were opened natively: a copy of a process gets places of its own in them.
// Runs in: the thread of a replay that stands; a copy just made from a frozen one, which has one task.
// May call: core, syscall; raw calls.
// Owns: where the process was in each file when it was frozen.
#pragma once

// In front of the clone that freezes: where this process is in each.
void gr_files_note(void);

// In a woken copy, in front of its threads: each is opened anew, at that place.
//
// INVARIANT(places-are-ones-own): who is copied shares what he has opened with his copies, and with it the place in the file. A
// frozen copy moves nothing, and one that is woken has openings of its own before it reads. Descriptors that share an opening
// in the program go on sharing one.
void gr_files_reopen(void);
