// What calls do to memory beyond plain results: engine buffers, mappings, views of files, stores made elsewhere.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: the layout of the engine's zone behind the log, the format of stores in a demo.
#pragma once

#include "../call.h"

// One window per thread block: for looking at files that are being mapped.
#define GR_WINDOW_SIZE 0x100000000
// One room per thread block: its list of pieces, its list of buffers, then the bytes of both buffers and stores.
#define GR_ROOM_SIZE 0x100000000
#define GR_ROOM_BUFFERS 0x10000
#define GR_ROOM_PIECES 0x30000 // pieces and buffers: what is mapped at once
// One shared area per thread block, for what a child reports to the thread that made it.
#define GR_SHARE_SIZE 0x4000000

_Static_assert(GR_WINDOW_ADDR + GR_LIVE_THREADS * GR_WINDOW_SIZE <= GR_ROOM_ADDR, "zone layout");
_Static_assert(GR_ROOM_ADDR + GR_LIVE_THREADS * GR_ROOM_SIZE <= GR_CTL_ADDR, "zone layout");
_Static_assert(GR_SHARE_ADDR + GR_LIVE_THREADS * (uint64_t)GR_SHARE_SIZE <= GR_WORK_ADDR, "zone layout");

// The room's bytes, `need` of them; 0 when there is no such room.
uint64_t gr_room(struct gr_thread *self, uint64_t need);

// ---------------------------------------------------------------- stage.c: a call on engine buffers
struct gr_stage {
	struct gr_call real; // the call with the engine's buffers for arguments
	uint64_t used;
	uint32_t count;      // buffers
	bool failed;
};

// Recording: makes buffers for a call whose outputs must not be seen before its end. False when the call writes to the
// program's memory by itself.
bool gr_stage_begin(const struct gr_call *call, struct gr_stage *stage);

// One buffer, for the short way: where it lies, or 0 where only that function can say.
uint64_t gr_stage_quick(struct gr_thread *self, uint64_t program, uint64_t len);

// Behind a call by which memory may have gone, or may be written no more.
void gr_storable_changed(void);

// Behind the call: makes what was written look as if the program's buffers had been given.
void gr_stage_settle(struct gr_stage *stage, struct gr_piece *pieces, int count);

// Behind the stamp: copies it to the program's buffers.
void gr_stage_out(const struct gr_stage *stage, const struct gr_piece *pieces, int count);

struct gr_stores { uint8_t *at, *end; bool full; }; // see store.c, below

// ---------------------------------------------------------------- compare.c: calls whose stores are seen by comparing
#define GR_COMPARE_REGIONS 8
struct gr_region { uint64_t at, len; const uint8_t *then; };
struct gr_compare {
	struct gr_call real; // the call, perhaps with a copy of what its argument leads to
	uint64_t program;    // then: where that belongs
	uint64_t used;
	uint32_t count;
	struct gr_region region[GR_COMPARE_REGIONS];
};

// Recording: whether an argument leads to memory.
bool gr_compare_is_pointer(uint64_t addr);
// In front of an ioctl of the kind GR_FX_COMPARE; `declared`: the bytes that its number tells.
void gr_compare_begin(const struct gr_call *call, uint32_t declared, struct gr_compare *ret);
// Behind it; and behind its stamp.
void gr_compare_keep(const struct gr_compare *c, struct gr_stores *stores);
void gr_compare_out(const struct gr_compare *c);

// ---------------------------------------------------------------- store.c: stores that are no output of the call
// At the end of a SYS_END event's data, `object` bytes of them: struct gr_store, each followed by its bytes, padded to 8.
enum gr_store_kind {
	GR_STORE_BYTES,   // `len` bytes at `addr`
	GR_STORE_ZERO,    // the same, all zero
	GR_STORE_BREAK,   // the program break is `addr`
	GR_STORE_MAP,     // fresh memory
	GR_STORE_UNMAP,
	GR_STORE_PROTECT, // `arg`: as for mprotect
	GR_STORE_FD,      // `addr` is a new descriptor, `arg` its class
	GR_STORE_CHDIR,   // the directory of the process is the path in the bytes
	GR_STORE_ECHO,    // output of the program, `arg`: 1 or 2
	GR_STORE_VOID,    // memory behind the end of a file: an access is SIGBUS; `arg`: its protection
	GR_STORE_ORIGIN,  // where the next one is shown already
	GR_STORE_ALIAS,   // memory that shows the same as that; `arg`: its protection
	GR_STORE_ADVICE,  // what madvise with the advice `arg` did before it failed
	GR_STORE_FILE,    // `len` bytes of the file with the number `arg`; behind it where they begin and a check (fd/refer.h)
};

struct gr_store { uint64_t addr, len; uint32_t kind, arg; };

