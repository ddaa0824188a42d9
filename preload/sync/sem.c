// POSIX semaphores as operations. Named ones are made by system calls, which the door records; then they are alike.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL; errno.
// Owns: what a semaphore looks like on replay.
#include <errno.h>
#include <semaphore.h>

#include "../log/log.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "op.h"

// The library keeps the value in the low half of a word.
static void count(uint64_t sem, int change, long error)
{
	if (gr_mode == GR_MODE_REPLAY && !error)
		*(volatile uint32_t *)sem += change;
}

static long give_back(long error)
{
	if (!error)
		return 0;
	errno = (int)error;
	return -1;
}

static long take(struct gr_thread *self, struct gr_regs *frame, long error)
{
	count(frame->rdi, -1, error);
	if (error && error != EAGAIN && gr_cancel_acts(self, GR_CANCEL_BEHIND, true))
		gr_cancel_turn(frame);
	return give_back(error);
}

// While recording: 0 or the error.
static long recorded_try(struct gr_thread *self, uint64_t sem)
{
	int saved = errno;
	long error = GR_REAL(self, sem_trywait, sem) ? errno : 0;
	errno = saved;
	return error;
}

#define WAIT(self, frame, name, ...) \
	({ \
		long wait_error; \
		if (gr_cancel_acts(self, GR_CANCEL_BEFORE, true)) { \
			gr_cancel_turn(frame); \
			return 0; \
		} \
		if (gr_mode == GR_MODE_RECORD) { \
			wait_error = recorded_try(self, (frame)->rdi); \
			if (wait_error == EAGAIN) { \
				gr_op_block(self, GR_OP_SEM_WAIT, (frame)->rdi); \
				(self)->point++; \
				wait_error = GR_REAL(self, name, ##__VA_ARGS__) ? errno : 0; \
				(self)->point--; \
			} \
			gr_op_log(self, GR_OP_SEM_WAIT, (frame)->rdi, wait_error); \
		} else { \
			wait_error = gr_op_result(self, GR_OP_SEM_WAIT, (frame)->rdi); \
		} \
		take(self, frame, wait_error); \
	})

long gr_wrap_sem_wait(struct gr_thread *self, struct gr_regs *frame)
{
	return WAIT(self, frame, sem_wait, frame->rdi);
}

long gr_wrap_sem_timedwait(struct gr_thread *self, struct gr_regs *frame)
{
	return WAIT(self, frame, sem_timedwait, frame->rdi, frame->rsi);
}

long gr_wrap_sem_clockwait(struct gr_thread *self, struct gr_regs *frame)
{
	return WAIT(self, frame, sem_clockwait, frame->rdi, frame->rsi, frame->rdx);
}

long gr_wrap_sem_trywait(struct gr_thread *self, struct gr_regs *frame)
{
	long error;
	if (gr_mode == GR_MODE_RECORD) {
		error = recorded_try(self, frame->rdi);
		gr_op_log(self, GR_OP_SEM_WAIT, frame->rdi, error);
	} else {
		error = gr_op_result(self, GR_OP_SEM_WAIT, frame->rdi);
		count(frame->rdi, -1, error);
	}
	return give_back(error);
}

long gr_wrap_sem_post(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op(self, GR_OP_SEM_POST, frame->rdi);
	long error = gr_mode == GR_MODE_RECORD && GR_REAL(self, sem_post, frame->rdi) ? errno : 0;
	error = gr_op_outcome(self, frame->rdi, error);
	count(frame->rdi, 1, error);
	return give_back(error);
}

long gr_wrap_sem_getvalue(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_mode == GR_MODE_RECORD) {
		GR_REAL(self, sem_getvalue, frame->rdi, frame->rsi);
		gr_op_log(self, GR_OP_SEM_READ, frame->rdi, *(int *)frame->rsi);
	} else {
		*(int *)frame->rsi = (int)gr_op_result(self, GR_OP_SEM_READ, frame->rdi);
	}
	return 0;
}
