"""Fuzzes the reader of demos: bends good demos in many ways and reads them to the end.

    python tests/fuzz/demo_fuzz.py --budget 1000000

Runs in: tests/fuzz/test_demo_fuzz.py with a short budget; by hand with a long one. May call: gdbrr.demo, gdbrr.cli.
Owns: the ways in which demos are bent. A mutant is fine if every verb ends in success or a GdbrrError, soon and small.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import struct
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import zstandard

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from fuzz import readers, sealed  # noqa: E402
from fuzz.demos import HEAD, block, blocks  # noqa: E402
from fuzz.recordings import Op, make_recording, random_ops  # noqa: E402
from gdbrr.cli import events as events_verb  # noqa: E402
from gdbrr.cli import info as info_verb  # noqa: E402
from gdbrr.config import profiles  # noqa: E402
from gdbrr.demo import carried  # noqa: E402
from gdbrr.demo import format as fmt  # noqa: E402
from gdbrr.demo.format import Block, BlockType  # noqa: E402
from gdbrr.demo.image import write_image  # noqa: E402
from gdbrr.demo.pack import pack  # noqa: E402
from gdbrr.demo.reader import Demo  # noqa: E402
from gdbrr.errors import GdbrrError  # noqa: E402
from gdbrr.launch import host  # noqa: E402
from gdbrr.launch.carried import place  # noqa: E402
from gdbrr.launch.engine import Engine  # noqa: E402
from golden.make import bring  # noqa: E402

SLOW = 5.0
"""Seconds after which a mutant counts as a failure; a good demo of this size takes milliseconds."""
BIG = 400 << 10
"""KiB by which memory may have grown at the end."""
EVENTS = 2000
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where mutants are written: a disk would take most of the time."""
IMAGE = 16 << 20

ENGINE = Engine(Path("/engine/libgdbrr.so"), Path("/engine/launcher"))

NUMBERS = (0, 1, 2, 3, 7, 127, 128, 255, 4095, 65535, 65536, 1 << 20, 1 << 26, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
WIDE = (*NUMBERS, 1 << 32, 1 << 47, 1 << 48, 1 << 63, (1 << 64) - 1)
PATHS = ("", "/", "../" * 50 + "etc/passwd", "/proc/self/mem", "/dev/zero", "a\0b")
SURROGATES = ("\ud800", "a\udfffb", "\udc80", "\udcff\udc41")
"""Halves of characters: some stand for bytes that are no text, others for nothing."""
TEXTS = (*PATHS, *SURROGATES, "\x1b[2J\x1b]0;x\x07", "two\nlines", "%n%s", "\udcff", "x" * 70000)
VALUES: tuple[Any, ...] = (*TEXTS, None, True, -1, 0.5, 1e308, 1 << 64, [], {}, [[]], {"kind": "exit"}, ["="], [None])


def seeds(where: Path) -> list[bytes]:
    """Good demos, small but of every shape: many threads, much data, one operation, none."""
    shapes: list[list[Op]] = [
        random_ops(random.Random(1), 60, 3),
        random_ops(random.Random(2), 300, 12, data=200),
        [Op(i % 2, data=random.Random(i).randbytes(100_000 * (i % 4))) for i in range(8)],
        [Op(0)],
        [],
    ]
    found = []
    shapes.append(sealed.rich_ops())
    for i, ops in enumerate(shapes):
        make_recording(where / f"{i}.recording", ops, **(_of_this_machine() if i % 2 else {}))
        pack(where / f"{i}.recording", where / f"{i}.demo", epoch_ticks=16)
        found.append((where / f"{i}.demo").read_bytes())
    files = [where / "a", where / "b"]
    files[0].write_bytes(program_for(b"/bin/b"))
    files[1].write_bytes(b"b" * 5000)
    with Demo.open(where / "0.demo") as demo:
        carried.write(demo, {**demo.manifest, "carried": bring(files)}, files, where / "packed.demo")
    return [*found, (where / "packed.demo").read_bytes()]


def _of_this_machine() -> dict[str, Any]:
    """What lets a reader come further: a profile that holds, and a program that is here."""
    profile = profiles.resolve("default", None, ["paths./etc/**=native"]).to_json()
    text = {"profile": profile, "program": "/bin/true", "argv": ["/bin/true"], "host": host.facts()}
    return {**text, "objects": [host.identity("/bin/true")], "signals": {"ignored": 0, "blocked": 0}}


def program_for(loader: bytes) -> bytes:
    """As much of a program as the kernel needs to find its loader."""
    interp = loader + b"\0"
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 3, 4, 120, 120, 120, len(interp), len(interp), 1) + interp


