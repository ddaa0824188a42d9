// Large files that a program reads or maps: the demo refers to them in place of holding what came from them; see refer.c.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: nothing.
#pragma once

#include "../call.h"
#include "../memory/memory.h"

// Bytes of one call: of fewer the reference takes nearly as many.
#define GR_LEAST_REFERRED 0x1000

// A call that may read from such a file, in front of it and behind it.
struct gr_refer { int fd; bool own_place; long before; };

// Recording. False for a call that surely does not.
bool gr_refer_begin(const struct gr_call *call, struct gr_refer *ret);
// Behind the call, which was made as `real`: true when what it brought is now a store in `stores`, and no output to be logged.
bool gr_refer_end(const struct gr_call *call, const struct gr_call *real, const struct gr_refer *refer, struct gr_stores *stores);

// Recording: which file was mapped by this call, or -1 where its contents have to be logged; `bytes` of it are there.
int gr_refer_mapped(const struct gr_call *call, uint64_t bytes);

// Recording: in front of a call that may change a file, or the way to it.
void gr_refer_changes(const struct gr_call *call);
// From here on others may change any file.
void gr_refer_stop(struct gr_thread *self);

// What follows a store of the kind GR_STORE_FILE.
struct gr_store_file { uint64_t offset, check; };

void gr_refer_store(struct gr_stores *stores, uint64_t addr, uint64_t len, uint32_t number, uint64_t offset, uint64_t check);

// Replay: stores it. False where it does not fit the file; the replay ends where that is another one by now.
bool gr_refer_put(const struct gr_store *store, const struct gr_store_file *file);
