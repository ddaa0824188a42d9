"""Profiles: which file is used, what it says, and where every value came from.

Runs in: the controller and commands. May call: gdbrr.config.schema, a TOML parser.
Owns: the order of lookup, and what of a profile goes into the control page and into a demo.
"""

from __future__ import annotations

import os
import sys

from gdbrr.config import schema, tables
from gdbrr.errors import GdbrrError
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAM_FILE = ".gdbrr.toml"
USER_FILE = "profile.toml"
RULES = {"paths": "match", "descriptors": "kind"}
"""Sections that are lists of rules, and the key in a rule that says what it is about."""
SEEDED = ("random", "pct")
GUESSED = "auto: "
"""How the origin of an order begins that was guessed; behind it stands why."""
"""Orders that draw who comes next."""
SHIPPED = ("default", "full", "sparse", "server", "game")

SYS_MAX = 512
CLASS_MAX = 32
KIND_MAX = 32
"""GR_SYS_MAX, GR_CLASS_MAX and GR_KIND_MAX of preload/abi.h; a test compares them."""

ACT_REFUSE = len(tables.MODES)
"""GR_ACT_REFUSE: behind the modes."""

_SHIPPED_IN = Path(__file__).resolve().parent / "profiles"
_MAX_FILE = 1 << 20
_MAX_TEXT = 4096


class Value(NamedTuple):
    """A value and where it came from: `FILE:LINE`, `--set`, `default` when it is that of the tables, or `drawn`."""

    value: schema.Scalar
    origin: str


class Profile(NamedTuple):
    """Every value that holds for a recording, by key (`classes.time`, `epochs.ticks`, `calls.getpid` ...)."""

    name: str
    source: str
    """The file it was read from; of a shipped one only its name."""
    values: Mapping[str, Value]

    def actions(self) -> tuple[bytes, bytes]:
        """What happens to each system call by number, and to each class: sys_action and class_action of struct gr_ctl.

        Numbers that no table knows are refused, as are calls that cannot be supported.
        """
        if {name: self.values[name].value for name in self.values if name.startswith(_ACTS)} == _default_acts():
            from gdbrr import _native  # most runs change nothing of that, and reading the tables takes milliseconds

            made = bytes(_native.ffi.buffer(_native.lib.gr_default_actions))
            return made[:SYS_MAX], made[SYS_MAX:]
        return self.computed_actions()

    def computed_actions(self) -> tuple[bytes, bytes]:
        """The same, from the tables."""
        classes = {cls.name: str(self.values[f"classes.{cls.name}"].value) for cls in tables.classes()}
        number = {mode: index for index, mode in enumerate(tables.MODES)}
        by_number = bytearray([ACT_REFUSE]) * SYS_MAX
        for call in tables.syscalls():
            if "REFUSED" in call.flags:
                continue
            own = self.values.get(f"calls.{call.name}")
            mode = str(own.value) if own else schema.class_mode(call, classes)
            by_number[call.nr] = number[mode]
        by_class = bytearray([ACT_REFUSE]) * CLASS_MAX
        for index, cls in enumerate(tables.classes()):
            by_class[index] = number[classes[cls.name]]
        return bytes(by_number), bytes(by_class)

    def with_seed(self) -> Profile:
        """This profile, with a seed from the kernel where one is needed and none was chosen."""
        if self.values["order"].value not in SEEDED or self.values["seed"].value:
            return self
        most = schema.keys()["seed"].knob[0].max
        seed = Value(1 + int.from_bytes(os.urandom(16), "little") % most, "drawn")
        return self._replace(values={**self.values, "seed": seed})

    def with_order(self, order: str, why: str) -> Profile:
        """This profile, with the order that was guessed."""
        return self._replace(values={**self.values, "order": Value(order, GUESSED + why)})

    def unless_set(self, key: str, value: schema.Scalar, origin: str) -> Profile:
        """This profile, with another value where nobody chose one."""
        if self.values[key].origin != "default":
            return self
        return self._replace(values={**self.values, key: Value(value, origin)})

    @property
    def seed(self) -> str:
        """All that was drawn from, as --seed takes it: the number, and of the order pct among how many operations."""
        steps = f":{self.values['pct.steps'].value}" if self.values["order"].value == "pct" else ""
        return f"{self.values['seed'].value}{steps}" if self.values["order"].value in SEEDED else ""

    @property
    def guessed(self) -> str:
        """Why the order was guessed as it is; empty where somebody chose it."""
        origin = self.values["order"].origin
        return origin.removeprefix(GUESSED) if origin.startswith(GUESSED) else ""

    def kinds(self) -> bytes:
        """What happens to each kind of descriptor: kind_action of struct gr_ctl. 0: its class says so."""
        found = bytearray(KIND_MAX)
        rules = any(name.startswith("descriptors.") for name in self.values)
        for number, kind in enumerate(tables.kinds() if rules else ()):
            rule = self.values.get(f"descriptors.{kind.name}")
            if rule:
                found[number] = 1 + tables.MODES.index(str(rule.value))
        return bytes(found)

    def knobs(self) -> dict[str, int]:
        """Every knob by name, in the order of knob[] of struct gr_ctl."""
        keys = {knob: schema.keys()[name] for name, knob in schema.KNOB_KEYS.items()}
        return {knob.name: keys[knob.name].number(self.values[keys[knob.name].name].value) for knob in tables.knobs()}

    def rules(self) -> bytes:
        """The path rules for the engine: a letter for the mode and the pattern, NUL behind each."""
        found = bytearray()
        for name, value in self.values.items():
            if name.startswith("paths."):
                letter = bytes([ord("a") + tables.MODES.index(str(value.value))])
                found += letter + os.fsencode(name.partition(".")[2]) + b"\0"
        if len(found) >= schema.RULES_MAX:
            raise GdbrrError("the path rules of the profile are too long", hint="use patterns, e.g. /usr/**")
        return bytes(found)

    def to_json(self) -> dict[str, Any]:
        """For the manifest of a demo."""
        values = {key: {"value": value.value, "origin": value.origin} for key, value in self.values.items()}
        return {"name": self.name, "source": self.source, "values": values}

    @classmethod
    def from_json(cls, data: object) -> Profile:
        """From the manifest of a demo, which nobody trusts: as strict as reading a file."""
        if not isinstance(data, dict) or set(data) != {"name", "source", "values"}:
            raise _bad_demo("it is not an object with name, source and values")
        found = data["values"]
        if not isinstance(found, dict) or len(found) > SYS_MAX + len(schema.keys()):
            raise _bad_demo("its values are not an object of sensible size")
        values = {**_defaults(), **_WHERE_MISSING}
        for key, entry in found.items():
            if not isinstance(entry, dict) or set(entry) != {"value", "origin"} or len(key) > _MAX_TEXT:
                raise _bad_demo("an entry is not an object with value and origin")
            try:
                value = schema.key(key).check(_short(entry["value"]))
            except GdbrrError as error:
                raise _bad_demo(error.message) from None
            values[key] = Value(value, _text(entry["origin"]))
        return cls(_text(data["name"]), _text(data["source"]), values)


