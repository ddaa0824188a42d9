"""Makes the golden demo of the present format: tests/golden/format-MAJOR.MINOR.demo and what it must read as.

    python tests/golden/make.py

Run once, when the format's version was raised; old golden files stay, for they must go on being readable.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

from fuzz.recordings import Op, make_recording, random_ops  # noqa: E402
from gdbrr.abi import lib  # noqa: E402
from gdbrr.demo import format as fmt  # noqa: E402
from gdbrr.demo.events import Event  # noqa: E402
from gdbrr.demo.pack import pack  # noqa: E402
from gdbrr.demo.reader import Demo  # noqa: E402

RUN = lib.GR_OP_RUN


def contents(path: Path) -> dict[str, Any]:
    """Everything that a demo says, as JSON."""
    with Demo.open(path) as demo:
        return {
            "manifest": demo.manifest,
            "complete": demo.complete,
            "epochs": [[e.start, e.end, e.bytes, e.time] for e in demo.epochs],
            "threads": [[t.index, t.operations, t.recorded_tid, t.parent] for t in demo.threads],
            "runs": [list(run) for run in demo.runs()],
            "events": [event_row(event) for event in demo.events()],
        }


def event_row(event: Event) -> list[Any]:
    """Its fields up to the stamp and its data; behind them the time of those that have one (format 2)."""
    row = [*event[:9], len(event.data), event.data[:80].hex()]
    return [*row, event.time] if event.time else row


def main() -> None:
    out = HERE / "format-{}.{}.demo".format(*fmt.FORMAT)
    if out.exists():
        raise SystemExit(f"{out.name} is there already; raise the version of the format first")
    ops = random_ops(random.Random(2024), 400, 4, data=80)
    ops[200:200] = [Op(2, 4, nr=1, object=3, result=300_000, data=b"golden" * 50_000)]
    ops[120:120] = [Op(1, RUN, object=150, check=0x1234), Op(1, RUN, object=1, check=7)]
    with tempfile.TemporaryDirectory() as scratch:
        make_recording(Path(scratch) / "rec", ops, end=(2, 6))
        pack(Path(scratch) / "rec", out, epoch_ticks=128)
    out.with_suffix(".json").write_text(json.dumps(contents(out), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
