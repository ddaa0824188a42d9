"""The pages of docs/ that are made from the tables: `python -m gdbrr.report.docs` writes them, `--check` compares.

Runs in: a command of its own, in a checkout. May call: gdbrr.config.
Owns: docs/syscalls.md, docs/profiles.md, docs/knobs.md, docs/operations.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gdbrr.config import profiles, schema, tables
from gdbrr.errors import GdbrrError
from gdbrr.report import docs_text

MADE = "<!-- Made from preload/tables by `python -m gdbrr.report.docs`: change those and make it again. -->"

TIMES = "\N{MULTIPLICATION SIGN}"

FLAG_WORDS = {
    "BY_FD": "by descriptor",
    "BLOCKS": "may wait",
    "IRREV": "lasting",
    "SPECIAL": "own code",
    "NORETURN": "no return",
}


def directory() -> Path:
    place = Path(__file__).resolve().parent.parent.parent / "docs"
    if not (place.parent / "preload" / "tables").is_dir():
        raise GdbrrError("the pages are made in a checkout of gdbrr only", hint="run this in one")
    return place


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def page(*blocks: str) -> str:
    return "\n\n".join(block.strip("\n") for block in (MADE, *blocks)) + "\n"


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# ---------------------------------------------------------------- system calls
def length_text(length: tables.Length) -> str:
    """How many bytes, for the brackets of an effect."""
    first, second = (*length.numbers, 0, 0)[:2]
    words: dict[str, str] = {
        "BYTES": f"{first}",
        "ARG": f"arg {first}",
        "ARGX": f"arg {first} {TIMES} {second}",
        "ARG_PLUS": f"arg {first} + {second}",
        "RET": "result",
        "RETX": f"result {TIMES} {first}",
        "RET_TO": f"result, at most arg {first}",
        "RETX_TO": f"result, at most arg {second}, {TIMES} {first}",
        "RET_PLUS": f"result + {first}",
        "RET_PLUS_TO": f"result, at most arg {second}, + {first}",
        "AT": f"\\*arg {first}",
        "FDSET": f"fd_set for arg {first}",
        "SELF": f"its own size + {first}" if first else "its own size",
        "PAGES": f"pages in arg {first}",
        "NODES": f"mask of arg {first} bits",
        "FLEX": f"{first} and what follows",
        "WHEN": f"{first} if the result is not 0",
        "OWN": "by version or flag",
    }
    return words[length.word]


def memory_text(effect: tables.Effect) -> tuple[str, str]:
    """What an effect reads and what it writes, each empty if nothing."""
    arg, other = (*effect.numbers, 0, 0)[:2]
    size = f" [{length_text(effect.length)}]" if effect.length else ""
    words: dict[str, tuple[str, str]] = {
        "STR": (f"string {arg}", ""),
        "STRV": (f"strings {arg}", ""),
        "IN": (f"{arg}{size}", ""),
        "OUT": ("", f"{arg}{size}"),
        "OUT_ANY": ("", f"{arg}{size} always"),
        "INOUT": (f"{arg}{size}", f"{arg}{size}"),
        "IOV_IN": (f"iovec {arg} [arg {other}]", ""),
        "IOV_OUT": ("", f"iovec {arg} [arg {other}]"),
        "MSG_IN": (f"msghdr {arg}", ""),
        "MSG_OUT": ("", f"msghdr {arg}"),
        "MMSG_IN": (f"mmsghdr {arg} [arg {other}]", ""),
        "MMSG_OUT": ("", f"mmsghdr {arg} [arg {other}]"),
        "BEHIND": (f"{arg} [{other}]", f"{arg} [{other}] and what it leads to"),
    }
    return words.get(effect.word, ("", ""))


def descriptor_text(effect: tables.Effect) -> str:
    arg, other = (*effect.numbers, 0, 0)[:2]
    words: dict[str, str] = {
        "FD": f"uses {arg}",
        "MAKES": "makes result",
        "MAKES_IF": f"makes result if arg {arg}",
        "MAKES_AT": f"makes {other} at {arg}",
        "CLOSES": f"closes {arg}",
        "DUPS": f"result copies {arg}",
        "DUPS_TO": f"{other} copies {arg}",
        "MAPS": "maps result",
    }
    return words.get(effect.word, "")


def joined(parts: Iterable[str]) -> str:
    return "; ".join(part for part in parts if part)


def call_row(call: tables.Syscall, cls: tables.Class) -> tuple[str, ...]:
    notes = [word for flag, word in FLAG_WORDS.items() if flag in call.flags]
    if "BY_FD" not in call.flags and "SPECIAL" not in call.flags and schema.call_modes(call) != cls.modes:
        notes.append("always recorded")
    return (
        f"{call.nr}",
        f"`{call.name}`",
        joined(memory_text(effect)[0] for effect in call.effects),
        joined(memory_text(effect)[1] for effect in call.effects),
        joined(descriptor_text(effect) for effect in call.effects),
        ", ".join(notes),
    )


SYSCALLS_INTRO = """
# System calls