def guess_of(manifest: dict[str, Any]) -> str:
    """Why the order of a demo was guessed as it is; empty where somebody chose it."""
    try:
        return Profile.from_json(manifest.get("profile")).guessed
    except GdbrrError:
        return ""


_WHERE_MISSING = {"engine.locks": Value(0, "older than the setting")}
"""What a demo was recorded with that does not name the setting."""


def _bad_demo(what: str) -> GdbrrError:
    return GdbrrError(
        f"the demo's profile is not valid: {what}", hint="it is damaged, or made by another version of gdbrr"
    )


def _short(value: object) -> object:
    """VALUE unless it is so long that naming it in an error would be a nuisance."""
    if len(repr(value)) > _MAX_TEXT:
        raise _bad_demo("a value is too long")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise _bad_demo("a text is missing or too long")
    return value


def _defaults() -> dict[str, Value]:
    return {name: Value(key.default, "default") for name, key in schema.keys().items()}


_ACTS = ("classes.", "calls.")


def _default_acts() -> dict[str, schema.Scalar]:
    return {name: key.default for name, key in schema.keys().items() if name.startswith(_ACTS)}


def default_actions() -> bytes:
    """What gdbrr/_native holds: both of `actions` where nothing is set."""
    return b"".join(Profile("", "", _defaults()).computed_actions())


def user_directory() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / "gdbrr"


def shipped_path(name: str) -> Path:
    return _SHIPPED_IN / f"{name}.toml"


def candidates(program: Path | None, user_dir: Path | None = None) -> Iterator[tuple[str, Path]]:
    """Where a profile is looked for when none is named, best first: what each place is for, and the file."""
    if program is not None:
        yield "the program's", program.resolve().parent / PROGRAM_FILE
    yield "yours", (user_dir or user_directory()) / USER_FILE
    yield "shipped", shipped_path("default")


def find(name_or_path: str | None, program: Path | None, user_dir: Path | None = None) -> Path:
    """The file that -p names, or the first that exists; files are not merged with each other."""
    if name_or_path is None:
        # isfile is False also where we may not look, such as in the home of the user before `sudo -u`.
        return next(path for _, path in candidates(program, user_dir) if os.path.isfile(path))
    if name_or_path in SHIPPED:
        return shipped_path(name_or_path)
    path = Path(name_or_path)
    if path.is_file():
        return path
    if "/" in name_or_path or path.suffix == ".toml":
        raise GdbrrError(
            f"there is no profile file {name_or_path}", hint="`gdbrr profiles` lists those that come with gdbrr"
        )
    hint = schema.near(name_or_path, SHIPPED, "profiles are")
    raise GdbrrError(f"there is no profile {name_or_path!r}", hint)


