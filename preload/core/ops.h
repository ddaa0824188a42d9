// The kinds of operation, from tables/ops.def.
// Runs in: included everywhere.
// May call: nothing.
// Owns: enum gr_op, which is also the wire number.
#pragma once

enum gr_op {
#define OP(name, doc) GR_OP_##name,
#include "../tables/ops.def"
#undef OP
	GR_OP_COUNT
};
