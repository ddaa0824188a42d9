// Call sites that jump to the door instead of trapping: a trap teaches the engine where a site is, and soon it is patched.
// Runs in: application threads, on the engine's stack.
// May call: core; the loader's _dl_find_object, which takes no lock.
// Owns: the program's text where it was changed, the pages of stubs.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../core/thread.h"

// In the constructor. `program`: an address near the start of the program itself.
void gr_patch_init(uint64_t program);

// No site is patched meanwhile: the program's code is protected (count/count.h).
extern bool gr_patch_rests;

// A call has trapped: `frame` says where it goes on. May patch the site; sets frame->gs_base where what follows the call
// was moved to the site's stub.
void gr_patch_trapped(struct gr_thread *self, struct gr_regs *frame);

// The bytes of the text without what was patched.
void gr_patch_original(uint64_t addr, uint64_t length, uint8_t *ret);

// No site is patched from here on: a thread is about to make its calls without the engine.
void gr_patch_stop(void);

// Where a thread goes on that shall go on at `pc`: behind a site it is in the site's stub. The program is told `pc`.
uint64_t gr_patch_place(uint64_t pc);

// Makes `mov $nr, %eax; syscall` at `code`, which nobody executes yet, a jump. The caller writes the five bytes.
void gr_patch_fresh(uint64_t code, uint32_t nr, uint8_t ret_bytes[5]);

// A copy of the function at `code`, `length` bytes of whose start are going to be overwritten: those moved, the rest where it
// is. 0: they cannot be moved.
uint64_t gr_patch_keep(uint64_t code, uint64_t length);

// The text there goes away or becomes another.
void gr_patch_forget(uint64_t addr, uint64_t length);

// Puts the text back as it is in the file, for good; every other thread must be parked, or of another process if the process
// has `only` this one (NULL: it may have many). False if that is not to be had: then nothing has changed.
bool gr_patch_undo(struct gr_thread *only);

// ---------------------------------------------------------------- the parts
#define GR_TEXT (PROT_READ | PROT_EXEC)

struct gr_site {
	uint64_t addr;   // of the syscall instruction; 0: free
	uint64_t jump;   // where the jump stands or would stand
	uint64_t stub;   // 0: none
	uint64_t tail;   // where the door goes on: behind the call, or what stood there
	uint32_t visits;
	uint8_t state;
	bool backward;   // the jump replaces the `mov $nr, %eax` in front, not what follows
	uint8_t old[5], fresh[5];
	bool chained;    // it was patched before
	struct gr_site *next; // of those, the one before
};

enum gr_site_state {
	GR_SITE_NEW,
	GR_SITE_TRAPS,   // cannot be patched
	GR_SITE_KEPT,    // traps too, but what follows it is executed in its stub
	GR_SITE_READY,   // has all it needs but the jump
	GR_SITE_PATCHED,
	GR_SITE_GONE,
};

#define GR_STUB_MOVED 32 // most bytes of moved instructions

// What a look at the code around a site says about it.
struct gr_plan {
	bool backward;
	uint32_t nr;                  // backward: the number that the mov loads
	uint8_t moved[GR_STUB_MOVED]; // forward: position-independent instructions, then ...
	uint8_t moved_length;
	uint8_t jcc_at;               // ... a conditional jump to `jcc_target` there, if not 0xff, its distance 4 bytes
	uint64_t jcc_target;
	uint8_t rip_at, rip_length;   // ... or a load from `rip_target` there, with its distance in the last 4 bytes
	uint64_t rip_target;
	bool loads;                   // one of them reads memory
	uint64_t back;                // where the original goes on; 0: the moved code never gets there
};

// plan.c: what can be done about the site. False: nothing.
bool gr_plan_make(struct gr_thread *self, uint64_t site, struct gr_plan *ret);

// plan.c: the instructions from `pc` up to `window` or behind it, which are moved. False: they cannot be.
struct gr_function { uint64_t start, end; };
bool gr_plan_follow(const struct gr_function *function, uint64_t pc, uint64_t window, struct gr_plan *ret);

// plan.c: the code around `pc`, and the function there.
struct gr_text { uint64_t start, end, offset, object_start, object_end; const void *map, *tables; };
bool gr_plan_text(struct gr_thread *self, uint64_t pc, struct gr_text *ret);
bool gr_plan_function(const struct gr_text *text, uint64_t pc, struct gr_function *ret);

// plan.c: true if no branch of the whole object ends behind the syscall, within the jump. Takes time.
bool gr_plan_is_private(struct gr_thread *self, uint64_t site);

// stub.c: writes the site's stub; false if there is no room within reach.
bool gr_stub_make(struct gr_site *site, const struct gr_plan *plan);
void gr_stub_init(uint64_t program);

// stub.c: instructions that mean the same anywhere, and a jump to `back`; 0 if there is no room within reach.
uint64_t gr_stub_moved(const void *moved, uint64_t length, uint64_t back);

// stub.c: writes memory whose protection does not allow it, and keeps that. False if the kernel does not let us.
bool gr_text_write(uint64_t addr, const void *bytes, uint64_t length, int protection);

// stub.c: the same in parts, for many writes.
long gr_text_open(void);
bool gr_text_put(long fd, uint64_t addr, const void *bytes, uint64_t length, int protection);
void gr_text_close(long fd);
// In the constructor, of a mapping whose parts have one protection.
void gr_text_whole(uint64_t start, uint64_t end);
