// The contract between the engine, the launcher and Python: pages, records and numbers all three share.
// Runs in: included by the engine, by gdbrr-launch and by the cffi module behind gdbrr/abi.py.
// May call: nothing; declarations only, plain enough that cffi parses them after `gcc -E`.
// Owns: GR_ABI_VERSION. Any change of layout or meaning here raises it.
#pragma once

#include <stdint.h>

#define GR_ABI_VERSION 17

// The launcher passes two descriptors at these numbers; the engine maps and closes them in its constructor.
#define GR_FD_CTL 1000
#define GR_FD_DATA 1001

// The engine's own address space. Nothing of the program is ever mapped here, nothing of the engine elsewhere.
#define GR_ZONE 0x200000000000
#define GR_WINDOW_ADDR 0x200000000000  // syscall/memory/memory.h: for each thread block
#define GR_ROOM_ADDR 0x240000000000    // so are these
#define GR_CTL_ADDR 0x280000000000
#define GR_VOID_ADDR 0x280800000000    // syscall/memory/void.c
#define GR_VOID_SIZE 0x800000000
#define GR_THREADS_ADDR 0x281000000000
#define GR_DATA_ADDR 0x282000000000
#define GR_SHARE_ADDR 0x298000000000   // syscall/memory/memory.h: for each thread block
#define GR_WORK_ADDR 0x299000000000    // digest/areas.h
#define GR_SCRATCH_ADDR 0x29a000000000 // signal/loop/sample.c: for each thread block
#define GR_ORIGIN_ADDR 0x29e000000000  // signal/loop/origin.c
#define GR_COUNT_ADDR 0x29f000000000   // count/count.c
#define GR_ZONE_END 0x2a0000000000
// What stands near the program's code: count/blocks.h. Writable and executable, aligned to their size, and there in counted runs alone.
#define GR_COUNT_AREA 0x4000000

#define GR_SYS_MAX 512
#define GR_CLASS_MAX 32
#define GR_KIND_MAX 32
#define GR_KNOB_MAX 64
#define GR_LIVE_THREADS 1024
#define GR_MOST_THREADS 0xffff // ever: so many tell the users of an object apart (log/edge.h)
#define GR_THREAD_BLOCK 0x40000
#define GR_FORMER 4
#define GR_SLOTS 512
#define GR_HITS 1024
#define GR_PLACE 64 // bytes of a watched place that a hit shows as a whole
#define GR_WATCHES 4
#define GR_STRETCHES 32
#define GR_CONDITION_ROOM 4096
#define GR_TRACE_MAX 0x100000
#define GR_PANIC_TEXT 1024
#define GR_DIGEST_ROOM 0x800000
#define GR_PAGES_MOST 512
#define GR_INPUTS 0x80000
#define GR_RULES_MAX 8192
#define GR_FILES 256

enum gr_mode { GR_MODE_OFF, GR_MODE_RECORD, GR_MODE_REPLAY };

// The number of a choice in knobs.def.
enum gr_order_log { GR_LOG_CLOCK, GR_LOG_OBJECT, GR_LOG_REDUCED, GR_LOG_TRANSITIVE };

// What happens to a class of system calls, or to one call. Decides data, never scheduling.
enum gr_action { GR_ACT_RECORD, GR_ACT_NATIVE, GR_ACT_IGNORE, GR_ACT_REFUSE };

// ---------------------------------------------------------------- the log while recording
// The log is one sparse file of units. A chunk is one or more units in a row, belongs to one thread, and
// holds whole events. INVARIANT(commit-after-event): `used` grows only when the event below it is whole, so
// what a killed process leaves behind is readable up to there.
#define GR_LOG_SHORT 0x100000 // a log that is no longer is made as it is needed; the rest in large pieces, by the controller, too
#define GR_UNIT 0x1000
#define GR_CHUNK_MAGIC 0x4b4e4843
#define GR_CHECK_GONE 0xffffffff // in place of a hash that `gdbrr redact` took out: not compared
#define GR_EVENT_DATA 0x2000000 // most bytes of data in one event; what is more follows in DATA events
// INVARIANT(closed-is-closed): a log that is closed has this bit set in its clock, so that every stamp taken from then on
// says so by itself, and no event behind the first missing one exists.
#define GR_CLOSED 0x8000000000000000

