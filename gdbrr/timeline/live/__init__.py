"""The state of processes that stand: whether it is the same each time, and what differs where it is not.

Runs in: the server and scripts. May call: errors, ctl, launch.
Owns: what was seen at each tick.
"""
