"""Demo files: the format, writing, reading, packing a recording, unpacking an image.

Runs in: the controller, the server, tests. May call: gdbrr.abi, gdbrr.errors, zstandard.
Owns: docs/demo-format.md in code.
"""
