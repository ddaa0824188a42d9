// Kernel ids of threads in bytes that are not the recording's; see rename.h.
// Runs in: a replay whose digest is not the demo's.
// May call: core.
// Owns: the places in these bytes.
#include "rename.h"

#include "../core/nolibc.h"
#include "../core/thread.h"

#define PLACES 64
#define TRIES 0x2000 // of a few microseconds each
#define DIGITS 7     // of the greatest id there may be: 1 << 22
#define CLOCK 7      // the bits of a clock's number that are not the id's

enum form { ID, CLOCK_OF_ID, TEXT };

static struct place { uint32_t at, id, length; enum form form; } places[PLACES];
static uint32_t count, tries;

bool gr_rename_word(uint32_t word, uint32_t recorded)
{
	return gr_thread_may_be(word, recorded) ||
	       ((word & CLOCK) == (recorded & CLOCK) && gr_thread_may_be(~word >> 3, ~recorded >> 3));
}

static bool means_another(uint32_t id)
{
	uint32_t meant;
	for (uint32_t nth = 0; gr_thread_recorded(id, nth, &meant); nth++)
		if (meant != id)
			return true;
	return false;
}

static void add(uint64_t at, uint32_t id, uint32_t length, enum form form)
{
	if (id && id >> 22 == 0 && count < PLACES && means_another(id))
		places[count++] = (struct place){(uint32_t)at, id, length, form};
}

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static void find(const uint8_t *bytes, size_t n)
{
	count = 0;
	for (size_t at = 0; at + 4 <= n; at += 4) {
		uint32_t word;
		memcpy(&word, bytes + at, sizeof word);
		add(at, word, sizeof word, ID);
		add(at, ~word >> 3, sizeof word, CLOCK_OF_ID);
	}
	// What stands in front of a number may be the rest of a longer one, because they are written from behind.
	for (size_t end = 0; end < n; end++) {
		uint32_t id = 0, unit = 1;
		if (!is_digit(bytes[end]) || (end + 1 < n && is_digit(bytes[end + 1])))
			continue;
		for (uint32_t length = 1; length <= DIGITS && length <= end + 1 && is_digit(bytes[end + 1 - length]); length++, unit *= 10) {
			id += unit * (bytes[end + 1 - length] - '0');
			if (bytes[end + 1 - length] != '0')
				add(end + 1 - length, id, length, TEXT);
		}
	}
}

// False where the other id has not as many digits.
static bool put(const struct place *p, uint8_t *bytes, uint32_t id)
{
	uint32_t word;
	if (p->form == TEXT) {
		for (uint32_t i = p->length; i--; id /= 10)
			bytes[p->at + i] = '0' + id % 10;
		return id == 0 && (p->length == 1 || bytes[p->at] != '0');
	}
	memcpy(&word, bytes + p->at, sizeof word);
	word = p->form == ID ? id : ~id << 3 | (word & CLOCK);
	memcpy(bytes + p->at, &word, sizeof word);
	return true;
}

static bool try_it(const uint8_t *bytes, bool (*same)(const uint8_t *bytes, uint64_t wanted), uint64_t wanted)
{
	return tries && tries-- && same(bytes, wanted);
}

// The likeliest meanings first; the last one of each is that it is no id.
static bool try_all(uint32_t from, uint8_t *bytes, bool (*same)(const uint8_t *bytes, uint64_t wanted), uint64_t wanted)
{
	uint32_t meant;
	if (from == count)
		return try_it(bytes, same, wanted);
	for (uint32_t nth = 0; gr_thread_recorded(places[from].id, nth, &meant); nth++)
		if (put(&places[from], bytes, meant) && tries && try_all(from + 1, bytes, same, wanted))
			return true;
	return false;
}

// So many of them are ids, and the others happen to be the same numbers: ids are small in a container.
static bool try_some(uint32_t from, uint32_t ids, uint8_t *bytes, bool (*same)(const uint8_t *bytes, uint64_t wanted), uint64_t wanted)
{
	uint32_t meant;
	if (!ids)
		return try_it(bytes, same, wanted);
	for (uint32_t i = from; i < count && tries; i++)
		for (uint32_t nth = 0; gr_thread_recorded(places[i].id, nth, &meant); nth++)
			if (put(&places[i], bytes, meant) && meant != places[i].id && try_some(i + 1, ids - 1, bytes, same, wanted))
				return true;
	return false;
}

bool gr_rename_bytes(uint8_t *bytes, size_t n, bool (*same)(const uint8_t *bytes, uint64_t wanted), uint64_t wanted)
{
	find(bytes, n);
	tries = TRIES;
	if (try_all(0, bytes, same, wanted))
		return true;
	tries = TRIES;
	for (uint32_t ids = 1; ids < count && tries; ids++)
		if (try_some(0, ids, bytes, same, wanted))
			return true;
	return false;
}
