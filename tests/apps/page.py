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

HEAD = """\
<!-- Made by `make apps`; do not edit. -->

# Applications

Real programs from Debian's packages and small ones around well-known libraries, each recorded and replayed with nobody
there: the same output and exit status, checked by `make apps`, which made this page. Servers are recorded while several
clients ask them; editors run in a terminal of tmux, where keys are typed; games under the profile `game`.

The order is what `--order auto` chose, or was said where the guess is too hopeful. Times are of the whole command, its
start and packing (some 0.1 s) included; those of servers are their clients'. A second recording with the profile
`sparse`, for which files are read again on replay, is replayed as well: its demo is the sparse one. The question is
asked in GDB at the end of the first demo; its time includes GDB's start. What does not work is in [limits](limits.md).

| program | order | threads | operations | by itself | recorded | demo | sparse | replay | a question | asked in |
|---|---|---|---|---|---|---|---|---|---|---|
"""


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
    return HEAD + "\n".join([*lines, "", *_notes(known)]) + "\n"


def _line(name: str, row: Mapping[str, Any] | None) -> str:
    if row is None:
        lacking = missing(APPS[name])
        why = f"{lacking} is not installed" if lacking else "it failed, see limits"
        return f"| {name} | not tried: {why} | | | | | | | | | |"
    native, recorded, replayed = (f"{row[key]:.2f} s" for key in ("native_seconds", "record_seconds", "replay_seconds"))
    sparse = size(row["sparse_bytes"]) if row["sparse_bytes"] else "-"
    answer = row["answer"].replace("|", "/").replace("`", "'")
    cells = [
        *(name, row["order"], f"{row['threads']:,}", f"{row['operations']:,}", native, recorded, size(row["bytes"])),
        *(sparse, replayed, f"{row['question']} `{answer}`", f"{row['answer_seconds']:.1f} s"),
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
