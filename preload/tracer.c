// gdbrr-launch --trace: sets debug registers where the kernel refuses perf breakpoints, and hands every hit to the engine.
// Runs in: a process of its own beside one worker of a replay, as long as the worker's points are armed.
// May call: libc.
// Owns: the debug registers of the worker's threads. What a hit means is the engine's business (watch/points.c).
//
// A hit stops the thread with SIGTRAP. The signal goes on to the engine's handler with the siginfo that a perf event would have
// sent, but for the data: GR_TRACER_HITS and a mask of the points that were hit. The engine says that it has enough by
// an int3 with GR_TRACER_BYE in rax: then the tracer lets go of every thread and ends.
#define _GNU_SOURCE
#include "tracer.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

#define THREADS_MAX 65536
#define DEBUG_REGISTER(n) (offsetof(struct user, u_debugreg) + (n) * sizeof(long))

static struct { unsigned long addr, control; } points[GR_WATCHES];
static int point_count;
static unsigned long control; // dr7

static pid_t threads[THREADS_MAX];
static int thread_count;

static long request(int what, pid_t tid, unsigned long addr, unsigned long data)
{
	return ptrace(what, tid, (void *)addr, (void *)data);
}

// ---------------------------------------------------------------- threads
static int place_of(pid_t tid)
{
	for (int i = 0; i < thread_count; i++)
		if (threads[i] == tid)
			return i;
	return -1;
}

static void forget(pid_t tid)
{
	int place = place_of(tid);
	if (place >= 0)
		threads[place] = threads[--thread_count];
}

static bool arm(pid_t tid)
{
	for (int i = 0; i < point_count; i++)
		if (request(PTRACE_POKEUSER, tid, DEBUG_REGISTER(i), points[i].addr))
			return false;
	return request(PTRACE_POKEUSER, tid, DEBUG_REGISTER(7), control) == 0;
}

static void let_go(pid_t tid)
{
	request(PTRACE_POKEUSER, tid, DEBUG_REGISTER(7), 0);
	for (int i = 0; i < point_count; i++)
		request(PTRACE_POKEUSER, tid, DEBUG_REGISTER(i), 0);
	request(PTRACE_DETACH, tid, 0, 0);
	forget(tid);
}

// INVARIANT(wait-for-anybody): never waits for one thread. A dead group leader is reported only when every other thread was
// reaped, so a tracer that waits for the leader of a killed process alone would keep it a zombie for ever.
static bool await_stop(pid_t tid)
{
	int status;
	pid_t got;
	while ((got = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status))
			forget(got);
		if (got == tid)
			return WIFSTOPPED(status);
	}
	return false;
}

static bool seize_all(pid_t pid)
{
	char path[64];
	bool found = true;
	while (found) { // threads that are being born while the directory is read show up in the next round
		found = false;
		snprintf(path, sizeof path, "/proc/%d/task", pid);
		DIR *dir = opendir(path);
		if (!dir)
			return false;
		for (struct dirent *entry; (entry = readdir(dir));) {
			pid_t tid = atoi(entry->d_name);
			if (tid <= 0 || place_of(tid) >= 0 || thread_count == THREADS_MAX)
				continue;
			if (ptrace(PTRACE_SEIZE, tid, 0, (void *)PTRACE_O_TRACECLONE)) {
				if (errno == ESRCH)
					continue;
				closedir(dir);
				return false;
			}
			threads[thread_count++] = tid;
			found = true;
			if (request(PTRACE_INTERRUPT, tid, 0, 0) == 0 && await_stop(tid) && !arm(tid)) {
				closedir(dir);
				return false;
			}
		}
		closedir(dir);
	}
	return thread_count > 0;
}

// Every other thread first; the one that said goodbye is stopped already and goes on last.
static void end(pid_t last)
{
	for (int i = 0; i < thread_count; i++)
		if (threads[i] != last)
			request(PTRACE_INTERRUPT, threads[i], 0, 0);
	while (thread_count > (place_of(last) >= 0)) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);
		if (tid <= 0)
			break;
		if (WIFSTOPPED(status))
			let_go(tid);
		else
			forget(tid);
	}
	if (place_of(last) >= 0)
		let_go(last);
	exit(0);
}

// ---------------------------------------------------------------- stops
static void on_trap(pid_t tid)
{
	siginfo_t info;
	if (request(PTRACE_GETSIGINFO, tid, 0, (unsigned long)&info) == 0 && info.si_code == SI_KERNEL &&
	    ptrace(PTRACE_PEEKUSER, tid, (void *)offsetof(struct user, regs.rax), 0) == GR_TRACER_BYE)
		end(tid);
	long hits = ptrace(PTRACE_PEEKUSER, tid, (void *)DEBUG_REGISTER(6), 0) & ((1 << point_count) - 1);
	if (hits) {
		// INVARIANT(one-signal-many-traps): a trap that comes while SIGTRAP is pending sends none of its own.
		unsigned long with = info.si_code == SI_TIMER ? GR_TRACER_AND_TIMER : info.si_code == TRAP_TRACE ? GR_TRACER_AND_STEP : 0;
		request(PTRACE_POKEUSER, tid, DEBUG_REGISTER(6), 0);
		info.si_code = 6; // TRAP_PERF
		*(unsigned long *)((char *)&info + 24) = GR_TRACER_HITS | with | hits;
		request(PTRACE_SETSIGINFO, tid, 0, (unsigned long)&info);
	}
	request(PTRACE_CONT, tid, 0, SIGTRAP);
}

static void serve(void)
{
	int status;
	pid_t tid;
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			forget(tid);
			continue;
		}
		int event = status >> 16, signal = WSTOPSIG(status);
		if (event == PTRACE_EVENT_STOP && place_of(tid) < 0 && thread_count < THREADS_MAX) {
			threads[thread_count++] = tid; // new: it has not run an instruction yet
			arm(tid);
		}
		if (event)
			request(PTRACE_CONT, tid, 0, 0);
		else if (signal == SIGTRAP)
			on_trap(tid);
		else
			request(PTRACE_CONT, tid, 0, signal);
	}
}

// ---------------------------------------------------------------- arguments: PID ADDR:LENGTH:KIND...
static bool parse(const char *text, int i)
{
	static const unsigned long types[] = {
		[GR_POINT_WRITE] = 1, [GR_POINT_ACCESS] = 3, [GR_POINT_EXEC] = 0, [GR_POINT_CHANGE] = 1,
	};
	static const unsigned long lengths[] = {[1] = 0, [2] = 1, [4] = 3, [8] = 2};
	unsigned long addr;
	unsigned length, kind;
	if (sscanf(text, "%lx:%u:%u", &addr, &length, &kind) != 3 || kind > GR_POINT_CHANGE)
		return false;
	if (kind == GR_POINT_EXEC)
		length = 1;
	if (length > 8) // looked at by pages; its number is taken
		return true;
	if (length != 1 && length != 2 && length != 4 && length != 8)
		return false;
	points[i].addr = addr;
	control |= 1UL << (2 * i) | types[kind] << (16 + 4 * i) | lengths[length] << (18 + 4 * i);
	return true;
}

int gr_trace(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	for (point_count = 0; point_count < argc - 2 && point_count < GR_WATCHES; point_count++)
		if (!parse(argv[point_count + 2], point_count))
			return 2;
	if (pid <= 0 || !point_count)
		return 2;
	if (!seize_all(pid)) {
		perror("gdbrr-launch --trace");
		return 1;
	}
	for (int i = 0; i < thread_count; i++)
		request(PTRACE_CONT, threads[i], 0, 0);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	serve();
	return 0;
}
