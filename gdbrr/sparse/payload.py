"""The payloads of a demo: where the bytes stand that calls brought in, and a demo with some of them set to zero.

Runs in: `gdbrr suggest` and `gdbrr minimize`. May call: abi, demo, gdbrr.sparse.tour.
Owns: what counts as payload: the contents of recorded outputs, and the stores of calls. Lengths, results and the order
are none: an altered demo has as many events, each as long as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.abi import ffi, lib
from gdbrr.config import tables
from gdbrr.demo import carried, seal
from gdbrr.demo.reader import Demo
from gdbrr.demo.referred import PLACE, STORE, STORE_BYTES, STORE_FILE, WITH_BYTES
from gdbrr.demo.writer import Writer
from gdbrr.files import draft
from gdbrr.launch import own
from gdbrr.sparse.tour import Names, Thing

if TYPE_CHECKING:
    from gdbrr.sparse.tour import Arguments

_READ = {"STR", "STRV", "IN", "INOUT", "IOV_IN", "MSG_IN", "MMSG_IN"}
"""Effects of calls that read memory."""


class Span(NamedTuple):
    """Bytes of a demo: in the content of one of its blocks."""

    block: int
    at: int
    size: int

    def part(self, start: int, end: int) -> Span:
        return Span(self.block, self.at + start, end - start)


class Call(NamedTuple):
    """A system call of a demo that ended, or one that was under way at the end."""

    tick: int
    """Of its start."""
    thread: int
    thing: Thing
    result: int
    size: int
    """Bytes that its events take, before compression."""
    payload: tuple[Span, ...]


def calls(demo: Demo, arguments: Mapping[int, Arguments], unseen: bool = False) -> Iterator[Call]:
    """The system calls of DEMO in the order of their ends. Nothing is kept of the demo but what is under way.

    UNSEEN: payload is also what the program does not see, as a terminal's echo."""
    names = Names(demo, arguments)
    places: dict[int, Iterator[tuple[int, int, int]]] = {}
    under_way: dict[int, tuple[int, int]] = {}
    last: dict[int, Call] = {}
    for event in demo.events(runs=True):
        if event.kind == lib.GR_OP_RUN and event.result != 1:
            continue  # of a run only the first operation is an event
        if event.thread not in places:
            places[event.thread] = _places(demo, event.thread)
        block, at, size = next(places[event.thread])
        if event.kind == lib.GR_OP_DATA and event.thread in last:
            call = last[event.thread]
            more = (Span(block, at, len(event.data)),) if event.data else ()
            last[event.thread] = call._replace(size=call.size + size, payload=call.payload + more)
            continue
        if event.thread in last:
            yield last.pop(event.thread)
        if event.kind == lib.GR_OP_SYS_START:
            names.start(event)
            under_way[event.thread] = event.tick, size
        elif event.kind == lib.GR_OP_SYS_END:
            thing = names.end(event)
            tick, before = under_way.pop(event.thread, (event.tick, 0))
            try:
                found = list(contents(event.data, event.object, unseen))
            except ValueError as error:
                raise demo.broken(f"the call that ends at tick {event.tick} {error}") from None
            payload = tuple(Span(block, at + start, end - start) for start, end in found)
            last[event.thread] = Call(tick, event.thread, thing, event.result, before + size, payload)
    yield from last.values()


def checks(demo: Demo) -> Iterator[Span]:
    """The hashes of what calls had in memory when they were made, and of what they read natively."""
    calls = tables.syscalls()
    reads = {
        number + 1 for number, row in enumerate(calls) if row.name == "ioctl" or _READ & {e.word for e in row.effects}
    }
    maps = {number + 1 for number, row in enumerate(calls) if row.name == "mmap"}  # of a file's size and time
    event, last = ffi.new("struct gr_event *"), ffi.new("uint64_t *")
    for thread in range(demo.stream_threads):
        for block, at, _, size in _events(demo, thread):
            raw = demo.cached(block)
            lib.gr_event_decode(ffi.from_buffer(raw) + at, size, event, last)
            if event.check and (
                (event.kind == lib.GR_OP_SYS_START and event.nr in reads)
                or (event.kind == lib.GR_OP_SYS_END and event.nr not in maps)
            ):
                yield Span(block, _check_at(raw, at), 4)


