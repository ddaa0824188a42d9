// The kinds of descriptor; see kind.h.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: nothing.
#include "kind.h"

#include <sys/sysmacros.h>

#include "../../core/page.h"

#define DEVICES 4

struct devices { uint32_t first_major, last_major, first_minor, last_minor; };

#define REG S_IFREG
#define DIR S_IFDIR
#define LNK S_IFLNK
#define FIFO S_IFIFO
#define SOCK S_IFSOCK
#define CHR S_IFCHR
#define BLK S_IFBLK
#define ANON 0
#define DEV(...) { __VA_ARGS__ }
#define KIND(name, class, type, help, ...) { type, GR_CLASS_##class, { __VA_ARGS__ } },

static const struct { uint32_t type; enum gr_class cls; struct devices devices[DEVICES]; } kinds[] = {
#include "../../tables/descriptors.def"
};

static bool is_one(const struct devices *list, dev_t device)
{
	uint32_t high = major(device), low = minor(device);
	if (!list->last_major)
		return true;
	for (const struct devices *d = list; d < list + DEVICES && d->last_major; d++)
		if (high >= d->first_major && high <= d->last_major && low >= d->first_minor && low <= d->last_minor)
			return true;
	return false;
}

enum gr_kind gr_kind_of(const struct stat *st)
{
	for (int kind = 0; kind < GR_KIND_COUNT; kind++)
		if ((st->st_mode & S_IFMT) == kinds[kind].type && is_one(kinds[kind].devices, st->st_rdev))
			return kind;
	return GR_KIND_COUNT;
}

enum gr_class gr_kind_class(enum gr_kind kind)
{
	return kind < GR_KIND_COUNT ? kinds[kind].cls : GR_CLASS_file;
}

int gr_kind_rule(enum gr_kind kind)
{
	return kind < GR_KIND_COUNT ? gr_ctl->kind_action[kind] - 1 : -1;
}

enum gr_action gr_kind_action(enum gr_kind kind)
{
	int rule = gr_kind_rule(kind);
	return rule >= 0 ? rule : gr_ctl->class_action[gr_kind_class(kind)];
}

static bool look_for_some(enum gr_class cls)
{
	for (int kind = 0; kind < GR_KIND_COUNT; kind++)
		if ((cls == GR_CLASS_COUNT || kinds[kind].cls == cls) && gr_kind_action(kind) != GR_ACT_RECORD)
			return true;
	return false;
}

// The profile stays as it is.
bool gr_kind_some(enum gr_class cls)
{
	enum { UNKNOWN, NONE, SOME };
	static uint8_t known[GR_CLASS_COUNT + 1];
	uint8_t found = __atomic_load_n(&known[cls], __ATOMIC_RELAXED);
	if (found == UNKNOWN)
		__atomic_store_n(&known[cls], found = look_for_some(cls) ? SOME : NONE, __ATOMIC_RELAXED);
	return found == SOME;
}
