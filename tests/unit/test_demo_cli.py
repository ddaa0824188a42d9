"""The verbs info and events: what they print, and what they never print."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.demos import HEAD, blocks
from fuzz.recordings import Op, make_recording, random_ops
from gdbrr.abi import lib
from gdbrr.cli.main import main
from gdbrr.cli.words import preview, printable, size
from gdbrr.demo.format import BlockType
from gdbrr.demo.pack import pack

ROOT = Path(__file__).resolve().parents[2]

OPS = [
    Op(0, lib.GR_OP_START),
    Op(0, lib.GR_OP_SYS_START, nr=1, object=3),
    Op(1, lib.GR_OP_START),
    Op(1, lib.GR_OP_MUTEX_LOCK, object=0x7FFFF7DD1000),
    Op(0, lib.GR_OP_SYS_END, nr=1, object=3, result=6, data=b"hello\n"),
    Op(0, lib.GR_OP_SYS_END, nr=3, result=-2),
    Op(1, lib.GR_OP_FAULT, nr=11),
    Op(1, lib.GR_OP_SYS_END, nr=401, result=1 << 40),
]


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    make_recording(tmp_path / "rec", OPS, end=(2, 11))
    pack(tmp_path / "rec", tmp_path / "x.demo", epoch_ticks=4)
    return tmp_path / "x.demo"


def lines(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out.splitlines()


def test_info_reads_well(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, "info", demo)
    assert found[0].startswith(f"{demo}: 8 operations of 2 threads in 2 epochs, ")
    text = "\n".join(found)
    for part in ("arguments  --fast 'an argument'", "killed by SIGSEGV", "parallel, profile default", "glibc 2.36"):
        assert part in text
    assert "/usr/bin/example" in text  # which does not exist here


def test_info_as_json(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads("\n".join(lines(capsys, "info", "--json", demo)))
    assert (found["operations"], found["complete"], found["damage"]) == (8, True, None)
    assert [t["operations"] for t in found["threads"]] == [4, 4]
    assert [(e["start"], e["end"]) for e in found["epochs"]] == [(0, 4), (4, 8)]
    assert found["end"] == {"kind": "signal", "value": 11} and found["argv"][1] == "--fast"


def test_events_is_a_table(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [line.split() for line in lines(capsys, "events", demo)]
    assert found == [
        ["tick", "thread", "operation", "call", "result", "object", "data"],
        ["0", "0", "start"],
        ["1", "0", "sys_start", "read", "3"],
        ["2", "1", "start"],
        ["3", "1", "mutex_lock", "0x7ffff7dd1000"],
        ["4", "0", "sys_end", "read", "6", "3", "6", '"hello\\n"'],
        ["5", "0", "sys_end", "open", "ENOENT"],
        ["6", "1", "fault", "SIGSEGV"],
        ["7", "1", "sys_end", "call", "400", "0x10000000000"],
    ]


def test_events_of_one_thread_between_ticks(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, "events", demo, "--thread", 0, "--from", 1, "--to", 5, "--json")
    rows = [json.loads(line) for line in found]
    assert [row["tick"] for row in rows] == [1, 4, 5]
    assert (rows[1]["call"], rows[1]["result"], bytes.fromhex(rows[1]["data"])) == ("read", 6, b"hello\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--thread", "9"], "there is no thread 9"),
        (["--from", "8"], "there is no tick 8"),
        (["--from", "5", "--to", "4"], "enclose no tick"),
    ],
)
def test_events_names_what_is_not_there(
    demo: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(["events", str(demo), *words]) == 2
    assert says in capsys.readouterr().err


def test_a_damaged_demo_is_shown_up_to_the_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_recording(tmp_path / "rec", random_ops(random.Random(4), 40_000, 2))
    path = tmp_path / "x.demo"
    pack(tmp_path / "rec", path)
    raw = bytearray(path.read_bytes())
    at, block = [row for row in blocks(bytes(raw[:-20])) if row[1].type == BlockType.ORDER][-1]
    raw[at + HEAD + block.stored // 2] ^= 1
    path.write_bytes(raw)

    assert main(["info", str(path)]) == 1
    shown = capsys.readouterr().out
    assert f"DAMAGED at byte {at:,}: the order block of tick {block.base} is damaged" in shown
    assert main(["info", "--json", str(path)]) == 1
    assert json.loads(capsys.readouterr().out)["damage"]["offset"] == at

    assert main(["events", str(path)]) == 1
    found = capsys.readouterr()
    assert len(found.out.splitlines()) == 1 + block.base
    assert "is damaged" in found.err and found.err.count("\n") == 1

    path.write_bytes(raw[:at])
    assert main(["events", str(path)]) == 1
    assert f"nothing from tick {block.base} on can be read" in capsys.readouterr().err


def test_nothing_from_a_demo_reaches_the_terminal_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\r\n\u202e\udcff"
    ops = [Op(0, data=evil.encode("utf-8", "surrogateescape"))]
    make_recording(
        tmp_path / "rec", ops, program=evil, argv=["x", evil], cwd=evil,
        order=evil, host={"kernel": evil}, profile={"name": evil}, objects=[{"path": evil}],
    )  # fmt: skip
    pack(tmp_path / "rec", tmp_path / "x.demo")
    shown = lines(capsys, "info", tmp_path / "x.demo") + lines(capsys, "events", tmp_path / "x.demo")
    assert all(line.isprintable() for line in shown)
    assert sum("\\x1b]0;owned" in line for line in shown) >= 6


@pytest.mark.parametrize("verb", [["info"], ["info", "--json"], ["events"], ["events", "--json"]])
def test_a_demo_without_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    make_recording(tmp_path / "rec", [])
    pack(tmp_path / "rec", tmp_path / "x.demo")
    assert main([*verb, str(tmp_path / "x.demo")]) == 0
    assert "0 operations" in capsys.readouterr().out or verb != ["info"]


def test_events_into_head_is_quiet(tmp_path: Path) -> None:
    make_recording(tmp_path / "rec", random_ops(random.Random(4), 20_000, 2))
    pack(tmp_path / "rec", tmp_path / "x.demo")
    command = f"{sys.executable} -m gdbrr events {tmp_path / 'x.demo'} | head -3"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert len(done.stdout.splitlines()) == 3 and done.stderr == ""


def test_the_verbs_do_not_import_the_program_side(demo: Path) -> None:
    heavy = "{'zstandard', 'gdbrr.abi'}"
    code = f"import sys; from gdbrr.cli import info, events; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


def test_sizes_are_short() -> None:
    assert [size(n) for n in (0, 999, 1000, 18_234, 999_960, 5_000_000, 7 * 10**12)] == [
        "0 B", "999 B", "1.0 kB", "18.2 kB", "1.0 MB", "5.0 MB", "7.0 TB",
    ]  # fmt: skip


def test_text_is_made_printable() -> None:
    assert printable("plain äöü") == "plain äöü"
    assert printable("a\x1bb\udc80") == "a\\x1bb\\x80"
    assert preview(b"ab\n\\\x00", 20) == '"ab\\n\\\\\\x00"'
    assert preview(b"x" * 100, 10) == '"' + "x" * 7 + '"...'
