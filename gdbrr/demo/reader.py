"""Opens a demo: its table of blocks, its order, its damage. What a demo says is believed only after a check.

Runs in: the controller, the server, tests. May call: gdbrr.abi, gdbrr.demo, zstandard.
Owns: the rule that a demo is readable up to its first damaged block, and no further.
"""

from __future__ import annotations

import bisect
import os
import stat
import zlib
from _thread import RLock

from gdbrr.demo import format as fmt
from gdbrr.demo.events import Event, Walk, started_as
from gdbrr.demo.facts import Damage, DamagedDemo, End, Epoch, ThreadInfo
from gdbrr.demo.format import BadBlock, Block, BlockType
from gdbrr.demo.manifest import Manifest, parse
from gdbrr.errors import GdbrrError
from gdbrr.quick.numbers import Numbers
from gdbrr.quick.paths import Path
from gdbrr.quick.rows import TYPE_CHECKING
from gdbrr.quick.zstd import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from types import TracebackType

    from gdbrr.demo.referred import Referred

CACHE = 32 << 20
_PIECE = 1 << 20
_EPOCH_TICKS = 4096  # for a demo whose epoch block is lost


class _ThreadBlocks:
    """The stream blocks of one thread: their numbers, and how many operations stand before the end of each."""

    def __init__(self) -> None:
        self.number = Numbers()
        self.until = Numbers()
        self.operations = 0
        self.bytes = 0
        self.last = 0  # stamp


