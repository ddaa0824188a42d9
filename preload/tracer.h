// What the tracer and the engine tell each other through SIGTRAP.
// Runs in: included by the tracer, the launcher's main and watch/points.c.
// May call: nothing; declarations only.
// Owns: the two numbers.
#pragma once

#include <stdbool.h>

#define GR_TRACER_HITS 0x100 // in the siginfo's data: the low bits are a mask of points
#define GR_TRACER_AND_TIMER 0x400 // the signal that they came with was a timer's ...
#define GR_TRACER_AND_STEP 0x800 // ... or a single step's
#define GR_TRACER_BYE 0x6779626c // in rax at an int3 with which the engine lets the tracer go

int gr_trace(int argc, char **argv);
