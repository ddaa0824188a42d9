"""`gdbrr redact`: what was read from chosen places is in no block of the new demo, which replays where it can.

Runs in: pytest. May call: gdbrr record, redact, replay, pack.
Owns: the row of docs/determinism.md that names it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.recordings import make_recording
from gdbrr.cli import main
from gdbrr.demo import carried
from gdbrr.demo.format import BlockType
from gdbrr.demo.pack import pack
from gdbrr.demo.reader import Demo
from gdbrr.sparse import payload, redact, remains
from gdbrr.sparse.marks import Marks
from gdbrr.sparse.redact import without_values
from golden.make import bring
from harness import ROOT
from harness.run import Result, gdbrr, run

SECRET = b"Tr0ub4dor-correct-horse-battery-staple"
TEXT = b"user alice\npassword " + SECRET + b"\nend\n"
PYTHON = ("/usr/bin/python3", "-S", "-E")


def everything(demo: Path) -> bytes:
    """All that the demo holds, unpacked, but for files that it brings along."""
    with Demo.open(demo) as opened:
        numbers = [n for n in range(opened.blocks) if opened.block(n).type != BlockType.CARRIED]
        return b"".join(opened.raw(number) for number in numbers)


def holds(demo: Path, secret: bytes = SECRET) -> bool:
    """Whether any eight bytes of it stand anywhere."""
    raw = everything(demo)
    return any(secret[at : at + 8] in raw for at in range(len(secret) - 7))


def recorded(tmp_path: Path, code: str, *options: str, stdin: bytes = b"", **env: str) -> tuple[Result, Path]:
    (tmp_path / "secret").write_bytes(TEXT)
    words = [sys.executable, "-m", "gdbrr", "record", *options, "-o", tmp_path / "x.demo", *PYTHON, "-c", code]
    done = run(*words, stdin=stdin, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), **env})
    assert done.status == 0, done.describe()
    return done, tmp_path / "x.demo"


LENGTH = "print(len(open('secret').read()))"


def test_what_was_read_from_a_file_is_gone_and_it_replays(tmp_path: Path) -> None:
    done, demo = recorded(tmp_path, LENGTH)
    assert holds(demo), "the control"
    before = demo.read_bytes()
    said = gdbrr("redact", demo, "--path", "*/secret").expect(0).err
    new = tmp_path / "x-redacted.demo"
    assert f"took out {len(TEXT)} B of {tmp_path / 'secret'} (1 call); the rest is in {new}" in said
    assert "it replays as the demo did" in said
    assert not holds(new) and b"alice" not in everything(new)
    assert gdbrr("replay", new).expect(0).out == done.out == f"{len(TEXT)}\n"
    assert demo.read_bytes() == before
    with Demo.open(demo) as first, Demo.open(new) as second:
        assert [(e.kind, e.nr, e.result, len(e.data)) for e in first.events()] == [
            (e.kind, e.nr, e.result, len(e.data)) for e in second.events()
        ]
    assert re.search(rf"redacted +{len(TEXT)} B", gdbrr("info", new).expect(0).out)


@pytest.mark.parametrize("choice", [("--fd", "0"), ("--path", "standard input")])
def test_standard_input_by_its_number(choice: tuple[str, str], tmp_path: Path) -> None:
    done, demo = recorded(tmp_path, "import os; print(len(os.read(0, 999)))", stdin=TEXT)
    assert holds(demo)
    assert "it replays as the demo did" in gdbrr("redact", demo, *choice, "-o", tmp_path / "y.demo").expect(0).err
    assert not holds(tmp_path / "y.demo")
    assert gdbrr("replay", tmp_path / "y.demo").expect(0).out == done.out


def test_standard_input_has_the_class_of_what_it_is(tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, "import os, time; time.time(); os.read(0, 999)", stdin=TEXT)
    gdbrr("redact", demo, "--class", "pipe", "-o", tmp_path / "y.demo").expect(0)
    assert not holds(tmp_path / "y.demo")
    gdbrr("redact", demo, "--class", "time", "-o", tmp_path / "z.demo").expect(0)
    assert holds(tmp_path / "z.demo"), "the control: of another class"


ROUND = """
import os
data = open("secret", "rb").read()
r, w = os.pipe()
os.write(w, b"<" + data + b">")
print(len(os.read(r, 999)))
"""


def test_copies_that_were_read_elsewhere_are_gone_too(tmp_path: Path) -> None:
    """The program writes what is gone: with hashes it goes another way there; in the demo it is gone all the same."""
    first, demo = recorded(tmp_path, ROUND)
    choice = (demo, "--path", "*/secret")
    done = gdbrr("redact", *choice, "-o", tmp_path / "y.demo").expect(0)
    assert re.search(r"the same bytes stood elsewhere: .*pipe", done.err), done.describe()
    assert "it replays as the demo did; what it writes was not compared" in done.err
    assert gdbrr("replay", tmp_path / "y.demo").expect(0).out == first.out
    assert not holds(tmp_path / "y.demo")
    done = gdbrr("redact", *choice, "--keep-hashes", "-o", tmp_path / "x-hashes.demo").expect(125)
    assert re.search(r"it replays up to tick [\d,]+ of [\d,]+ only", done.err)
    assert not holds(tmp_path / "x-hashes.demo")
    gdbrr("redact", *choice, "--keep-copies", "-o", tmp_path / "z.demo").expect(0)
    assert holds(tmp_path / "z.demo"), "the control"


@pytest.mark.parametrize("kept", [False, True])
def test_a_guess_cannot_be_checked(kept: bool, tmp_path: Path) -> None:
    """A short secret is put back, rightly and wrongly; only where hashes were kept, the control, does a replay tell."""
    code = "import os; pin = os.read(0, 4); os.write(os.open('/dev/null', 1), b'my pin is ' + pin)"
    _, demo = recorded(tmp_path, code, stdin=b"4711")
    options = ("--keep-hashes",) if kept else ()
    gdbrr("redact", demo, "--fd", "0", "--fill", "0", *options, "-o", tmp_path / "y.demo")
    assert not holds(tmp_path / "y.demo", b"4711----")
    with Demo.open(tmp_path / "y.demo") as opened:
        (pin,) = [
            span for call in payload.calls(opened, {}, unseen=True) for span in call.payload
            if payload.read(opened, span) == b"0000"
        ]  # fmt: skip
        for guess in (b"4711", b"4712"):
            payload.rewrite(opened, tmp_path / f"{guess.decode()}.demo", [(pin, guess)])
    found = [gdbrr("replay", "--quiet", tmp_path / f"{guess}.demo").status for guess in (4711, 4712)]
    assert found == ([0, 125] if kept else [0, 0])
    told = gdbrr("info", tmp_path / "y.demo").expect(0).out
    assert ("wrote or asked with is not compared" in told) is not kept


def test_a_pipe_is_known_by_its_class(tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, ROUND)
    done = gdbrr("redact", demo, "--class", "pipe", "--keep-copies", "-o", tmp_path / "y.demo").expect(0)
    assert re.search(rf"took out {len(TEXT) + 2} B of a pipe \(\d+\) \(1 call\);", done.err), done.describe()
    assert holds(tmp_path / "y.demo"), "the file is another thing"


def test_output_that_differs_is_said_and_no_failure(tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, "import os; os.write(1, open('secret', 'rb').read())")
    words = ("redact", demo, "--path", "*/secret", "--fill", "x", "-o", tmp_path / "y.demo")
    assert "only what it prints is other" in gdbrr(*words, "--keep-hashes").expect(0).err
    assert gdbrr("replay", "--soft-ok", tmp_path / "y.demo").expect(0).out == "x" * len(TEXT)
    assert "it replays as the demo did" in gdbrr(*words).expect(0).err
    assert gdbrr("replay", tmp_path / "y.demo").expect(0).out == "x" * len(TEXT)


def test_output_of_another_length_is_still_another(tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, "print(open('secret', 'rb').read()[5])")
    done = gdbrr("redact", demo, "--path", "*/secret", "-o", tmp_path / "y.demo").expect(0)
    assert "only what it prints is other" in done.err, done.describe()


def test_a_course_that_depends_on_it_is_reported(tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, "import os; os.getppid() if b'alice' in open('secret', 'rb').read() else os.getpgrp()")
    done = gdbrr("redact", demo, "--path", "*/secret", "-o", tmp_path / "y.demo").expect(125)
    assert "there the program's course depends on what is gone" in done.err
    assert not holds(tmp_path / "y.demo")
    told = gdbrr("replay", tmp_path / "y.demo").expect(125).err
    assert re.search(r"likely causes +1\. gdbrr redact took contents out of this demo", told), told


def texts_of(demo: Path) -> str:
    with Demo.open(demo) as opened:
        return "\n".join([*opened.manifest["argv"], *opened.manifest["env"]])


def test_copies_in_arguments_and_the_environment_are_gone_too(tmp_path: Path) -> None:
    code = LENGTH + f"  # {SECRET.decode()} p\u00e4ssw\u00f6rter"
    done, demo = recorded(tmp_path, code, TOKEN=SECRET.decode(), OTHER="1234", MORE="a p\u00e4ssw\u00f6rter b")
    gdbrr("redact", demo, "--path", "*/secret", "-o", tmp_path / "y.demo").expect(0)
    assert not holds(tmp_path / "y.demo")
    assert f"TOKEN={'x' * len(SECRET)}" in texts_of(tmp_path / "y.demo") and "OTHER=1234" in texts_of(
        tmp_path / "y.demo"
    )
    gdbrr("redact", demo, "--path", "*/secret", "--keep-copies", "-o", tmp_path / "z.demo").expect(0)
    assert holds(tmp_path / "z.demo"), "the control"
    said = gdbrr("redact", demo, "--env", "-o", tmp_path / "z.demo").expect(0).err
    assert "it replays as the demo did" in said
    assert gdbrr("replay", tmp_path / "z.demo").expect(0).out == done.out
    found = texts_of(tmp_path / "z.demo")
    assert "OTHER=xxxx" in found and "p\u00e4ssw\u00f6rter" not in found and SECRET.decode() not in found


ENVIRONMENT = """
import os
own = open("/proc/self/environ", "rb").read()
r, w = os.pipe()
for glued in (b"user@%b.", b"-%b|", b"x%bx", b"\\x09%b\\x00"):
    os.write(w, glued % os.environb[b"TOKEN"] + b"," + os.environb[b"PIN"] + b"\\n" + os.environb[b"LETTER"])