def resolve(
    name_or_path: str | None, program: Path | None, sets: Sequence[str], user_dir: Path | None = None
) -> Profile:
    """The profile for recording PROGRAM, with every `--set KEY=VALUE` of SETS on top of it."""
    path = find(name_or_path, program, user_dir)
    text = read_text(path)
    shipped = path in map(shipped_path, SHIPPED)
    where = path.name if shipped else str(path)
    values = _defaults()
    for key, raw in _flatten(parse_toml(path, text)):
        line = line_of(text, key)
        place = f"{where}:{line}" if line else where
        try:
            if key.startswith("descriptors.") and key in values:
                raise GdbrrError(f"{key} has a rule already, at {values[key].origin}", hint="leave one of them out")
            values[key] = Value(schema.key(key).check(raw), place)
        except GdbrrError as error:
            raise GdbrrError(f"{place}: {error.message}", error.hint) from None
    for item in sets:
        key, value = _parse_set(item)
        values[key] = Value(value, "--set")
    return Profile(path.stem if shipped else path.name, where, values)


def _parse_set(item: str) -> tuple[str, schema.Scalar]:
    """`time=native`, any key with its section (`epochs.ticks=512`), or a knob by its own name (`epoch_ticks=512`)."""
    name, sign, value = item.partition("=")
    if not sign or not name or not value:
        raise GdbrrError(
            f"--set {item}: this is not CLASS=MODE", hint="e.g. --set time=native or --set epochs.ticks=512"
        )
    try:
        key = schema.full_name(name)
        return key, schema.key(key).check(value)
    except GdbrrError as error:
        raise GdbrrError(f"--set {item}: {error.message}", error.hint) from None


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise GdbrrError(f"{path}: {error.strerror}", hint="name another profile with -p") from None
    if len(data) > _MAX_FILE:
        raise GdbrrError(f"{path}: too long for a profile", hint="name another profile with -p")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise GdbrrError(f"{path}: not a text in UTF-8", hint="name another profile with -p") from None


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    if not any(line.strip() and not line.startswith("#") for line in text.splitlines()):
        return {}  # most runs use the default profile, which sets nothing: no parser is imported for it
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number too long for int()
        raise GdbrrError(f"{path}: {error}", hint="a profile is TOML; docs/profiles.md shows one") from None
    except RecursionError:
        raise GdbrrError(f"{path}: nested too deeply", hint="a profile is TOML; docs/profiles.md shows one") from None
    return table


def _flatten(table: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Keys with their section in front."""
    for name, value in table.items():
        if name in RULES:
            yield from _flatten_rules(name, RULES[name], value)
        elif isinstance(value, dict):
            for inner, inner_value in value.items():
                yield f"{name}.{inner}", inner_value
        else:
            yield name, value


def _flatten_rules(section: str, about: str, rules: object) -> Iterator[tuple[str, object]]:
    """Each rule by what it is about; what is no rule stays whole, to be refused."""
    for rule in rules if isinstance(rules, list) else [rules]:
        if isinstance(rule, dict) and set(rule) == {about, "mode"} and isinstance(rule[about], str):
            yield f"{section}.{rule[about]}", rule["mode"]
        else:
            yield section, rule


def line_of(text: str, key: str) -> int:
    """The line of TEXT that sets KEY, 0 if it cannot be told (the TOML parser does not say)."""
    import re  # most runs have no profile of their own

    rules, _, about = key.partition(".")
    if rules in RULES and about:
        wanted = re.compile(rf"\s*{RULES[rules]}\s*=\s*([\"']){re.escape(about)}\1")
        return next((n for n, line in enumerate(text.splitlines(), 1) if wanted.match(line)), 0)
    section = ""
    wanted_section, _, wanted_name = key.rpartition(".")
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[{1,2}\s*([\w.\"' -]+?)\s*\]{1,2}\s*(?:#.*)?\Z", line)
        if header:
            section = header[1].strip("\"' ")
            if section == key:
                return number
            continue
        name = re.match(r"\s*([\w.\"'-]+)\s*=", line)
        if not name:
            continue
        bare = name[1].replace('"', "").replace("'", "")
        if (section == wanted_section and bare == wanted_name) or (not section and bare == key):
            return number
    return 0


def about(path: Path) -> list[str]:
    """The comment a profile begins with: its first line says what it is for."""
    lines: list[str] = []
    for line in read_text(path).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return lines
