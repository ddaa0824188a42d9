"""gdbrr.quick against the modules of the standard library in whose place it is used."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gdbrr.quick import hashes, kept, numbers, paths, rows, scopes, signals, texts, values, zstd
from harness import ROOT

Path: Any = paths.Path
WORDS = st.text("ab./ -", max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Ours(rows.NamedTuple):
    """A row."""

    first: int
    second: str = "two"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"

    def __str__(self) -> str:
        return "ours"


class Base(rows.NamedTuple):
    first: int
    second: str = "two"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


class Below(Base):
    """No row was made of its base before."""


class Theirs(typing.NamedTuple):
    """A row."""

    first: int
    second: str = "two"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"

    def __str__(self) -> str:
        return "ours"


def test_a_row_is_a_named_tuple() -> None:
    for made, other in (
        (Ours(1), Theirs(1)),
        (Ours(1, second="b"), Theirs(1, second="b")),
        (Ours(2, "c"), Theirs(2, "c")),
    ):
        assert tuple(made) == tuple(other) and made.both == other.both and str(made) == str(other)
        assert repr(made) == repr(other).replace("Theirs", "Ours")
        assert made._replace(first=7).first == 7 and made._asdict() == other._asdict()
        assert pickle.loads(pickle.dumps(made)) == made
    assert Ours.__doc__ == Theirs.__doc__ and Ours._fields == Theirs._fields and Ours.__qualname__ == "Ours"
    assert Ours.__module__ == __name__ and Ours.__new__ is type(Ours(1)).__new__
    assert Below(3, second="b").both == "3b" and type(Below(3)) is Below and isinstance(Below(3), Base)
    with pytest.raises(TypeError):
        Ours()  # type: ignore[call-arg]


@given(st.lists(WORDS, min_size=0, max_size=3))
def test_a_path_is_pathlibs(words: list[str]) -> None:
    ours, theirs = Path(*words), pathlib.Path(*words)
    assert str(ours) == os.fspath(ours) == str(theirs)
    assert ours == theirs and theirs == ours and hash(ours) == hash(theirs) and ours == Path(str(theirs))
    for name in ("name", "stem", "suffix"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert str(ours.parent) == str(theirs.parent) and str(ours.parent.parent) == str(theirs.parent.parent)
    assert str(ours / "x") == str(theirs / "x") and str(ours / "/x") == "/x"
    assert [str(each) for each in ours.parents] == [str(each) for each in theirs.parents]  # left to pathlib
    if theirs.name:
        assert str(ours.with_name("y")) == str(theirs.with_name("y"))
    else:
        with pytest.raises(ValueError):
            ours.with_name("y")


def test_a_path_does_what_pathlibs_does(tmp_path: pathlib.Path) -> None:
    folder = Path(tmp_path) / "folder"
    folder.mkdir(mode=0o700)
    with pytest.raises(FileExistsError):
        folder.mkdir()
    folder.mkdir(exist_ok=True)
    file = folder / "file"
    assert not file.exists() and folder.is_dir() and not folder.is_file()
    with file.open("w") as out:
        out.write("text")
    assert file.read_text() == "text" and file.read_bytes() == b"text" and file.is_file()
    assert isinstance(file, os.PathLike) and str(file.resolve()) == os.path.realpath(file)
    assert sorted(folder.iterdir()) == [pathlib.Path(file)]
    file.unlink()
    file.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        file.unlink()
    folder.rmdir()
    assert str(Path.home()) == str(pathlib.Path.home())


@given(VALUES)
def test_texts_are_those_of_json(value: Any) -> None:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert texts.dumps(value, sort_keys=True, separators=(",", ":")) == text
    assert texts.dumps(value) == json.dumps(value)
    assert texts.loads(f" {text}\n") == json.loads(text)


@given(st.text('[]{}",:0123456789.eE+-truefalsn \\u\t\n\x01', max_size=16))
def test_what_is_no_json_is_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            texts.loads(text)
    else:
        assert repr(texts.loads(text)) == repr(expected)


def test_numbers_of_texts_are_left_to_the_caller() -> None:
    def refuse(word: str) -> float:
        raise ValueError(word)

    for text in ("1", "1.5", "NaN", "-Infinity"):
        with pytest.raises(ValueError):
            texts.loads(text, parse_int=refuse, parse_float=refuse, parse_constant=refuse)
    assert math.isnan(texts.loads("NaN"))
    with pytest.raises(ValueError):
        texts.dumps(math.inf, allow_nan=False)
    with pytest.raises(TypeError):
        texts.dumps(object())
    with pytest.raises(RecursionError):
        texts.loads("[" * 100_000)


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=64))
def test_hashes_are_those_of_hashlib(data: bytes, key: bytes) -> None:
    assert hashes.sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()
    ours, theirs = (made(key=key, digest_size=32, person=b"gdbrr") for made in (hashes.blake2b, hashlib.blake2b))
    ours.update(data)
    theirs.update(data)
    assert hashes.same(ours.digest(), theirs.digest()) and not hashes.same(ours.digest(), bytes(32))


def test_signals_are_the_same() -> None:
    for number in signal.valid_signals():
        name = signals.name_of(number)
        assert not name or getattr(signals.signal, name) == number
    assert signals.name_of(11) == "SIGSEGV" and signals.name_of(0) == ""


@given(st.binary(max_size=2000))
def test_zstd_is_zstandards(data: bytes) -> None:
    packed = zstd.zstandard.ZstdCompressor(level=3).compress(data)
    assert zstandard.ZstdDecompressor().decompress(packed) == data
    assert zstd.zstandard.frame_content_size(packed) == len(data)


def test_nothing_large_is_imported_for_them() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from gdbrr.quick import hashes, kept, numbers, paths, rows, scopes, signals, texts, zstd\n"
        "texts.loads(texts.dumps({})); paths.Path('/a').parent / 'b'; zstd.zstandard.ZstdCompressor()\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    large = {"argparse", "enum", "hashlib", "json", "pathlib", "platform", "re", "signal", "typing", "zstandard"}
    assert not set(done.stdout.split()) & large


@pytest.mark.parametrize("lib", [scopes, contextlib])
def test_a_scope_is_contextlibs(lib: Any) -> None:
    seen: list[str] = []

    @lib.contextmanager
    def scope(raises: bool = False, swallows: bool = False) -> Iterator[int]:
        """Its words."""
        seen.append("in")
        try:
            yield 7
        except KeyError as error:
            if raises:
                raise ValueError from error
            if not swallows:
                raise
        finally:
            seen.append("out")

    with scope() as value:
        assert value == 7 and seen == ["in"]
    assert seen == ["in", "out"] and scope.__doc__ == "Its words." and scope.__name__ == "scope"
    with scope(swallows=True):
        raise KeyError
    with pytest.raises(ValueError), scope(raises=True):
        raise KeyError
    for kind in (KeyError, OSError, StopIteration, GeneratorExit, RuntimeError, KeyboardInterrupt):
        with pytest.raises(kind), scope():
            raise kind
    assert seen == ["in", "out"] * 9

    @lib.contextmanager
    def twice() -> Iterator[None]:
        yield
        yield

    @lib.contextmanager
    def never() -> Iterator[None]:
        yield from ()

    for wrong in (twice, never):
        with pytest.raises(RuntimeError), wrong():
            pass
    with lib.suppress(KeyError, OSError):
        raise FileNotFoundError
    with pytest.raises(ValueError), lib.suppress(KeyError):
        raise ValueError
    with lib.suppress():
        pass


@pytest.mark.parametrize("lib", [kept, functools])
def test_what_is_kept_is_made_once(lib: Any) -> None:
    made: list[object] = []

    class Thing:
        @lib.cached_property
        def value(self) -> int:
            """Its words."""
            made.append(self)
            return len(made)

    @lib.cache
    def twice(number: int) -> int:
        made.append(number)
        return 2 * number

    thing, other = Thing(), Thing()
    assert (thing.value, thing.value, other.value, thing.value) == (1, 1, 2, 1)
    assert (twice(3), twice(3), twice(4)) == (6, 6, 8) and made[2:] == [3, 4]
    twice.cache_clear()
    assert twice(3) == 6 and made[4:] == [3] and twice.__wrapped__(5) == 10
    assert Thing.value.__doc__ == "Its words."


@given(st.lists(st.integers(0, (1 << 64) - 1)), st.integers(0, 1 << 64))
def test_numbers_are_a_list(values: list[int], other: int) -> None:
    made = numbers.Numbers()
    for value in sorted(values):
        made.append(value)
    assert list(made) == sorted(values) and len(made) == len(values) and bool(made) == bool(values)
    assert bisect.bisect_right(made, other) == bisect.bisect_right(sorted(values), other)
    for index in range(-len(values) - 1, len(values) + 1):
        if -len(values) <= index < len(values):
            assert made[index] == sorted(values)[index]
        else:
            with pytest.raises(IndexError):
                made[index]


@pytest.mark.parametrize("lib", [values, dataclasses])
def test_a_frozen_class_is_dataclasses(lib: Any) -> None:
    @lib.dataclass(frozen=True)
    class Base:
        """Of all."""

    @lib.dataclass(frozen=True)
    class One(Base):
        first: int
        second: str = "two"

    @lib.dataclass(frozen=True)
    class Two(One):
        third: tuple[int, ...] = ()

    @lib.dataclass(frozen=True)
    class Other(Base):
        pass

    assert One(1) == One(1, "two") == One(second="two", first=1) != One(2) and One(1) != Two(1)
    assert Base() == Base() != Other() and hash(One(1)) == hash(One(1)) and len({One(1), One(1), Two(1)}) == 2
    assert repr(Two(1, third=(3,))).endswith("Two(first=1, second='two', third=(3,))") and repr(Other()).endswith(
        "Other()"
    )
    assert Two.__match_args__ == ("first", "second", "third") and Base.__doc__ == "Of all."
    match Two(1, "b", (2,)):
        case One(first, second):
            assert (first, second) == (1, "b")
    for wrong in (lambda: One(), lambda: One(1, "a", 2), lambda: One(1, first=1), lambda: One(1, fourth=1)):
        with pytest.raises(TypeError):
            wrong()
    thing = One(1)
    with pytest.raises(AttributeError):
        thing.first = 2
    with pytest.raises(AttributeError):
        del thing.first