struct gr_chunk {
	uint32_t magic;
	uint32_t thread;     // index of the thread, by order of creation
	uint32_t seq;        // position among the chunks of this thread
	uint32_t units;      // length in units
	uint64_t base_stamp; // stamps in this chunk are deltas from here
	uint64_t used;       // committed bytes behind this header
	uint64_t run;        // the run that has no event yet: operations (upper half) and rolling hash
	uint64_t run_at;     // it belongs behind this many bytes. INVARIANT(run-or-event): void where `used` differs
	uint64_t run_delta;  // the stamp of its first operation, from the one of the event before
	uint64_t full;       // 1: its thread writes no more to it
};

// What a chunk with this magic holds are bytes of a file that the log refers to and that was about to change: `thread` is the file's
// number, `base_stamp` where they begin in it, `used` how many they are.
#define GR_KEPT_MAGIC 0x54504b47
// INVARIANT(taken-out-then-free): a full chunk whose bytes the controller has taken out of the log (gdbrr/ctl/drain.py) gets this in
// place of its magic, then goes into `gr_ctl.free`, from where a thread takes it for its next one. Its length stays what it is, so what
// lies in it is never taken for headers. A log so drained stays as long as it is, in pages that are there.
#define GR_CHUNK_FREE 0x45455246
#define GR_CHUNK_UNITS 16 // of chunks that are taken out: each but the first ones of a thread
#define GR_FREE_CHUNKS 64

// A run: operations on locks and semaphores that follow each other in a thread. The first one may have a stamp of its own, the others
// have the same. Its event holds how many there are and a rolling hash of each one's kind and object.
// INVARIANT(one-word-commits): `run` is written once for an operation, so one that is counted is in the hash.
#define GR_RUN_MOST 1024 // operations in a run: so far the clocks of threads may drift apart

// ---------------------------------------------------------------- the image a replay reads
// Made by the controller from a demo (or from a live log). Offsets are from the start of the image.
#define GR_IMAGE_MAGIC 0x474d4952

struct gr_image {
	uint32_t magic;
	uint32_t abi;
	uint32_t threads;     // rows of the stream table
	uint32_t grown;       // how often it was; 0: it is that of a demo, and does not
	uint64_t ticks;       // operations in the total order
	uint64_t streams_off; // struct gr_stream[threads]
	uint64_t runs_off;    // struct gr_run[runs]
	uint64_t runs;
};

// INVARIANT(grows-behind): the image of a recording that goes on grows while its processes run. What was there stays: runs are only
// added, a stream that needs another place is copied there and keeps its old one. A process looks for more whenever it is told to
// run, and is told to run to no tick behind which anything is not in the image yet. `grown` is written last.
struct gr_stream { uint64_t off; uint64_t len; uint64_t ops; };
struct gr_run { uint32_t thread; uint32_t count; }; // `count` operations of `thread` in a row

// ---------------------------------------------------------------- registers
// In the order of GDB's amd64 `g` packet, every one as 8 bytes.
struct gr_regs {
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rip, eflags;
	uint64_t fs_base, gs_base;
};

// ---------------------------------------------------------------- threads (private memory of each process)
// At GR_THREADS_ADDR stands one block of GR_THREAD_BLOCK bytes per live thread; this is the part of it that a
// controller may read. A block is free when state is GR_T_FREE.
enum gr_thread_state {
	GR_T_FREE,
	GR_T_BORN,    // exists, has not reached its first operation
	GR_T_RUNNING, // in the program's code
	GR_T_ENGINE,  // in the engine, on its way through an operation
	GR_T_PARKED,  // in the engine, waiting for its turn or for a command
	GR_T_TRAPPED, // parked inside the engine's SIGTRAP or fault handler; `shown` is where the program stands
	GR_T_EXITED,
};

struct gr_thread_pub {
	uint32_t state;
	uint32_t index;       // by order of creation over the whole run
	uint32_t tid;         // kernel id in this process
	uint32_t recorded_tid; // kernel id in the recording
	uint32_t op;          // enum gr_op it stands at
	uint32_t parent;      // index of the thread that made it
	uint64_t tick;        // tick whose segment the thread runs (its newest finished operation); ~0 before the first
	uint64_t ops;         // operations finished
	struct gr_regs shown; // the program's registers at the call of the operation; valid unless RUNNING
	uint64_t ret_pc;      // where the program goes on after the operation; 0 if it does not return
	uint32_t was[GR_FORMER]; // kernel ids it had in the processes that this one is a copy of, the newest first; 0: none
};