class Demo:
    """A demo, open for reading. Memory is bounded whatever its size."""

    def __init__(self, fd: int, path: Path) -> None:
        self.path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._zstd = zstandard.ZstdDecompressor(max_window_size=fmt.BLOCK_RAW * 2)
        self._offset = Numbers()
        self._header = bytearray()
        self._streams: dict[int, _ThreadBlocks] = {}
        self._orders = Numbers()
        self._order_start = Numbers()
        self._epoch_block: int | None = None
        self._end_block: int | None = None
        self._raw_total = self._cached = self.ticks = 0
        self.carried_blocks: dict[int, list[int]] = {}  # by number of the file
        self.content_blocks: dict[int, list[int]] = {}  # by number of the file that is referred to
        self._file_block: int | None = None
        self._files: tuple[Referred, ...] | None = None
        self.taken_out: dict[int, tuple[str, Referred]] = {}
        """Of these, where they were put (gdbrr.launch.files)."""
        self._at_close: ExitStack | None = None
        self._cache: dict[int, bytes] = {}
        self._lock = RLock()  # cache and decompressor; a demo may be read from several threads
        self._threads: tuple[ThreadInfo, ...] | None = None
        self._epochs: tuple[Epoch, ...] | None = None
        self.damage: Damage | None = None
        self.is_own: bool | None = None
        """Whether this user has made it; None: not known yet (gdbrr.launch.own)."""
        self.format = (0, 0)
        self.manifest: Manifest = {}

    @classmethod
    def open(cls, path: Path | str, check: bool = True) -> Demo:
        """Open the demo at `path`.

        With `check`, every checksum in the file is compared first, so that `ticks` and `damage` are final. Without,
        the index is believed, and damage may show while reading (DamagedDemo).
        """
        path = Path(path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            hint = "a demo is made by: gdbrr record PROGRAM"
            raise GdbrrError(f"{path} cannot be opened: {reason}", hint=hint) from None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise GdbrrError(f"{path} is not a demo", hint="name a file that gdbrr record made")
            demo = cls(fd, path)
            demo._load(check)
        except BaseException:
            os.close(fd)
            raise
        return demo

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._at_close:
            self._at_close.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._cache.clear()

    @property
    def at_close(self) -> ExitStack:
        """What was made on this machine for the demo."""
        from contextlib import ExitStack

        self._at_close = self._at_close or ExitStack()
        return self._at_close

    def __enter__(self) -> Demo:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------- the table of blocks

    def _load(self, check: bool) -> None:
        self.format = fmt.check_file_header(self._pread(0, fmt.FILE_HEADER.size), self.path)
        offset = fmt.FILE_HEADER.size
        try:
            for block in self._headers(check):
                if check:
                    self._verify(offset, block)
                self._add(offset, block)
                offset += fmt.BLOCK_HEADER.size + block.stored
            if self._end_block is None:
                raise BadBlock("the file is cut off between two blocks")
        except BadBlock as error:
            if not self._offset:
                hint = "copy the demo again from where it was recorded"
                raise GdbrrError(f"nothing of {self.path} can be read: {error}", hint=hint) from None
            self.damage = Damage(offset, str(error), self._size - offset, self.ticks)
        try:
            self.manifest = parse(self.raw(0))
        except BadBlock as error:
            raise GdbrrError(f"nothing of {self.path} can be read: {error}", hint="copy the demo again") from None

    def _headers(self, check: bool) -> Iterator[Block]:
        """Headers in the order of the file: from the index if it may be believed, else by walking."""
        index = None if check else self._index()
        if index is not None:
            for at in range(0, len(index), fmt.BLOCK_HEADER.size):
                yield Block.unpack(index[at : at + fmt.BLOCK_HEADER.size])
            return
        offset = fmt.FILE_HEADER.size
        while self._end_block is None:
            block = self._block_at(offset)
            yield block
            offset += fmt.BLOCK_HEADER.size + block.stored

    def _block_at(self, offset: int) -> Block:
        if offset == self._size:
            raise BadBlock("the file is cut off between two blocks")
        block = Block.unpack(self._pread(offset, fmt.BLOCK_HEADER.size))
        if offset + fmt.BLOCK_HEADER.size + block.stored > self._size:
            raise BadBlock(f"the file is cut off in {fmt.name(block)}")
        return block

    def _index(self) -> bytes | None:
        """All headers in a row, or None when the file has no whole index."""
        at = self._size - fmt.TRAILER.size
        try:
            offset, crc, magic = fmt.TRAILER.unpack(self._pread(max(at, 0), fmt.TRAILER.size).ljust(fmt.TRAILER.size))
            if magic != fmt.TRAILER_MAGIC or offset > at:
                return None
            header = self._pread(offset, fmt.BLOCK_HEADER.size)
            block = self._block_at(offset)
            if block.type != BlockType.INDEX or zlib.crc32(header) != crc:
                return None
            return fmt.decompress(block, self._pread(offset + fmt.BLOCK_HEADER.size, block.stored), self._zstd)
        except BadBlock:
            return None

    def _verify(self, offset: int, block: Block) -> None:
        crc, at, left = 0, offset + fmt.BLOCK_HEADER.size, block.stored
        while left:
            piece = self._pread(at, min(left, _PIECE))
            if not piece:
                break
            crc, at, left = zlib.crc32(piece, crc), at + len(piece), left - len(piece)
        if left or crc != block.crc:
            raise BadBlock(f"{fmt.name(block)} is damaged")

    def _add(self, offset: int, block: Block) -> None:
        """Take a block into the table, if it can follow those before it."""
        number = len(self._offset)
        self._raw_total += block.raw
        if number >= fmt.MAX_BLOCKS or self._raw_total > fmt.MAX_RAW_TOTAL:
            raise BadBlock("the demo is larger than any that gdbrr writes")
        if (number == 0) != (block.type == BlockType.MANIFEST):
            raise BadBlock("the manifest is not the first block")
        if self._end_block is not None:
            raise BadBlock("a block stands behind the end block")
        if block.type == BlockType.STREAM:
            self._add_stream(number, block)
        elif block.type == BlockType.ORDER:
            if block.base != self.ticks:
                raise BadBlock(f"{fmt.name(block)} stands where tick {self.ticks} is due")
            self._orders.append(number)
            self._order_start.append(self.ticks)
            self.ticks += block.first
        elif block.type == BlockType.EPOCHS:
            self._epoch_block = number
        elif block.type == BlockType.END:
            if block.base != self.ticks or block.first != self.stream_bytes:
                raise BadBlock("the end block does not fit the order")
            self._end_block = number
        elif block.type == BlockType.CARRIED:
            self.carried_blocks.setdefault(block.thread, []).append(number)
        elif block.type == BlockType.FILES:
            self._file_block = number
        elif block.type == BlockType.CONTENT:
            self.content_blocks.setdefault(block.thread, []).append(number)
        elif block.type == BlockType.INDEX:
            raise BadBlock("the index stands in front of the end block")
        elif block.type != BlockType.MANIFEST and block.type < fmt.OPTIONAL:
            raise BadBlock(f"{fmt.name(block)} is not known to this gdbrr")
        self._offset.append(offset)
        self._header += block.pack()

    def _add_stream(self, number: int, block: Block) -> None:
        known = self._streams.setdefault(block.thread, _ThreadBlocks())
        if block.base < known.last:
            raise BadBlock(f"{fmt.name(block)} goes back in stamps")
        known.number.append(number)
        known.operations += block.items
        known.until.append(known.operations)
        known.bytes += block.raw
        known.last = block.last

    # ---------------------------------------------------------------- blocks

    def _pread(self, offset: int, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.pread(self._fd, size, offset)
            except OSError as error:
                raise GdbrrError(f"{self.path} cannot be read: {error.strerror}", hint="copy the demo again") from None
            if not part:
                break
            parts.append(part)
            size, offset = size - len(part), offset + len(part)
        return b"".join(parts)

    def block(self, number: int) -> Block:
        at = number * fmt.BLOCK_HEADER.size
        return Block.unpack(bytes(self._header[at : at + fmt.BLOCK_HEADER.size]))

    @property
    def blocks(self) -> int:
        return len(self._offset)

    def raw(self, number: int) -> bytes:
        """The content of a block, decompressed and checked."""
        block = self.block(number)
        stored = self._pread(self._offset[number] + fmt.BLOCK_HEADER.size, block.stored)
        with self._lock:
            return fmt.decompress(block, stored, self._zstd)

    def cached(self, number: int) -> bytes:
        """The same as content(), with the blocks used last kept at hand (CACHE bytes of them)."""
        with self._lock:
            found = self._cache.pop(number, None)
            if found is None:
                found = self.content(number)
                self._cached += len(found)
            self._cache[number] = found  # the one used last is the last one
            while self._cached > CACHE and len(self._cache) > 1:
                self._cached -= len(self._cache.pop(next(iter(self._cache))))
            return found

    def content(self, number: int) -> bytes:
        """The same as raw(), with damage told as a DamagedDemo."""
        try:
            return self.raw(number)
        except BadBlock as error:
            raise self.broken(str(error)) from None

    def broken(self, reason: str) -> DamagedDemo:
        return DamagedDemo(f"{self.path} is damaged: {reason}", hint=f"see what can be read: gdbrr info {self.path}")

    def stream_blocks(self, thread: int) -> tuple[Numbers, Numbers]:
        """Numbers of the thread's stream blocks, and its operations up to the end of each."""
        known = self._streams.get(thread)
        return (known.number, known.until) if known else (Numbers(), Numbers())

    # ---------------------------------------------------------------- what is in it

    @property
    def complete(self) -> bool:
        return self.damage is None

    @property
    def size(self) -> int:
        return self._size

    @property
    def stream_bytes(self) -> int:
        """Of all events, before compression."""
        return sum(known.bytes for known in self._streams.values())

    @property
    def files(self) -> tuple[Referred, ...]:
        """Large files that it refers to, by number."""
        if self._files is None and self._file_block is None:
            self._files = ()
        if self._files is None:
            from gdbrr.demo import referred

            try:
                self._files = referred.parse(self.content(self._file_block or 0))
            except (ValueError, RecursionError):
                raise self.broken("its list of files makes no sense") from None
        return self._files

    @property
    def end(self) -> End:
        """How the program ended."""
        return End(self.manifest["end"]["kind"], self.manifest["end"]["value"])

    @property
    def order_blocks(self) -> int:
        return len(self._orders)

    @property
    def run_count(self) -> int:
        return sum(self.block(number).items for number in self._orders)

    def order(self, which: int) -> tuple[int, memoryview[int], memoryview[int]]:
        """Order block `which`: its first tick, runs (thread, count, thread, count ...), operations before it."""
        number = self._orders[which]
        block, raw = self.block(number), memoryview(self.cached(number))
        size = block.items * fmt.RUN.size
        runs, positions = raw[:size].cast("I"), raw[size:].cast("Q")
        counts = runs[1::2].tolist()
        if sum(counts) != block.first or not min(counts) or max(runs[0::2].tolist()) >= block.thread:
            raise self.broken(f"{fmt.name(block)} contradicts itself")
        known = [(known.operations, positions[t]) for t, known in self._streams.items() if t < block.thread]
        if sum(positions) != block.base or sum(p for _, p in known) != block.base or any(p > n for n, p in known):
            raise self.broken(f"{fmt.name(block)} names operations that are not there")
        return block.base, runs, positions

    def operations_in_streams(self, thread: int) -> int:
        known = self._streams.get(thread)
        return known.operations if known else 0

    @property
    def stream_threads(self) -> int:
        return len(self._streams)

    def operations(self) -> list[int]:
        """How many operations of each thread are in the total order."""
        if not self._orders:
            return []
        _, runs, positions = self.order(len(self._orders) - 1)
        done = list(positions)
        for thread, count in zip(runs[0::2], runs[1::2], strict=True):
            done[thread] += count
        for thread, count in enumerate(done):
            if count > self.operations_in_streams(thread):
                raise self.broken(f"the order names operations of thread {thread} that are not there")
        return done

    @property
    def threads(self) -> tuple[ThreadInfo, ...]:
        if self._threads is None:
            known = {row["index"]: row for row in self.manifest.get("threads", ())}
            found = []
            for index, count in enumerate(self.operations()):
                row = known.get(index) or self._started_as(index)
                size = self._streams[index].bytes if index in self._streams else 0
                found.append(ThreadInfo(index, count, size, row.get("recorded_tid"), row.get("parent")))
            self._threads = tuple(found)
        return self._threads

    def _started_as(self, index: int) -> dict[str, int]:
        known = self._streams.get(index)
        if known is None or self.format[0] < 2:
            return {}
        try:
            return started_as(index, self.raw(known.number[0]), self.block(known.number[0]).base)
        except BadBlock:
            return {}  # whoever reads the thread's events is told

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """All epochs; where the epoch block is lost, made anew at the starts of order blocks."""
        if self._epochs is None:
            rows = list(self.epoch_rows())
            if self.ticks and (not rows or rows[0][0] != 0):
                raise self.broken("the first epoch does not start at tick 0")
            found = []
            for index, (start, size, time) in enumerate(rows):
                end = rows[index + 1][0] if index + 1 < len(rows) else self.ticks
                if not start < end <= self.ticks:
                    raise self.broken("its epochs are not in order")
                seconds = None if time == fmt.UNKNOWN_TIME else time / 1e9
                found.append(Epoch(index, start, end, size, seconds))
            self._epochs = tuple(found)
        return self._epochs

    def epoch_rows(self) -> Iterator[tuple[int, int, int]]:
        if self._epoch_block is not None:
            yield from fmt.EPOCH.iter_unpack(self.content(self._epoch_block))
            return
        last = -_EPOCH_TICKS
        for start in self._order_start:
            if start - last >= _EPOCH_TICKS:
                yield start, 0, fmt.UNKNOWN_TIME
                last = start

    def order_block_of(self, tick: int) -> int:
        return bisect.bisect_right(self._order_start, tick) - 1

    def runs(self, first_block: int = 0) -> Iterator[tuple[int, int]]:
        """The total order as (thread, count), from an order block on."""
        for which in range(first_block, len(self._orders)):
            runs = self.order(which)[1]
            yield from zip(runs[0::2], runs[1::2], strict=True)

    def events(
        self, thread: int | None = None, start: int = 0, stop: int | None = None, runs: bool = False
    ) -> Iterator[Event]:
        """Events in total order, of one thread or of all, of the ticks start <= tick < stop.

        With RUNS a run is told once (as far as nobody came between), for whoever does not ask what is in one."""
        stop = self.ticks if stop is None else min(stop, self.ticks)
        return iter(Walk(self, thread, max(start, 0), stop, runs))
