"""Bends recording directories, which carry no checksums, and packs them as `gdbrr recover` does.

Runs in: tests/fuzz. May call: gdbrr.abi, gdbrr.demo, gdbrr.launch.
Owns: the ways in which a directory is bent: its log, its control page, its manifest.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzz import sealed
from fuzz.recordings import CHUNK, Op, make_recording, random_ops
from gdbrr.abi import ffi, lib, map_ctl
from gdbrr.cli import info as info_verb
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch import recover

_HEADER = ("magic", "thread", "seq", "units", "used", "base_stamp", "run", "run_at", "run_delta")
_PAGE = ("units", "clock", "end_kind", "end_value", "started", "inputs_used", "overtaken", "data_size")


_NOTES = b"12 34 /srv/data\0! a notice\0& 3\0~ 0 7 /srv/out\0"


def make(where: Path, ops: Sequence[Op]) -> None:
    """One to begin with."""
    make_recording(where, ops)
    with map_ctl(where / "ctl") as page:
        page.c.inputs_used = len(_NOTES)
        ffi.memmove(page.c.inputs, _NOTES, len(_NOTES))


def bend(rng: random.Random, recording: Path) -> str:
    how = rng.choice((bend_log, bend_chunk, bend_chunk, bend_page, bend_notes, bend_manifest))
    how(rng, recording)
    return how.__name__


def bend_log(rng: random.Random, recording: Path) -> None:
    raw = bytearray((recording / "log").read_bytes())
    for _ in range(rng.choice((1, 4))):
        at = rng.randrange(len(raw))
        if rng.random() < 0.7:
            raw[at] = rng.randrange(256)
        else:
            del raw[at:]
            break
        if not raw:
            break
    (recording / "log").write_bytes(raw)


def bend_chunk(rng: random.Random, recording: Path) -> None:
    raw = bytearray((recording / "log").read_bytes())
    heads = [at for at in range(0, len(raw), lib.GR_UNIT) if len(raw) - at >= CHUNK]
    head = ffi.from_buffer("struct gr_chunk *", memoryview(raw)[(at := rng.choice(heads)) : at + CHUNK])
    name = rng.choice(_HEADER)
    size = 8 * ffi.sizeof(dict(ffi.typeof("struct gr_chunk").fields)[name].type)
    setattr(head, name, rng.choice((*sealed.WIDE, getattr(head, name) + 1)) & (1 << size) - 1)
    ffi.release(head)
    (recording / "log").write_bytes(raw)


def bend_page(rng: random.Random, recording: Path) -> None:
    fields = dict(ffi.typeof("struct gr_ctl").fields)
    with map_ctl(recording / "ctl") as page:
        name = rng.choice(_PAGE)
        size = 8 * ffi.sizeof(fields[name].type)
        setattr(page.c, name, rng.choice(sealed.WIDE) & (1 << size - 1) - 1)
        if rng.random() < 0.3:
            page.c.knob[rng.choice((lib.GR_KNOB_epoch_ticks, lib.GR_KNOB_epoch_bytes))] = rng.choice(
                (0, 1, 1 << 62, (1 << 64) - 1)
            )
    if rng.random() < 0.1:
        raw = (recording / "ctl").read_bytes()
        (recording / "ctl").write_bytes(raw[: rng.randrange(len(raw))])


def bend_notes(rng: random.Random, recording: Path) -> None:
    with map_ctl(recording / "ctl") as page:
        used = int(page.c.inputs_used)
        raw = bytearray(ffi.buffer(page.c.inputs, used))
        for _ in range(rng.choice((1, 2, 5))):
            raw[rng.randrange(used)] = rng.choice((0, 32, 33, 38, 45, 126, 0xB2, 0xFF, rng.randrange(256)))
        ffi.memmove(page.c.inputs, bytes(raw), used)


def bend_manifest(rng: random.Random, recording: Path) -> None:
    path = recording / "manifest.json"
    text: Any = json.loads(path.read_text())
    key = rng.choice(list(text))
    text[key] = rng.choice((None, "\ud800", -1, 1 << 80, [], {}, [[]], {"name": []}, "x" * 70000, [None], 0.5))
    raw = json.dumps(text)
    path.write_text(rng.choice((raw, raw, raw[: rng.randrange(len(raw))])))


def run(budget: int, where: Path, seed: int = 1) -> Counter[str]:
    """Recovers so many; raises AssertionError with the number of the first that ends in no demo and in no line."""
    shapes, verdicts = (sealed.rich_ops(), random_ops(random.Random(3), 200, 5, data=60)), Counter[str]()
    mutant, demo = where / "mutant.demo.recording", where / "mutant.demo"
    for number in range(budget):
        rng = random.Random(f"{seed} {number}")
        make(mutant, rng.choice(shapes))
        how = bend(rng, mutant)
        try:
            recover.recover(mutant, demo)
            with Demo.open(demo) as opened:
                list(info_verb.as_text(opened))
                assert opened.complete, "what was recovered is damaged"
            verdicts["recovered"] += 1
        except GdbrrError as error:
            assert str(error).isprintable(), f"not one line: {error!r}"
            verdicts["refused"] += 1
        except Exception as error:
            raise AssertionError(f"mutant {number} of seed {seed} ({how}): {error!r}") from error
        finally:
            shutil.rmtree(mutant, ignore_errors=True)
            demo.unlink(missing_ok=True)
    return verdicts
