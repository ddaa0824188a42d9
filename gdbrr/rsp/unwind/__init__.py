"""Out of the engine: where the program is, of a thread that was stopped in there.

Runs in: the server. May call: gdbrr.rsp.regs, gdbrr.timeline.
Owns: nothing by itself.
"""
