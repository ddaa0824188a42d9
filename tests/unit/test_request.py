"""What GDB's packets mean, and the stop replies in both directions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdbrr.rsp import request as rq
from gdbrr.rsp import stop as stops
from gdbrr.rsp.packet import expand, to_hex
from gdbrr.rsp.request import ALL, Action, ThreadId, parse
from gdbrr.rsp.stop import Stop

CASES = [
    (b"g", rq.ReadRegisters()),
    (b"p3a", rq.ReadRegister(0x3A)),
    (b"m7ffe,10", rq.ReadMemory(0x7FFE, 16)),
    (b"M10,2:abcd", rq.WriteMemory(0x10, 2, b"M10,2:abcd")),
    (b"X10,0:", rq.WriteMemory(0x10, 0, b"X10,0:")),
    (b"P10=00", rq.WriteRegisters(b"P10=00")),
    (b"Hgp1.2", rq.SetThread("g", ThreadId(2, 1))),
    (b"Hc-1", rq.SetThread("c", ThreadId(ALL))),
    (b"Hg0", rq.SetThread("g", ThreadId(0))),
    (b"Tp1.2", rq.Alive(ThreadId(2, 1))),
    (b"Z0,401136,1", rq.Breakpoint(True, 0, 0x401136, 1)),
    (b"Z0,401136,1;X3,220027", rq.Breakpoint(True, 0, 0x401136, 1, (b"\x22\x00\x27",))),
    (b"Z1,401136,1;X3,220027X2,2227", rq.Breakpoint(True, 1, 0x401136, 1, (b"\x22\x00\x27", b"\x22\x27"))),
    (b"z2,404040,40", rq.Breakpoint(False, 2, 0x404040, 64)),
    (b"vCont?", rq.ResumeKinds()),
    (b"vCont;s:p1.2;c:p1.-1", rq.Resume((Action(True, 0, ThreadId(2, 1)), Action(False, 0, ThreadId(ALL, 1))))),
    (b"vCont;C1e;c", rq.Resume((Action(False, 0x1E), Action(False)))),
    (b"c", rq.Resume((Action(False),), legacy=True)),
    (b"S05", rq.Resume((Action(True, 5),), legacy=True)),
    (b"bc", rq.ReverseContinue()),
    (b"bs", rq.ReverseStep()),
    (b"?", rq.StopReason()),
    (b"qSupported", rq.Supported(frozenset())),
    (b"qSupported:swbreak+;xmlRegisters=i386", rq.Supported(frozenset({"swbreak+", "xmlRegisters=i386"}))),
    (b"QNonStop:1", rq.NonStop(True)),
    (b"qXfer:auxv:read::0,1000", rq.Transfer("auxv", b"", 0, 0x1000)),
    (b"qXfer:features:read:target.xml:10,ffb", rq.Transfer("features", b"target.xml", 16, 0xFFB)),
    (b"qfThreadInfo", rq.ThreadList(True)),
    (b"qGetTLSAddr:p1.2,0,7ffff7d8", rq.TlsAddress(ThreadId(2, 1), b"0,7ffff7d8")),
    (b"qSymbol::", rq.Symbol(b"qSymbol::", b"", b"")),
    (b"qSymbol:4010:6e70", rq.Symbol(b"qSymbol:4010:6e70", b"6e70", b"4010")),
    (b"QPassSignals:e;10;", rq.PassSignals(frozenset({14, 16}))),
    (b"vFile:open:2f78,0,0", rq.HostFile(b"open", b"2f78,0,0", b"vFile:open:2f78,0,0")),
    (b"vKill;1b", rq.Kill(True)),
    (b"k", rq.Kill(False)),
    (b"D;1", rq.Detach()),
    (b"vRun;", rq.Restart(True)),
    (b"R00", rq.Restart(False)),
    (b"vAttach;2a", rq.Attach(42)),
    (b"qGdbrr:" + to_hex('{"verb":"status"}'), rq.Custom({"verb": "status"})),
]


@pytest.mark.parametrize(("payload", "meaning"), CASES, ids=[case[0].decode() for case in CASES])
def test_meaning(payload: bytes, meaning: rq.Request) -> None:
    assert parse(payload) == meaning


@pytest.mark.parametrize(
    "payload", [b"", b"vCtrlC", b"qTStatus", b"QThreadEvents:1", b"Z9,1,1", b"qXfer:auxv:write::0:x"]
)
def test_what_is_not_listed_is_unknown(payload: bytes) -> None:
    assert parse(payload) == rq.Unknown(payload)


@pytest.mark.parametrize(
    "payload",
    [
        *(b"vCont;r401000,401010:p1.2", b"vCont;t", b"vCont;x", b"Hgzz", b"m" + b"1" * 30 + b",1"),
        *(b"qGdbrr:", b"qGdbrr:7b", b"qGdbrr:abc", b"qGdbrr:" + to_hex("[1]"), b"qGdbrr:" + to_hex("[" * 100000)),
    ],
)
def test_malformed_requests_are_told_apart_and_do_not_raise(payload: bytes) -> None:
    assert isinstance(parse(payload), rq.Malformed)


@given(st.binary(max_size=80) | st.builds(lambda a, b: a + b, st.sampled_from([c[0][:6] for c in CASES]), st.binary()))
def test_parsing_never_raises(payload: bytes) -> None:
    assert isinstance(parse(payload), rq.Request)


@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=4))
def test_custom_requests_survive_the_wire(body: dict[str, object]) -> None:
    assert parse(b"qGdbrr:" + to_hex(json.dumps(body))) == rq.Custom(dict(body))


@given(st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_thread_ids_survive_the_wire(pid: int, tid: int) -> None:
    there = ThreadId(tid, pid)
    assert ThreadId.parse(there.wire(True)) == there
    assert ThreadId.parse(there.wire(False)) == ThreadId(tid)


def test_a_stop_of_gdbserver() -> None:
    # GIVEN a packet of gdbserver 13.1
    packet = b"T05swbreak:;06:80cb713cfd7f0* ;07:70cb713cfd7f0* ;10:7771fd28d1550* ;thread:18cb;core:1;"
    # WHEN it is parsed
    stop = stops.parse(expand(packet))
    # THEN nothing but the core is lost
    assert stop == Stop(5, 0x18CB, (("swbreak", ""),))
    assert stop.registers[16] == b"7771fd28d1550000"
    assert stops.parse(b"T05watch:404040;thread:7;").reasons == (("watch", "404040"),)


def test_the_end_of_a_process() -> None:
    assert stops.parse(b"W07").exit_status == 7
    assert stops.parse(b"X0b;process:12").ended == b"X0b"
    with pytest.raises(ValueError, match="not a stop reply"):
        stops.parse(b"OK")


def test_gdb_is_told_only_reasons_it_knows() -> None:
    stop = Stop(5, 7002, (("swbreak", ""), ("watch", "404040")), {16: b"00"})
    thread = ThreadId(7002, 7001)
    full = stops.render(stop, thread, frozenset({"swbreak+", "multiprocess+"}))
    assert full == b"T05swbreak:;watch:404040;10:00;thread:p1b59.1b5a;"
    assert stops.render(stop, thread, frozenset()) == b"T05watch:404040;10:00;thread:1b5a;"
    assert stops.render(Stop(ended=b"W07"), thread, frozenset({"multiprocess+"})) == b"W07;process:1b59"
