"""Commands as declarations: a function, its arguments and its docstring become parser, help and completion.

Runs in: GDB's Python, and without GDB wherever documentation and tests read the declarations.
May call: the standard library and gdbrr.errors; never gdb.
Owns: the table of commands, and the shape of their help.
"""

from __future__ import annotations

import inspect
import textwrap
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gdbrr.errors import GdbrrError
from gdbrr.ingdb import words

if TYPE_CHECKING:
    from gdbrr.ingdb.session import Session

    Body = Callable[[Session, Namespace], None]

REQUIRED = object()
"""The default of an argument that has none."""

Completer = Callable[[str], Sequence[str]]
"""What the text typed so far could become, whole."""


@dataclass(frozen=True)
class Arg:
    """A positional argument. With `rest` it is everything up to the end of the line, quotes and all."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    help: str
    rest: bool = False
    complete: str = ""

    @property
    def dest(self) -> str:
        return self.name.lower()

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def usage(self) -> str:
        shown = self.name + "..." * self.rest
        return shown if self.required else f"[{shown}]"


@dataclass(frozen=True)
class Option:
    """An option. With `rest` its value goes on to the end of the line; with `many` it may repeat.

    Without a NAME it takes no value: it is a switch.
    """

    flag: str
    name: str
    help: str
    parse: Callable[[str], Any] = str
    rest: bool = False
    many: bool = False
    complete: str = ""

    @property
    def dest(self) -> str:
        return self.flag.strip("-").replace("-", "_")

    def usage(self) -> str:
        return f"[{self.shown}]" + ("..." if self.many else "")

    @property
    def shown(self) -> str:
        return f"{self.flag} {self.name}".rstrip()

    @property
    def default(self) -> Any:
        return [] if self.many else None if self.name else False


def arg(
    name: str,
    parse: Callable[[str], Any] = str,
    default: Any = REQUIRED,
    help: str = "",
    *,
    rest: bool = False,
    complete: str = "",
) -> Arg:
    return Arg(name, parse, default, help, rest, complete)


def option(
    flag: str,
    name: str,
    help: str,
    *,
    parse: Callable[[str], Any] = str,
    rest: bool = False,
    many: bool = False,
    complete: str = "",
) -> Option:
    return Option(flag, name, help, parse, rest, many, complete)


def switch(flag: str, help: str) -> Option:
    """An option without a value: True where it is given."""
    return Option(flag, "", help)


@dataclass(frozen=True)
class Command:
    """One command as declared."""

    name: str
    body: Body
    args: tuple[Arg, ...]
    options: tuple[Option, ...]
    summary: str
    details: str
    usage: str
    kind: str
    opens: bool
    repeats: bool

    def parse(self, text: str) -> Namespace:
        """The arguments in TEXT; raises GdbrrError naming the wrong one."""
        values: dict[str, Any] = {each.dest: each.default for each in self.options}
        values.update({each.dest: None if each.required else each.default for each in self.args})
        line = words.Line(text)
        for positional in self.args:
            self._options(line, values)
            if line.done:
                break
            raw = line.rest() if positional.rest else line.word()
            values[positional.dest] = self._value(positional, raw)
        self._options(line, values)
        if not line.done:
            raise self._error(f"{line.rest()!r} is too much")
        for positional in self.args:
            if positional.required and values[positional.dest] is None:
                raise self._error(f"{positional.name} is missing")
        return Namespace(**values)

    def _options(self, line: words.Line, values: dict[str, Any]) -> None:
        while not line.done and line.peek().startswith("-") and line.peek() != "-" and not line.peek()[1].isdigit():
            flag = line.word()
            if flag == "--":
                line.literal = True
                return
            found = next((each for each in self.options if each.flag == flag), None)
            if found is None:
                rest = any(isinstance(each, Arg) and each.rest for each in self.args)
                raise self._error(f"there is no option {flag}" + ("; what is none goes behind --" if rest else ""))
            if not found.name:
                values[found.dest] = True
                continue
            if line.done:
                raise self._error(f"{flag} needs {found.name}")
            value = self._value(found, line.rest() if found.rest else line.word())
            if found.many:
                values[found.dest].append(value)
            else:
                values[found.dest] = value

    def _value(self, what: Arg | Option, raw: str) -> Any:
        try:
            return what.parse(raw)
        except GdbrrError:
            raise
        except ValueError as error:
            expected = "a whole number" if what.parse is int else error
            raise self._error(f"{what.name} must be {expected}, not {raw!r}") from None

    def _error(self, message: str) -> GdbrrError:
        return GdbrrError(message, hint=f"try: help {self.name}")

    def help(self) -> str:
        """What `help NAME` prints: a sentence, the usage, every argument, then the details."""
        rows = [(each.name, each.help) for each in self.args]
        rows += [(each.shown, each.help) for each in self.options]
        width = max((len(left) for left, _ in rows), default=0)
        lines = [self.summary, f"Usage: {self.usage}", ""]
        for left, right in rows:
            wrapped = textwrap.wrap(right, 76 - width) or [""]
            lines.append(f"  {left:<{width}}  {wrapped[0]}")
            lines += [" " * (width + 4) + more for more in wrapped[1:]]
        if rows and self.details:
            lines.append("")
        return "\n".join([*lines, self.details]).rstrip()

    def completion(self, text: str) -> tuple[str, str]:
        """What stands at the end of TEXT: the name of its completer ("" for none) and the part to complete."""
        line = words.Line(text)
        values = list(self.args)
        while True:
            start = line.at
            head = line.peek_raw()
            if line.at_last_word(head):
                if head.startswith("-") and not line.literal:
                    return "option", head
                return (values[0].complete, line.text[start:]) if values else ("", head)
            if head == "--":
                line.literal = True
                line.skip(head)
                continue
            found = next((each for each in self.options if each.flag == head), None)
            if found is not None and not line.literal:
                line.skip(head)
                if not found.name:
                    continue
                value = line.peek_raw()
                if found.rest or line.at_last_word(value):
                    return found.complete, line.text[line.at :]
                line.skip(value)
            elif values and values[0].rest:
                return values[0].complete, line.text[start:]
            else:
                values = values[1:]
                line.skip(head)


def count(text: str) -> int:
    """How many: a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