# ---------------------------------------------------------------- bending bytes


def truncate(rng: random.Random, raw: bytes) -> bytes:
    return raw[: rng.randrange(len(raw))]


def flip_bits(rng: random.Random, raw: bytes) -> bytes:
    bad = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 8))):
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
    return bytes(bad)


def overwrite(rng: random.Random, raw: bytes) -> bytes:
    at, n = rng.randrange(len(raw)), rng.choice((1, 4, 8, 64))
    new = rng.choice((bytes(n), b"\xff" * n, rng.randbytes(n)))
    return raw[:at] + new + raw[at + n :]


def shift(rng: random.Random, raw: bytes) -> bytes:
    """Bytes go missing, or appear, or a piece stands twice."""
    a, b = sorted((rng.randrange(len(raw)), rng.randrange(len(raw))))
    return rng.choice((raw[:a] + raw[b:], raw[:b] + raw[a:], raw[:a] + rng.randbytes(9) + raw[a:]))


# ---------------------------------------------------------------- bending blocks, with the right checksums


def split(raw: bytes) -> list[bytes]:
    """The blocks of a good demo without its trailer, so that the reader walks."""
    return [raw[at : at + HEAD + b.stored] for at, b in blocks(raw[: -fmt.TRAILER.size])]


def join(raw: bytes, parts: list[bytes]) -> bytes:
    return raw[: fmt.FILE_HEADER.size] + b"".join(parts)


def rebuild(header: Block, content: bytes, rng: random.Random) -> bytes:
    """A block of this header around other content, stored either way."""
    if rng.random() < 0.5:
        return header._replace(flags=0, raw=len(content), stored=len(content), crc=zlib.crc32(content)).pack() + content
    stored = zstandard.ZstdCompressor(level=1).compress(content)
    return header._replace(flags=1, raw=len(content), stored=len(stored), crc=zlib.crc32(stored)).pack() + stored


def content_of(part: bytes) -> bytes:
    header = Block.unpack(part[:HEAD])
    return fmt.decompress(header, part[HEAD:], zstandard.ZstdDecompressor())


def reorder_blocks(rng: random.Random, raw: bytes) -> bytes:
    parts = split(raw)
    a, b = rng.randrange(len(parts)), rng.randrange(len(parts))
    what = rng.randrange(4)
    if what == 0:
        parts[a], parts[b] = parts[b], parts[a]
    elif what == 1:
        parts.insert(b, parts[a])
    elif what == 2:
        del parts[a]
    else:
        rng.shuffle(parts)
    return join(raw, parts)


def lie_in_header(rng: random.Random, raw: bytes) -> bytes:
    parts = split(raw)
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(parts))
        _, kind, flags, _, *rest, _ = fmt.BLOCK_HEADER.unpack(parts[at][:HEAD])
        header = Block(kind, flags, *rest)
        name = rng.choice(Block._fields)
        room = {"type": 255, "flags": 255, "base": WIDE[-1], "first": WIDE[-1], "last": WIDE[-1]}.get(name, NUMBERS[-1])
        value = rng.choice((*WIDE, getattr(header, name) + 1, getattr(header, name) - 1))
        parts[at] = header._replace(**{name: max(0, min(value, room))}).pack() + parts[at][HEAD:]
    return join(raw, parts)


def bend_content(rng: random.Random, raw: bytes) -> bytes:
    parts = split(raw)
    at = rng.randrange(len(parts) - 1)
    content = content_of(parts[at]) or b"x"
    content = rng.choice((truncate, flip_bits, overwrite, shift))(rng, content)
    header = Block.unpack(parts[at][:HEAD])
    if rng.random() < 0.3 and header.type == BlockType.STREAM:
        header = header._replace(thread=rng.choice(NUMBERS))
    parts[at] = rebuild(header, content, rng)
    return join(raw, parts)


def bend_order(rng: random.Random, raw: bytes) -> bytes:
    """Order blocks whose numbers look right, about threads and operations that are not there."""
    parts = split(raw)
    orders = [i for i, part in enumerate(parts) if part[4] == BlockType.ORDER]
    if not orders:
        return flip_bits(rng, raw)
    at = rng.choice(orders)
    header, content = Block.unpack(parts[at][:HEAD]), bytearray(content_of(parts[at]))
    where = rng.randrange(0, len(content) - 3, 4)
    struct.pack_into("<I", content, where, rng.choice(NUMBERS))
    counts = struct.unpack(f"<{header.items * 2}I", content[: header.items * 8])[1::2]
    header = header._replace(first=rng.choice((sum(counts), header.first, rng.choice(WIDE))))
    parts[at] = rebuild(header, bytes(content), rng)
    return join(raw, parts)


