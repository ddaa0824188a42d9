"""Rules for kinds of descriptor: what they change in a demo, and that they change nothing else.

Runs in: pytest. May call: gdbrr record, gdbrr replay.
Owns: the row of docs/determinism.md that names it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.recordings import Op
from gdbrr.abi import lib
from gdbrr.config import tables
from gdbrr.errors import EXIT_DESYNC
from harness import programs
from harness.run import Result, gdbrr
from replay.alter import alter


class Place:
    """A directory with one file, and a recording of the program that looks at both."""

    def __init__(self, root: Path, *rules: str) -> None:
        self.directory = root / "directory"
        self.directory.mkdir()
        self.file = root / "file"
        self.file.write_text("before")
        self.demo = root / "x.demo"
        sets = [word for rule in rules for word in ("--set", f"descriptors.{rule}")]
        program = programs.build("calls_kinds")
        self.first = gdbrr("record", *sets, "-o", self.demo, program, self.directory, self.file).expect(0)
        assert self.first.out.startswith("2 entries, 6 bytes: before, ")

    def replay(self) -> Result:
        return gdbrr("replay", self.demo)


def test_without_a_rule_nothing_is_looked_at_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.file.write_text("behind")
    (place.directory / "new").touch()
    assert place.replay().expect(0).out == place.first.out


def test_a_native_directory_beside_a_recorded_file(tmp_path: Path) -> None:
    place = Place(tmp_path, "directory=native")
    place.file.write_text("behind")
    assert place.replay().expect(0).out == place.first.out
    # CONTROL: the directory is looked at again
    (place.directory / "new").touch()
    assert "desynchronised" in place.replay().expect(EXIT_DESYNC).err


def test_native_files_beside_a_recorded_directory(tmp_path: Path) -> None:
    place = Place(tmp_path, "regular=native")
    (place.directory / "new").touch()
    assert place.replay().expect(0).out == place.first.out
    place.file.write_text("behind")
    assert "desynchronised" in place.replay().expect(EXIT_DESYNC).err


def test_an_ignored_random_device(tmp_path: Path) -> None:
    place = Place(tmp_path, "random=ignore")
    outs = {place.replay().out for _ in range(3)} | {place.first.out}
    assert len(outs) == 4
    assert len({out.rpartition(", ")[0] for out in outs}) == 1


def test_a_rule_for_another_kind_changes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, "null=ignore", "character=ignore")
    assert place.replay().expect(0).out == place.first.out


def test_a_path_rule_stands_above(tmp_path: Path) -> None:
    profile = tmp_path / "x.toml"
    path = '[[paths]]\nmatch = "/dev/urandom"\nmode = "record"\n'
    profile.write_text(path + '[[descriptors]]\nkind = "random"\nmode = "ignore"\n')
    demo, program = tmp_path / "x.demo", programs.build("calls_kinds")
    first = gdbrr("record", "-p", profile, "-o", demo, program, tmp_path, profile).expect(0)
    assert gdbrr("replay", demo).expect(0).out == first.out


@pytest.mark.parametrize("rules", [(), ("null=ignore",), ("directory=native",)])
def test_a_demo_cannot_widen_its_profile(rules: tuple[str, ...], tmp_path: Path) -> None:
    """One that says of the random device that it shall be read again, where no rule says so."""
    place = Place(tmp_path, *rules)
    read = tables.syscall_by_name()["read"].nr + 1

    def change(ops: list[Op]) -> list[Op]:
        ends = [op for op in ops if op.kind == lib.GR_OP_SYS_END and op.nr == read and op.data[:4] == b"\x08\0\0\0"]
        assert ends
        start = ops[ops.index(ends[-1]) - 1]
        assert (start.kind, start.nr) == (lib.GR_OP_SYS_START, read)
        start.flags = lib.GR_ACT_IGNORE
        return ops

    result = gdbrr("replay", alter(place.demo, tmp_path / "altered.demo", change)).expect(EXIT_DESYNC)
    assert "its profile does not allow" in result.err
