"""Libraries lie where they lay while recording, also where the loader's cache has another size by now; and they are
bound to the engine, however they were loaded.

Runs in: pytest. May call: gdbrr record; replays that stand still; gcc, ldconfig, unshare.
Owns: nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from confine.forge import forge
from gdbrr.config import profiles
from gdbrr.demo.reader import Demo
from gdbrr.errors import EXIT_DESYNC
from gdbrr.launch import engine, host
from gdbrr.launch import record as recordings
from gdbrr.launch.replay import standing_at
from harness import programs
from harness.run import gdbrr, run

PAGE = 4096


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    demo = tmp_path_factory.mktemp("libraries") / "x.demo"
    gdbrr("record", "-o", demo, "--", programs.build("spine")).expect(0)
    return demo


def recorded_with(demo: Path, place: Path, pages: int | None) -> Path:
    """The demo, as if the cache had had so many pages."""
    with Demo.open(demo) as opened:
        facts = {name: fact for name, fact in opened.manifest["host"].items() if name != "cache_pages"}
    return forge(demo, place / f"{pages}.demo", host=facts if pages is None else {**facts, "cache_pages": pages})


def maps(demo: Path) -> list[tuple[int, int, str, str]]:
    """Address, length, permissions and file of what the kernel has found a place for, in front of the first tick."""
    with Demo.open(demo) as opened, standing_at(opened, 1, trust=False, limit=60) as replay:
        assert replay
        text = Path(f"/proc/{replay.pid}/maps").read_text()
        rows = re.findall(r"^(7f\w+)-(\w+) (\S+) \S+ \S+ \S+ *(.*)$", text, re.M)
        return [(int(start, 16), int(end, 16) - int(start, 16), perms, name) for start, end, perms, name in rows]


@pytest.mark.parametrize("more", [-1, 1, 70])
def test_they_lie_as_if_the_cache_were_the_recorded_one(more: int, demo: Path, tmp_path: Path) -> None:
    """Which of them the cache moves depends on the kernel: some lie in front of it, or where it has no room. One
    that has got too large for the place it had moves others by all of itself, and what stood around is one then."""
    pages = host.cache_pages() + more
    plain, moved = maps(demo), maps(recorded_with(demo, tmp_path, pages))
    unnamed = [sum(size for _, size, _, name in rows if not name) for rows in (plain, moved)]
    assert unnamed[0] == unnamed[1]  # nothing is left of what stood in for it
    if len(moved) == len(plain):
        assert [row[1:] for row in moved] == [row[1:] for row in plain]
        assert {before[0] - after[0] for before, after in zip(plain, moved, strict=True)} == {0, more * PAGE}
    else:
        files = [[row for row in rows if row[3]] for rows in (plain, moved)]
        assert [row[1:] for row in files[0]] == [row[1:] for row in files[1]]
        assert {before[0] - after[0] for before, after in zip(*files, strict=True)} == {0, pages * PAGE}


def test_control_without_the_fact_they_stay(demo: Path, tmp_path: Path) -> None:
    assert maps(recorded_with(demo, tmp_path, None)) == maps(demo)


def test_a_size_that_is_none_is_ignored(demo: Path, tmp_path: Path) -> None:
    for pages in (-1, 1 << 40):
        assert gdbrr("replay", recorded_with(demo, tmp_path, pages)).expect(0).out


# ---------------------------------------------------------------- what the loader remembers of its cache
MOUNT = 'mount --bind "$0" /etc/ld.so.cache && exec "$@"'


def with_cache(cache: Path, *words: object) -> list[object]:
    return ["unshare", "-m", "sh", "-c", MOUNT, cache, sys.executable, "-m", "gdbrr", *words]


def caches(place: Path) -> list[Path]:
    """One with this machine's libraries, and one that also knows some more."""
    found = []
    for number, more in enumerate((0, 500)):
        libraries, cache = place / f"{number}", place / f"{number}.cache"
        libraries.mkdir()
        source = place / "empty.c"
        source.write_text("int nothing;\n")
        for i in range(more):
            library = libraries / f"libnothing-to-be-found-{i}.so.1"
            if i:
                library.symlink_to("libnothing-to-be-found-0.so.1")
            else:
                subprocess.run(["gcc", "-shared", "-o", library, source], check=True, timeout=60)
        ldconfig = "/sbin/ldconfig"
        subprocess.run([ldconfig, "-X", "-C", cache, libraries], check=True, timeout=60, stderr=subprocess.DEVNULL)
        found.append(cache)
    return found


