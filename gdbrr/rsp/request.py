"""What GDB asks, as typed values; pure. Parsing never fails: what is not understood is Unknown or Malformed.

Runs in: the server and tests. May call: gdbrr.rsp.packet.
Owns: the requests this proxy knows. A request that is not listed here is never passed on to a gdbserver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from gdbrr.quick.values import dataclass
from gdbrr.rsp.packet import from_hex, unescape

ALL = -1
ANY = 0


@dataclass(frozen=True)
class ThreadId:
    """`p12.34`, `34`, `-1` (all) or `0` (any)."""

    tid: int
    pid: int | None = None

    @classmethod
    def parse(cls, text: bytes) -> ThreadId:
        if text[:1] == b"p":
            pid, dot, tid = text[1:].partition(b".")
            return cls(_id(tid) if dot else ALL, _id(pid))
        return cls(_id(text))

    @property
    def exact(self) -> bool:
        return self.tid > 0

    @property
    def alone(self) -> int:
        """The thread, 0 where it is no single one."""
        return self.tid if self.exact else 0

    def wire(self, multiprocess: bool) -> bytes:
        tid = b"-1" if self.tid == ALL else b"%x" % self.tid
        if not multiprocess or self.pid is None:
            return tid
        return b"p%b.%b" % (b"-1" if self.pid == ALL else b"%x" % self.pid, tid)


@dataclass(frozen=True)
class Request:
    """Base of all."""


@dataclass(frozen=True)
class Unknown(Request):
    payload: bytes


@dataclass(frozen=True)
class Malformed(Request):
    reason: str


@dataclass(frozen=True)
class Supported(Request):
    features: frozenset[str]


@dataclass(frozen=True)
class NoAck(Request):
    pass


@dataclass(frozen=True)
class Extended(Request):
    pass


@dataclass(frozen=True)
class NonStop(Request):
    on: bool


@dataclass(frozen=True)
class Action:
    step: bool
    signal: int = 0
    thread: ThreadId | None = None
    """None: every thread that no earlier action names."""


@dataclass(frozen=True)
class Resume(Request):
    actions: tuple[Action, ...]
    legacy: bool = False
    """`c`, `s`, `C`, `S`: for the thread of the last `Hc`."""


@dataclass(frozen=True)
class ResumeKinds(Request):
    pass


@dataclass(frozen=True)
class ReverseContinue(Request):
    pass


@dataclass(frozen=True)
class ReverseStep(Request):
    pass


@dataclass(frozen=True)
class StopReason(Request):
    pass


@dataclass(frozen=True)
class SetThread(Request):
    purpose: str
    thread: ThreadId


@dataclass(frozen=True)
class Alive(Request):
    thread: ThreadId


@dataclass(frozen=True)
class Breakpoint(Request):
    insert: bool
    type: int
    addr: int
    kind: int
    conditions: tuple[bytes, ...] = ()
    """Agent bytecode: one of them has to be met."""


@dataclass(frozen=True)
class ReadRegisters(Request):
    pass


@dataclass(frozen=True)
class ReadRegister(Request):
    number: int


@dataclass(frozen=True)
class WriteRegisters(Request):
    """`G` or `P`; payload as it came."""

    payload: bytes


@dataclass(frozen=True)
class ReadMemory(Request):
    addr: int
    length: int


@dataclass(frozen=True)
class WriteMemory(Request):
    """`M` or `X`; payload as it came."""

    addr: int
    length: int
    payload: bytes


@dataclass(frozen=True)
class SearchMemory(Request):
    payload: bytes


@dataclass(frozen=True)
class Transfer(Request):
    """`qXfer`."""

    object: str
    annex: bytes
    offset: int
    length: int


@dataclass(frozen=True)
class ThreadList(Request):
    first: bool


@dataclass(frozen=True)
class CurrentThread(Request):
    pass


@dataclass(frozen=True)
class Attached(Request):
    pass


@dataclass(frozen=True)
class TlsAddress(Request):
    thread: ThreadId
    rest: bytes


@dataclass(frozen=True)
class ThreadExtra(Request):
    thread: ThreadId


@dataclass(frozen=True)
class Symbol(Request):
    payload: bytes
    name: bytes
    value: bytes


@dataclass(frozen=True)
class PassSignals(Request):
    signals: frozenset[int]


@dataclass(frozen=True)
class ProgramSignals(Request):
    payload: bytes


@dataclass(frozen=True)
class CatchCalls(Request):
    """Which system calls to stop at: none, all (an empty set), or these."""

    numbers: frozenset[int] | None


@dataclass(frozen=True)
class HostFile(Request):
    """`vFile`; payload as it came."""

    operation: bytes
    arguments: bytes
    payload: bytes


@dataclass(frozen=True)
class Kill(Request):
    wants_reply: bool


@dataclass(frozen=True)
class Detach(Request):
    pass


@dataclass(frozen=True)
class Restart(Request):
    wants_reply: bool


@dataclass(frozen=True)
class Attach(Request):
    pid: int


@dataclass(frozen=True)
class Custom(Request):
    """`qGdbrr`: a request of gdbrr's own commands."""

    body: dict[str, Any]