def bend_manifest(rng: random.Random, raw: bytes) -> bytes:
    parts = split(raw)
    text = json.loads(content_of(parts[0]))
    for _ in range(rng.choice((1, 1, 2))):
        place: Any = text
        key: Any = rng.choice(list(place))
        while isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.6:
            place = place[key]
            key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        place[key] = rng.choice(VALUES)
        if isinstance(place, dict) and rng.random() < 0.1:
            place[rng.choice(SURROGATES)] = place.pop(key)
    content = json.dumps(text).encode()
    if rng.random() < 0.1:
        content = rng.choice((b"[" * 50_000, b'{"a":' * 20_000, b"9" * 9999, b"\xff\xfe", b'{"argv": 1e999}'))
    parts[0] = rebuild(Block.unpack(parts[0][:HEAD]), content, rng)
    return join(raw, parts)


_BOMBS = [zstandard.ZstdCompressor().compress(bytes(1 << size)) for size in (10, 20, 26, 28)]


def zip_bomb(rng: random.Random, raw: bytes) -> bytes:
    parts = split(raw)
    at = rng.randrange(len(parts))
    stored = rng.choice(_BOMBS)
    header = Block.unpack(parts[at][:HEAD])
    claimed = rng.choice((header.raw, zstandard.frame_content_size(stored), 1 << 26, 1 << 16))
    parts[at] = header._replace(flags=1, raw=claimed, stored=len(stored), crc=zlib.crc32(stored)).pack() + stored
    return join(raw, parts)


def strange_blocks(rng: random.Random, raw: bytes) -> bytes:
    """Blocks of unknown types, and many small ones."""
    parts = split(raw)
    kind = rng.choice((0, 6, 7, 99, 128, 200, 255))
    parts[rng.randrange(len(parts)) : 0] = [block(kind, rng.randbytes(rng.randrange(40)))] * rng.choice((1, 2, 300))
    return join(raw, parts)