// What a debugger's process stops at by gr_debug_call: a recorded one at a system call that is caught, or at a signal that the
// debugger lets pass because the engine goes by it.
enum gr_debug_where {
	GR_DEBUG_CALL,
	GR_DEBUG_RETURN, // what is shown is where the program goes on
	GR_DEBUG_SENT,
	GR_DEBUG_MAPPED, // of a leaf: an operation has mapped, unmapped or dropped one of the places that its debugger watches
};
#define GR_CAUGHT_SENT (GR_SYS_MAX - 1) // in place of a call's number: a debugger wants to know of that

// ---------------------------------------------------------------- a digest of the state
// What a DIGEST event holds and GR_CMD_DIGEST leaves: the head, the registers of `threads` threads by index, then
// `ranges` ranges by address. A range is memory in a row that the program may write; behind it stand its groups of 64
// pages that are not all zero, each followed by 4 bytes of hash for every set bit of `pages`. Pages of zeros have no
// bit, so one that was never touched equals one that was cleared.
#define GR_PAGE 4096
#define GR_DIGEST_PAGES 64

struct gr_digest { uint32_t threads; uint32_t ranges; uint64_t vectors; };
struct gr_digest_range { uint64_t start, end; uint32_t groups, pad; };
struct gr_digest_group { uint64_t start, pages; };

// ---------------------------------------------------------------- the control page
struct gr_panic {
	uint32_t set;
	uint32_t code;        // enum gr_panic_code
	uint32_t thread;
	uint32_t want_op, got_op;
	uint32_t want_nr, got_nr;
	uint32_t pad;
	uint64_t tick;
	uint64_t want_object, got_object;
	uint64_t pc, sp;
	char text[GR_PANIC_TEXT];
};

// Output that differs although every constraint of the demo was kept.
struct gr_soft {
	uint64_t count; // writes to the program's output with other contents than recorded
	uint64_t tick;  // the first one
	uint64_t want_len, got_len;
	uint32_t thread;
	uint32_t fd; // 1 or 2
};

// What a replay writes to its standard output and error, which lead to one pipe of the controller's. That pipe keeps apart what two
// writes bring, up to a page: this head and the bytes behind it. A message that does not begin so is an error of the loader's.
#define GR_SAID_MAGIC 0x64696173
#define GR_SAID_MOST 4072
enum gr_said_kind {
	GR_SAID_NEXT,  // bytes, behind those before
	GR_SAID_PLACE, // bytes, at `place` of the recording's file; the next ones follow those before
	GR_SAID_MOVE,  // lseek(place, whence), which came to `result` in the recording
};
struct gr_said {
	uint32_t magic;
	uint8_t kind, output, whence, pad; // output: 1 or 2
	int64_t place, result;
};

// A file that a log refers to, by its number; on replay where its contents are to be had. Times are in nanoseconds.
enum gr_file_state { GR_FILE_NONE, GR_FILE_REFERRED, GR_FILE_KEPT };
struct gr_file {
	uint64_t device, inode, size, mtime, ctime;
	uint64_t from, to; // recording: all that is referred to lies in between
	uint32_t state;
	uint32_t path;     // where in `inputs` it stands
};

enum gr_panic_code { GR_PANIC_NONE, GR_PANIC_REFUSED, GR_PANIC_DESYNC, GR_PANIC_BUG, GR_PANIC_LOG_FULL };

// A slot is one process of a replay: the skeleton (slot 0), a frozen checkpoint or a leaf. The controller
// hands out slots; a process writes only its own. While recording, slot 0 is the recorded process.
enum gr_slot_state {
	GR_S_EMPTY,
	GR_S_STARTING,
	GR_S_RUNNING,
	GR_S_STANDING, // all threads at the gate, `tick` is next; waits for a command
	GR_S_FROZEN,   // a checkpoint: one task, waits for GR_CMD_WAKE
	GR_S_TRAPPED,  // a thread was stopped by an armed point in the middle of a segment; waits for a command
	GR_S_ENDED,    // the order is used up; otherwise like STANDING
	GR_S_PANIC,    // panic is filled in; waits for GR_CMD_DIE
};