gdbrr knows every system call of x86-64 Linux. For each it keeps what the call reads and writes, which descriptors it
makes or closes, and to which *class* it belongs; a [profile](profiles.md) gives each class a *mode*:

- `record`: the result and what was written go into the demo; on replay the call is not made, the program gets what
  it got before.
- `native`: on replay the call is made again, and its result is compared with the recorded one.
- `ignore`: on replay the call is made again, and nobody looks at the result.

A call that is in no table, because no kernel has it or because it is newer than this version of gdbrr, is answered with
`ENOSYS`, as by a kernel without it. `gdbrr info` names it.

## How to read the tables

Arguments are numbered from 1. *Reads* and *writes* name the argument that points to memory; how many bytes stands in
brackets: `2 [result]` is as many bytes at argument 2 as the call returned, `2 [*arg 3]` as many as the number behind
argument 3 says. *always* means that it is written even when the call fails. Notes:

| note | means |
|---|---|
| by descriptor | the class is that of what its descriptor refers to: `read` on a socket belongs to `net` |
| may wait | other threads go on meanwhile; it counts as two operations, a start and an end |
| lasting | changes the world outside the process, which no replay can take back |
| own code | what it does depends on more than its number; the engine treats it by name |
| always recorded | may wait, is lasting, or is no replay's to make: `record` whatever the mode of its class |
| no return | the thread does not come back from it |
"""


def syscalls_page() -> str:
    blocks = [SYSCALLS_INTRO]
    for cls in tables.classes():
        calls = [call for call in tables.syscalls() if call.cls == cls.name and "REFUSED" not in call.flags]
        rows = table(
            ("number", "call", "reads", "writes", "descriptors", "notes"), [call_row(call, cls) for call in calls]
        )
        modes = "; it has no other mode" if len(cls.modes) == 1 else f"; modes: {code(cls.modes)}"
        blocks += [
            f"## Class `{cls.name}`",
            f"{cls.help[0].upper()}{cls.help[1:]}.\nDefault: `{cls.default}`{modes}.",
            rows if calls else "It has no system calls; not recorded, it is not seen at all.",
        ]
    blocks += [
        "## Refused",
        "These cannot be recorded. A recording ends at the first of them, with this reason and this way out.",
        table(
            ("call", "why", "way out"), [(f"`{row.name}`", row.reason, f"{row.way_out}.") for row in tables.refusals()]
        ),
        "## ioctl",
        "What `ioctl` reads and writes depends on its request. Those listed here are known by name. Of others, what\n"
        "they wrote is seen by comparing memory: 16 KiB behind argument 3, or more where the number says so;\n"
        "in a program with one thread also 64 KiB behind each pointer in the structure that the number tells of.\n"
        "The buffer is argument 3.",
        table(("request", "number", "reads", "writes"), [ioctl_row(row) for row in tables.ioctls()]),
    ]
    return page(*blocks)


def ioctl_row(row: tables.Ioctl) -> tuple[str, ...]:
    if row.effect is None:
        return f"`{row.name}`", f"{row.request:#x}", "", ""
    if row.effect.word == "MAKES":
        return f"`{row.name}`", f"{row.request:#x}", "", "makes a descriptor"
    if row.effect.word == "REFUSED":
        return f"`{row.name}`", f"{row.request:#x}", "", "refused"
    if row.effect.word in ("BEHIND", "DEEP"):
        return f"`{row.name}`", f"{row.request:#x}", f"{row.effect.numbers[0]}", "the same, and what it leads to"
    reads, writes = (text.partition(" ")[2].strip("[]") for text in memory_text(row.effect))
    return f"`{row.name}`", f"{row.request:#x}", reads, writes


# ---------------------------------------------------------------- profiles
PROFILES_INTRO = f"""
# Profiles

A profile says what of a run goes into the demo: everything that could differ in a second run, or less, because
recording less is faster and smaller. It is a TOML file. What it does not set keeps its default.

```
gdbrr profiles                      the profiles that come with gdbrr, and which one holds here
gdbrr profiles show sparse          every value of one, and where it came from
gdbrr record -p sparse ./program    use one; -p takes a file, too
gdbrr suggest ./program             find the smallest one with which it replays (docs/sparse.md)
gdbrr record --set time=native --set epochs.ticks=512 ./program
```

## Which one is used

The first of these that exists; they are not merged:

1. the one named with `-p NAME` or `-p FILE`
2. `{profiles.PROGRAM_FILE}` in the directory of the program
3. `gdbrr/{profiles.USER_FILE}` in your configuration directory (`$XDG_CONFIG_HOME`, else `~/.config`)
4. the shipped profile `default`

`--set CLASS=MODE`, or `--set KEY=VALUE` with any key below, stands above all of them. A key or value that does not
exist is an error which names the nearest one that does, and the line of the file.

