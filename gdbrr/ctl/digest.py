"""A digest of a process's state: what a DIGEST event holds and GR_CMD_DIGEST leaves.

Runs in: the server and scripts. May call: errors, abi.
Owns: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gdbrr.abi import ffi, lib
from gdbrr.errors import GdbrrError


@dataclass(frozen=True)
class Digest:
    """Equal digests are equal states, but for what preload/digest/mask.c leaves out."""

    regs: tuple[dict[str, int], ...]
    """Of each thread, by index."""
    vectors: int
    """Hash of the vector registers; 0 where they belong to nobody."""
    ranges: tuple[tuple[int, int], ...]
    """Writable memory."""
    pages: dict[int, int]
    """Hash by address of every page that is not zero."""

    @classmethod
    def parse(cls, raw: bytes) -> Digest:
        try:
            return cls._parse(raw)
        except (RuntimeError, ValueError, IndexError):
            raise GdbrrError("the digest is damaged", "record the program again") from None

    @classmethod
    def _parse(cls, raw: bytes) -> Digest:
        cursor = _Cursor(raw)
        head = cursor.take("struct gr_digest")
        regs = []
        for _ in range(head.threads):
            row = cursor.take("struct gr_regs")
            regs.append({name: int(getattr(row, name)) for name, _ in ffi.typeof("struct gr_regs").fields})
        ranges, pages = [], {}
        for _ in range(head.ranges):
            extent = cursor.take("struct gr_digest_range")
            ranges.append((int(extent.start), int(extent.end)))
            for _ in range(extent.groups):
                group = cursor.take("struct gr_digest_group")
                for bit in range(lib.GR_DIGEST_PAGES):
                    if group.pages >> bit & 1:
                        pages[int(group.start) + bit * lib.GR_PAGE] = cursor.word()
        return cls(tuple(regs), int(head.vectors), tuple(ranges), pages)

    def differences(self, other: Digest) -> Iterator[str]:
        """What is not equal, a few words each."""
        if len(self.regs) != len(other.regs):
            yield f"{len(self.regs)} threads, not {len(other.regs)}"
        for index, (mine, theirs) in enumerate(zip(self.regs, other.regs, strict=False)):
            for name in mine:
                if mine[name] != theirs[name]:
                    yield f"thread {index}: {name} is {mine[name]:#x}, not {theirs[name]:#x}"
        if self.vectors != other.vectors:
            yield "the vector registers"
        for start, end in sorted(set(self.ranges) ^ set(other.ranges)):
            yield f"memory {start:#x}-{end:#x} is in one only"
        for page in sorted(self.pages.keys() | other.pages.keys()):
            if self.pages.get(page) != other.pages.get(page):
                yield f"the page at {page:#x}"


class _Cursor:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def take(self, kind: str) -> Any:
        size = ffi.sizeof(kind)
        row = ffi.new(f"{kind} *")
        piece = self._raw[self._at : self._at + size]
        if len(piece) != size:
            raise ValueError
        ffi.memmove(row, piece, size)
        self._at += size
        return row

    def word(self) -> int:
        self._at += 4
        if self._at > len(self._raw):
            raise ValueError
        return int.from_bytes(self._raw[self._at - 4 : self._at], "little")
