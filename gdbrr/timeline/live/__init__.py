"""The timeline of a recording that goes on: one replay follows it, and what it left behind stays.

Runs in: the server. May call: errors, demo, launch.
Owns: how far the skeleton may follow.
"""