def parse(payload: bytes) -> Request:
    """What PAYLOAD asks."""
    for pattern, make in _TABLE:
        match = pattern.fullmatch(payload)
        if match:
            try:
                return make(match)
            except (ValueError, UnicodeDecodeError, RecursionError) as error:
                return Malformed(str(error))
    return Unknown(payload)


def _id(digits: bytes) -> int:
    return ALL if digits == b"-1" else _hex(digits)


def _hex(digits: bytes) -> int:
    if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", digits):
        raise ValueError("not a hexadecimal number")
    return int(digits, 16)


def _thread(digits: bytes) -> ThreadId:
    return ThreadId.parse(digits)


def _vcont(match: re.Match[bytes]) -> Request:
    actions = []
    for text in match[1].split(b";"):
        verb, colon, thread = text.partition(b":")
        if verb[:1] not in (b"c", b"s", b"C", b"S") or (verb[:1] in (b"c", b"s") and len(verb) > 1):
            raise ValueError("only c, C, s and S are offered")
        signal = _hex(verb[1:]) if verb[:1] in (b"C", b"S") else 0
        actions.append(Action(verb[:1] in (b"s", b"S"), signal, _thread(thread) if colon else None))
    return Resume(tuple(actions))


def _legacy(match: re.Match[bytes]) -> Request:
    """`c` and `s` may bring an address to go on at; GDB does not send one, and it would be a register write."""
    signal = _hex(match[2]) if match[2] else 0
    return Resume((Action(match[1] in (b"s", b"S"), signal),), legacy=True)


def _custom(match: re.Match[bytes]) -> Request:
    body = json.loads(from_hex(match[1]))
    if not isinstance(body, dict):
        raise ValueError("not an object")
    return Custom(body)


def _point(match: re.Match[bytes]) -> Request:
    conditions = [
        bytes.fromhex(code.decode()) for code in re.findall(rb"X[0-9a-f]+,((?:[0-9a-f]{2})+)", match[5] or b"")
    ]
    return Breakpoint(match[1] == b"Z", int(match[2]), _hex(match[3]), _hex(match[4]), tuple(conditions))


def _written(match: re.Match[bytes]) -> Request:
    return WriteMemory(_hex(match[1]), _hex(match[2]), match[0])


def _transfer(match: re.Match[bytes]) -> Request:
    return Transfer(match[1].decode("ascii"), match[2], _hex(match[3]), _hex(match[4]))


def _symbol(match: re.Match[bytes]) -> Request:
    return Symbol(match[0], match[2], match[1])


def _signals(match: re.Match[bytes]) -> Request:
    return PassSignals(frozenset(_hex(number) for number in match[1].split(b";") if number))


def _features(match: re.Match[bytes]) -> Request:
    return Supported(frozenset(match[1].decode("ascii", "replace").split(";")) - {""})