print(len(own) + len(os.read(r, 999)))
"""


@pytest.mark.parametrize("token", ["Tr0ub4dor-correct", "opensesame", "p\u00e4ssword"])
def test_values_of_the_environment_are_taken_out_of_what_was_read(token: str, tmp_path: Path) -> None:
    done, demo = recorded(tmp_path, ENVIRONMENT, TOKEN=token, PIN="4711", LETTER="q", HOME=str(tmp_path))
    assert everything(demo).count(token.encode()) > 4, "the control"
    new = tmp_path / "x-redacted.demo"
    said = gdbrr("redact", demo, "--env").expect(0).err
    assert re.search(r"of that, the same bytes stood elsewhere: .*/proc/self/environ.* a pipe", said), said
    assert re.search(r"made of the values of .*\$HOME.*, which stay", said), said
    assert re.search(r"elsewhere than in the environment, .*\$LETTER.* may still stand", said)
    assert "$PIN" not in said and "it replays as the demo did" in said
    assert gdbrr("replay", new).expect(0).out == done.out
    raw = everything(new)
    assert token.encode() not in raw and b"PIN=4711" not in raw and b",4711\n" not in raw
    assert b"LETTER=x" in raw.replace(b"\0", b" ") and f"HOME={tmp_path}" in texts_of(new)
    gdbrr("redact", demo, "--env", "--keep-env", "TOKEN", "-o", tmp_path / "y.demo").expect(0)
    raw = everything(tmp_path / "y.demo")
    assert token.encode() in raw and b",4711\n" not in raw


BUILT_IN = 'int main(void) { static volatile const char key[] = "Tr0ub4dor-built-in"; return key[0] != 84; }'


def test_what_cannot_be_taken_out_leaves_nothing_that_looks_done(tmp_path: Path) -> None:
    program = tmp_path / "built-in"
    subprocess.run(["gcc", "-x", "c", "-", "-o", program], input=BUILT_IN.encode(), check=True, timeout=60)
    demo, packed, new = tmp_path / "x.demo", tmp_path / "x.packed.demo", tmp_path / "y.demo"
    gdbrr("record", "-o", demo, "--", program, env={"TOKEN": "Tr0ub4dor-built-in"}).expect(0)
    gdbrr("redact", demo, "--env", "-o", new).expect(0)
    new.unlink()
    gdbrr("pack", demo).expect(0)
    before = sorted(tmp_path.iterdir())
    said = gdbrr("redact", "--trust", packed, "--env", "-o", new).expect(1).err
    assert f"y.demo was not written, because carried file {program} still has the value of $TOKEN" in said
    assert "--keep-env TOKEN" in said
    assert sorted(tmp_path.iterdir()) == before
    gdbrr("redact", "--trust", packed, "--env", "--keep-env", "TOKEN", "-o", new).expect(0)


def test_the_last_look_finds_what_was_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It knows nothing of calls: whatever does not find copies is found out."""
    _, demo = recorded(tmp_path, ROUND)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(redact.Redactor, "_copies", lambda *_: iter(()))
    words = ["redact", str(demo), "--path", "*/secret", "-o", str(tmp_path / "y.demo")]
    assert main.main(words) == 1
    said = capfd.readouterr().err
    assert "y.demo was not written, because an operation of thread 0 still has" in said, said
    assert sorted(tmp_path.iterdir()) == before


