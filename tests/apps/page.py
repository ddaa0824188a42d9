"""Makes docs/applications.md from what `make apps` has measured.

Runs in: `make apps`, behind the tests. May call: nothing of gdbrr but how sizes read.
Owns: build/apps.json, one line for each program that was tried, and the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apps.starts import missing
from apps.table import APPS
from gdbrr.cli.words import size
from harness import BUILD, ROOT

REPORT = BUILD / "apps.json"
PAGE = ROOT / "docs" / "applications.md"
LEAST = 0.02
"""Seconds of a program by itself from which on a ratio means something."""

HEAD = """\
<!-- Made by `make apps`; do not edit. -->

# Applications

Real programs from Debian's packages and small ones around well-known libraries, each recorded and replayed with nobody
there: the same output and exit status, checked by `make apps`, which made this page. Servers are recorded while a load
generator or several clients ask them; editors run in a terminal of tmux, where keys are typed; games under the profile
`game`.

The order is what `--order auto` chose, or was said where the guess is known to be too hopeful. Times are of the whole
command, its start and packing included; those of servers are their clients'. The overhead is without that start, and
told where the program runs for 20 ms by itself. A second recording with the profile `sparse`, for which files are read
again on replay, is replayed as well: its demo is the sparse one. A third one holds digests of registers and of all
writable memory, taken while the program has one thread (`--digest`, order `serial`, profile `default`, one
core): how many its replay found equal. The question is asked in GDB at the end of the first demo; its time includes
GDB's start. What does not work is in [limits](limits.md).

"""
COLUMNS = (
    *("program", "order", "threads", "operations", "by itself", "recorded", "overhead", "demo", "sparse", "replay"),
    *("digests", "a question", "asked in"),
)


def note(row: Mapping[str, Any]) -> None:
    """Keep what was measured of one program."""
    REPORT.parent.mkdir(exist_ok=True)
    with REPORT.open("a") as file:
        file.write(json.dumps(row) + "\n")


def rows() -> list[dict[str, Any]]:
    """The newest of each program."""
    if not REPORT.exists():
        return []
    found = [json.loads(line) for line in REPORT.read_text().splitlines()]
    return list({row["name"]: row for row in found}.values())


def text(measured: Iterable[Mapping[str, Any]]) -> str:
    known = {row["name"]: row for row in measured}
    lines = [_line(name, known.get(name)) for name in APPS]
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    return HEAD + "\n".join([*head, *lines, "", *_notes(known)]) + "\n"


def _line(name: str, row: Mapping[str, Any] | None) -> str:
    if row is None:
        lacking = missing(APPS[name])
        why = f"{lacking} is not installed" if lacking else "it failed, see limits"
        return f"| {name} | not tried: {why} |{' |' * (len(COLUMNS) - 2)}"
    native, recorded, replayed = (f"{row[key]:.2f} s" for key in ("native_seconds", "record_seconds", "replay_seconds"))
    own, start = row["native_seconds"], 0 if APPS[name].client else row["start_seconds"]
    overhead = f"{max(row['record_seconds'] - start, own) / own:.1f}\N{MULTIPLICATION SIGN}" if own >= LEAST else "-"
    sparse = size(row["sparse_bytes"]) if row["sparse_bytes"] else "-"
    answer = row["answer"].replace("|", "/").replace("`", "'")
    cells = [
        *(name, row["order"], f"{row['threads']:,}", f"{row['operations']:,}", native, recorded, overhead),
        *(size(row["bytes"]), sparse, replayed, f"{row['digests']}"),
        *(f"{row['question']} `{answer}`", f"{row['answer_seconds']:.1f} s"),
    ]
    return f"| {' | '.join(cells)} |"


def _notes(known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "Why that order:"
    yield ""
    for name, app in APPS.items():
        if name in known:
            guess = known[name]["guess"]
            yield f"- {name}: {guess}" if guess else f"- {name}: `--order {app.order}` was said"


def main() -> None:
    PAGE.write_text(text(rows()))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
