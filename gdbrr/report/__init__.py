"""What is shown to people: documentation made from the tables.

Runs in: commands. May call: see the modules.
Owns: nothing.
"""
