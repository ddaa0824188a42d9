"""The grammar of a table (preload/tables/*.def): one `MACRO(field, field, ...)` a line, `//` comments.

Runs in: everywhere, GDB's Python included. May call: the standard library and gdbrr.errors only.
Owns: how fields are told apart, strings in double quotes, and numbers with their units.
"""

from __future__ import annotations

from gdbrr.errors import GdbrrError
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIGITS, _HEX = set("0123456789"), set("0123456789abcdefABCDEF")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Line(NamedTuple):
    """A line of a table with the place to name when it is wrong."""

    place: str
    fields: tuple[str, ...] = ()

    def split(self, text: str) -> Line:
        """The same line with the fields of TEXT, which is a part of it."""
        try:
            return self._replace(fields=split_fields(text) if text else ())
        except ValueError as error:
            raise self.fail(str(error)) from None

    def check_count(self, least: int, most: int | None) -> None:
        if not least <= len(self.fields) <= (most or len(self.fields)):
            raise self.fail(f"{len(self.fields)} fields, expected {least}{'' if most == least else ' or more'}")

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
    unit = text[-1:] if text[-1:] in _UNITS else ""
    digits = text.removesuffix(unit)
    hexadecimal = digits[:2] in ("0x", "0X")
    if not (set(digits[2:]) <= _HEX if hexadecimal else digits and set(digits) <= _DIGITS):
        raise ValueError(text)
    return int(digits, 0) * _UNITS[unit]


def with_unit(number: int) -> str:
    """The shortest way to write NUMBER that parse_number reads."""
    for unit, size in reversed(_UNITS.items()):
        if number and number % size == 0:
            return f"{number // size}{unit}"
    return str(number)


def split_fields(text: str) -> tuple[str, ...]:
    """Split at the commas that stand outside of parentheses and strings; ValueError when those do not close."""
    head, quote, tail = text.partition('"')
    before = head.rstrip()
    if quote and tail.find('"') == len(tail) - 1 and before.endswith(","):  # one string, the last field
        return (*split_fields(before[:-1]), quote + tail)
    if not quote and "(" not in text and ")" not in text:
        return tuple(field.strip() for field in text.split(","))
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


def contents(path: Path, macro: str) -> Iterator[tuple[Line, str]]:
    """Every line of the table at PATH, all of which must be MACRO(...), and what stands between its parentheses."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise GdbrrError(f"{path}: {error.strerror}", hint="install gdbrr again: pip install .") from None
    name, start = path.name, f"{macro}("
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("//"):
            continue
        line = Line(f"{name}:{number}")
        if not stripped.startswith(start) or stripped[-1] != ")":
            raise line.fail(f"not a {macro}(...) line")
        yield line, stripped[len(start) : -1]


def lines(path: Path, macro: str, least: int, most: int | None = None) -> Iterator[Line]:
    """Every line of the table at PATH; all must be MACRO with LEAST to MOST fields (None: as many as it likes)."""
    for line, text in contents(path, macro):
        split = line.split(text)
        split.check_count(least, most)
        yield split
