"""Recovering: a recording directory without its recorder becomes a demo.

Runs in: commands outside GDB. May call: errors, abi, demo, launch.
Owns: nothing; the directory is record.py's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr import abi
from gdbrr.errors import GdbrrError
from gdbrr.launch import inputs, own
from gdbrr.launch.record import SUFFIX

if TYPE_CHECKING:
    from gdbrr.demo.pack import Summary


def demo_of(recording: Path) -> Path:
    """The demo that RECORDING was to become."""
    name = recording.absolute().name
    if not name.endswith(SUFFIX):
        raise GdbrrError(f"{recording} is not called NAME.demo{SUFFIX}", "name the demo to write with -o")
    return recording.absolute().with_name(name.removesuffix(SUFFIX))


def recover(recording: Path, demo: Path, keep: bool = False) -> Summary:
    """Pack what is whole in RECORDING; refuse while somebody still writes to it."""
    from gdbrr.demo import pack

    with abi.map_ctl(recording / "ctl", write=False) as page:
        writers = users_of(recording / "ctl")
        if writers:
            pids = " ".join(map(str, writers))
            raise GdbrrError(
                f"{recording} is still being written by process {pids}",
                f"wait until it ends, or end it (kill {pids}); then recover",
            )
        if not page.c.started:
            raise GdbrrError(f"{recording} holds nothing: the program had not begun", "remove it and record again")
        noted = inputs.noted(page)  # what the recorder would have written at the end of the run
    # How the program ended nobody was there to see, unless the control page says so.
    key = own.key() if own.recorded(recording) else None
    return pack.pack(recording, demo, keep=keep, noted=noted, key=key)


def finish_left(recording: Path, trust: bool) -> Path:
    """The demo of a recording whose recorder is gone, next to it; the directory is gone then.

    Somebody else's recording is as little trusted as a demo of theirs, and is left as it is.
    """
    if not recording.absolute().name.endswith(SUFFIX):
        raise GdbrrError(f"{recording} is not a demo", "name a file that gdbrr record made")
    demo = recording.with_name(demo_of(recording).name)
    if demo.exists():
        raise GdbrrError(f"{demo} is in the way", f"rename {recording} to NAME.demo{SUFFIX}")
    if not trust and not own.recorded(recording):
        raise GdbrrError(
            f"{recording} was not left by a recorder of yours",
            "make a demo of it with gdbrr recover, and look at that with gdbrr info; or add --trust",
        )
    recover(recording, demo)
    return demo


def users_of(file: Path) -> list[int]:
    """Processes that have FILE mapped: the program, its controller, and what the program forked."""
    try:
        wanted = os.stat(file)
    except OSError:
        return []
    device = f"{os.major(wanted.st_dev):02x}:{os.minor(wanted.st_dev):02x}"
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/maps", encoding="utf-8", errors="replace") as lines:
                rows = [line.split(maxsplit=5) for line in lines]
        except OSError:
            continue  # gone, or somebody else's
        if any(row[3] == device and row[4] == str(wanted.st_ino) for row in rows):
            found.append(int(entry))
    return sorted(found)
