"""The client of the control page: commands to the processes of a recording or replay, and what they answer.

Runs in: the server, and commands outside GDB. May call: errors, abi.
Owns: the handshake of a slot.
"""
