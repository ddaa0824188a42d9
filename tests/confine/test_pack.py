"""A packed demo replays from what it brings along, and from nothing else of the machine it is on.

Runs in: pytest. May call: gdbrr record, pack, replay, debug; gcc.
Owns: nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from confine.forge import forge, manifest_of
from gdbrr.demo import carried
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.launch.carried import collect
from gdbrr.launch.carried.names import PREFIX
from gdbrr.timeline.timeline import open_demo
from harness import ROOT, programs, users
from harness.run import Result, gdbrr, run

OWN_LIBRARY = "int answer(void) { return %d; }\n"
OWN_PROGRAM = """
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>
int answer(void);
int main(int argc, char **argv)
{
	char name[16];
	prctl(PR_GET_NAME, name);
	printf("%d %s %s %s\\n", answer(), (char *)getauxval(AT_EXECFN), name, argv[argc - 1]);
	return 7;
}
"""


def build(place: Path, answer: int) -> Path:
    """A program with a library beside it, which it finds by where it lies itself."""
    place.mkdir(exist_ok=True)
    (place / "lib.c").write_text(OWN_LIBRARY % answer)
    (place / "p.c").write_text(OWN_PROGRAM)
    gcc("-g", "-shared", "-fPIC", "-o", place / "libanswer.so", place / "lib.c")
    gcc("-g", "-o", place / "prog", place / "p.c", f"-L{place}", "-lanswer", "-Wl,-rpath,$ORIGIN")
    return place / "prog"


def gcc(*words: str | Path) -> None:
    subprocess.run(["gcc", *words], check=True, stdin=subprocess.DEVNULL)


def packed(tmp_path: Path, *command: str | Path, options: tuple[str, ...] = (), **how: Path) -> tuple[Result, Path]:
    """The recording, and its packed demo, which was replayed once by that."""
    done = gdbrr("record", "-o", tmp_path / "x.demo", *options, "--", *command, **how)
    assert "gdbrr: verified: a replay did the same" in gdbrr("pack", tmp_path / "x.demo").expect(0).err
    return done, tmp_path / "x.packed.demo"


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """So that what is left behind is seen."""
    with tempfile.TemporaryDirectory(prefix="gdbrr-own-", dir="/tmp") as place:  # short enough for a socket in it
        monkeypatch.setenv("TMPDIR", place)
        yield Path(place)
        deadline = time.monotonic() + 20
        while os.listdir(place) and time.monotonic() < deadline:  # a server ends behind the GDB that started it
            time.sleep(0.02)
        assert os.listdir(place) == []


def test_program_and_libraries_may_be_gone_or_others(tmp_path: Path) -> None:
    program = build(tmp_path / "there", 42)
    done, demo = packed(tmp_path, program, "last")
    assert done.expect(7).out == f"42 {program} prog last\n"
    build(tmp_path / "there", 13)
    other = gdbrr("replay", "--quiet", tmp_path / "x.demo")
    assert other.status == 125, "the control: without being packed it is another run"
    assert gdbrr("replay", "--trust", demo).expect(7).out == done.out
    shutil.rmtree(tmp_path / "there")
    assert gdbrr("replay", "--trust", demo).expect(7).out == done.out


def test_program_by_a_relative_name_and_its_directory_gone(tmp_path: Path) -> None:
    build(tmp_path / "there", 5)
    gdbrr("record", "-o", tmp_path / "x.demo", "./prog", "a", cwd=tmp_path / "there").expect(7)
    gdbrr("pack", tmp_path / "x.demo").expect(0)
    shutil.rmtree(tmp_path / "there")
    assert gdbrr("replay", "--trust", tmp_path / "x.packed.demo").expect(7).out == "5 ./prog prog a\n"


def test_nothing_of_this_machine_is_mapped(tmp_path: Path) -> None:
    """INVARIANT(nothing-of-this-machine), which the control does not keep."""
    _, demo = packed(tmp_path, programs.build("two_threads"))
    for path, brought in ((demo, True), (tmp_path / "x.demo", False)):
        timeline = open_demo(path, trust=True)
        try:
            leaf = timeline.seek(timeline.end)
            maps = Path(f"/proc/{leaf.pid}/maps").read_text()
            leaf.drop()
        finally:
            timeline.close()
        files = {
            name for name in re.findall(r" (/\S*)$", maps, re.MULTILINE) if not name.startswith(("/memfd", "/dev"))
        }
        ours = {name for name in files if f"/{PREFIX}" in name}
        images = {name for name in files if re.search(r"/gdbrr-[0-9a-f]{16}/", name)}
        assert len(ours) >= 4 if brought else not ours
        assert (files - ours - images == set()) == brought, files


@pytest.mark.parametrize("name", ["two_threads", "start_facts", "spine", "libc_loader", "libc_stream"])
def test_memory_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    """Down to what the loader wrote: digests look at all of it, behind each 16th operation with one thread."""
    done, demo = packed(tmp_path, programs.build(name), options=("--digest=16", "--order=serial"))
    assert gdbrr("replay", "--trust", demo).expect(done.status).out == done.out


def test_scripts_run_by_the_interpreter_that_comes_along(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh -e\necho $0 $1\nexit 4\n")
    script.chmod(0o755)
    done, demo = packed(tmp_path, "./script", "one", cwd=tmp_path, options=("--digest=1",))
    assert done.expect(4).out == "./script one\n"
    script.unlink()
    assert gdbrr("replay", "--trust", demo).expect(4).out == done.out


@pytest.mark.parametrize("what", ["fifo", "directory", "script of nothing", "script of a fifo", "nothing"])
def test_what_is_named_as_the_program_may_be_anything(what: str, tmp_path: Path) -> None:
    """A demo names it; to open a FIFO would be to wait for ever."""
    program, other = tmp_path / "program", tmp_path / "other"
    if what == "fifo":
        os.mkfifo(program)
    elif what == "directory":
        program.mkdir()
    elif what.startswith("script"):
        program.write_text(f"#!{other}\n")
        if what.endswith("fifo"):
            os.mkfifo(other)
    with pytest.raises(GdbrrError, match="cannot be read: "):
        collect._executed({"program": str(program), "argv": []})


def test_libraries_that_are_loaded_later_are_there_for_debuggers(tmp_path: Path) -> None:
    code = "import time, json, zlib; time.sleep(0.6); print(json.dumps(zlib.crc32(b'x')))"
    done, demo = packed(tmp_path, "/usr/bin/python3", "-S", "-c", code)
    assert gdbrr("replay", "--trust", demo).expect(0).out == done.out
    kinds = {row["path"]: row["kind"] for row in manifest_of(demo)["carried"]["files"]}
    assert kinds[os.path.realpath("/usr/bin/python3")] == "program"
    assert any(re.search(r"/libc\.so\.6$", path) for path in kinds)


def test_own_packed_demos_need_trust_too_and_say_what_would_run(tmp_path: Path) -> None:
    _, demo = packed(tmp_path, "/bin/echo", "hi")
    done = gdbrr("replay", demo).expect(1)
    assert done.out == "" and f"{demo} brings programs along." in done.err
    with Demo.open(demo) as opened:
        run_by_it = [file for file in carried.files(opened.manifest) if file.kind != "data"]
    assert len(run_by_it) >= 4
    for file in run_by_it:
        assert f"it would run:      {file.path!r}, build-id {file.build_id}, SHA-256 {file.sha256}" in done.err
    assert gdbrr("serve", demo).expect(1).out == ""


@pytest.mark.needs("ordinary_user")
def test_another_user_in_another_directory(tmp_path: Path) -> None:
    _, demo = packed(tmp_path, build(tmp_path / "there", 3), options=("--digest=1",))
    with users.place() as place:
        shutil.copyfile(demo, place / "other.demo")
        (place / "other.demo").chmod(0o644)
        done = users.ordinary("replay", "--trust", "other.demo", cwd=place, TMPDIR=str(place)).expect(7)
        assert done.out == f"3 {tmp_path / 'there' / 'prog'} prog {tmp_path / 'there' / 'prog'}\n"
        assert os.listdir(place) == ["other.demo"]


def elsewhere(place: Path) -> Path:
    """A copy of gdbrr as it is built, in a folder with a much longer name."""
    there = place / ("d" * 200) / ("e" * 200)
    engine = ("abi.h", "tables", "libgdbrr.so", "gdbrr-launch", "gdbrr-vectors.so")
    for name in ("gdbrr", "gdbinit.py", *(f"preload/{file}" for file in engine)):
        source, copy = ROOT / name, there / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy)
    return there


def test_gdbrr_in_another_folder(tmp_path: Path) -> None:
    """The text of LD_PRELOAD stands in the program's memory; the control is a demo that tells another one."""
    done, demo = packed(tmp_path, build(tmp_path / "there", 3), options=("--digest=1",))
    there = elsewhere(tmp_path)
    words = (sys.executable, "-m", "gdbrr", "replay", "--trust")
    assert run(*words, demo, cwd=there, env={"PYTHONPATH": str(there)}).expect(7).out == done.out
    engine = manifest_of(demo)["engine"]
    other = {**engine, "path": engine["path"].replace("/preload/", "/PRELOAD/")}
    control = forge(demo, tmp_path / "control.demo", engine=other)
    assert "the state differs in" in run(*words, control, cwd=there, env={"PYTHONPATH": str(there)}).expect(125).err


