"""Remote-protocol bytes: frames, checksums, escapes and run lengths; pure.

Runs in: the server and tests. May call: the standard library only.
Owns: the byte level of the protocol; what a packet means is gdbrr.rsp.request's and gdbrr.rsp.stop's.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

MAX_PAYLOAD = 1 << 24
"""A frame that grows beyond this is not one: the peer is broken or hostile."""

_ESCAPE = 0x7D
_RUN = ord("*")
_SPECIAL = frozenset(b"$#}*")


class Kind(Enum):
    PACKET = auto()
    ACK = auto()
    NAK = auto()
    INTERRUPT = auto()
    BAD = auto()
    """A frame whose checksum is wrong: ask for it again, or ignore it where acknowledgements are off."""


class Event(NamedTuple):
    kind: Kind
    payload: bytes = b""


def checksum(payload: bytes) -> int:
    return sum(payload) & 0xFF


def frame(payload: bytes) -> bytes:
    """PAYLOAD as it goes over the wire; it is escaped already where it has to be."""
    return b"$%b#%02x" % (payload, checksum(payload))


def escape(data: bytes) -> bytes:
    """Binary DATA made fit for a payload."""
    out = bytearray()
    for byte in data:
        if byte in _SPECIAL:
            out += bytes((_ESCAPE, byte ^ 0x20))
        else:
            out.append(byte)
    return bytes(out)


def unescape(data: bytes) -> bytes:
    if b"}" not in data:
        return data
    out = bytearray()
    marks = iter(data)
    for byte in marks:
        out.append(next(marks, 0x20) ^ 0x20 if byte == _ESCAPE else byte)
    return bytes(out)


def expand(payload: bytes) -> bytes:
    """Undo run-length encoding: `0*"` is six zeros. Comes before unescape: runs are made of escaped bytes."""
    if b"*" not in payload:
        return payload
    out = bytearray()
    position = 0
    while position < len(payload):
        byte = payload[position]
        if byte == _RUN and out and position + 1 < len(payload):
            out += bytes((out[-1],)) * max(payload[position + 1] - 29, 0)
            position += 2
        else:
            out.append(byte)
            position += 1
    return bytes(out)


def to_hex(text: str | bytes) -> bytes:
    return (text.encode() if isinstance(text, str) else text).hex().encode()


def from_hex(digits: bytes) -> bytes:
    """Raises ValueError for anything but pairs of hexadecimal digits."""
    return bytes.fromhex(digits.decode("ascii"))


def writes(payload: bytes, most: int) -> list[bytes]:
    """An `X` or `M` packet in packets of at most MOST bytes of memory."""
    head, _, digits = payload.partition(b":")
    addr, _, length = head[1:].partition(b",")
    if int(length, 16) <= most:
        return [payload]
    data = unescape(digits) if head[:1] == b"X" else from_hex(digits)
    parts = ((int(addr, 16) + at, data[at : at + most]) for at in range(0, len(data), most))
    return [b"X%x,%x:%b" % (at, len(part), escape(part)) for at, part in parts]


def error_text(message: str) -> bytes:
    """A textual error reply. It is no binary payload: what would end the frame is replaced."""
    printable = "".join(c if " " <= c <= "~" and c not in "$#}*" else "'" for c in message)
    return b"E." + printable.encode("ascii")


class Framer:
    """Bytes in any slices go in, whole events come out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        self._buffer += data
        events = []
        while (event := self._next()) is not None:
            events.append(event)
        return events

    def _next(self) -> Event | None:
        """One event off the front of the buffer, if it is whole."""
        simple = {0x03: Kind.INTERRUPT, ord("+"): Kind.ACK, ord("-"): Kind.NAK}
        skip = 0
        buffer = self._buffer
        while skip < len(buffer) and buffer[skip] != ord("$"):
            kind = simple.get(buffer[skip])
            skip += 1
            if kind is not None:
                del buffer[:skip]
                return Event(kind)
        del buffer[:skip]
        if not buffer:
            return None
        end = buffer.find(b"#", 1)
        if end < 0 or len(buffer) < end + 3:
            if len(buffer) > MAX_PAYLOAD:
                buffer.clear()
                return Event(Kind.BAD)
            return None
        payload = bytes(buffer[1:end])
        digits = bytes(buffer[end + 1 : end + 3])
        del buffer[: end + 3]
        try:
            good = int(digits, 16) == checksum(payload)
        except ValueError:
            good = False
        return Event(Kind.PACKET, payload) if good else Event(Kind.BAD, payload)
