"""One instruction back in a segment that is too long to be stepped through.

Runs in: the server and scripts. May call: errors, abi, ctl.
Owns: nothing.
"""
