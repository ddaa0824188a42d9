"""What is tried below the other kernel: packed demos of this one, and jumps of the clock of the day, its own there.

Runs in: the virtual machine of kernel/vm.py. May call: gdbrr, faults.
Owns: the lines that it prints.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from faults import rounds
from faults.during import CLOCK_OF_THE_DAY
from harness.run import gdbrr
from kernel.vm import HERE

CLOCKED = ("calls_clocks", "sync_timedlock", "sqlite3")
"""Programs that read the clock of the day, or wait until it shows something."""


def main() -> None:
    print("kernel", os.uname().release, flush=True)
    for demo in sorted((HERE / "demos").glob("*.packed.demo")):
        first = Path(str(demo).replace(".packed.demo", ".out")).read_text()
        status = int(Path(str(demo).replace(".packed.demo", ".status")).read_text())
        done = gdbrr("replay", "--trust", demo, limit=300.0)
        same = (done.status, done.out) == (status, first)
        print("same" if same else "other", demo.name, "" if same else done.describe(), flush=True)
    rounds.OUT = Path("/tmp/rounds")
    report = rounds.Report(1)
    assert report.possible([CLOCK_OF_THE_DAY]), report.left_out
    for seed, name in enumerate(CLOCKED):
        order = random.Random(seed).choice(("serial", "random"))
        lost = rounds.one(seed, CLOCK_OF_THE_DAY, report, name, order)
        why = lost or report.unfit.get(f"{name}, {order}", "")
        print("other" if why else "same", f"clock of the day, {name}", why, flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
