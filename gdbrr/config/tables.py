"""The engine's tables (preload/tables/*.def) as Python sees them: one parser for all of them.

Runs in: everywhere, GDB's Python included. May call: the standard library and gdbrr.errors only.
Owns: the grammar of a .def file: one `MACRO(field, field, ...)` a line, `//` comments, strings in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from gdbrr.errors import GdbrrError

MODES = ("record", "native", "ignore")
"""The modes of a class or call; the place of each is its number in enum gr_action."""

FLAGS = ("BLOCKS", "IRREV", "BY_FD", "SPECIAL", "REFUSED", "NORETURN")

FILE_TYPES = ("REG", "DIR", "LNK", "FIFO", "SOCK", "CHR", "BLK", "ANON")

# How many numbers each word takes. Words with a length take it as their last field.
_WITH_LENGTH = {"IN": 1, "OUT": 1, "OUT_ANY": 1, "INOUT": 1}
_PLAIN = {
    "FD": 1, "STR": 1, "STRV": 1, "IOV_IN": 2, "IOV_OUT": 2, "MSG_IN": 1, "MSG_OUT": 1, "MMSG_IN": 2, "MMSG_OUT": 2,
    "MAKES": 0, "MAKES_IF": 1, "MAKES_AT": 2, "CLOSES": 1, "DUPS": 1, "DUPS_TO": 2, "MAPS": 0,
}  # fmt: skip
_LENGTHS = {
    "BYTES": 1, "ARG": 1, "ARGX": 2, "ARG_PLUS": 2, "RET": 0, "RETX": 1, "RET_TO": 1, "RETX_TO": 2, "RET_PLUS": 1,
    "RET_PLUS_TO": 2, "AT": 1, "FDSET": 1, "SELF": 1, "PAGES": 1, "NODES": 1,
}  # fmt: skip

_LINE = re.compile(r"(?P<macro>[A-Z]+)\((?P<fields>.*)\)\Z")
_TERM = re.compile(r"(?P<word>[A-Z_]+)(?:\((?P<fields>.*)\))?\Z")
_ENUM = re.compile(r"enum\((?P<names>\w+(?:\|\w+)*)\)\Z")
_NUMBER = re.compile(r"(?P<digits>[0-9]+|0[xX][0-9a-fA-F]+)(?P<unit>[KMGT]?)\Z")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

Row = TypeVar("Row")


@dataclass(frozen=True)
class Length:
    """How many bytes an effect is about, e.g. ARGX with numbers (2, 8)."""

    word: str
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Effect:
    """What a call does with one argument, e.g. OUT with numbers (2,) and a length."""

    word: str
    numbers: tuple[int, ...]
    length: Length | None = None


@dataclass(frozen=True)
class Syscall:
    nr: int
    name: str
    cls: str
    flags: frozenset[str]
    nargs: int
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class Ioctl:
    name: str
    request: int
    effect: Effect | None
    """None: argument 3 is a number, not a pointer."""


@dataclass(frozen=True)
class Class:
    name: str
    default: str
    help: str
    modes: tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """What a descriptor refers to. A profile's rule for it has one of the modes of its class."""

    name: str
    cls: str
    type: str
    help: str
    devices: tuple[tuple[int, ...], ...]
    """Device numbers: first and last major, first and last minor."""


@dataclass(frozen=True)
class Knob:
    """A setting with a value. Numbers are what the engine sees; an enum's number is the place of its name."""

    name: str
    type: str
    """bool, int, bytes, seconds or enum."""
    default: int
    min: int
    max: int
    help: str
    choices: tuple[str, ...] = ()

    def text(self, number: int) -> str:
        """A number of this knob as a person writes it."""
        if self.type == "enum":
            return self.choices[number]
        if self.type == "bool":
            return "on" if number else "off"
        if self.type == "bytes":
            return with_unit(number)
        return str(number)


@dataclass(frozen=True)
class Op:
    number: int
    name: str
    help: str


@dataclass(frozen=True)
class Wrapper:
    name: str
    version: str
    op: str
    help: str


@dataclass(frozen=True)
class ThreadField:
    type: str
    name: str
    help: str


@dataclass(frozen=True)
class Refusal:
    name: str
    reason: str
    way_out: str


