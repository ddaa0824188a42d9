"""What a profile may say, made from the tables: keys, types, ranges, modes.

Runs in: everywhere. May call: gdbrr.config.tables.
Owns: the names of the keys, and the list of what is planned and not honoured yet, which is refused by name.
"""

from __future__ import annotations

from gdbrr.config import grammar, tables
from gdbrr.errors import GdbrrError
from gdbrr.quick.kept import cache
from gdbrr.quick.rows import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Scalar = str | int

KNOB_KEYS = {
    "order": "order",
    "engine.order_log": "order_log",
    "seed": "seed",
    "pct.depth": "pct_depth",
    "pct.steps": "pct_steps",
    "digest": "digest",
    "epochs.ticks": "epoch_ticks",
    "epochs.bytes": "epoch_bytes",
    "limits.log": "log_limit",
    "limits.when_full": "when_full",
    "limits.checkpoints": "checkpoints",
    "limits.checkpoint_memory": "checkpoint_memory",
    "points": "points",
    "check": "check",
    "follow": "follow",
    "limits.trace": "trace_limit",
    "engine.patch": "patch",
    "engine.locks": "locks",
    "engine.references": "references",
    "limits.carry": "carry",
}
"""Key of a profile: knob in knobs.def. Every knob has one."""

SECTIONS = ("pct", "epochs", "limits", "engine", "classes", "calls", "descriptors", "paths")
RULES_MAX = 8192
"""GR_RULES_MAX of preload/abi.h: the bytes that all path rules together may take; a test compares them."""


class Key(NamedTuple):
    """One thing a profile can set."""

    name: str
    default: Scalar
    help: str
    modes: tuple[str, ...] = ()
    """For a class or call: the modes it can have."""
    knob: tuple[tables.Knob, ...] = ()

    def check(self, value: object) -> Scalar:
        """VALUE as it is kept: a mode or choice as text, anything else as a number."""
        if self.modes:
            return self._check_mode(value)
        (knob,) = self.knob
        if knob.type == "enum":
            return self._check_choice(knob, value)
        if knob.type == "bool":
            if value in (0, 1, "on", "off"):  # a demo's profile holds numbers
                return int(value in (1, "on"))
            raise GdbrrError(f"{self.name} is on or off, not {shown(value)}", hint="write true or false")
        return self._check_number(knob, value)

    def text(self, value: Scalar) -> str:
        """VALUE as a person writes it."""
        return self.knob[0].text(value) if isinstance(value, int) else value

    def number(self, value: Scalar) -> int:
        """VALUE as the engine sees it."""
        return self.knob[0].choices.index(value) if isinstance(value, str) else value

    def _check_mode(self, value: object) -> str:
        if isinstance(value, str) and value in self.modes:
            return value
        if isinstance(value, str) and value in tables.MODES:
            only = "the only mode it has" if len(self.modes) == 1 else "one of its modes"
            raise GdbrrError(f"{self.name} cannot be {value!r}", hint=f"{only} is {' or '.join(self.modes)}")
        raise GdbrrError(
            f"{self.name} = {shown(value)} is not a mode", hint=near(shown(value), tables.MODES, "modes are")
        )

    def _check_choice(self, knob: tables.Knob, value: object) -> str:
        if isinstance(value, str) and value in knob.choices:
            return value
        raise GdbrrError(f"{self.name} cannot be {shown(value)}", hint=near(shown(value), knob.choices, "it can be"))

    def _check_number(self, knob: tables.Knob, value: object) -> int:
        unit = " with a unit, e.g. 512M" if knob.type == "bytes" else ""
        try:
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                raise ValueError
            number = value if isinstance(value, int) else grammar.parse_number(value)
        except ValueError:
            raise GdbrrError(
                f"{self.name} = {shown(value)} is not a number", hint=f"write a whole number{unit}"
            ) from None
        if not knob.min <= number <= knob.max:
            raise GdbrrError(
                f"{self.name} = {shown(value)} is out of range",
                hint=f"it can be from {knob.text(knob.min)} to {knob.text(knob.max)}",
            )
        return number


def shown(value: object) -> str:
    """VALUE as an error may quote it: short, whatever a file or a demo holds."""
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge number"
    text = repr(value) if isinstance(value, (str, int, float, bool)) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def near(word: str, words: Iterable[str], otherwise: str) -> str:
    """A hint that names the word that was perhaps meant, or all of them."""
    import difflib

    choices = list(words)
    found = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f"did you mean {found[0]}?" if found else f"{otherwise} {', '.join(choices)}"


@cache
def keys() -> dict[str, Key]:
    """Every key but the calls, in the order in which they are shown."""
    found: dict[str, Key] = {}
    for name, knob_name in KNOB_KEYS.items():
        knob = tables.knob_by_name()[knob_name]
        default: Scalar = knob.choices[knob.default] if knob.choices else knob.default
        found[name] = Key(name, default, knob.help, knob=(knob,))
    for cls in tables.classes():
        name = f"classes.{cls.name}"
        found[name] = Key(name, cls.default, cls.help, modes=cls.modes)
    return found