def bend_index(rng: random.Random, raw: bytes) -> bytes:
    """The index tells another story than the file; the trailer is right."""
    at, header = blocks(raw[: -fmt.TRAILER.size])[-1]
    rows = content_of(raw[at : at + HEAD + header.stored])
    rows = rng.choice((bend_rows, shift, truncate, flip_bits))(rng, rows)
    rows = rows[: len(rows) - len(rows) % HEAD]
    part = rebuild(header._replace(items=len(rows) // HEAD), rows, rng)
    offset = rng.choice((at, at, at, 0, at + 1, WIDE[-1]))
    return raw[:at] + part + fmt.TRAILER.pack(offset, zlib.crc32(part[:HEAD]), fmt.TRAILER_MAGIC)


def bend_rows(rng: random.Random, rows: bytes) -> bytes:
    parts = [rows[i : i + HEAD] for i in range(0, len(rows), HEAD)]
    at = rng.randrange(len(parts))
    header = Block.unpack(parts[at])
    name = rng.choice(("items", "base", "first", "last", "stored", "raw", "thread"))
    parts[at] = header._replace(**{name: rng.choice(NUMBERS)}).pack()
    return b"".join(parts)


def bend_version(rng: random.Random, raw: bytes) -> bytes:
    head = fmt.FILE_HEADER.pack(fmt.MAGIC, rng.choice((0, 1, 2, 65535)), rng.choice((0, 1, 65535)), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + raw[fmt.FILE_HEADER.size :]


def bend_events(rng: random.Random, raw: bytes) -> bytes:
    return join(raw, sealed.mutate(rng, split(raw), content_of))


Mutation = Callable[[random.Random, bytes], bytes]
MUTATIONS: tuple[Mutation, ...] = (
    truncate, flip_bits, overwrite, shift, reorder_blocks, lie_in_header, bend_content, bend_order, bend_manifest,
    zip_bomb, strange_blocks, bend_index, bend_version, bend_events,
)  # fmt: skip
SEALED: tuple[Mutation, ...] = (bend_events, bend_events, bend_manifest, bend_order, bend_content)
"""Those whose mutants have the right checksums, and get as far as what a demo means."""


def mutant(number: int, seed: int, good: list[bytes], ways: Sequence[Mutation] = MUTATIONS) -> tuple[str, bytes]:
    """Mutant `number` of a run: the same bytes every time."""
    rng = random.Random(f"{seed} {number}")
    how = rng.choice(ways)
    raw = how(rng, rng.choice(good))
    if rng.random() < 0.1 and raw and ways is MUTATIONS:
        raw = flip_bits(rng, raw)
    return how.__name__, raw


# ---------------------------------------------------------------- reading mutants


def read_everything(path: Path, image: Path, placed: bool = True) -> str:
    """Everything a verb does with a demo; returns "read", "damaged" or "refused". PLACED: also with carried files."""
    verdict = "read"
    for check in (True, False):
        try:
            with Demo.open(path, check=check) as demo:
                verdict = "damaged" if demo.damage else verdict
                for line in info_verb.as_text(demo):
                    assert line.isprintable() or not line, f"unprintable text: {line!r}"
                json.dumps(info_verb.as_json(demo), allow_nan=False)
                for event in demo.events(stop=EVENTS):
                    events_verb.as_line(event)
                list(demo.events(thread=1, start=max(demo.ticks - EVENTS, 0)))
                for _ in zip(range(EVENTS), demo.runs(), strict=False):
                    pass
                if check and demo.stream_bytes < IMAGE:
                    write_image(demo, image)
                if check and placed and place.is_packed(demo):
                    place.place(demo, demo.manifest["program"], ENGINE)
        except GdbrrError as error:
            assert "\n" not in str(error) and str(error).isprintable(), f"not one line: {error!r}"
            verdict = "refused"
    return verdict


def read_deeply(path: Path, rng: random.Random, scratch: Path) -> list[str]:
    """Everything that commands and sessions do with a demo but running it: who read it, and who refused it."""
    try:
        with Demo.open(path) as demo:
            return list(readers.read(demo, rng, scratch))
    except GdbrrError as error:
        assert "\n" not in str(error) and str(error).isprintable(), f"not one line: {error!r}"
        return ["at once"]


def run_deeply(budget: int, seed: int = 1, first: int = 0) -> dict[str, Counter[str]]:
    """The same as `run` for mutants that are sealed again, by readers of what a demo means."""
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="gdbrr-fuzz-", dir=MEMORY) as scratch:
        where = Path(scratch)
        good = seeds(where)
        path = where / "mutant.demo"
        for number in range(first, first + budget):
            how, raw = mutant(number, seed, good, SEALED)
            path.write_bytes(raw)
            started = time.process_time()
            try:
                verdicts = read_deeply(path, random.Random(number), where)
            except Exception as error:
                raise AssertionError(f"mutant {number} of seed {seed} ({how}): {error!r}") from error
            taken = time.process_time() - started
            assert taken < SLOW, f"mutant {number} of seed {seed} ({how}) took {taken:.1f} s"
            counts.setdefault(how, Counter()).update(verdicts)
    return counts


def run(budget: int, seed: int = 1, first: int = 0) -> dict[str, Counter[str]]:
    """Reads `budget` mutants; raises AssertionError with the number of the first bad one. Counts verdicts."""
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="gdbrr-fuzz-", dir=MEMORY) as scratch:
        where = Path(scratch)
        good = seeds(where)
        path, image = where / "mutant.demo", where / "image"
        for raw in good:
            path.write_bytes(raw)
            assert read_everything(path, image) == "read"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(first, first + budget):
            how, raw = mutant(number, seed, good)
            path.write_bytes(raw)
            started = time.process_time()  # of this process: other load is not the reader's fault
            try:
                verdict = read_everything(path, image, placed=number % 8 == 0)
            except Exception as error:
                raise AssertionError(f"mutant {number} of seed {seed} ({how}): {error!r}") from error
            taken = time.process_time() - started
            assert taken < SLOW, f"mutant {number} of seed {seed} ({how}) took {taken:.1f} s"
            counts.setdefault(how, Counter())[verdict] += 1
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < BIG, f"reading mutants took {grown} KiB"
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Read bent demos until one of them does harm.")
    parser.add_argument("--budget", type=int, default=10_000, help="how many mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other mutants")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="start at mutant N, to repeat a failure")
    parser.add_argument("--deep", action="store_true", help="mutants with the right checksums, and all readers")
    args = parser.parse_args()
    started = time.monotonic()
    for how, row in sorted((run_deeply if args.deep else run)(args.budget, args.seed, args.first).items()):
        print(f"{how:<16} " + "  ".join(f"{verdict} {n:>5}" for verdict, n in sorted(row.items())))
    print(f"{args.budget} mutants in {time.monotonic() - started:.1f} s, none did harm")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
