// Looking up before the first call; see bind.h.
// Runs in: the constructor; a thread that makes another one, on the engine's stack.
// May call: the loader's own resolver and _dl_catch_exception.
// Owns: the loader's resolver.
#include "bind.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "decode.h"

#define PUSH 0x68
static const uint8_t landing[] = LANDING;

// _dl_fixup in glibc's elf/dl-runtime.c: looks up, writes the slot, and says where the function is. Where there is none,
// _dl_catch_exception comes back with a text, in memory of its own.
struct exception { const char *object, *text; char *memory; };
static uint64_t (*resolve)(struct link_map *map, uint32_t number);
static int (*catch_exception)(struct exception *ret, void (*work)(void *), void *data);

struct call { struct link_map *map; uint32_t number; uint64_t found; };

void gr_bind_init(uint64_t resolver)
{
	resolve = (uint64_t (*)(struct link_map *, uint32_t))resolver;
	catch_exception = (typeof(catch_exception))dlvsym(RTLD_DEFAULT, "_dl_catch_exception", "GLIBC_PRIVATE");
}

static void look_up(void *data)
{
	struct call *call = data;
	call->found = resolve(call->map, call->number);
}

// As the linker makes it, a slot leads to where its number is pushed for the loader.
static bool is_unbound(uint64_t target, uint32_t number)
{
	uint8_t code[sizeof landing + 5], *p = code;
	uint32_t pushed;
	if (gr_peek(code, target, sizeof code) != sizeof code)
		return false;
	if (!memcmp(p, landing, sizeof landing))
		p += sizeof landing;
	memcpy(&pushed, p + 1, sizeof pushed);
	return *p == PUSH && pushed == number;
}

static void bind(struct link_map *map, uint32_t number, uint64_t *slot)
{
	struct call call = {map, number, 0};
	struct exception none = {0};
	uint64_t before = *slot;
	if (!is_unbound(before, number))
		return;
	catch_exception(&none, look_up, &call);
	free(none.memory); // the allocator is the loader's, be it the program's own
	if (!call.found)
		*slot = before; // a weak one that nobody has: somebody may bring it
}

static void bind_object(struct link_map *map)
{
	const Elf64_Rela *rows = NULL;
	const uint64_t *table = NULL;
	uint64_t size = 0, kind = DT_RELA;
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_JMPREL:
			rows = (const Elf64_Rela *)d->d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			size = d->d_un.d_val;
			break;
		case DT_PLTREL:
			kind = d->d_un.d_val;
			break;
		case DT_PLTGOT:
			table = (const uint64_t *)d->d_un.d_ptr;
			break;
		}
	// The loader has written its own name of the object there, if it looks anything up at a first call.
	if (!rows || !table || kind != DT_RELA || (uint64_t)rows < map->l_addr || (uint64_t)table < map->l_addr || table[1] != (uint64_t)map)
		return;
	for (uint32_t i = 0; i < size / sizeof *rows; i++)
		if (ELF64_R_TYPE(rows[i].r_info) == R_X86_64_JUMP_SLOT)
			bind(map, i, (uint64_t *)(map->l_addr + rows[i].r_offset));
}

void gr_bind_all(struct gr_thread *self)
{
	static bool done;
	if (done || !resolve || !catch_exception)
		return;
	done = true;
	self->nest++;
	for (struct link_map *map = _r_debug.r_map; map; map = map->l_next)
		bind_object(map);
	self->nest--;
}
