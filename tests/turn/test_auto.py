"""The order `auto`: guessed from the code of the program, and a guess until the demo was replayed once.

Runs in: pytest. May call: gdbrr record, gdbrr replay, gdbrr info.
Owns: the rows of docs/determinism.md that name it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gdbrr.demo import guess
from gdbrr.demo.reader import Demo
from harness import programs
from harness.run import gdbrr

UNVERIFIED = "unverified until it was replayed once"


def info(demo: Path) -> tuple[str, str | None, bool]:
    found = json.loads(gdbrr("info", "--json", demo).expect(0).out)
    return found["order"], found["order_guess"], found["verified"]


@pytest.mark.parametrize(
    ("name", "order", "why"),
    [
        ("turn_race", None, None),
        ("turn_locks", "parallel", "the program has no atomic instructions"),
        ("libc_random", "parallel", "the program has no atomic instructions"),
        ("libc_alone", "parallel", "it makes no threads"),
        ("auto_atomics", "serial", "auto_atomics has an atomic instruction of its own"),
        ("auto_waits", "serial", "auto_waits has a loop that waits of its own"),
    ],
)
def test_the_order_that_is_chosen(name: str, order: str | None, why: str | None) -> None:
    found = guess.order_for(str(programs.build(name)), os.environ)
    assert order is None or (found.order, found.why) == (order, why)


def test_libraries_count(tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text("int own(int *p) { return __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST); }\n")
    main = tmp_path / "main.c"
    main.write_text(
        "#include <pthread.h>\nint own(int *);\nstatic void *run(void *p) { own(p); return p; }\n"
        "int main(void) { int n = 0; pthread_t t; pthread_create(&t, 0, run, &n); pthread_join(t, 0); return n - 1; }\n"
    )
    library, program = tmp_path / "libown.so", tmp_path / "main"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    subprocess.run(["gcc", "-pthread", "-o", program, main, library], check=True)
    assert guess.order_for(str(program), os.environ) == guess.Guess(
        "serial", "libown.so has an atomic instruction of its own"
    )


def test_a_link_to_a_program_and_libraries_beside_it(tmp_path: Path) -> None:
    """As `java`, whose own library makes the threads and loads the machine that it is."""
    folder = tmp_path / "real"
    folder.mkdir()
    source, main = tmp_path / "own.c", tmp_path / "main.c"
    thread = "#include <pthread.h>\nint own(void) { pthread_t t; return pthread_create(&t, 0, 0, 0); }\n"
    source.write_text(thread)
    main.write_text("int own(void);\nint main(void) { return own(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", folder / "libown.so", source], check=True)
    beside = ["-Wl,-rpath,$ORIGIN", "-L", folder, "-lown"]
    subprocess.run(["gcc", "-o", folder / "main", main, *beside], check=True)
    link = tmp_path / "main"
    link.symlink_to(folder / "main")
    plain = guess.Guess("parallel", "the program and its library have no atomic instructions")
    assert guess.order_for(str(link), os.environ) == plain
    source.write_text(f"#include <dlfcn.h>\n{thread}void *more(void) {{ return dlopen(0, RTLD_NOW); }}\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", folder / "libown.so", source], check=True)
    more = "libown.so loads more code while it runs, which nobody has looked at"
    assert guess.order_for(str(link), os.environ) == guess.Guess("serial", more)


def test_what_an_interpreter_has_counts_for_its_scripts(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{programs.build('auto_atomics')}\n")
    assert guess.order_for(str(script), os.environ).order == "serial"


def test_the_bytes_of_an_instruction_inside_of_another_do_not_count(tmp_path: Path) -> None:
    source, library = tmp_path / "hidden.c", tmp_path / "hidden.so"
    source.write_text('long hidden(void) { return 0x1787b10ff011b10f; }\nconst char *uses = "pthread_create";\n')
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    assert guess.order_for(str(library), os.environ).order == "parallel"


def test_it_is_unverified_until_it_was_replayed(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = gdbrr("record", "--order", "auto", "-o", demo, "--", programs.build("auto_atomics")).expect(0)
    reason = "auto_atomics has an atomic instruction of its own"
    assert f"gdbrr: order serial, because {reason}; {UNVERIFIED}" in result.err
    before = demo.read_bytes()
    assert info(demo) == ("serial", reason, False)
    assert "no, not before it was replayed once" in gdbrr("info", demo).expect(0).out
    assert gdbrr("replay", demo).expect(0).out == result.out
    assert info(demo) == ("serial", reason, True)
    assert "yes, a replay did the same" in gdbrr("info", demo).expect(0).out
    assert demo.read_bytes() == before


def test_verified_right_away(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = gdbrr("record", "--verify", "-o", demo, "--", programs.build("turn_locks")).expect(0)
    assert "gdbrr: verified: a replay did the same" in result.err
    assert info(demo)[2]
    assert gdbrr("replay", demo).expect(0).out == result.out  # it was printed once


def test_control_a_choice_has_no_reason_and_no_mark(tmp_path: Path) -> None:
    demo = tmp_path / "x.demo"
    result = gdbrr("record", "--order", "serial", "-o", demo, "--", programs.build("turn_locks")).expect(0)
    assert UNVERIFIED not in result.err
    gdbrr("replay", demo).expect(0)
    assert info(demo) == ("serial", None, False)
    with Demo.open(demo) as source:
        assert source.manifest["order"] == "serial"


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("auto_atomics", (), True),
        ("turn_locks", (), False),
        ("auto_atomics", ("--order", "parallel"), False),
        ("auto_atomics", ("--order", "auto"), False),
    ],
)
def test_who_chose_nothing_is_told_what_is_not_recorded(
    name: str, options: tuple[str, ...], told: bool, tmp_path: Path
) -> None:
    result = gdbrr("record", *options, "-o", tmp_path / "x.demo", "--", programs.build(name)).expect(0)
    text = f"gdbrr: {name} has an atomic instruction of its own, whose order is not in the demo"
    assert (text in result.err) is told
