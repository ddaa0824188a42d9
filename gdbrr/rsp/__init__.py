"""GDB's remote protocol: what lies between a debugger and the processes of a timeline.

Runs in: the server. May call: gdbrr.timeline.model.
Owns: nothing by itself.
"""