@pytest.mark.parametrize("rule", ["landlock", "perf"])
def test_below_what_containers_refuse(rule: str, tmp_path: Path) -> None:
    done, demo = packed(tmp_path, build(tmp_path / "there", 3))
    words = [programs.build("sandbox"), rule, "--", sys.executable, "-m", "gdbrr", "replay", "--trust", demo]
    env = {"PYTHONPATH": str(ROOT)}
    if rule == "landlock":  # somebody else's demo, and nothing keeps it from reading what it likes
        said = run(*words, env=env).expect(1).err
        assert "this kernel has no Landlock" in said and "GDBRR_WITHOUT_LANDLOCK=1" in said
        env["GDBRR_WITHOUT_LANDLOCK"] = "1"
    assert run(*words, env=env).expect(7).out == done.out


def in_gdb(demo: Path, *commands: str) -> Result:
    words: list[str] = ["gdb", "-batch", "-nx", "-ex", f"source {ROOT / 'gdbinit.py'}"]
    for each in (f"set gdbrr python {sys.executable}", f"rr-replay --trust {demo}", *commands):
        words += ["-ex", each]
    return run(*words, cwd=demo.parent)


@pytest.mark.needs("gdb", "gdbserver")
def test_a_session_in_gdb_sees_what_came_along(tmp_path: Path) -> None:
    program = build(tmp_path / "there", 42)
    _, demo = packed(tmp_path, program)
    build(tmp_path / "there", 13)
    done = in_gdb(demo, "info sharedlibrary", "rr-back -b answer", "bt", "info proc mappings", "p answer")
    assert re.search(r"#0 .* answer \(\) at .*lib\.c:1\n#1 .* main \(", done.out), done.describe()
    assert f"target:{tmp_path / 'there'}/libanswer.so" in done.out
    assert re.search(rf"{re.escape(str(program))} *\n", done.out) and PREFIX not in done.out
    assert "disassemble" not in done.err and "mismatch" not in done.err