def full_name(name: str) -> str:
    """The key that a bare class or a knob's name stands for; NAME itself otherwise."""
    if f"classes.{name}" in keys():
        return f"classes.{name}"
    return next((full for full, knob in KNOB_KEYS.items() if knob == name), name)


def key(name: str) -> Key:
    """The key called NAME; names the nearest one when there is none."""
    if name in keys():
        return keys()[name]
    top, _, rest = name.partition(".")
    if top == "calls" and rest:
        return call_key(rest)
    if top == "descriptors":
        return kind_key(rest)
    if top == "paths":
        return path_key(rest)
    if not rest and top in SECTIONS:
        raise GdbrrError(f"{top} is a section, not a key", hint=f"its keys stand below [{top}], or as {top}.NAME")
    if rest:
        siblings = [known.partition(".")[2] for known in keys() if known.startswith(f"{top}.")]
        if siblings:
            raise GdbrrError(f"{shown(rest)} is not a key of [{top}]", hint=near(rest, siblings, "it has"))
    import difflib

    # A key without its section, or a section misspelt: the last part tells most.
    by_last = {known.rpartition(".")[2]: known for known in keys()}
    found = difflib.get_close_matches(name.rpartition(".")[2], by_last, n=1, cutoff=0.75)
    hint = f"did you mean {by_last[found[0]]}?" if found else near(top, ("order", *SECTIONS), "keys are")
    raise GdbrrError(f"there is no key {shown(name)}", hint=hint)


def call_key(name: str) -> Key:
    """The key for one system call, if its mode is anybody's choice."""
    call = tables.syscall_by_name().get(name)
    if call is None:
        import difflib

        near_name = difflib.get_close_matches(name, tables.syscall_by_name(), n=1)
        hint = f"did you mean {near_name[0]}?" if near_name else "docs/syscalls.md lists them"
        raise GdbrrError(f"there is no system call {shown(name)}", hint=hint)
    full = f"calls.{name}"
    if "REFUSED" in call.flags:
        raise GdbrrError(f"{full}: this call cannot be recorded, whatever its mode", hint="leave it out")
    if "SPECIAL" in call.flags:
        raise GdbrrError(f"{full}: this call is served by code of its own and has no mode", hint="leave it out")
    if "BY_FD" in call.flags:
        raise GdbrrError(f"{full}: its mode is that of its descriptor", hint="set the class, e.g. classes.file")
    return Key(full, class_mode(call, {}), f"the system call {name}", modes=call_modes(call))


def kind_key(name: str) -> Key:
    """The key for what is done with descriptors of one kind."""
    if not name:
        raise GdbrrError(
            "descriptors: each rule is a table with `kind` and `mode`", hint='e.g. kind = "random", mode = "ignore"'
        )
    kinds = {kind.name: kind for kind in tables.kinds()}
    if name not in kinds:
        raise GdbrrError(f"there is no kind of descriptor {shown(name)}", hint=near(name, kinds, "kinds are"))
    kind = kinds[name]
    cls = tables.class_by_name()[kind.cls]
    return Key(f"descriptors.{name}", cls.default, kind.help, modes=cls.modes)


def path_key(pattern: str) -> Key:
    """The key for what is done with files whose path fits PATTERN."""
    if not pattern:
        raise GdbrrError(
            "paths: each rule is a table with `match` and `mode`", hint='e.g. match = "/proc/**", mode = "record"'
        )
    if not pattern.startswith("/") or not pattern.isprintable() or len(pattern) > 1000:
        raise GdbrrError(
            f"paths: {shown(pattern)} is not a pattern", hint='patterns are whole paths, e.g. match = "/proc/**"'
        )
    return Key(f"paths.{pattern}", "record", "files whose path fits the pattern", modes=tables.MODES)


def call_modes(call: tables.Syscall) -> tuple[str, ...]:
    """The modes a call can have: those of its class, with three exceptions.

    INVARIANT(replay-never-waits): a call that may wait is recorded, except where it makes a descriptor (opening a
    FIFO waits, and a native file must be opened).
    INVARIANT(replay-lasts-nowhere): a call that changes the world is recorded: a replay does not unlink files again.
    INVARIANT(native-is-allowed): a call that the fence refuses is recorded.
    """
    modes = tables.class_by_name()[call.cls].modes
    kept = "IRREV" in call.flags or ("BLOCKS" in call.flags and not call.makes) or call.name in tables.fenced()
    return ("record",) if kept and "record" in modes else modes


def class_mode(call: tables.Syscall, classes: dict[str, str]) -> str:
    """The mode CALL gets from its class, given the modes in CLASSES; the default mode for classes not in it."""
    cls = tables.class_by_name()[call.cls]
    mode = classes.get(cls.name, cls.default)
    modes = call_modes(call)
    return mode if mode in modes else modes[0]