def test_the_environment_keeps_its_lengths_and_what_the_c_library_looks_at() -> None:
    env = ["PATH=/bin", "LC_ALL=C", "A=", "KEY=a\u20ac\udcff", "LD_BIND_NOW=1", "GLIBC_TUNABLES=x=y"]
    assert without_values(env) == ["PATH=/bin", "LC_ALL=C", "A=", "KEY=xxxxx", "LD_BIND_NOW=1", "GLIBC_TUNABLES=x=y"]


def test_without_a_choice_it_says_what_there_is_and_writes_nothing(tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, LENGTH)
    done = gdbrr("redact", demo).expect(0)
    assert re.search(rf"^  file +3 +{len(TEXT)} B +1  {tmp_path / 'secret'}$", done.out, re.MULTILINE), done.describe()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "x.demo"]


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("--class", "nothing"), 2, "there is no class nothing"),
        (("--fd", "x"), 2, "--fd x is no number"),
        (("--fill", "ab", "--env"), 2, "one ASCII character"),
        (("--path", "*/other"), 1, "nothing that was read fits"),
        (("--env", "-o", "x.demo"), 2, "is the demo itself"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(words: tuple[str, ...], status: int, why: str, tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, LENGTH)
    before = demo.read_bytes()
    assert why in gdbrr("redact", "x.demo", *words, cwd=tmp_path).expect(status).err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "x.demo"]
    assert demo.read_bytes() == before


