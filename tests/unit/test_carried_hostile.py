"""Packed demos that lie: nothing is written but what they hold, and nowhere but where it belongs."""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from fuzz.demo_fuzz import program_for
from fuzz.demos import block, small_demo
from fuzz.recordings import manifest
from gdbrr.demo import carried
from gdbrr.demo import format as fmt
from gdbrr.demo.format import BlockType
from gdbrr.demo.manifest import serialise
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch.carried import place
from gdbrr.launch.engine import Engine

ENGINE = Engine(Path("/engine/libgdbrr.so"), Path("/engine/launcher"))
LOADER = b"a loader"
PROGRAM = program_for(b"/lib/ld.so")


def row(path: str, raw: bytes, **changes: Any) -> dict[str, Any]:
    found = {"path": path, "names": [], "size": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "build_id": ""}
    return {**found, "kind": "object", **changes}


def piece(number: int, raw: bytes, **fields: int) -> bytes:
    return block(BlockType.CARRIED, raw, **{"thread": number, "base": len(raw), "first": 0, **fields})


GOOD_ROWS = [row("/bin/p", PROGRAM, kind="program"), row("/lib/ld.so", LOADER)]
GOOD_PIECES = (piece(0, PROGRAM), piece(1, LOADER))


def demo_of(tmp_path: Path, rows: list[dict[str, Any]], *pieces: bytes, **changes: Any) -> Demo:
    told = {"files": rows, "loader": [], "program": 0, "engine": 1, "argv": ["p"], **changes}
    text = serialise(manifest(carried=told))
    return Demo.open(small_demo(tmp_path / "x.demo", *pieces, text=text))


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the demos' files go; what lies beside must stay as it is, and nothing may be left."""
    (tmp_path / "yard" / "inside").mkdir(parents=True)
    (tmp_path / "yard" / "precious").write_text("precious")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "yard" / "inside"))
    yield tmp_path / "yard"
    assert sorted(os.listdir(tmp_path / "yard")) == ["inside", "precious"]
    assert (tmp_path / "yard" / "precious").read_text() == "precious"
    assert os.listdir(tmp_path / "yard" / "inside") == []


def placed(demo: Demo, shown: str = "/bin/p") -> place.Placed:
    return place.place(demo, shown, ENGINE)


def refused(demo: Demo, why: str, shown: str = "/bin/p") -> None:
    with demo, pytest.raises(GdbrrError, match=why):
        placed(demo, shown)


def test_the_control_is_placed_and_goes_with_the_demo(tmp_path: Path, outside: Path) -> None:
    with demo_of(tmp_path, GOOD_ROWS, *GOOD_PIECES) as demo:
        found = placed(demo)
        assert placed(demo) is found, "once for each demo"
        root = found.base / "root"
        files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        assert files == {"bin/p": PROGRAM, "lib/ld.so": LOADER, "engine/libgdbrr.so": LOADER}
        assert found.base.stat().st_mode & 0o077 == 0
        assert found.exe == ".////p" and len(found.exe) == len("/bin/p")
        patched = (found.base / "run" / "p").read_bytes()
        assert patched.endswith(os.fsencode(root / "lib/ld.so") + b"\0")
        assert found.base.parent == outside / "inside"


@pytest.mark.parametrize(
    "path",
    ["", "/", "lib/x", "../x", "/../x", "/lib/../../x", "/lib/./x", "//lib/x", "/lib//x", "/lib/", "/..",
     "/" + "x" * 256, "/x" * 3000, "/a\0b", 7, None],
)  # fmt: skip
@pytest.mark.parametrize("which", ["path", "names"])
def test_paths_that_lead_somewhere_else_are_no_manifest(which: str, path: Any, tmp_path: Path) -> None:
    rows = [GOOD_ROWS[0], {**GOOD_ROWS[1], which: path if which == "path" else [path]}]
    with pytest.raises(GdbrrError, match="'carried' is not valid"):
        serialise(manifest(carried={"files": rows, "loader": [], "program": 0, "engine": 1, "argv": []}))


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([*GOOD_ROWS, row("/lib/ld.so/x", b"")], {}),  # a file and a directory of one name
        ([*GOOD_ROWS, row("/lib", b"")], {}),
        ([*GOOD_ROWS, row("/bin/p", b"")], {}),  # twice
        ([GOOD_ROWS[0], {**GOOD_ROWS[1], "names": ["/bin/p"]}], {}),
        ([GOOD_ROWS[0], {**GOOD_ROWS[1], "names": ["/x", "/x"]}], {}),
        (GOOD_ROWS, {"program": 2}),
        (GOOD_ROWS, {"engine": 4095}),
        (GOOD_ROWS, {"program": 1}),  # no program
        ([GOOD_ROWS[0], {**GOOD_ROWS[1], "path": "/lib/other.so"}], {}),  # without its loader
        (GOOD_ROWS, {"loader": [["path", "257", "/x", "=2"]]}),
    ],
)
def test_what_contradicts_itself_is_refused(rows: list[dict[str, Any]], changes: Any, tmp_path: Path) -> None:
    pieces = (*GOOD_PIECES, piece(2, b""))
    refused(demo_of(tmp_path, rows, *pieces, **changes), "contradicts itself")