@pytest.mark.needs("gdb")
def test_a_desynchronised_replay_is_explained_with_what_came_along(tmp_path: Path) -> None:
    """Two programs of one length, of which only the one that comes along makes the calls that were recorded."""
    from confine.forge import led_astray

    source = tmp_path / "p.c"
    source.write_text(
        "#include <unistd.h>\n#include <stdio.h>\nint main(void) { char c[4];\n"
        "int fd = 0; read(fd, c, 4);\nif (c[0] == 'a')\nputs(\"a\"); else\ngetppid();\nreturn 0; }\n"
    )
    gcc("-g", "-o", tmp_path / "p", source)
    words = [sys.executable, "-m", "gdbrr", "record", "-o", tmp_path / "x.demo", tmp_path / "p"]
    run(*words, stdin=b"abcd", env={"PYTHONPATH": str(ROOT)}).expect(0)
    led_astray(tmp_path / "x.demo", tmp_path / "y.demo", b"abcd", b"bbcd")
    gdbrr("pack", "--no-replay", tmp_path / "y.demo").expect(0)
    (tmp_path / "p").unlink()
    done = gdbrr("replay", "--quiet", "--trust", tmp_path / "y.packed.demo").expect(125)
    assert f"main () at {source}:8" in done.err, done.describe()
    assert "is not the recorded one" not in done.err


