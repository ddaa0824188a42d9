"""How text that a demo brought along is shown.

Runs in: commands outside GDB. May call: the standard library.
Owns: the rule that nothing from a demo reaches a terminal unescaped.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Text with everything escaped that is not a printable character, bytes that are no UTF-8 as \\xNN."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(c: str) -> str:
    if "\udc80" <= c <= "\udcff":  # how os.fsdecode() shows a byte that is not UTF-8
        return f"\\x{ord(c) - 0xDC00:02x}"
    return c.encode("unicode_escape", "surrogatepass").decode("ascii")


def preview(data: bytes, room: int) -> str:
    """The start of some bytes as text, for one column of a table."""
    shown = "".join(chr(b) if 32 <= b < 127 and b != 92 else _BYTES.get(b, f"\\x{b:02x}") for b in data[:room])
    whole = len(data) <= room and len(shown) <= room
    return f'"{shown}"' if whole else f'"{shown[: room - 3]}"...'


_BYTES = {9: "\\t", 10: "\\n", 13: "\\r", 92: "\\\\"}
