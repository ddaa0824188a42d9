// Where two digests differ.
// Runs in: a replay whose digest is not the demo's.
// May call: core.
// Owns: the words of the report.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Calls threads by the recording's kernel ids in digest `here`, where the demo's digest does so too. Behind gr_mask_begin.
void gr_digest_rename(const uint8_t *demo, size_t demo_len, uint8_t *here, size_t here_len);

// Says in `text` how digest `here` differs from `demo` and returns the first address that does; 0 for registers. `demo` comes from
// a file that may be damaged.
uint64_t gr_digest_difference(const uint8_t *demo, size_t demo_len, const uint8_t *here, size_t here_len, char *text,
			      size_t room);
