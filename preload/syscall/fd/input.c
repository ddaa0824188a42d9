// What the manifest is to say about a run. The files that a program reads natively, or that are ignored, are named in it, so
// that a replay can say which one changed.
// Runs in: application threads, while recording.
// May call: raw system calls.
// Owns: the inputs of the control page.
#include "input.h"

#include <sys/stat.h>

#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "../../core/thread.h"

#define KNOWN 4096 // a power of two
#define NANO 1000000000ULL

// One word for each file noted last, so that one that is opened again and again is noted once. A file that changed in
// between is noted again, and the newest note counts.
static uint64_t known[KNOWN];

// What does not fit is counted all the same: the controller sees that the list is not whole.
static char *note(const char *text)
{
	uint64_t size = gr_strlen(text) + 1, at = __atomic_fetch_add(&gr_ctl->inputs_used, size, __ATOMIC_RELAXED);
	return at + size <= GR_INPUTS ? memcpy(gr_ctl->inputs + at, text, size) : NULL;
}

const char *gr_input_said(const char *text)
{
	return note(text);
}

void gr_input_note(int fd)
{
	struct stat st;
	if (GR_RAW(SYS_fstat, fd, &st) || !S_ISREG(st.st_mode))
		return;
	uint64_t mtime = st.st_mtim.tv_sec * NANO + st.st_mtim.tv_nsec;
	uint64_t key = gr_hash_word(gr_hash_word(gr_hash_word(st.st_dev, st.st_ino), st.st_size), mtime);
	if (__atomic_exchange_n(&known[key % KNOWN], key, __ATOMIC_RELAXED) == key)
		return;
	char link[40], path[4096], text[sizeof path + 48];
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)fd);
	long n = GR_RAW(SYS_readlink, link, path, sizeof path - 1);
	if (n <= 0 || path[0] != '/')
		return;
	path[n] = 0;
	gr_format(text, sizeof text, "%u %u %s", (uint64_t)st.st_size, mtime, path);
	note(text);
}

// Once for each number, as long as there are not too many.
void gr_input_unknown(int number)
{
	static int told[64];
	static uint32_t count, held;
	uint32_t i = 0;
	char text[32];
	if (gr_mode != GR_MODE_RECORD)
		return;
	gr_latch(&held);
	while (i < count && told[i] != number)
		i++;
	if (i == count && count < sizeof told / sizeof *told) {
		told[count++] = number;
		gr_format(text, sizeof text, "? %d", (long)number);
		note(text);
	}
	gr_unlatch(&held);
}

void gr_notice(const char *text)
{
	char line[1024];
	gr_format(line, sizeof line, "! %s", (uint64_t)text);
	note(line);
}

// Each path once: the first time is what a native reading before it would have to be told of.
void gr_input_changed(const struct gr_thread *self, const char *path)
{
	static uint64_t told[KNOWN];
	char text[4096 + 64];
	uint64_t key = gr_hash(GR_HASH_SEED, path, gr_strlen(path));
	if (__atomic_exchange_n(&told[key % KNOWN], key, __ATOMIC_RELAXED) == key)
		return;
	gr_format(text, sizeof text, "~ %u %u %s", (uint64_t)self->pub.index, self->pub.ops - 1, (uint64_t)path);
	note(text);
}

// One note, whose number is written again: what a killed program leaves is right, too.
void gr_input_child(void)
{
	static char *place;
	static uint64_t born;
	if (!born++)
		place = note("& 0000000000");
	char *digit = place ? place + 12 : NULL;
	for (uint64_t n = born; digit && n; n /= 10)
		*--digit = "0123456789"[n % 10];
}
