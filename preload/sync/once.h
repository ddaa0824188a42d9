// What happens once: set-up.
// Runs in: the constructor.
// May call: nothing.
// Owns: nothing.
#pragma once

// Guards of C++ work without the C++ library, which may come later or not at all.
void gr_once_init(void);
