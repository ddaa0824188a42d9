"""The unwind tables of the kernel's own library, as they are true: the engine put other code where its functions begin.

Runs in: the server. May call: gdbrr.rsp.process.threads.
Owns: which bytes of it a debugger is shown as others than they are.
"""

from __future__ import annotations

import struct

from gdbrr.rsp.process.threads import Attached

_AT_SYSINFO_EHDR = 33
_EH_FRAME = 0x6474E550
_DYNAMIC, _HASH, _STRTAB, _SYMTAB = 2, 4, 5, 6
_FUNCTION = 2
_POINTERS = bytes([0x1B, 0x03, 0x3B])
"""Encodings in the table's head: its entries are sorted pairs of 4 bytes, from the head on."""
_REPLACED = ("clock_gettime", "gettimeofday", "time", "clock_getres", "getcpu")
"""See preload/syscall/vdso.c, whose code pushes nothing: on all of it holds what holds at a function's first byte."""
_LARGEST = 0x10000


class Vdso:
    def __init__(self, process: Attached) -> None:
        self.start = self.end = 0
        self._blank: list[tuple[int, int]] = []
        auxv = process.upstream.transfer("auxv", b"")
        for kind, value in struct.iter_unpack("<QQ", auxv[: len(auxv) // 16 * 16]):
            if kind == _AT_SYSINFO_EHDR:
                self.start = value
        image = b""
        while self.start and len(image) < _LARGEST:
            part = process.upstream.memory(self.start + len(image), 0x1000)
            image += part
            if len(part) < 0x1000:
                break
        self.end = self.start + len(image)
        try:
            self._blank = [(self.start + at, length) for at, length in _rules(image)]
        except (struct.error, ValueError, IndexError):
            self._blank = []  # one that is laid out in another way stays as it is

    def shown(self, addr: int, digits: bytes) -> bytes:
        """What is read at ADDR, as it is to be seen: no rules (DW_CFA_nop) where the kernel's own are not true."""
        length = len(digits) // 2
        if not self._blank or addr >= self.end or addr + length <= self.start:
            return digits
        out = bytearray(digits)
        for at, size in self._blank:
            first, last = max(at, addr), min(at + size, addr + length)
            if first < last:
                out[2 * (first - addr) : 2 * (last - addr)] = b"0" * (2 * (last - first))
        return bytes(out)


def _rules(image: bytes) -> list[tuple[int, int]]:
    """Where the instructions of the unwind tables of replaced functions lie: (offset, length)."""
    offset, size, count = struct.unpack_from("<Q14x2H", image, 32)
    headers = [struct.unpack_from("<2I6Q", image, offset + index * size) for index in range(count)]
    dynamic = next(header for header in headers if header[0] == _DYNAMIC)
    tables = dict(struct.iter_unpack("<QQ", image[dynamic[2] : dynamic[2] + dynamic[5] // 16 * 16]))
    head = next(header[2] for header in headers if header[0] == _EH_FRAME)
    if image[head + 1 : head + 4] != _POINTERS:
        return []
    found = []
    places = _functions(image, tables)
    for row in range(struct.unpack_from("<I", image, head + 8)[0]):
        start, entry = struct.unpack_from("<2i", image, head + 12 + 8 * row)
        if head + start in places:
            at = head + entry
            length = struct.unpack_from("<I", image, at)[0]
            rules = at + 4 + 4 + 4 + 4 + 1 + image[at + 16]  # behind its head, the range, and what is added to it
            found.append((rules, at + 4 + length - rules))
    return found


def _functions(image: bytes, tables: dict[int, int]) -> set[int]:
    """Offsets of the functions that the engine replaces."""
    found = set()
    # With only a GNU hash table the string table's start ends the symbols: the linker puts it right behind them.
    count = struct.unpack_from("<I", image, tables[_HASH] + 4)[0] if _HASH in tables else 0
    count = count or (tables[_STRTAB] - tables[_SYMTAB]) // 24
    for index in range(count):
        name, kind, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, tables[_SYMTAB] + 24 * index)
        text = image[tables[_STRTAB] + name :].split(b"\0", 1)[0].decode("ascii", "replace")
        if kind & 15 == _FUNCTION and text.removeprefix("__vdso_") in _REPLACED:
            found.add(value)
    return found