## Keys
"""


def profiles_page() -> str:
    keys = schema.keys()
    settings = [key for key in keys.values() if key.knob]
    classes = [key for key in keys.values() if key.modes]
    class_modes = {cls.name: cls.modes for cls in tables.classes()}
    blocks = [
        PROFILES_INTRO,
        table(
            ("key", "default", "from", "to", "means"),
            [(f"`{key.name}`", f"`{key.text(key.default)}`", *limits_text(key.knob[0]), key.help) for key in settings],
        ),
        'Numbers may end in `K`, `M`, `G` or `T` (then they are text: `"512M"`). `a.b` is the key `b` below `[a]`.',
        "### `[classes]`",
        "The mode of a class of system calls. `record`: kept in the demo, not made again; `native`: made again on\n"
        "replay and compared; `ignore`: made again and not looked at. `tsc` is a class of instructions:\n"
        "recorded, or not seen.",
        table(
            ("key", "default", "modes", "calls"),
            [(f"`{key.name}`", f"`{key.default}`", code(key.modes), key.help) for key in classes],
        ),
        docs_text.PROFILES_CALLS,
        docs_text.PROFILES_DESCRIPTORS,
        table(
            ("kind", "class", "modes", "what it is"),
            [(f"`{kind.name}`", f"`{kind.cls}`", code(class_modes[kind.cls]), kind.help) for kind in tables.kinds()],
        ),
        docs_text.PROFILES_PATHS,
        docs_text.PROFILES_EXAMPLE,
        "## The shipped ones",
    ]
    for name in profiles.SHIPPED:
        text = profiles.read_text(profiles.shipped_path(name))
        blocks += [f"### `{name}`", f"```toml\n{text.strip()}\n```"]
    return page(*blocks)


# ---------------------------------------------------------------- knobs
def limits_text(knob: tables.Knob) -> tuple[str, str]:
    if knob.choices:
        return "", ""
    return f"`{knob.text(knob.min)}`", f"`{knob.text(knob.max)}`"


def knobs_page() -> str:
    by_knob = {knob: key for key, knob in schema.KNOB_KEYS.items()}
    return page(
        "# Knobs",
        "Settings with a value. Each can be set in a [profile](profiles.md), for one recording with\n"
        "`gdbrr record --set KEY=VALUE`, and in GDB with `set gdbrr NAME VALUE`; `show gdbrr NAME` shows it.",
        table(
            ("name in GDB", "key in a profile", "type", "default", "from", "to", "means"),
            [
                (
                    f"`{knob.name.replace('_', '-')}`",
                    f"`{by_knob[knob.name]}`",
                    f"one of {code(knob.choices)}" if knob.choices else knob.type,
                    f"`{knob.text(knob.default)}`",
                    *limits_text(knob),
                    knob.help,
                )
                for knob in tables.knobs()
            ],
        ),
        "Numbers may end in `K`, `M`, `G` or `T`: 1024 and its powers.",
    )


# ---------------------------------------------------------------- operations
OPERATIONS_INTRO = """
# Operations

An operation is what one thread does and another can see: taking a lock, a system call, starting or ending. A demo is
the list of all operations of a run in their total order; the place in this list is the *tick*. Between two of its
operations, a thread runs code that nobody else can see, and that comes out the same again by itself.

`gdbrr events DEMO` lists them. The number is how a kind stands in a demo.
"""


def operations_page() -> str:
    return page(
        OPERATIONS_INTRO,
        table(
            ("number", "operation", "what happens at its tick"),
            [(str(op.number), f"`{op.name}`", op.help) for op in tables.ops()],
        ),
        "## Library functions that are operations",
        "Calls of these functions by the program or by a library pass through the engine. *Version* is the symbol's\n"
        "version in glibc.",
        table(
            ("function", "version", "operation", "notes"),
            [(f"`{row.name}`", row.version, f"`{row.op}`", row.help) for row in tables.wrappers()],
        ),
        "## System calls",
        "Every [system call](syscalls.md) of the program is an operation: `SYS_START` when it is issued and, where it\n"
        "comes back, `SYS_END` when it returns.",
    )


PAGES: dict[str, Callable[[], str]] = {
    "syscalls.md": syscalls_page,
    "profiles.md": profiles_page,
    "knobs.md": knobs_page,
    "operations.md": operations_page,
}


def stale(place: Path) -> list[str]:
    """The pages in PLACE that are not what the tables make."""
    found = []
    for name, make in PAGES.items():
        path = place / name
        if not path.is_file() or path.read_text(encoding="utf-8") != make():
            found.append(name)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gdbrr.report.docs", description="Make the pages of docs/ that come from the tables."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is stale")
    args = parser.parse_args(argv)
    try:
        place = directory()
        old = stale(place)
    except GdbrrError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    if args.check and old:
        print(f"{parser.prog}: stale: {', '.join(old)}. Make them again: python -m gdbrr.report.docs", file=sys.stderr)
        return 1
    place.mkdir(exist_ok=True)
    for name in old:
        (place / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
