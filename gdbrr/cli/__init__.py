"""The verbs outside GDB, one module each; importing the package imports none of them.

Runs in: a command of its own. May call: nothing.
Owns: the list of verbs, in the order in which help shows them.
"""

VERBS = (
    "record", "replay", "debug", "info", "events", "recover", "pack", "redact", "suggest", "minimize", "profiles",
    "doctor", "serve",
)  # fmt: skip
