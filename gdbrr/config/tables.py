"""The engine's tables (preload/tables/*.def) as Python sees them: one parser for all of them.

Runs in: everywhere, GDB's Python included. May call: the standard library and gdbrr.errors only.
Owns: what the rows of each table mean; gdbrr/config/grammar.py reads their lines.
"""

from __future__ import annotations

from gdbrr.config.grammar import Line, contents, lines, parse_number, split_fields, with_unit
from gdbrr.errors import GdbrrError
from gdbrr.quick.kept import cache, cached_property
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple

_PACKAGE = Path(__file__).resolve().parent.parent

MODES = ("record", "native", "ignore")
"""The modes of a class or call; the place of each is its number in enum gr_action."""

FLAGS = ("BLOCKS", "IRREV", "BY_FD", "SPECIAL", "REFUSED", "NORETURN")

_ALL_FLAGS = frozenset(FLAGS)

FILE_TYPES = ("REG", "DIR", "LNK", "FIFO", "SOCK", "CHR", "BLK", "ANON")

# How many numbers each word takes. Words with a length take it as their last field.
_WITH_LENGTH = {"IN": 1, "OUT": 1, "OUT_ANY": 1, "INOUT": 1}
_PLAIN = {
    "FD": 1, "STR": 1, "STRV": 1, "IOV_IN": 2, "IOV_OUT": 2, "MSG_IN": 1, "MSG_OUT": 1, "MMSG_IN": 2, "MMSG_OUT": 2,
    "BEHIND": 4, "MAKES": 0, "MAKES_IF": 1, "MAKES_AT": 2, "CLOSES": 1, "DUPS": 1, "DUPS_TO": 2, "MAPS": 0,
}  # fmt: skip
_LENGTHS = {
    "BYTES": 1, "ARG": 1, "ARGX": 2, "ARG_PLUS": 2, "RET": 0, "RETX": 1, "RET_TO": 1, "RETX_TO": 2, "RET_PLUS": 1,
    "RET_PLUS_TO": 2, "AT": 1, "FDSET": 1, "SELF": 1, "PAGES": 1, "NODES": 1, "FLEX": 3, "WHEN": 1, "OWN": 0,
}  # fmt: skip

# Of ioctls only: the argument is always the third, and these take numbers of their own.
_IOCTL_WORDS = {"MAKES": 0, "REFUSED": 0, "BEHIND": 3, "DEEP": 1}

_LETTERS = set("ABCDEFGHIJKLMNOPQRSTUVWXYZ_")

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Row = TypeVar("Row")


class Length(NamedTuple):
    """How many bytes an effect is about, e.g. ARGX with numbers (2, 8)."""

    word: str
    numbers: tuple[int, ...]


class Effect(NamedTuple):
    """What a call does with one argument, e.g. OUT with numbers (2,) and a length."""

    word: str
    numbers: tuple[int, ...]
    length: Length | None = None


class Syscall:
    """What happens to its arguments is read when it is asked for: starting a recording needs none of it."""

    def __init__(self, line: Line, effects: str) -> None:
        _, self.name, self.cls, flags, *_rest = line.fields
        self.nr = line.number(0)
        self.flags = _flags(line, flags)
        self.nargs = line.number(4)
        self.makes = "MAKES" in effects
        """Whether it makes a descriptor."""
        self._line = line
        self._effects = effects

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        line = self._line.split(self._effects)
        return tuple(_effect(line, text) for text in line.fields)


class Ioctl(NamedTuple):
    name: str
    request: int
    effect: Effect | None
    """None: argument 3 is a number, not a pointer."""


class Class(NamedTuple):
    name: str
    default: str
    help: str
    modes: tuple[str, ...]


class Kind(NamedTuple):
    """What a descriptor refers to. A profile's rule for it has one of the modes of its class."""

    name: str
    cls: str
    type: str
    help: str
    devices: tuple[tuple[int, ...], ...]
    """Device numbers: first and last major, first and last minor."""


class Knob(NamedTuple):
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


class Op(NamedTuple):
    number: int
    name: str
    help: str


class Wrapper(NamedTuple):
    name: str
    version: str
    op: str
    help: str


class ThreadField(NamedTuple):
    type: str
    name: str
    help: str


class Refusal(NamedTuple):
    name: str
    reason: str
    way_out: str


def directory() -> Path:
    """Where the tables are: in a checkout beside the engine's source, in an installed package beside the engine."""
    for place in (_PACKAGE.parent / "preload" / "tables", _PACKAGE / "_engine" / "tables"):
        if (place / "syscalls.def").is_file():
            return place
    raise GdbrrError(f"the engine's tables are not beside {_PACKAGE}", hint="install gdbrr again: pip install .")


