"""One round: a program, an order and a fault, all drawn from a seed; and the report of what was survived.

Runs in: python -m faults, pytest. May call: the other files of this folder.
Owns: the shape of the report.
"""

from __future__ import annotations

import collections
import json
import random
import shutil
from dataclasses import dataclass, field

from faults import subjects
from faults.behind import left
from faults.during import FAULTS
from faults.place import Lost, a_place
from harness import BUILD

OUT = BUILD / "faults"


@dataclass
class Report:
    seed: int
    survived: dict[str, collections.Counter[str]] = field(default_factory=dict)
    lost: list[dict[str, str]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=lambda: {**subjects.OF_NO_USE, **subjects.REAL_OF_NO_USE})
    unfit: dict[str, str] = field(default_factory=dict)
    """Programs in orders in which they do not replay even without a fault, as races in order `parallel`."""
    programs: collections.Counter[str] = field(default_factory=collections.Counter)
    orders: collections.Counter[str] = field(default_factory=collections.Counter)
    minutes: float = 0.0
    known: dict[tuple[str, str], subjects.Subject | str] = field(default_factory=dict)

    def possible(self, names: list[str]) -> list[str]:
        for name in names:
            why = FAULTS[name].missing()
            if why:
                self.left_out[name] = why
        return [name for name in names if name not in self.left_out]

    def rounds(self) -> int:
        return sum(sum(counter.values()) for counter in self.survived.values()) + len(self.lost)

    def table(self) -> list[str]:
        lines = ["| fault | rounds | what came of it |", "|---|---|---|"]
        for name, counter in sorted(self.survived.items()):
            what = "; ".join(f"{count}: {text}" for text, count in counter.most_common(8))
            lines.append(f"| {name} | {sum(counter.values())} | {what.replace('|', '/')} |")
        return lines

    def losses(self) -> list[str]:
        rows = [
            f"- seed {row['seed']}, {row['fault']}, {row['program']}, {row['order']}: {row['what']}"
            for row in self.lost
        ]
        return ["## Lost", "", *rows, ""] if rows else []

    def others(self) -> list[str]:
        rows = [f"- {name}: {why}" for name, why in sorted(self.left_out.items())]
        return rows + [f"- {name}, not alike without a fault either: {why}" for name, why in sorted(self.unfit.items())]

    def text(self) -> str:
        first = f"{self.rounds()} rounds from seed {self.seed}, {len(self.lost)} in which something was lost."
        parts = [f"# Faults\n\n{first}\n", *self.table(), "", *self.losses(), "## Left out", "", *self.others()]
        return "\n".join(parts) + "\n"

    def write(self) -> None:
        data = {
            "seed": self.seed,
            "rounds": self.rounds(),
            "survived": {name: dict(counter) for name, counter in self.survived.items()},
            "lost": self.lost,
            "left out": self.left_out,
            "unfit": self.unfit,
            "programs": dict(self.programs),
            "orders": dict(self.orders),
        }
        (OUT / "report.json").write_text(json.dumps(data, indent=1) + "\n")
        (OUT / "report.md").write_text(self.text())


def one(seed: int, fault: str, report: Report, name: str = "", order: str = "") -> str:
    """A line about the round; empty where nothing was lost."""
    rng = random.Random(seed)
    drawn = subjects.one_of(rng)
    name, order = name or drawn[0], order or drawn[1]
    if subjects.races(name):
        report.left_out[f"{name}, in order parallel"] = subjects.races(name)
    keep = OUT / f"lost-{seed}"
    try:
        with a_place(keep) as place:
            subject = report.known.get((name, order)) or subjects.subject(name, order, place)
            report.known[name, order] = subject
            if isinstance(subject, str):
                report.unfit[f"{name}, {order}"] = subject
                return ""
            report.programs[name] += 1
            report.orders[order] += 1
            (place.kept / "sound.demo").unlink(missing_ok=True)
            what = FAULTS[fault].act(place, subject, rng)
            left(place)
    except Lost as error:
        row = {"seed": str(seed), "fault": fault, "program": name, "order": order, "what": str(error)}
        report.lost.append(row)
        return f"seed {seed}: {fault}, {name}, {order}: {error}\n  kept in {keep}"
    shutil.rmtree(keep, ignore_errors=True)
    report.survived.setdefault(fault, collections.Counter())[what] += 1
    return ""