@dataclass(frozen=True)
class _Line:
    """A line of a table with the place to name when it is wrong."""

    place: str
    fields: tuple[str, ...]

    def fail(self, what: str) -> GdbrrError:
        return GdbrrError(f"{self.place}: {what}", hint="this file belongs to gdbrr: mend it, or install gdbrr again")

    def string(self, index: int) -> str:
        field = self.fields[index]
        if len(field) < 3 or field[0] != '"' or field[-1] != '"':
            raise self.fail(f"field {index + 1} is not a string in double quotes")
        return field[1:-1]

    def number(self, index: int) -> int:
        try:
            return parse_number(self.fields[index])
        except ValueError:
            raise self.fail(f"{self.fields[index]!r} is not a number") from None


def parse_number(text: str) -> int:
    """`4096`, `0x5401`, `16M`; ValueError for anything else."""
    match = _NUMBER.match(text)
    if not match:
        raise ValueError(text)
    return int(match["digits"], 0) * _UNITS[match["unit"]]


def with_unit(number: int) -> str:
    """The shortest way to write NUMBER that parse_number reads."""
    for unit, size in reversed(_UNITS.items()):
        if number and number % size == 0:
            return f"{number // size}{unit}"
    return str(number)


def directory() -> Path:
    """Where the tables are: in a checkout beside the engine's source, in an installed package beside the engine."""
    package = Path(__file__).resolve().parent.parent
    for place in (package.parent / "preload" / "tables", package / "_engine" / "tables"):
        if (place / "syscalls.def").is_file():
            return place
    raise GdbrrError(f"the engine's tables are not beside {package}", hint="install gdbrr again: pip install .")


def split_fields(text: str) -> tuple[str, ...]:
    """Split at the commas that stand outside of parentheses and strings; ValueError when those do not close."""
    fields: list[str] = []
    start, depth, quoted = 0, 0, False
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                raise ValueError("one ) too many")
        elif char == "," and depth == 0:
            fields.append(text[start:at].strip())
            start = at + 1
    if quoted or depth:
        raise ValueError("a string or parenthesis is not closed")
    fields.append(text[start:].strip())
    return tuple(fields)