enum gr_cmd {
	GR_CMD_NONE,
	GR_CMD_RUN,    // go on to stop_tick (or a hit that stops, or the end)
	GR_CMD_FREEZE, // leave a frozen copy in arg_slot, stay standing
	GR_CMD_WAKE,   // (to a frozen copy) make a standing copy in arg_slot, stay frozen
	GR_CMD_DIE,
	GR_CMD_DIGEST, // leave a digest of the standing process in the control page
	GR_CMD_CHECK,  // leave the standing process's state, as a few numbers, in its slot
	GR_CMD_COUNT,  // (to a frozen copy, too) leave in the slot how often the points' addresses were executed in this segment
	GR_CMD_PAGES,  // digest[] holds addresses of pages, in order: leave these pages there, less what digests leave out
};

#define GR_SLOT_ECHO 1     // write the program's output to descriptors 1 and 2 as it appears, as struct gr_said
#define GR_SLOT_HOLD_END 2 // at the end of the order stay ENDED instead of ending as the recording did
#define GR_SLOT_DEBUGGED 4 // a debugger is attached: int3 at gr_debug_trap whenever the slot of a replay stops
#define GR_SLOT_TRACE 8    // single-step the segment of `tick`, leaving each pc in the trace area; with GR_SLOT_COUNT it is not stepped, but logged block by block
#define GR_SLOT_TRACED 16  // points are debug registers set by a tracer, not perf events
#define GR_SLOT_COUNT 128  // the program runs in copies that count what it executes, from a segment's beginning or a stop of such a run
#define GR_SLOT_KEEP_HITS 64  // wait for the controller rather than overwrite a hit that it has not taken
#define GR_SLOT_HOLD_PANIC 32 // at a panic wait for GR_CMD_DIE, so that the process can be looked at

enum gr_point_kind { GR_POINT_WRITE, GR_POINT_ACCESS, GR_POINT_EXEC, GR_POINT_CHANGE };

struct gr_point {
	uint64_t addr;
	uint32_t len;         // at most 8, or any, looked at by pages: of an ACCESS, and a CHANGE that is armed in the middle of a segment
	uint32_t kind;
	uint64_t from_tick; // counted only in ticks from here ...
	uint64_t stop_at;   // stop at this many hits counted from `from_tick` (0: only log); executes stop before
	uint32_t thread;    // 0: whoever does it; else 1 + the index of the thread whose hits are logged
	uint16_t condition; // where in the slot's conditions this point's stands, and how long it is; a hit for which it
	uint16_t condition_len; // says 0 is not logged. Both change neither numbers nor stops
	uint64_t place;     // what this is a part of, where that takes several points: its hits show all of it
	uint64_t place_len; // at most GR_PLACE; 0: it is no part
};

struct gr_hit {
	uint64_t tick;
	uint64_t pc;    // executes: the instruction; data: the instruction behind the one that did it
	uint64_t nth;   // 1-based: how many hits of this point in this tick so far
	uint64_t old_value, new_value; // of a point that is looked at by pages: 0, and what was changed or touched first
	uint32_t thread;
	uint32_t point;
	uint32_t engine; // 1: the store was made on behalf of the kernel, by the operation at `tick`
	uint32_t stores; // data: how often the point was touched in this tick in front of this pc, changed or not; 0: not known
	uint64_t trap;   // points that one execution of an instruction hit have the same number; 0: it was told otherwise
	uint64_t place_len;
	uint8_t place[GR_PLACE]; // what the point is a part of, as it was behind the hit
};

struct gr_stretch { uint64_t start, end; };

// What GR_CMD_CHECK leaves. Equal numbers are equal states, but for what preload/digest/mask.c leaves out.
struct gr_look {
	uint64_t memory;    // a sum over the pages that are not zero
	uint64_t ranges;    // where there is memory that the program may write
	uint64_t registers; // of all threads
	uint64_t looked;    // pages that were looked at for this
	uint32_t threads;
	uint32_t whole;     // the controller's: look at all pages, whatever the page tables tell
};

