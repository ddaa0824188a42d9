"""Makes the golden demo of the present format: tests/golden/format-MAJOR.MINOR.demo and what it must read as.

    python tests/golden/make.py

Run once, when the format's version was raised; old golden files stay, for they must go on being readable.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KEY = bytes(range(32))
"""What golden demos are sealed with, from format 3.3 on."""
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

from fuzz.recordings import Op, make_recording, random_ops  # noqa: E402
from gdbrr.abi import ffi, lib, map_ctl  # noqa: E402
from gdbrr.demo import carried, referred, seal  # noqa: E402
from gdbrr.demo import format as fmt  # noqa: E402
from gdbrr.demo.events import Event  # noqa: E402
from gdbrr.demo.pack import pack  # noqa: E402
from gdbrr.demo.reader import Demo  # noqa: E402

RUN = lib.GR_OP_RUN


def contents(path: Path) -> dict[str, Any]:
    """Everything that a demo says, as JSON."""
    with Demo.open(path) as demo:
        found = carried.files(demo.manifest)
        return {
            "manifest": demo.manifest,
            "complete": demo.complete,
            "epochs": [[e.start, e.end, e.bytes, e.time] for e in demo.epochs],
            "threads": [[t.index, t.operations, t.recorded_tid, t.parent] for t in demo.threads],
            "runs": [list(run) for run in demo.runs()],
            "events": [event_row(event) for event in demo.events()],
            **({"files": [taken_out(demo, file) for file in found]} if found else {}),
            **({"refers": [referred_to(demo, number) for number in range(len(demo.files))]} if demo.files else {}),
        }


def bring(files: list[Path]) -> dict[str, Any]:
    """What a manifest says of carried files, as if they were programs."""
    rows = [
        {"path": f"/usr/bin/{file.name}", "names": [f"/bin/{file.name}"], "size": file.stat().st_size,
         "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "build_id": "", "kind": "program"}
        for file in files
    ]  # fmt: skip
    loader = [["path", "257", "/lib/x", "=1"], ["path", "21", "/etc/x", "-2"], ["path", "89", "/proc/self/exe", ">/x"]]
    loader += [["map", "4096", "140737353928704", "-"], ["stat", "2049", "77", "-"], ["auxv", "11", "0", "-"]]
    return {"files": rows, "loader": loader, "program": 0, "engine": 1, "argv": ["first"]}


def taken_out(demo: Demo, file: carried.CarriedFile) -> list[Any]:
    with tempfile.TemporaryDirectory() as scratch:
        carried.take_out(demo, file, Path(scratch) / "out")
        raw = (Path(scratch) / "out").read_bytes()
    return [file.path, len(raw), hashlib.sha256(raw).hexdigest()]


def referred_to(demo: Demo, number: int) -> list[Any]:
    with tempfile.TemporaryFile() as out:
        referred.take_out(demo, number, out)
        out.seek(0)
        raw = out.read()
    return [*demo.files[number], referred.held(demo, number), len(raw), hashlib.sha256(raw).hexdigest()]


def refer(recording: Path, file: Path, start: int, end: int) -> None:
    """Let RECORDING refer to a part of FILE, as the engine would."""
    with map_ctl(recording / "ctl") as ctl:
        st, name = file.stat(), bytes(file) + b"\0"
        at = int(ctl.c.inputs_used)
        ffi.memmove(ffi.addressof(ctl.c, "inputs")[0] + at, name, len(name))
        ctl.c.inputs_used += len(name)
        row = ctl.c.file[ctl.c.files]
        row.device, row.inode, row.size, row.mtime, row.ctime = (
            *(st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns),
        )
        setattr(row, "from", start)
        row.to, row.state, row.path = end, lib.GR_FILE_REFERRED, at
        ctl.c.files += 1


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
        large = Path(scratch) / "large"
        large.write_bytes(b"referred" * 1_000_000)
        refer(Path(scratch) / "rec", large, 1234, 7_654_321)
        plain, files = Path(scratch) / "plain.demo", [Path(scratch) / "first", Path(scratch) / "empty"]
        pack(Path(scratch) / "rec", plain, epoch_ticks=128)
        files[0].write_bytes(b"carried" * 3_000_000)
        files[1].touch()
        with Demo.open(plain) as demo:
            carried.write(demo, {**demo.manifest, "carried": bring(files)}, files, out)
        with open(out, "r+b") as file:
            seal.put(file, KEY)
    out.with_suffix(".json").write_text(json.dumps(contents(out), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
