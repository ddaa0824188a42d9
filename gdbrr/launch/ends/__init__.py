"""What becomes of a recording: what is said when there is none, when it is kept, and a run without.

Runs in: commands outside GDB and the server. May call: errors, abi, config, launch.
Owns: nothing itself.
"""