struct gr_slot {
	uint32_t cmd_seq; // futex; the controller adds 1 behind a new command
	uint32_t ack_seq; // futex; the process adds 1 behind a new state
	uint32_t cmd;
	uint32_t state;
	uint32_t pid;
	uint32_t flags;
	uint32_t arg_slot;
	uint32_t final_thread; // thread that alone runs on after the last tick (its unfinished segment); ~0: none
	uint64_t tick;         // next tick
	uint64_t stop_tick;    // stand in front of this one
	uint32_t points;
	uint32_t trap_thread;  // TRAPPED: which thread
	struct gr_point point[GR_WATCHES];
	struct gr_regs match;  // executes at match.rip count as stop only with equal registers and a condition that is met, when match_on
	struct gr_regs meant;  // what they are in the recording if they are kernel ids of threads, which are others in each process
	uint32_t match_on;
	uint32_t echo_error;   // errno of the write that ended the program's output (GR_SLOT_ECHO); 0 as long as it goes on
	uint64_t trace_len;    // pcs in the trace area (may exceed GR_TRACE_MAX: it is a ring)
	uint64_t hits;         // hits so far; hit[] is a ring of the newest. May fall: a stretch of the program was run in vain
	struct gr_hit hit[GR_HITS];
	uint32_t hits_taken;   // futex; the controller's: the low half of how many it has read (GR_SLOT_KEEP_HITS)
	uint8_t condition[GR_CONDITION_ROOM]; // agent bytecode, as GDB compiles it
	uint32_t stretches;    // what operations mapped, moved, unmapped or dropped since the controller wrote 0 here; the last one
			       // is widened by what finds no place
	uint32_t met;          // how often points were met in this run, hits or not
	struct gr_stretch stretch[GR_STRETCHES];
	uint32_t counted;      // whether all of the segment was counted up to where it stands
	uint32_t told;         // the command (cmd_seq) that GR_CMD_COUNT answered last
	uint64_t instructions; // so many were executed; a repeated string instruction is one
	uint64_t executed[GR_WATCHES]; // of these, those at the points' addresses
	uint64_t instructions_wanted;  // the controller's: 1 + the most from here on; it stops in front of a block that has more; 0: no limit
	struct gr_look look;
	struct gr_soft soft;
	struct gr_panic panic;
};

struct gr_ctl {
	char magic[8]; // "gdbrrctl"
	uint32_t abi;
	uint32_t mode;       // enum gr_mode
	uint64_t data_size;  // bytes of GR_FD_DATA
	uint8_t sys_action[GR_SYS_MAX];     // enum gr_action for a call whose class comes from its number
	uint8_t class_action[GR_CLASS_MAX]; // enum gr_action for a class that comes from the descriptor
	uint8_t kind_action[GR_KIND_MAX];   // by order of descriptors.def: 0, or 1 + the enum gr_action of the profile's rule
	uint64_t knob[GR_KNOB_MAX];         // by order of knobs.def
	char rules[GR_RULES_MAX]; // path rules: letter ('a' + enum gr_action) and pattern, NUL behind each, an empty one last
	uint32_t end_kind;   // how the recording ended: 0 unknown, 1 exit, 2 signal
	uint32_t end_value;
	uint64_t clock;      // next stamp
	uint64_t units;      // next free unit of the log
	uint32_t threads;    // next thread index
	uint32_t started;    // the constructor has run
	uint32_t tasks_most; // replay: threads that all its processes together may have, about; the launcher's
	uint32_t pad;
	uint64_t steps;      // recording one thread at a time: operations in front of which the turn could change hands
	uint64_t overtaken;  // how often a thread lost the turn inside of an operation and went on beside the next one
	uint64_t time_base;  // CLOCK_MONOTONIC in microseconds when the constructor ran; times of events count from here
	uint64_t trap_pc;    // address behind the int3 of gr_debug_trap
	uint64_t call_pc;    // address behind the int3 of gr_debug_call
	uint64_t actions;    // recording: address of what the program asked for each signal, a struct gr_sigact by number
	uint8_t caught[GR_SYS_MAX / 8]; // recording: a bit for each system call that a debugger wants to be stopped at
	uint32_t files;      // rows of `file` that are in use
	uint32_t pad_files;
	struct gr_file file[GR_FILES];
	uint32_t free[GR_FREE_CHUNKS]; // recording: the first unit of chunks that can be written to again, plus 1; 0: none
	uint64_t drained;    // recording: bytes on disk of what was taken out of the log
	uint64_t digest_len; // bytes of digest[]; 0: it did not fit
	uint8_t digest[GR_DIGEST_ROOM];
	uint64_t trace[GR_TRACE_MAX];
	struct gr_slot slot[GR_SLOTS];
	uint64_t inputs_used;      // bytes taken below; more than GR_INPUTS when some did not fit
	char inputs[GR_INPUTS];    // "SIZE MTIME PATH" and NUL for each file that was opened to be read natively, "! SENTENCE" for the user, "& CHILDREN",
	                           // "~ THREAD N PATH": changed by that thread's operation N, "@ PATH": of a row of `file`
};