def _rule(pattern: bytes, make: Callable[[re.Match[bytes]], Request]) -> tuple[re.Pattern[bytes], Any]:
    return re.compile(pattern, re.DOTALL), make


_TABLE: list[tuple[re.Pattern[bytes], Callable[[re.Match[bytes]], Request]]] = [
    _rule(rb"g", lambda m: ReadRegisters()),
    _rule(rb"p([0-9a-fA-F]+)", lambda m: ReadRegister(_hex(m[1]))),
    _rule(rb"m([0-9a-fA-F]+),([0-9a-fA-F]+)", lambda m: ReadMemory(_hex(m[1]), _hex(m[2]))),
    _rule(rb"[GP].+", lambda m: WriteRegisters(m[0])),
    _rule(rb"[MX]([0-9a-fA-F]+),([0-9a-fA-F]+):.*", _written),
    _rule(rb"H([a-zA-Z])(.+)", lambda m: SetThread(m[1].decode("ascii"), _thread(m[2]))),
    _rule(rb"T(.+)", lambda m: Alive(_thread(m[1]))),
    _rule(rb"([Zz])([0-4]),([0-9a-fA-F]+),([0-9a-fA-F]+)(?:;(.*))?", _point),
    _rule(rb"vCont\?", lambda m: ResumeKinds()),
    _rule(rb"vCont;(.+)", _vcont),
    _rule(rb"([cs])()", _legacy),
    _rule(rb"([CS])([0-9a-fA-F]+)", _legacy),
    _rule(rb"bc", lambda m: ReverseContinue()),
    _rule(rb"bs", lambda m: ReverseStep()),
    _rule(rb"\?", lambda m: StopReason()),
    _rule(rb"qSupported(?::(.*))?", lambda m: _features(m) if m[1] else Supported(frozenset())),
    _rule(rb"QStartNoAckMode", lambda m: NoAck()),
    _rule(rb"!", lambda m: Extended()),
    _rule(rb"QNonStop:([01])", lambda m: NonStop(m[1] == b"1")),
    _rule(rb"qXfer:([a-z0-9-]+):read:([^:]*):([0-9a-fA-F]+),([0-9a-fA-F]+)", _transfer),
    _rule(rb"qfThreadInfo", lambda m: ThreadList(True)),
    _rule(rb"qsThreadInfo", lambda m: ThreadList(False)),
    _rule(rb"qC", lambda m: CurrentThread()),
    _rule(rb"qAttached(?::.*)?", lambda m: Attached()),
    _rule(rb"qGetTLSAddr:([^,]+),(.+)", lambda m: TlsAddress(_thread(m[1]), m[2])),
    _rule(rb"qThreadExtraInfo,(.+)", lambda m: ThreadExtra(_thread(m[1]))),
    _rule(rb"qSymbol:([0-9a-fA-F]*):([0-9a-fA-F]*)", _symbol),
    _rule(rb"qSearch:memory:.+", lambda m: SearchMemory(m[0])),
    _rule(rb"QPassSignals:(.*)", _signals),
    _rule(rb"QProgramSignals:.*", lambda m: ProgramSignals(m[0])),
    _rule(rb"QCatchSyscalls:0", lambda m: CatchCalls(None)),
    _rule(rb"QCatchSyscalls:1((?:;[0-9a-fA-F]+)*)", lambda m: CatchCalls(frozenset(map(_hex, m[1].split(b";")[1:])))),
    _rule(rb"vFile:([a-z]+):(.*)", lambda m: HostFile(m[1], unescape(m[2]), m[0])),
    _rule(rb"vKill;.*", lambda m: Kill(True)),
    _rule(rb"k", lambda m: Kill(False)),
    _rule(rb"D(?:;.*)?", lambda m: Detach()),
    _rule(rb"vRun(?:;.*)?", lambda m: Restart(True)),
    _rule(rb"R.*", lambda m: Restart(False)),
    _rule(rb"vAttach;(.+)", lambda m: Attach(_hex(m[1]))),
    _rule(rb"qGdbrr:([0-9a-fA-F]*)", _custom),
]
