"""What a short run needs of large modules of the standard library, which take longer to load than the program runs.

Runs in: everywhere, GDB's Python included. May call: the standard library only.
Owns: the rule that each of these does what its original does, or leaves it to that; a test compares them.
"""
