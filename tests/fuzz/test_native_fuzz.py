"""The parsers that controllers have in C, on bent inputs, under the address and undefined-behaviour sanitizers.

Runs in: pytest. May call: gcc, gdbrr.demo.
Owns: what the fuzzer begins with: streams of demos, programs, code.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz import demo_fuzz
from gdbrr.demo.format import BlockType
from gdbrr.demo.reader import Demo

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 1_500_000
"""Some ten seconds."""
SEED = 1

FLAGS = [
    *("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
]
PARSERS = ("preload/log/codec.c", "preload/log/merge.c", "preload/patch/atomics.c", "preload/patch/decode.c")
EVENTS, MERGE, ELF, CODE = range(4)
PT_LOAD, PT_INTERP, PT_GNU_EH_FRAME = 1, 3, 0x6474E550

PROGRAM = """
int word;
void spin(void) { while (__atomic_exchange_n(&word, 1, 5)) __builtin_ia32_pause(); }
void _start(void) { __atomic_fetch_add(&word, 1, 5); spin(); for (;;); }
"""


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("fuzzer")
    objects = [where / f"{number}.o" for number in range(len(PARSERS))]
    for source, target in zip(PARSERS, objects, strict=True):
        gcc("-fsanitize-coverage=trace-pc", "-c", source, "-o", target)
    gcc("tests/fuzz/native_fuzz.c", *objects, "-o", where / "native_fuzz")
    return where / "native_fuzz"


def gcc(*words: str | Path) -> None:
    subprocess.run(["gcc", *FLAGS, *words], cwd=ROOT, check=True, timeout=120)


def elf(*segments: tuple[int, int, int, int, int], size: int) -> bytes:
    """A 64-bit ELF file of program headers (type, flags, offset, address, bytes), then zeros up to SIZE."""
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    rows = [struct.pack("<IIQQQQQQ", kind, flags, at, addr, 0, n, n, 1) for kind, flags, at, addr, n in segments]
    return (head + b"".join(rows)).ljust(size, b"\0")


def smallest(kind: int, at: int, size: int) -> bytes:
    """One of 64 bytes: its only program header begins within the file's own one, whose fields it needs not."""
    return struct.pack("<8sIIQQQQQQ", b"\x7fELF\x02\x01\x01", kind, 5, at, 0, 8, size, 56 << 48, 1)


def inputs(where: Path) -> Iterator[tuple[int, bytes]]:
    streams: list[bytes] = []
    for number, raw in enumerate(demo_fuzz.seeds(where)):
        path = where / f"{number}.demo"
        path.write_bytes(raw)
        with Demo.open(path) as demo:
            every = [demo.raw(n) for n in range(demo.blocks) if demo.block(n).type == BlockType.STREAM]
        streams += [content for content in every if len(content) < 2000]
    for content in streams:
        yield EVENTS, content
    for at in range(0, len(streams) - 5, 3):
        parts = [content[:600] for content in streams[at : at + 5]]
        yield MERGE, struct.pack("<5H", *map(len, parts)) + b"".join(parts)
    (where / "program.c").write_text(PROGRAM)
    small = ["-nostdlib", "-static", "-Wl,-z,noseparate-code", "-Wl,--build-id=none", "-s", "-fno-stack-protector"]
    subprocess.run(["gcc", "-O2", *small, "program.c", "-o", "program"], cwd=where, check=True, timeout=120)
    program = (where / "program").read_bytes()
    yield ELF, program[:4096]
    yield ELF, demo_fuzz.program_for(b"/lib64/ld-linux-x86-64.so.2")
    segments = (PT_LOAD, 5, 240, 0x1000, 300), (PT_GNU_EH_FRAME, 4, 240, 0x900, 40), (PT_INTERP, 4, 100, 100, 30)
    yield ELF, elf(*segments, size=600)
    code = program[program.index(b"\xf0") - 32 :][:200] if b"\xf0" in program else program[-200:]
    yield CODE, code


def run(fuzzer: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([fuzzer, *map(str, words)], capture_output=True, text=True, timeout=200)


@pytest.mark.limit(300)
def test_no_bytes_make_a_parser_misbehave(fuzzer: Path, tmp_path: Path) -> None:
    names = []
    for number, (parser, content) in enumerate(inputs(tmp_path)):
        names.append(tmp_path / f"input-{number}")
        names[-1].write_bytes(bytes((parser,)) + content)
    done = run(fuzzer, str(SEED), str(ROUNDS), *names)
    assert (done.returncode, done.stderr) == (0, "")
    kept = list(map(int, done.stdout.split()))
    assert min(kept[:4]) > 5 and kept[-1] > 100, "inputs that lead nowhere test nothing"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(smallest(PT_INTERP, 0, 127), id="the name of a loader is longer than the file"),
        pytest.param(smallest(PT_INTERP, 1 << 20, 100), id="the name of a loader lies far behind the file"),
        pytest.param(
            smallest(PT_GNU_EH_FRAME, (1 << 64) - 65, 12), id="the table of functions lies in front of the file"
        ),
    ],
)
def test_small_programs_are_not_read_beyond_their_end(content: bytes, fuzzer: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes((ELF,)) + content)
    done = run(fuzzer, "1", "0", tmp_path / "x")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.limit(60)
def test_what_claims_the_whole_file_again_and_again_is_looked_through_once(tmp_path: Path) -> None:
    """65,000 segments of four megabytes would take hours."""
    raw = elf(*[(PT_LOAD, 5, 0, 0, 1 << 22)] * 65000, size=1 << 22)
    (tmp_path / "program").write_bytes(raw)
    code = "import sys; from gdbrr.demo import guess; print(guess.order_for(sys.argv[1], {}).order)"
    words = [sys.executable, "-c", code, str(tmp_path / "program")]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=50).stdout == "parallel\n"


def test_the_same_seed_does_the_same(fuzzer: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes((EVENTS,)) + bytes((1, 0, 1)) * 20)
    first, second, other = (run(fuzzer, seed, "20000", tmp_path / "x").stdout for seed in ("7", "7", "8"))
    assert first == second != other
