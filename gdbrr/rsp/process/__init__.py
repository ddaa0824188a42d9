"""One process and what can be done to it: its threads, landings, and leaves that a user changed.

Runs in: the server. May call: gdbrr.rsp, gdbrr.timeline.model.
Owns: nothing by itself.
"""
