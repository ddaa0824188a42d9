"""A growing array of numbers below 2^64, eight bytes each, without the module array: that imports collections.

Runs in: the controller, the server, tests. May call: nothing.
Owns: nothing.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Numbers:
    """Like a list of numbers, but for what is not needed of one."""

    __slots__ = ("_raw",)

    def __init__(self) -> None:
        self._raw = bytearray()

    def append(self, number: int) -> None:
        self._raw += number.to_bytes(8, "little")

    def __len__(self) -> int:
        return len(self._raw) >> 3

    def __getitem__(self, index: int) -> int:
        at = 8 * index + (len(self._raw) if index < 0 else 0)
        if not 0 <= at < len(self._raw):
            raise IndexError(index)
        return int.from_bytes(self._raw[at : at + 8], "little")

    def __iter__(self) -> Iterator[int]:
        return iter(memoryview(bytes(self._raw)).cast("Q"))
