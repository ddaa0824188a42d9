"""Starting programs: to record them, to replay them, and with the layout that both need.

Runs in: commands outside GDB and the server. May call: errors, abi, demo, config, ctl.
Owns: recording directories.
"""