def test_demos_with_digests_need_every_byte(tmp_path: Path) -> None:
    _, demo = recorded(tmp_path, LENGTH, "--digest=1")
    assert "was recorded with --digest" in gdbrr("redact", demo, "--path", "*/secret").expect(1).err


def test_a_packed_demo_stays_packed(tmp_path: Path) -> None:
    done, demo = recorded(tmp_path, LENGTH)
    gdbrr("pack", demo).expect(0)
    packed = tmp_path / "x.packed.demo"
    assert "brings programs along" in gdbrr("redact", packed, "--path", "*/secret").expect(1).err
    gdbrr("redact", "--trust", packed, "--path", "*/secret", "-o", tmp_path / "y.demo").expect(0)
    assert not holds(tmp_path / "y.demo")
    assert gdbrr("replay", "--trust", tmp_path / "y.demo").expect(0).out == done.out
    found = [
        json.loads(gdbrr("info", "--json", path).expect(0).out)["carried"] for path in (packed, tmp_path / "y.demo")
    ]
    assert found[0] == found[1] and len(found[0]) >= 4


@pytest.mark.parametrize("content", [b"else", SECRET])
def test_programs_are_left_unless_a_path_means_them(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"\x7fELF" + content)
    _, demo = recorded(tmp_path, "print(len(open('program', 'rb').read() + open('secret', 'rb').read()))")
    words = ("--path", "*/secret", "--class", "file", "-o", tmp_path / "y.demo")
    done = gdbrr("redact", demo, *words)
    if content == SECRET:
        assert f"was not written, because what was read of the program or library {tmp_path}/program" in done.err
        assert not (tmp_path / "y.demo").exists() and f"too: --path {tmp_path}/program" in done.err
    else:
        assert re.search(r"being programs and libraries: .*/program", done.err), done.describe()
    gdbrr("redact", demo, "--path", "*/secret", "--path", "*/program", "-o", tmp_path / "z.demo").expect(0)
    assert not holds(tmp_path / "z.demo")


