"""The harness is a program too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import pytest

from harness import ROOT, keep, needs, programs
from harness.run import TooSlow, run, session_members

pytest_plugins = ["pytester"]

GREETING = '#include <stdio.h>\n#include "word.h"\nint main(void) { puts(WORD); return 3; }\n'


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "greet.c").write_text(GREETING)
    (folder / "word.h").write_text('#define WORD "hello"\n')
    return folder


def test_program_is_built_once(sources: Path, tmp_path: Path) -> None:
    first = programs.build("greet", sources=sources, out=tmp_path / "out")
    stamp = first.stat().st_mtime_ns
    assert programs.build("greet", sources=sources, out=tmp_path / "out") == first
    assert first.stat().st_mtime_ns == stamp
    assert run(first).expect(3).out == "hello\n"


def test_program_is_built_again_when_its_header_changed(sources: Path, tmp_path: Path) -> None:
    programs.build("greet", sources=sources, out=tmp_path / "out")
    (sources / "word.h").write_text('#define WORD "good day"\n')
    assert run(programs.build("greet", sources=sources, out=tmp_path / "out")).expect(3).out == "good day\n"


def test_other_flags_are_another_program(sources: Path, tmp_path: Path) -> None:
    plain = programs.build("greet", sources=sources, out=tmp_path / "out")
    assert programs.build("greet", ["-O2"], sources=sources, out=tmp_path / "out") != plain


def test_warning_is_an_error(sources: Path, tmp_path: Path) -> None:
    (sources / "bad.c").write_text("int main(void) { int unused; return 0; }\n")
    with pytest.raises(programs.CompileError, match="unused"):
        programs.build("bad", sources=sources, out=tmp_path / "out")


def test_missing_program_is_named(sources: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no absent\.c"):
        programs.build("absent", sources=sources)


def test_run_gives_status_as_a_shell_does() -> None:
    assert run("sh", "-c", "echo out; echo err >&2; kill -9 $$").status == 137
    with pytest.raises(AssertionError, match="--- stderr\nerr"):
        run("sh", "-c", "echo err >&2; exit 4").expect(0)


def test_run_ends_what_takes_too_long_and_shows_its_output() -> None:
    start = time.monotonic()
    with pytest.raises(TooSlow, match="begun"):
        run("sh", "-c", "echo begun; sleep 600 & sleep 600", limit=0.5)
    assert time.monotonic() - start < 30


def test_run_leaves_nothing_behind() -> None:
    result = run("sh", "-c", "sleep 600 >/dev/null 2>&1 </dev/null & echo $$")
    assert session_members(int(result.out)) == []


def test_run_closes_its_pipes_when_it_is_broken_off() -> None:
    """As a test's limit does it; the garbage collector would find them during some later test."""

    class BrokenOff(Exception):
        pass

    def break_off(_signal: int, _frame: FrameType | None) -> None:
        raise BrokenOff

    opened = os.listdir("/proc/self/fd")
    before = signal.signal(signal.SIGUSR1, break_off)
    try:
        with pytest.raises(BrokenOff) as broken:  # whose frames keep what was open then
            run("sh", "-c", f"read word; kill -USR1 {os.getpid()}; sleep 600", stdin=b"begun\n")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert os.listdir("/proc/self/fd") == opened
    assert broken.traceback


def test_session_members_are_seen_in_other_process_groups() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import os, time; os.fork() or os.setpgid(0, 0); time.sleep(600)"],
        stdin=subprocess.DEVNULL,
        preexec_fn=os.setsid,
    )
    try:
        deadline = time.monotonic() + 30
        while len(session_members(process.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(session_members(process.pid)) == 2
    finally:
        for pid in session_members(process.pid):
            os.kill(pid, 9)
        process.wait()


def test_demos_of_a_failure_are_kept(tmp_path: Path) -> None:
    place = tmp_path / "place"
    recording = place / "deep" / "b.demo.recording"
    recording.mkdir(parents=True)
    (recording / "log").write_bytes(b"log")
    (place / "a.demo").write_bytes(b"demo")
    (place / "other.txt").write_bytes(b"")
    kept = keep.keep("tests/x.py::test_y[1-2]", place, failed=tmp_path / "failed")
    target = tmp_path / "failed" / "tests_x.py_test_y_1-2"
    assert kept == [target / "a.demo", target / "deep" / "b.demo.recording"]
    assert (kept[1] / "log").read_bytes() == b"log"
    assert keep.advice(kept) == f"gdbrr replay {kept[0]}\ngdbrr info {kept[1]}"


def test_older_demos_of_the_same_test_go(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "a.demo").write_bytes(b"demo")
    keep.keep("test", tmp_path / "place", failed=tmp_path / "failed")
    (tmp_path / "place" / "a.demo").rename(tmp_path / "place" / "b.demo")
    keep.keep("test", tmp_path / "place", failed=tmp_path / "failed")
    assert [path.name for path in (tmp_path / "failed" / "test").iterdir()] == ["b.demo"]


def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str, ci: bool) -> pytest.RunResult:
    """Run SOURCE as a test file of its own under the plugin."""
    pytester.makepyfile(source)
    monkeypatch.setenv("CI", "true" if ci else "")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests'}")
    return pytester.runpytest_subprocess("-p", "harness.plugin", "-ra", "--strict-markers", "-p", "no:cacheprovider")


SKIPS = "import pytest\ndef test_it(): pytest.skip('not today')\n"


def test_unexpected_skip_fails_under_ci(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = inner(pytester, monkeypatch, SKIPS, ci=True)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*skipped under CI*not today*"])


def test_unexpected_skip_is_counted_elsewhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = inner(pytester, monkeypatch, SKIPS, ci=False)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["1 skipped: not today"])


def test_skip_for_what_only_hardware_can_give_is_expected(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"import pytest\ndef test_it(): pytest.skip({needs.reason('perf_breakpoints')!r})\n"
    inner(pytester, monkeypatch, source, ci=True).assert_outcomes(skipped=1)


def test_skip_for_what_setup_installs_is_not_expected(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import pytest\n@pytest.mark.needs('gdbserver')\ndef test_it(): pass\n"
    # No PATH, no gdbserver; Python itself is started by its full name.
    monkeypatch.setenv("PATH", "")
    inner(pytester, monkeypatch, source, ci=True).assert_outcomes(errors=1)


def test_failure_prints_how_to_replay(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test_of_the_harness_that_fails"
    result = inner(
        pytester,
        monkeypatch,
        f"def {name}(tmp_path):\n    (tmp_path / 'a.demo').write_bytes(b'')\n    assert False\n",
        ci=False,
    )
    result.assert_outcomes(failed=1)
    line = next(line for line in result.outlines if line.startswith("gdbrr replay "))
    kept = Path(line.removeprefix("gdbrr replay "))
    assert kept.exists()
    keep.keep(kept.parent.name, pytester.path / "nothing")  # and gone again
    assert not kept.exists()


def test_test_that_takes_too_long_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import pytest, time\n@pytest.mark.limit(0.2)\ndef test_it(): time.sleep(60)\n"
    result = inner(pytester, monkeypatch, source, ci=False)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no end within 0.2 s*"])