@pytest.mark.needs("private_mounts")
def test_a_digest_knows_nothing_of_the_cache(tmp_path: Path) -> None:
    few, many = caches(tmp_path)
    assert few.stat().st_size // PAGE != many.stat().st_size // PAGE
    demo = tmp_path / "x.demo"
    first = run(*with_cache(few, "record", "--digest", "-o", demo, "--", programs.build("spine"))).expect(0)
    for cache in (few, many):
        assert run(*with_cache(cache, "replay", demo)).expect(0).out == first.out
    run(*with_cache(few, "pack", demo)).expect(0)
    packed = demo.with_suffix(".packed.demo")
    assert run(*with_cache(many, "replay", "--trust", packed)).expect(0).out == first.out, "it brings its cache along"


def test_a_recording_lies_as_it_says_though_the_cache_was_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INVARIANT(cache-seen-late): a package is installed between the look at the cache and the loader's."""
    demo, real = tmp_path / "x.demo", host.cache_pages()
    profile = profiles.resolve("default", "/bin/true", ["digest=1"])
    request = recordings.Request(["/bin/true"], dict(os.environ), str(tmp_path), profile, engine.find())
    monkeypatch.setattr(host, "cache_pages", lambda: real + 1)
    assert recordings.run(request, demo).status == 0
    gdbrr("replay", demo).expect(0)
    # The control: what it does not say moves the state.
    assert "the state differs" in gdbrr("replay", recorded_with(demo, tmp_path, real)).expect(EXIT_DESYNC).err


# ---------------------------------------------------------------- where they are found
ANSWERS = {
    "own/answer.c": "int answer(void) { return 7; }\n",
    "before/answer.c": "int answer(void) { return 9; }\n",
    "main.c": '#include <stdio.h>\nint answer(void);\nint main(void) { printf("%d\\n", answer()); return 0; }\n',
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A program and a library that is found by LD_LIBRARY_PATH only, and one to be preloaded before it."""
    for name, text in ANSWERS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shared = ["-shared", "-fPIC", "-o"]
    for words in (
        [*shared, "own/libanswer.so", "own/answer.c"],
        [*shared, "before/before.so", "before/answer.c"],
        ["-o", "asks", "main.c", "-Lown", "-lanswer"],
    ):
        subprocess.run(["gcc", *words], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


def variables(place: Path, way: str) -> tuple[dict[str, str], str]:
    path = {"LD_LIBRARY_PATH": str(place / "own") if way != "relative" else "own"}
    if way == "preloaded":
        return {**path, "LD_PRELOAD": str(place / "before" / "before.so"), "LD_BIND_NOW": "1"}, "9\n"
    return path, "7\n"


@pytest.mark.parametrize("way", ["absolute", "relative", "preloaded"])
def test_libraries_that_only_a_variable_finds(way: str, place: Path) -> None:
    """INVARIANT(loader-obeys-little)."""
    env, answer = variables(place, way)
    assert gdbrr("record", "--digest", "-o", "x.demo", "./asks", cwd=place, env=env).expect(0).out == answer
    assert gdbrr("replay", place / "x.demo").expect(0).out == answer
    gdbrr("pack", place / "x.demo").expect(0)
    # Only the recorded library will do, and nothing where the variable leads to by now.
    for name in ("own/libanswer.so", "before/before.so"):
        words = ["gcc", "-O2", "-g", "-shared", "-fPIC", "-o", name, "before/answer.c"]
        subprocess.run(words, cwd=place, check=True, timeout=60)
    done = gdbrr("replay", place / "x.demo").expect(1)
    assert "is not the library that was recorded" in done.err
    packed = place / "x.packed.demo"
    assert "its loader obeys:  'LD_LIBRARY_PATH=" in gdbrr("replay", packed).expect(1).err
    assert gdbrr("replay", "--trust", packed).expect(0).out == answer


def test_control_without_the_variable_there_is_no_such_library(place: Path) -> None:
    env, _ = variables(place, "absolute")
    gdbrr("record", "-o", "x.demo", "./asks", cwd=place, env=env).expect(0)
    with Demo.open(place / "x.demo") as opened:
        without = [entry for entry in opened.manifest["env"] if not entry.startswith("LD_")]
    done = gdbrr("replay", forge(place / "x.demo", place / "y.demo", env=without)).expect(EXIT_DESYNC)
    assert "before the engine started" in done.err


# ---------------------------------------------------------------- what they are bound to
DEEP = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
char exchange(pthread_mutex_t *mutex, char **place)
{
	char found;
	pthread_mutex_lock(mutex);
	char *fresh = malloc(40);
	memcpy(fresh, *place, 40);
	free(*place);
	*place = fresh;
	found = *fresh;
	pthread_mutex_unlock(mutex);
	return found;
}
"""


def test_a_library_that_prefers_its_own_ones_does_not_go_past_the_engine(tmp_path: Path) -> None:
    source, library = tmp_path / "deep.c", tmp_path / "libdeep.so"
    source.write_text(DEEP)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    demo = tmp_path / "x.demo"
    for _ in range(3):
        first = gdbrr("record", "-o", demo, "--", programs.build("library_deep"), library).expect(0)
        assert gdbrr("replay", demo).expect(0).out == first.out
