"""Longer texts of the generated pages.

Runs in: `make docs` and its test. May call: nothing.
Owns: what docs/profiles.md says beside its tables.
"""

from __future__ import annotations

PROFILES_CALLS = """
### `[calls]`

The mode of single system calls, by name, above that of their class: `getpid = "ignore"`. The modes are those of the
call's class ([system calls](syscalls.md)). Calls noted there as *by descriptor* or *own code* have no mode of their
own; those noted as *always recorded* may wait or change the world, which a replay must not do again.
"""

PROFILES_DESCRIPTORS = """
### `[[descriptors]]`

The mode of descriptors by what they refer to, above that of their class and call and below that of their path. A
descriptor keeps the mode of the call that made it, so a rule holds for what is opened by its path: devices, files,
directories. The modes are those of the kind's class. Files opened for writing are recorded in any case, devices are
not.

```toml
[[descriptors]]
kind = "random"
mode = "ignore"
```
"""

PROFILES_PATHS = """
### `[[paths]]`

The mode of files by their path, above that of their class and call; the first rule that fits holds. `*` and `?`
stand for characters of one name, `**` for any. The path is the one the program gives, from the root on, without `.`
and `..`; links are not followed. A descriptor keeps the mode of the call that opened it. Files opened for writing are
recorded in any case.

```toml
[[paths]]
match = "/proc/**"
mode = "record"
```
"""

PROFILES_EXAMPLE = """
## One of your own

```toml
# For the import tool: its input files do not change, and nobody cares which process it was.

order = "parallel"

[classes]
file = "native"

[calls]
getpid = "ignore"

[epochs]
ticks = 2048

[limits]
log = "1G"
```
"""
