"""Every system call does under the engine, and on replay, what it does natively: result, error and memory, to the byte.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the rows of docs/determinism.md that name it. What is issued stands in tests/programs/every_call.h.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from calls.test_programs import GDBRR
from gdbrr.config import tables
from harness import ROOT, programs
from harness.run import Result, run

LISTS = (programs.SOURCES / "every_call.h").read_text()
NOT_LISTED = {"SIOCGSTAMP_NEW", "EPIOCGPARAMS", "FS_IOC_GETFSUUID", "PIDFD_GET_INFO", "PIDFD_GET_IPC_NAMESPACE"}
NOT_LISTED |= {"NS_GET_MNTNS_ID", "SIOCGIFENCAP"}


def listed(*words: str) -> set[str]:
    return set(re.findall(rf"^(?:{'|'.join(words)})\((\w+)", LISTS, re.MULTILINE))


def build() -> Path:
    tables_now = b"".join((ROOT / "preload/tables" / name).read_bytes() for name in ("syscalls.def", "ioctls.def"))
    return programs.build("every_call", (f"-DTABLES={hashlib.sha256(tables_now).hexdigest()[:12]}",))


def place(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name


def certain(result: Result) -> list[str]:
    """What is the same in each run."""
    return [line.partition(" ~ ")[0] for line in result.out.splitlines()]


def different(first: list[str], second: list[str]) -> list[tuple[str, str]]:
    assert len(first) == len(second)
    return [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]


def test_every_call_is_listed() -> None:
    calls = {call.name for call in tables.syscalls() if "REFUSED" not in call.flags}
    assert listed("CALL", "SKIP") == calls
    assert not listed("CALL") & listed("SKIP")


def test_every_request_is_listed() -> None:
    rows = {row.name for row in tables.ioctls() if row.effect is None or row.effect.word != "REFUSED"}
    assert listed("REQUEST") == rows | NOT_LISTED


@pytest.mark.parametrize(
    ("order", "more"),
    [
        ("parallel", ()),
        ("parallel", ("--set", "engine.patch=off")),
        ("parallel", ("-p", "sparse")),
        ("serial", ()),
        ("random", ()),
    ],
    ids=["parallel", "trapped", "sparse", "serial", "random"],
)
@pytest.mark.parametrize("threads", [[], ["threaded"]], ids=["alone", "threaded"])
def test_every_call_is_as_natively(threads: list[str], order: str, more: tuple[str, ...], tmp_path: Path) -> None:
    program, demo = build(), tmp_path / "x.demo"
    natively = run(program, place(tmp_path, "native"), *threads).expect(0)
    words = ("record", "--order", order, *more, "-o", demo, "--", program)
    recorded = run(*GDBRR, *words, place(tmp_path, "recorded"), *threads).expect(0)
    replayed = run(*GDBRR, "replay", demo)
    assert different(certain(natively), certain(recorded)) == []
    assert different(recorded.out.splitlines(), replayed.out.splitlines()) == []
    assert replayed.status == 0, replayed.err
