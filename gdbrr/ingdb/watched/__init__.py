"""What is watched in GDB: expressions, the lvalues in them, and locals, whose frames come and go.

Runs in: GDB's Python; lvalues.py without GDB in tests, too. May call: gdb through gdbrr.ingdb.compat.
Owns: nothing.
"""