VALUE = b"Tr0ub4dor"
"""Too short for any part of it to be known."""


@pytest.mark.parametrize("start", [0, 58, 60, 63, 4091])
def test_the_last_look_sees_across_the_pieces_of_a_carried_file(
    start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_recording(tmp_path / "r", [])
    pack(tmp_path / "r", tmp_path / "x.demo")
    files = [tmp_path / "a", tmp_path / "b"]
    files[0].write_bytes(bytes(start) + VALUE + bytes(100))
    files[1].write_bytes(bytes(100))
    monkeypatch.setattr(carried, "_PIECE", 64)
    with Demo.open(tmp_path / "x.demo") as demo:
        carried.write(demo, {**demo.manifest, "carried": bring(files)}, files, tmp_path / "packed.demo")
    with Demo.open(tmp_path / "packed.demo") as demo:
        (found,) = {find.where for find in remains.finds(demo, Marks(values={"TOKEN": VALUE}), lambda _: {})}
        assert found == f"carried file {demo.manifest['carried']['files'][0]['path']}"
        assert not list(remains.finds(demo, Marks(values={"TOKEN": VALUE[::-1]}), lambda _: {}))


@pytest.mark.parametrize("glue", ["@", ".", "-", "|", "_", "%", "!", "#", "/", "=", "\x09", "\0"])
def test_words_are_found_with_others_glued_to_them(glue: str) -> None:
    for secret in (b"Tr0ub4dor", b"opensesame"):
        other = glue.encode()
        if secret == b"opensesame" and glue == "\x09":
            other = b" "  # beside other characters than those of texts it is a name in compiled code
        marks = Marks([b"alice" + other + secret + other + b"host"])
        for text in (secret, b"bob" + other + secret, secret + other + b"x", b"a." + secret + b"|b", b"a@" + secret):
            ((start, end),) = marks.found_in(text)
            assert secret in text[start:end]


def test_values_are_found_by_their_length() -> None:
    values = {"A": b"q", "B": b"aaaaaaaaaa", "C": b"4711", "D": b"opensesame", "E": b"/srv/data", "F": b"alice"}
    marks = Marks(values=values, public=[b"/srv/data/program", b"/srv/alice"])
    assert (marks.too_short, marks.stay) == (["A", "B"], ["E", "F"])
    assert marks.found_in(b"q aaaaaaaaaa /srv/data alice 47110 x4711") == []
    assert marks.found_in(b"(4711)") == [(1, 5)] and marks.found_in(b"4711") == [(0, 4)]
    assert marks.found_in(b"\x0aopensesamex") == [(1, 11)]
    named = Marks([b"see /srv/Tr0ub4dor/x"], public=[b"/srv/Tr0ub4dor", b"/srv/other"])
    assert [named.leave(text) for text in (b"/srv/Tr0ub4dor", b"/srv/other")] == [True, False]
    assert named.found_in(b"Tr0ub4dor") == []
    spoken = Marks(values={"A": b"the pineapple 4711-0815"})
    assert spoken.found_in(b"a pineapple is 4711-0815") == [(15, 24)], (
        "words of the language are no secret by themselves"
    )
    assert marks.name_of(b"opensesame") == "D"


def test_what_is_recognised_as_a_copy() -> None:
    marks = Marks([TEXT, bytes(100), b"12345"])
    assert marks.found_in(b"x " + SECRET + b" y") == [(2, 2 + len(SECRET))]
    assert marks.found_in(b"12345 all of what was read") == [(0, 5)]
    assert marks.found_in(b"password=" + SECRET + b";") == [(0, 8), (9, 9 + len(SECRET))]
    assert marks.found_in(b"Q" + TEXT + b"Q")[-1][1] >= len(TEXT) - 15
    for harmless in (bytes(64), b"123456", b"user end", b"alice", b"battery"):
        assert marks.found_in(harmless) == []