void gr_store_add(struct gr_stores *stores, enum gr_store_kind kind, uint64_t addr, uint64_t len, uint32_t arg, const void *bytes);

// Makes them in this process. False when they are not well formed or a mapping cannot be made.
// Of a process that goes on beside its child: mappings before the stamp of the call's end, bytes behind it.
enum gr_store_part { GR_STORE_ALL, GR_STORE_MAPPINGS, GR_STORE_CONTENTS };
bool gr_stores_apply(const uint8_t *data, uint64_t len, enum gr_store_part part);

// ---------------------------------------------------------------- view.c: mapped files, while recording
struct gr_view {
	uint64_t addr, len, offset;
	uint64_t there; // bytes from the start on that are pages of the file; behind them an access is SIGBUS
	uint32_t key;
	uint8_t prot;
	bool shared, writable, dont_fork;
};

// Remembers a mapping of a file; forgets what is mapped there no more.
void gr_view_add(struct gr_view view);
void gr_view_forget(uint64_t addr, uint64_t len);
// One that was moved, and perhaps `stays` where it was, too. It may have grown: what is new in it is told, some of which may lie
// behind the end of the file.
void gr_view_moved(uint64_t from, uint64_t old_len, uint64_t to, uint64_t new_len, bool stays, struct gr_stores *stores);
void gr_view_dont_fork(uint64_t addr, uint64_t len, bool dont);

// True when this memory is a view of a file.
bool gr_view_any(uint64_t addr, uint64_t len);
// The same for one that a child would share.
bool gr_view_shared_writable(void);
// The protection is another; true when what was shared to be read is written to from here on.
bool gr_view_protect(uint64_t addr, uint64_t len, int prot);
// Shared views in this range whose part of the file another shared view shows, too, one of them writable: so that a store to
// one of them shows in the other on replay.
void gr_view_link(uint64_t addr, uint64_t len, struct gr_stores *stores);
// A number for memory that is shared and of no file.
uint32_t gr_view_nameless(void);
// A shared mapping was made a second time, at another place. False when it is none that is known.
bool gr_view_again(uint64_t from, uint64_t to, uint64_t len, struct gr_stores *stores);

// ---------------------------------------------------------------- map.c
// Calls of the class `memory` that need more than being made again. False for others.
bool gr_memory(struct gr_call *call);

// `brk` on replay.
long gr_break(struct gr_call *call);

// The stores of a call that has no other outputs, in its room: open, add, then log them with the call's end.
const uint8_t *gr_stores_open(struct gr_call *call, uint64_t size, struct gr_stores *stores);
void gr_stores_log(struct gr_call *call, struct gr_event *ev, const uint8_t *first, const struct gr_stores *stores);

// Replay: memory was mapped, unmapped or dropped there; whoever watches is told.
void gr_memory_changed(uint64_t from, uint64_t len);

// Replay: what a protection comes to where what can be read can be executed (personality(READ_IMPLIES_EXEC)).
extern bool gr_read_executes;

static inline int gr_protection(int prot)
{
	return gr_read_executes && prot & 1 ? prot | 4 : prot; // PROT_READ, PROT_EXEC
}

static inline uint64_t gr_whole_pages(uint64_t len)
{
	return (len + 4095) & ~4095ULL;
}

// ---------------------------------------------------------------- advice.c: calls that say how memory is to be treated
bool gr_advice_is(long nr);
void gr_advice_record(struct gr_call *call);
void gr_advice_replay(struct gr_call *call);
// Replay: drops the pages, or guards them, as the advice says.
void gr_advice_follow(uint64_t addr, uint64_t len, uint64_t advice);

// ---------------------------------------------------------------- locked.c: mlockall and munlockall, while recording
long gr_lock_all(const struct gr_call *call);
// A mapping was made: what it answers, where memory is locked from its beginning on.
long gr_lock_mapped(long addr, uint64_t len);

// ---------------------------------------------------------------- void.c: memory that is not there, on replay
// `fd`: any file, whose contents do not matter.
void gr_void_init(int fd);
// Maps it; false where the kernel refuses.
bool gr_void_map(uint64_t addr, uint64_t len, int prot);

// ---------------------------------------------------------------- maps.c: what is mapped, as the kernel tells
struct gr_map { uint64_t start, end, offset, device, inode; int prot; bool shared; };

// All mappings by address; false where the kernel does not tell.
bool gr_maps_each(void (*each)(const struct gr_map *map, void *arg), void *arg);
bool gr_map_is_engines(const struct gr_map *map);

// What a call that writes to files changed in views of them.
void gr_view_written(const struct gr_call *call, struct gr_stores *stores);
// All that stands in the views in this range.
void gr_view_contents(uint64_t addr, uint64_t len, struct gr_stores *stores);
