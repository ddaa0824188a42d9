// Signals that the engine lives by.
// Runs in: application threads, the engine's handlers.
// May call: nothing.
// Owns: which signals are never blocked, wherever the engine sets a mask.
#pragma once

#include <signal.h>

#define GR_BIT(sig) (1ULL << ((sig)-1))
// Never blocked: a blocked SIGSYS kills the process at its next call; SIGTRAP brings the hits of a search, single steps and
// the engine's own timer; SIGSEGV and SIGBUS end a copy from or to the program (core/copy.h).
#define GR_SIGNALS_KEPT (GR_BIT(SIGSEGV) | GR_BIT(SIGBUS) | GR_BIT(SIGSYS) | GR_BIT(SIGTRAP))
