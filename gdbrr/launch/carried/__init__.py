"""Replaying a demo on another machine, with the files that it brings along.

Runs in: commands outside GDB and the server. May call: errors, abi, demo, ctl, launch.
Owns: nothing itself.
"""
