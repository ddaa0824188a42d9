"""`set gdbrr NAME VALUE` and `show gdbrr NAME`: the knobs of tables/knobs.def, and what concerns GDB's side alone.

Runs in: GDB's Python; without GDB where settings are read and tested (only install needs gdb).
May call: gdbrr.config.
Owns: the values the user has set in this GDB.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gdbrr.config import grammar, tables
from gdbrr.errors import GdbrrError

_MOST_SECONDS = 1e6


@dataclass(frozen=True)
class Setting:
    """One name behind `set gdbrr`."""

    name: str
    help: str
    default: str
    check: Callable[[str], str]
    """A value as typed to the value as kept; raises GdbrrError."""
    choices: tuple[str, ...] = ()
    knob: str = ""
    """The name in knobs.def, for those that are knobs."""


def knob_setting(knob: tables.Knob) -> Setting:
    """A knob as a setting; GDB's names have dashes."""

    def check(text: str) -> str:
        try:
            number = grammar.parse_number(text)
        except ValueError:
            number = -1
        if not knob.min <= number <= knob.max:
            raise GdbrrError(
                f"{shown} cannot be {text!r}",
                hint=f"it goes from {grammar.with_unit(knob.min)} to {grammar.with_unit(knob.max)}",
            )
        return text

    shown = knob.name.replace("_", "-")
    choices = ("on", "off") if knob.type == "bool" else knob.choices
    return Setting(shown, knob.help, knob.text(knob.default), _as_typed if choices else check, choices, knob.name)


def _as_typed(text: str) -> str:
    return text


def _seconds(text: str) -> str:
    try:
        if 0 <= float(text) < _MOST_SECONDS:
            return text
    except ValueError:
        pass
    raise GdbrrError(f"patience cannot be {text!r}", hint="it is a number of seconds")


OWN = (
    Setting("python", "interpreter that runs the server; empty: the one gdbrr was set up with", "", _as_typed),
    Setting(
        "patience",
        "seconds that rr-replay waits for the end of a demo before it tells how far it is",
        "3",
        _seconds,
    ),
    Setting(
        "verbose",
        "print a traceback behind the error of a command, also of one in the server",
        "off",
        _as_typed,
        ("on", "off"),
    ),
    Setting(
        "engine-frames",
        "show a thread that stands in the engine there, and not at the call that led there",
        "off",
        _as_typed,
        ("on", "off"),
    ),
)


class Settings:
    """All settings and their values."""

    def __init__(self, knobs: Iterable[tables.Knob] | None = None) -> None:
        rows = tables.knobs() if knobs is None else knobs
        self.all = {each.name: each for each in (*OWN, *map(knob_setting, rows))}
        self.values = {name: each.default for name, each in self.all.items()}
        self.changed: Callable[[str], None] = lambda name: None
        """Told the name of what was set."""

    def set(self, name: str, text: str) -> None:
        setting = self.all[name]
        if setting.choices and text not in setting.choices:
            raise GdbrrError(f"{name} cannot be {text!r}", hint="it is one of " + ", ".join(setting.choices))
        self.values[name] = setting.check(text)
        self.changed(name)

    @property
    def python(self) -> str:
        return self.values["python"]

    @property
    def patience(self) -> str:
        return self.values["patience"]

    @property
    def verbose(self) -> bool:
        return self.values["verbose"] == "on"

    @property
    def engine_frames(self) -> bool:
        return self.values["engine-frames"] == "on"

    def options(self) -> list[str]:
        """The knobs that differ from their defaults, for the server's command line."""
        found: list[str] = []
        for name, setting in self.all.items():
            if setting.knob and self.values[name] != setting.default:
                found += ["--set", f"{setting.knob}={self.values[name]}"]
        return found


def install(settings: Settings) -> None:
    """Make `set gdbrr` and `show gdbrr` known to GDB."""
    gdb: Any = importlib.import_module("gdb")

    class SetPrefix(gdb.Command):  # type: ignore[misc]
        """Settings of gdbrr, the reverse debugger."""

        def __init__(self) -> None:
            super().__init__("set gdbrr", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

        def invoke(self, text: str, from_tty: bool) -> None:
            raise gdb.GdbError(
                f"set gdbrr: there is no setting {text.split()[0]}. Try: help set gdbrr"
                if text
                else "set gdbrr: a name and a value are missing. Try: help set gdbrr"
            )

    class ShowPrefix(gdb.Command):  # type: ignore[misc]
        """Show the settings of gdbrr, the reverse debugger."""

        def __init__(self) -> None:
            super().__init__("show gdbrr", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

        def invoke(self, text: str, from_tty: bool) -> None:
            if text:
                raise gdb.GdbError(f"show gdbrr: there is no setting {text.split()[0]}. Try: show gdbrr")
            for name in sorted(settings.all):
                gdb.write(f"{name}:  {_shown(settings, name)}\n")

    SetPrefix()
    ShowPrefix()
    for setting in settings.all.values():
        _install_one(gdb, settings, setting)


def _install_one(gdb: Any, settings: Settings, setting: Setting) -> None:
    class Parameter(gdb.Parameter):  # type: ignore[misc]
        set_doc = f"Set {setting.name}: {setting.help}."
        show_doc = f"Show {setting.name}: {setting.help}."

        def __init__(self) -> None:
            name = f"gdbrr {setting.name}"
            if setting.choices:
                super().__init__(name, gdb.COMMAND_DATA, gdb.PARAM_ENUM, setting.choices)
            else:
                super().__init__(name, gdb.COMMAND_DATA, gdb.PARAM_STRING_NOESCAPE)
            self.value = setting.default

        def get_set_string(self) -> str:
            try:
                settings.set(setting.name, str(self.value or ""))
            except GdbrrError as error:
                self.value = settings.values[setting.name]  # GDB has stored the wrong one already
                raise gdb.GdbError(f"set gdbrr: {error}") from None
            return ""

        def get_show_string(self, value: str) -> str:
            return _shown(settings, setting.name)

    Parameter.__doc__ = f"{setting.help[:1].upper()}{setting.help[1:]}."
    Parameter()


def _shown(settings: Settings, name: str) -> str:
    value, default = settings.values[name], settings.all[name].default
    if value == default:
        return value or "(as set up)"
    return f"{value} (default {default})" if default else value
