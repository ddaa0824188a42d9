// POSIX semaphores as operations. Named ones are made by system calls, which the door records; then they are alike.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL; errno.
// Owns: what a semaphore looks like on replay.
#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>

#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/edge.h"
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

// ---------------------------------------------------------------- without a frame (quick.S); false: not as easy as that
// How the library keeps it on processors with atomic operations on 64 bits.
struct semaphore { uint64_t data; uint32_t kind, pad; };
#define VALUE(data) ((uint32_t)(data))
#define WAITERS(data) ((uint32_t)((data) >> 32))
#define FEW (1u << 30) // a value from which others cannot make too great a one meanwhile

bool gr_quick_sem_trywait(struct gr_thread *self, struct semaphore *sem);
bool gr_quick_sem_wait(struct gr_thread *self, struct semaphore *sem);
bool gr_quick_sem_post(struct gr_thread *self, struct semaphore *sem);

bool gr_quick_sem_trywait(struct gr_thread *self, struct semaphore *sem)
{
	uint64_t seen = __atomic_load_n(&sem->data, __ATOMIC_RELAXED);
	do {
		if (VALUE(seen) == 0)
			return false;
	} while (!__atomic_compare_exchange_n(&sem->data, &seen, seen - 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	gr_digest_primitive(self, GR_OP_SEM_WAIT, (uint64_t)sem);
	gr_cell_take(self, GR_OP_SEM_WAIT, (uint64_t)sem, false);
	return true;
}

bool gr_quick_sem_wait(struct gr_thread *self, struct semaphore *sem)
{
	return gr_quick_sem_trywait(self, sem);
}

bool gr_quick_sem_post(struct gr_thread *self, struct semaphore *sem)
{
	if (VALUE(__atomic_load_n(&sem->data, __ATOMIC_RELAXED)) > FEW)
		return false;
	uint32_t kind = sem->kind; // behind the post it may be gone
	gr_digest_primitive(self, GR_OP_SEM_POST, (uint64_t)sem);
	gr_cell_give(self, GR_OP_SEM_POST, (uint64_t)sem, GR_CELL_GIVEN);
	if (WAITERS(__atomic_fetch_add(&sem->data, 1, __ATOMIC_RELEASE)))
		GR_RAW(SYS_futex, sem, (FUTEX_WAKE | FUTEX_PRIVATE_FLAG) ^ kind, 1, 0, 0, 0);
	return true;
}

// ---------------------------------------------------------------- operations
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
			int wait_errno = errno; \
			(self)->point++; \
			wait_error = GR_REAL_BLOCKING(self, GR_OP_SEM_WAIT, (frame)->rdi, name, ##__VA_ARGS__) ? errno : 0; \
			(self)->point--; \
			errno = wait_errno; \
			gr_op_taken(self, GR_OP_SEM_WAIT, (frame)->rdi, wait_error, false); \
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
		gr_op_taken(self, GR_OP_SEM_WAIT, frame->rdi, error, false);
	} else {
		error = gr_op_result(self, GR_OP_SEM_WAIT, frame->rdi);
		count(frame->rdi, -1, error);
	}
	return give_back(error);
}

long gr_wrap_sem_post(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op_given(self, GR_OP_SEM_POST, frame->rdi, GR_CELL_GIVEN);
	long error = gr_mode == GR_MODE_RECORD && GR_REAL(self, sem_post, frame->rdi) ? errno : 0;
	error = gr_op_outcome(self, frame->rdi, error);
	count(frame->rdi, 1, error);
	return give_back(error);
}

long gr_wrap_sem_getvalue(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_mode == GR_MODE_RECORD) {
		GR_REAL(self, sem_getvalue, frame->rdi, frame->rsi);
		struct gr_event ev = {.kind = GR_OP_SEM_READ, .object = frame->rdi, .result = *(int *)frame->rsi};
		gr_digest_primitive(self, GR_OP_SEM_READ, frame->rdi);
		gr_log_behind(self, &ev, gr_cells ? gr_cell_stamp(frame->rdi) : 0); // who posted what is seen there
	} else {
		*(int *)frame->rsi = (int)gr_op_result(self, GR_OP_SEM_READ, frame->rdi);
	}
	return 0;
}
