"""A demo's time: checkpoints, seeking, searching backwards. Callers see the interfaces of model.py only.

Runs in: the server and scripts. May call: errors, demo, ctl, launch.
Owns: every process of a replay but the debugger's.
"""