@pytest.mark.parametrize(
    "path",
    ["libgdbrr.so", "/x.so", "/a b/libgdbrr.so", "/a:/b/libgdbrr.so", "/$LIB/libgdbrr.so", "/../libgdbrr.so",
     "//a/libgdbrr.so", "/bin/p/libgdbrr.so"],
)  # fmt: skip
def test_a_name_of_the_engine_that_the_loader_would_not_take_as_it_stands(path: str, tmp_path: Path) -> None:
    told = {"files": GOOD_ROWS, "loader": [], "program": 0, "engine": 1, "argv": ["p"]}
    text = serialise(manifest(carried=told, engine={"path": path}))
    refused(Demo.open(small_demo(tmp_path / "x.demo", *GOOD_PIECES, text=text)), "contradicts itself")


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (GOOD_PIECES[0],),
        (GOOD_PIECES[0], piece(1, b"a l0ader")),  # other contents of the right length
        (GOOD_PIECES[0], piece(1, LOADER + b"!")),
        (GOOD_PIECES[0], piece(1, LOADER[:4], base=8), piece(1, LOADER[4:], base=8)),  # the same offset twice
        (GOOD_PIECES[0], piece(1, LOADER[4:], base=8, first=4), piece(1, LOADER[:4], base=8)),  # backwards
        (GOOD_PIECES[0], piece(1, LOADER[:4], base=8)),  # half of it
        (GOOD_PIECES[0], piece(1, LOADER), piece(1, LOADER)),  # more than there is
    ],
)
def test_files_are_what_they_claim_or_nothing(pieces: tuple[bytes, ...], tmp_path: Path) -> None:
    refused(demo_of(tmp_path, GOOD_ROWS, *pieces), r"does not hold .* as it says")


@pytest.mark.parametrize(
    "fields",
    [
        {"base": 7},
        {"first": 1},
        {"base": fmt.MAX_CARRIED_BYTES + 1},
        {"thread": fmt.MAX_CARRIED},
        {"first": (1 << 64) - 1},
    ],
)
def test_a_header_that_lies_ends_the_demo(fields: dict[str, int], tmp_path: Path) -> None:
    with demo_of(tmp_path, GOOD_ROWS, piece(1, LOADER, **fields)) as demo:
        assert demo.damage and "makes no sense" in demo.damage.reason


def test_a_file_that_unpacks_to_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    stored = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    bomb = block(BlockType.CARRIED, stored=stored, flags=1, raw=8, thread=1, base=8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(demo_of(tmp_path, GOOD_ROWS, GOOD_PIECES[0], bomb), "lies about its length")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_more_than_there_is_room_for_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    rows = [GOOD_ROWS[0], *({**GOOD_ROWS[1], "path": f"/lib/{n}", "size": fmt.MAX_CARRIED_BYTES} for n in range(4000))]
    refused(demo_of(tmp_path, rows, *GOOD_PIECES), "cannot be put anywhere: .* has no room for")


@pytest.mark.parametrize("shown", ["/bin/", "/bin/..", "/bin/" + "x" * 256, "."])
def test_a_program_without_a_name_is_refused(shown: str, tmp_path: Path) -> None:
    refused(demo_of(tmp_path, GOOD_ROWS, *GOOD_PIECES), "is no name of a program", shown)


def test_a_program_in_the_root_directory(tmp_path: Path) -> None:
    with demo_of(tmp_path, GOOD_ROWS, *GOOD_PIECES) as demo:
        assert placed(demo, "/p").exe == "xp"


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x7fELF", PROGRAM[:100], PROGRAM[:54] + b"\xff\xff\xff\xff" + PROGRAM[58:], b"\x7fELF\x01" + PROGRAM[5:],
     program_for(b"relative/ld.so"), program_for(b"/etc/passwd"), program_for(b"")],
)  # fmt: skip
def test_a_program_whose_loader_does_not_come_along_is_refused(raw: bytes, tmp_path: Path) -> None:
    rows = [row("/bin/p", raw, kind="program"), GOOD_ROWS[1]]
    refused(demo_of(tmp_path, rows, piece(0, raw), GOOD_PIECES[1]), "contradicts itself")


@pytest.mark.parametrize(
    "bad",
    [
        ["path", "257", "/x", "=../x"], ["path", "257", "/x", "/etc/passwd"], ["path", "x", "/x", "-2"],
        ["path", "257", "/x"], ["map", "a", "1", "-"], ["exec", "/etc", "/x", "-"],
        ["interp", "0", "0", "-"], ["map", "1" * 21, "1", "-"],
        ["path", "257", "/x\0=", "-2"], ["path", "257", "x" * 4097, "-2"],
    ],
)  # fmt: skip
def test_answers_to_the_loader_are_of_few_kinds(bad: list[str]) -> None:
    with pytest.raises(GdbrrError, match="'carried' is not valid"):
        serialise(manifest(carried={"files": GOOD_ROWS, "loader": [bad], "program": 0, "engine": 1, "argv": []}))


def test_readers_that_know_no_files_may_pass_them_over(tmp_path: Path) -> None:
    with demo_of(tmp_path, GOOD_ROWS, *GOOD_PIECES) as demo:
        assert demo.complete and demo.ticks == 1
        assert [file.path for file in carried.files(demo.manifest)] == ["/bin/p", "/lib/ld.so"]
    assert BlockType.CARRIED >= fmt.OPTIONAL