def _effect(line: Line, text: str, first: tuple[int, ...] = ()) -> Effect:
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


def _term(line: Line, text: str) -> tuple[str, tuple[str, ...]]:
    word, bracket, rest = text.partition("(")
    if not word or not set(word) <= _LETTERS or (bracket and not rest.endswith(")")):
        raise line.fail(f"{text!r} is not an effect or a length")
    return word, split_fields(rest[:-1]) if rest[:-1] else ()


def _numbers(line: Line, fields: tuple[str, ...]) -> tuple[int, ...]:
    try:
        return tuple(parse_number(field) for field in fields)
    except ValueError as error:
        raise line.fail(f"{error} is not a number") from None


def _flags(line: Line, text: str) -> frozenset[str]:
    flags = frozenset(() if text == "0" else text.split("|"))
    if not flags <= _ALL_FLAGS:
        raise line.fail(f"{text} has an unknown flag")
    return flags


def _read_ioctl(line: Line) -> Ioctl:
    name, _, text = line.fields
    if text == "VALUE":
        return Ioctl(name, line.number(1), None)
    word, fields = _term(line, text)
    if word in _IOCTL_WORDS:
        if len(fields) != _IOCTL_WORDS[word]:
            raise line.fail(f"{text} is not an effect")
        return Ioctl(name, line.number(1), Effect(word, _numbers(line, fields)))
    return Ioctl(name, line.number(1), _effect(line, text, first=(3,)))


def _read_class(line: Line) -> Class:
    modes = tuple(line.fields[3].split("|"))
    if not set(modes) <= set(MODES) or line.fields[1] not in modes:
        raise line.fail("the modes, or the default mode, are not modes")
    return Class(line.fields[0], line.fields[1], line.string(2), modes)


def _read_kind(line: Line) -> Kind:
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


def _read_knob(line: Line) -> Knob:
    name, kind, default = line.fields[:3]
    names = kind.removeprefix("enum(")
    if names != kind and names.endswith(")"):
        choices = tuple(names[:-1].split("|"))
        if default not in choices:
            raise line.fail(f"{default} is not one of {kind}")
        return Knob(name, "enum", choices.index(default), 0, len(choices) - 1, line.string(5), choices)
    if kind not in ("bool", "int", "bytes", "seconds"):
        raise line.fail(f"{kind} is not a type")
    knob = Knob(name, kind, line.number(2), line.number(3), line.number(4), line.string(5))
    if not knob.min <= knob.default <= knob.max:
        raise line.fail(f"the default of {name} is out of its range")
    return knob


def _read(table: str, macro: str, least: int, most: int | None, row: Callable[[Line], Row]) -> tuple[Row, ...]:
    return tuple(row(line) for line in lines(directory() / f"{table}.def", macro, least, most))


@cache
def syscalls() -> tuple[Syscall, ...]:
    """Every system call, by number."""
    rows = []
    for line, text in contents(directory() / "syscalls.def", "SYS"):
        *fields, effects = [field.strip() for field in f"{text},".split(",", 5)]  # none of the first five has a comma
        if len(fields) < 5:
            line.split(text).check_count(5, None)
        rows.append(Syscall(Line(line.place, tuple(fields)), effects[:-1].rstrip()))
    return tuple(rows)


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
    def row(line: Line) -> Wrapper:
        return Wrapper(line.fields[0], line.string(1), line.fields[2], line.string(3))

    return _read("wrappers", "WRAP", 4, 4, row)


@cache
def thread_fields() -> tuple[ThreadField, ...]:
    return _read("thread", "FIELD", 3, 3, lambda line: ThreadField(line.fields[0], line.fields[1], line.string(2)))


@cache
def refusals() -> tuple[Refusal, ...]:
    return _read("refusals", "REFUSAL", 3, 3, lambda line: Refusal(line.fields[0], line.string(1), line.string(2)))


@cache
def fenced() -> frozenset[str]:
    """The calls that no replay may make."""
    rules = dict(_read("fence", "FENCE", 3, 3, lambda line: (line.fields[0], line.fields[1])))
    return frozenset(call.name for call in syscalls() if rules.get(call.name, "ABSENT") == "ABSENT")


@cache
def class_by_name() -> dict[str, Class]:
    return {cls.name: cls for cls in classes()}


@cache
def syscall_by_nr() -> dict[int, Syscall]:
    return {call.nr: call for call in syscalls()}


@cache
def syscall_by_name() -> dict[str, Syscall]:
    return {call.name: call for call in syscalls()}


@cache
def knob_by_name() -> dict[str, Knob]:
    return {knob.name: knob for knob in knobs()}
