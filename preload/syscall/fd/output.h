// What the program writes to the standard output and error it started with, under whatever number.
// Runs in: application threads, on the engine's stack.
// May call: core, replay.
// Owns: nothing; see output.c.
#pragma once

#include "../dispatch.h"

// 1 or 2 where the descriptor is the program's own output or error; 0 for every other one.
uint32_t gr_output_behind(uint64_t fd);
// The same of a call that writes to it.
uint32_t gr_output_of(const struct gr_call *call);
uint64_t gr_output_length(const struct gr_call *call);

// queue.c: recording, around a call. The queue goes to gr_queue_leave. ENDED: a signal or a cancellation came to a call that
// would wait in the kernel, too, and ends it there (gr_queue_ended in place of the call itself).
enum gr_queued { GR_QUEUE_PASSED, GR_QUEUE_ENDED };
void gr_queue_init(void);
enum gr_queued gr_queue_enter(const struct gr_call *call, uint32_t **queue);
void gr_queue_leave(uint32_t *queue);
long gr_queue_ended(struct gr_thread *self, long nr, const uint64_t arg[6], const uint32_t *held, const uint32_t *cancel);

// Replay, in the constructor: the way out is kept where the program cannot close it.
void gr_output_init(void);
// Replay: other arguments than recorded. True if only the contents differ, which is noted and goes on.
bool gr_output_differs(struct gr_call *call, const struct gr_event *start);
// Replay: bytes the program is told to have written, when the recorded call returned `recorded`.
int64_t gr_output_result(const struct gr_call *call, int64_t recorded);
// Recording: where in its file the output goes is decided by this call (GR_OUTPUT_PLACED; 0: by their order alone, as in a pipe or
// behind what is there already). In the flags of the call's end.
#define GR_OUTPUT_PLACED 1
uint8_t gr_output_placed(const struct gr_call *call);
// Replay, behind a call that moved the place: what is shown goes on there, if it is shown to a file.
void gr_output_move(const struct gr_call *call, const struct gr_event *end);
// Replay: lets it appear as it did, as much as the recorded call wrote.
void gr_output_echo(const struct gr_call *call);
void gr_output_bytes(uint32_t output, const void *bytes, uint64_t len);