def test_what_has_changed_since_cannot_be_packed(tmp_path: Path) -> None:
    program = build(tmp_path / "there", 1)
    gdbrr("record", "-o", tmp_path / "x.demo", program).expect(7)
    (tmp_path / "there" / "p.c").write_text(OWN_PROGRAM + "int unused;\n")
    gcc("-O2", "-o", program, tmp_path / "there" / "p.c", f"-L{program.parent}", "-lanswer", "-Wl,-rpath,$ORIGIN")
    done = gdbrr("pack", tmp_path / "x.demo").expect(1)
    assert f"{program} is another file than when it was recorded" in done.err
    assert not (tmp_path / "x.packed.demo").exists()
    program.unlink()
    gdbrr("pack", tmp_path / "x.demo").expect(1)


def test_packing_does_not_touch_the_demo_or_anything_else(tmp_path: Path) -> None:
    gdbrr("record", "-o", tmp_path / "x.demo", "/bin/echo", "hi").expect(0)
    before = (tmp_path / "x.demo").read_bytes()
    assert "is the demo itself" in gdbrr("pack", "-o", tmp_path / "x.demo", tmp_path / "x.demo").expect(2).err
    (tmp_path / "mine").write_text("mine")
    assert "is no demo" in gdbrr("pack", "-o", tmp_path / "mine", tmp_path / "x.demo").expect(1).err
    gdbrr("pack", tmp_path / "x.demo").expect(0)
    assert (tmp_path / "x.demo").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["mine", "x.demo", "x.packed.demo"]
    assert "is packed already" in gdbrr("pack", "--trust", tmp_path / "x.packed.demo").expect(1).err


@pytest.mark.needs("private_mounts")
def test_a_place_where_nothing_may_be_executed_is_passed_over(temporary: Path, tmp_path: Path) -> None:
    done, demo = packed(tmp_path, "/bin/echo", "hi")
    script = 'mount -t tmpfs -o noexec none "$1" && export TMPDIR="$1" && shift && exec "$@"'
    words = ["unshare", "-m", "sh", "-c", script, "sh", temporary]
    words += [sys.executable, "-m", "gdbrr", "replay", "--trust", demo]
    assert run(*words, env={"PYTHONPATH": str(ROOT)}).expect(0).out == done.out


@pytest.mark.needs("private_mounts", "sqlite3")
def test_a_real_program_whose_libraries_are_others_here(tmp_path: Path) -> None:
    """In a mount namespace where its own library, and the program, are other files."""
    sql = "create table t(a); insert into t values (random()), (datetime('now')); select * from t;"
    done, demo = packed(tmp_path, "sqlite3", ":memory:", sql)
    here = {row["path"] for row in manifest_of(demo)["carried"]["files"] if "sqlite3" in row["path"]}
    assert len(here) == 2
    script = 'for path in $1; do mount --bind /bin/true "$path" || exit 99; done; shift; exec "$@"'
    words = ["unshare", "-m", "sh", "-c", script, "sh", " ".join(here), sys.executable, "-m", "gdbrr", "replay"]
    env = {"PYTHONPATH": str(ROOT)}
    assert run(*words, "--quiet", tmp_path / "x.demo", env=env).status not in (0, 99), "the control"
    assert run(*words, "--trust", demo, env=env).expect(0).out == done.out


def test_info_says_that_it_brings_files_along(tmp_path: Path) -> None:
    _, demo = packed(tmp_path, "/bin/echo", "hi")
    assert re.search(r"carried +\d+ files, [\d.]+ MB: program", gdbrr("info", demo).expect(0).out)
