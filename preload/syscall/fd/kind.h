// The kinds of descriptor, from tables/descriptors.def, and the profile's rules for them.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "../../abi.h"
#include "../effects.h"

enum gr_kind {
#define KIND(name, ...) GR_KIND_##name,
#include "../../tables/descriptors.def"
#undef KIND
	GR_KIND_COUNT // of what the table does not know
};

_Static_assert((int)GR_KIND_COUNT < GR_KIND_MAX, "the control page has room for every kind");

enum gr_kind gr_kind_of(const struct stat *st);

// What is of no known kind counts as a regular file.
enum gr_class gr_kind_class(enum gr_kind kind);

// The action that the profile has for this kind by name, or -1.
int gr_kind_rule(enum gr_kind kind);

// The same, or else the action of its class.
enum gr_action gr_kind_action(enum gr_kind kind);

// Is there a kind, in this class or (GR_CLASS_COUNT) in any, that is not recorded by its class or by a rule?
bool gr_kind_some(enum gr_class cls);
