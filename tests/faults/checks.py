"""What has to be true behind every fault: the demo is there and replays as far as it goes, or a sentence says why not.

Runs in: python -m faults, pytest. May call: gdbrr replay, gdbrr recover.
Owns: nothing.
"""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path

from faults.place import GDBRR, Ended, Lost, Place
from faults.subjects import Subject

DESYNCHRONISED = 125


def whole_or_said(place: Place, subject: Subject, demo: Path, recorded: Ended) -> str:
    """A recording under a fault has ended: what became of it, in a few words; Lost where that may not be."""
    left = demo.with_name(demo.name + ".recording")
    if not demo.exists() and left.exists():
        recovered = place.run(*GDBRR, "recover", left)
        if not demo.exists():
            if not recovered.said():
                raise Lost(f"gdbrr recover made no demo and does not say why: {recovered.err}")
            return f"said: {plain(recovered.said())}"
        return f"recovered, {replays(place, subject, demo, recorded.out)}"
    if not demo.exists():
        if not recorded.said():
            raise Lost(f"no demo, and no word about it: status {recorded.status}, {recorded.err!r}")
        return f"said: {plain(recorded.said())}"
    return replays(place, subject, demo, recorded.out)


def replays(place: Place, subject: Subject, demo: Path, out: bytes) -> str:
    """A demo under no fault any more replays in step, and prints a beginning of what the program printed."""
    again = place.run(*GDBRR, "replay", demo)
    if again.status == DESYNCHRONISED:
        raise Lost(f"{demo} is desynchronised:\n{again.err}")
    if subject.says_all and not out.startswith(again.out):
        raise Lost(f"{demo} prints something else: {again.out[-200:]!r} is no beginning of {out[-200:]!r}")
    if again.status == subject.status and (len(again.out) >= len(out) or not subject.says_all):
        return "whole"
    if again.status == 128 + signal.SIGKILL:
        return "up to where it was killed"
    if again.status == 1 and not again.said():
        raise Lost(f"{demo} does not say why it ends: {again.err}")
    return "up to where it ends"


def sound(place: Place, subject: Subject, demo: Path, out: bytes, digest: str) -> None:
    """A demo that a fault met while it was replayed is what it was."""
    if digest_of(demo) != digest:
        raise Lost(f"{demo} was changed")
    again = place.run(*GDBRR, "replay", demo)
    if again.status != subject.status or (subject.says_all and again.out != out):
        raise Lost(f"{demo} no longer replays: status {again.status}, not {subject.status}\n{again.err}")


def digest_of(demo: Path) -> str:
    return hashlib.sha256(demo.read_bytes()).hexdigest()


def plain(text: str) -> str:
    """A sentence without what differs from run to run."""
    words = []
    for word in text.split():
        if "/" in word:
            word = "PATH"
        elif any(character.isdigit() for character in word):
            word = "N"
        words.append(word)
    return " ".join(words)[:160]
