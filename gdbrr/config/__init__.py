"""What can be configured: the engine's tables, the schema made from them, profiles.

Runs in: everywhere; `tables` also in GDB's Python. May call: see the modules.
Owns: nothing.
"""