_commands: dict[str, Command] = {}


def commands() -> list[Command]:
    """All commands declared so far, in the order of their declaration."""
    return list(_commands.values())


def rr_command(
    name: str,
    args: Sequence[Arg | Option] = (),
    *,
    usage: str = "",
    kind: str = "running",
    opens: bool = False,
    repeats: bool = False,
) -> Callable[[Body], Body]:
    """Declare BODY as the command NAME with ARGS and options; its docstring is the help.

    KIND is the class `help` lists it under: running, status or files. A command that OPENS works without an open
    demo; one that REPEATS is run again by an empty line.
    """

    positionals = tuple(each for each in args if isinstance(each, Arg))
    options = tuple(each for each in args if isinstance(each, Option))

    def declare(body: Body) -> Body:
        if name in _commands:
            raise ValueError(f"{name} is declared twice")
        doc = inspect.cleandoc(body.__doc__ or "")
        summary, _, details = doc.partition("\n")
        if not summary.endswith("."):
            raise ValueError(f"the docstring of {name} must begin with one line that is a sentence")
        if any(each.rest for each in positionals[:-1]):
            raise ValueError(f"only the last argument of {name} can take the rest of the line")
        parts = [*(each.usage() for each in options), *(each.usage() for each in positionals)]
        shape = usage or " ".join([name, *parts])
        _commands[name] = Command(
            name, body, positionals, options, summary, details.strip("\n"), shape, kind, opens, repeats
        )
        return body

    return declare


def run(command: Command, session: Session, text: str) -> None:
    """Run COMMAND as typed with TEXT behind it; every expected failure is a GdbrrError."""
    args = command.parse(text)
    if not command.opens:
        session.require()
    command.body(session, args)