def _check_at(raw: bytes, at: int) -> int:
    """Where in an event its hash stands: behind kind, mask and two or three numbers of any length."""
    numbers = 1 + (raw[at + 1] & 1) + (raw[at + 1] >> 1 & 1)
    at += 2
    while numbers:
        numbers -= raw[at] < 0x80
        at += 1
    return at


def _places(demo: Demo, thread: int) -> Iterator[tuple[int, int, int]]:
    """(block, offset of the data in its content, bytes of the whole event) of each event of a thread."""
    for block, _, data, size in _events(demo, thread):
        yield block, data, size


def _events(demo: Demo, thread: int) -> Iterator[tuple[int, int, int, int]]:
    """(block, offset of the event, offset of its data, bytes of all of it)."""
    event, last = ffi.new("struct gr_event *"), ffi.new("uint64_t *")
    for number in demo.stream_blocks(thread)[0]:
        raw = demo.cached(number)
        base = ffi.from_buffer(raw)
        last[0], at = demo.block(number).base, 0
        while at < len(raw):
            took = lib.gr_event_decode(base + at, len(raw) - at, event, last)
            if not took:
                raise demo.broken(f"a stream block of thread {thread} holds no valid events")
            yield number, at, at + took - event.len, took
            at += took


def contents(data: bytes, stores: int, unseen: bool = False) -> Iterator[tuple[int, int]]:
    """Where in the DATA of a call's end its outputs stand, and the bytes of its STORES (their length together).

    INVARIANT(stores-in-their-data): raises ValueError where they are longer than what is there."""
    if stores and stores + 4 > len(data):
        raise ValueError("has stores longer than its data")
    end = len(data) - (stores + 4 if stores else 0)
    at = 0
    while at + 4 <= end:
        size = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if size and at + size <= end:
            yield at, at + size
        at += size
    at = len(data) - stores
    while stores and at + STORE.size <= len(data):
        _, size, kind, _ = STORE.unpack_from(data, at)
        at += STORE.size + (PLACE.size if kind == STORE_FILE else 0)
        if kind in WITH_BYTES:
            if at + size > len(data):
                raise ValueError("has a store longer than its data")
            if (unseen or kind == STORE_BYTES) and size:
                yield at, at + size
            at += -(-size // 8) * 8


def read(demo: Demo, span: Span) -> bytes:
    return demo.cached(span.block)[span.at : span.at + span.size]


def write(demo: Demo, out: Path, zeroed: Iterable[Span], note: object = None) -> int:
    """DEMO again at OUT, with these bytes set to zero; its size. NOTE goes into the manifest."""
    return rewrite(demo, out, ((span, bytes(span.size)) for span in zeroed), note)


def rewrite(
    demo: Demo,
    out: Path,
    changes: Iterable[tuple[Span, bytes]],
    note: object = None,
    manifest: Mapping[str, object] | None = None,
    check: Callable[[Demo], None] | None = None,
) -> int:
    """DEMO again at OUT, with other bytes in place of some, as many as there were. MANIFEST: what else is another.

    CHECK looks at the new demo before it gets its name, and may raise."""
    by_block: dict[int, list[tuple[int, bytes]]] = {}
    for span, instead in changes:
        by_block.setdefault(span.block, []).append((span.at, instead))
    told = {**demo.manifest, **(manifest or {})}
    if note is not None:
        told["minimised"] = note

    def changed(number: int, raw: bytes) -> bytes:
        content = bytearray(raw)
        for at, instead in by_block.get(number, ()):
            content[at : at + len(instead)] = instead
        return bytes(content)

    key = own.key() if own.made(demo) else None
    with draft(out) as file:
        size = carried.copy(demo, Writer(file, told), changed)
        size = seal.put(file, key) if key else size
        if check:
            file.flush()
            with Demo.open(f"/proc/self/fd/{file.fileno()}") as written:
                check(written)
        return size