def parse_lines(path: Path, macro: str, least: int, most: int | None = None) -> Iterator[_Line]:
    """Every line of the table at PATH; all must be MACRO with LEAST to MOST fields (None: as many as it likes)."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise GdbrrError(f"{path}: {error.strerror}", hint="install gdbrr again: pip install .") from None
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("//"):
            continue
        line = _Line(f"{path.name}:{number}", ())
        match = _LINE.match(stripped)
        if not match or match["macro"] != macro:
            raise line.fail(f"not a {macro}(...) line")
        try:
            line = _Line(line.place, split_fields(match["fields"]))
        except ValueError as error:
            raise line.fail(str(error)) from None
        if not least <= len(line.fields) <= (most or len(line.fields)):
            raise line.fail(f"{len(line.fields)} fields, expected {least}{'' if most == least else ' or more'}")
        yield line


def _effect(line: _Line, text: str, first: tuple[int, ...] = ()) -> Effect:
    """One effect. FIRST are numbers that the table leaves out because they are always the same."""
    word, fields = _term(line, text)
    if word in _WITH_LENGTH:
        if not fields or len(fields) != 1 + _WITH_LENGTH[word] - len(first):
            raise line.fail(f"{text}: {word} takes an argument and a length")
        length_word, length_fields = _term(line, fields[-1])
        if _LENGTHS.get(length_word) != len(length_fields):
            raise line.fail(f"{fields[-1]} is not a length")
        length = Length(length_word, _numbers(line, length_fields))
        return Effect(word, first + _numbers(line, fields[:-1]), length)
    if _PLAIN.get(word) != len(fields):
        raise line.fail(f"{text} is not an effect")
    return Effect(word, _numbers(line, fields))


def _term(line: _Line, text: str) -> tuple[str, tuple[str, ...]]:
    match = _TERM.match(text)
    if not match:
        raise line.fail(f"{text!r} is not an effect or a length")
    return match["word"], split_fields(match["fields"]) if match["fields"] else ()


def _numbers(line: _Line, fields: tuple[str, ...]) -> tuple[int, ...]:
    try:
        return tuple(parse_number(field) for field in fields)
    except ValueError as error:
        raise line.fail(f"{error} is not a number") from None


def _read_syscall(line: _Line) -> Syscall:
    _, name, cls, flag_text, *_rest = line.fields
    flags = frozenset(() if flag_text == "0" else flag_text.split("|"))
    if not flags <= set(FLAGS):
        raise line.fail(f"{flag_text} has an unknown flag")
    effects = tuple(_effect(line, text) for text in line.fields[5:])
    return Syscall(line.number(0), name, cls, flags, line.number(4), effects)


def _read_ioctl(line: _Line) -> Ioctl:
    name, _, text = line.fields
    effect = None if text == "VALUE" else _effect(line, text, first=() if text == "MAKES" else (3,))
    return Ioctl(name, line.number(1), effect)


def _read_class(line: _Line) -> Class:
    modes = tuple(line.fields[3].split("|"))
    if not set(modes) <= set(MODES) or line.fields[1] not in modes:
        raise line.fail("the modes, or the default mode, are not modes")
    return Class(line.fields[0], line.fields[1], line.string(2), modes)


def _read_kind(line: _Line) -> Kind:
    name, cls, file_type = line.fields[:3]
    if file_type not in FILE_TYPES:
        raise line.fail(f"{file_type} is not a type of file")
    devices = []
    for text in line.fields[4:]:
        word, fields = _term(line, text)
        if word != "DEV" or len(fields) != 4:
            raise line.fail(f"{text} is not DEV with four numbers")
        devices.append(_numbers(line, fields))
    return Kind(name, cls, file_type, line.string(3), tuple(devices))


def _read_knob(line: _Line) -> Knob:
    name, kind, default = line.fields[:3]
    enum = _ENUM.match(kind)
    if enum:
        choices = tuple(enum["names"].split("|"))
        if default not in choices:
            raise line.fail(f"{default} is not one of {kind}")
        return Knob(name, "enum", choices.index(default), 0, len(choices) - 1, line.string(5), choices)
    if kind not in ("bool", "int", "bytes", "seconds"):
        raise line.fail(f"{kind} is not a type")
    knob = Knob(name, kind, line.number(2), line.number(3), line.number(4), line.string(5))
    if not knob.min <= knob.default <= knob.max:
        raise line.fail(f"the default of {name} is out of its range")
    return knob


def _read(table: str, macro: str, least: int, most: int | None, row: Callable[[_Line], Row]) -> tuple[Row, ...]:
    return tuple(row(line) for line in parse_lines(directory() / f"{table}.def", macro, least, most))


@cache
def syscalls() -> tuple[Syscall, ...]:
    """Every system call, by number."""
    return _read("syscalls", "SYS", 5, None, _read_syscall)


@cache
def ioctls() -> tuple[Ioctl, ...]:
    return _read("ioctls", "IOCTL", 3, 3, _read_ioctl)


@cache
def classes() -> tuple[Class, ...]:
    """The classes; the place of each is its number in enum gr_class."""
    return _read("classes", "CLASS", 4, 4, _read_class)


@cache
def kinds() -> tuple[Kind, ...]:
    """The kinds of descriptor; the place of each is its number in enum gr_kind."""
    return _read("descriptors", "KIND", 4, None, _read_kind)


@cache
def knobs() -> tuple[Knob, ...]:
    """The knobs; the place of each is its index in the control page."""
    return _read("knobs", "KNOB", 6, 6, _read_knob)


@cache
def ops() -> tuple[Op, ...]:
    """The kinds of operation, by wire number."""
    rows = _read("ops", "OP", 2, 2, lambda line: (line.fields[0], line.string(1)))
    return tuple(Op(number, name, text) for number, (name, text) in enumerate(rows))


@cache
def wrappers() -> tuple[Wrapper, ...]:
    def row(line: _Line) -> Wrapper:
        return Wrapper(line.fields[0], line.string(1), line.fields[2], line.string(3))

    return _read("wrappers", "WRAP", 4, 4, row)


@cache
def thread_fields() -> tuple[ThreadField, ...]:
    return _read("thread", "FIELD", 3, 3, lambda line: ThreadField(line.fields[0], line.fields[1], line.string(2)))


@cache
def refusals() -> tuple[Refusal, ...]:
    return _read("refusals", "REFUSAL", 3, 3, lambda line: Refusal(line.fields[0], line.string(1), line.string(2)))


@cache
def syscall_by_nr() -> dict[int, Syscall]:
    return {call.nr: call for call in syscalls()}


@cache
def syscall_by_name() -> dict[str, Syscall]:
    return {call.name: call for call in syscalls()}


@cache
def knob_by_name() -> dict[str, Knob]:
    return {knob.name: knob for knob in knobs()}
