"""Frames, escapes and run lengths of the remote protocol."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gdbrr.rsp.packet import Event, Framer, Kind, error_text, escape, expand, frame, from_hex, to_hex, unescape


def slices(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(st.lists(st.binary(max_size=60), max_size=5), st.lists(st.integers(0, 1000), max_size=8))
def test_packets_arrive_whole_however_the_bytes_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(b"+" + frame(escape(payload)) for payload in payloads)
    framer = Framer()
    events = [event for part in slices(stream, cuts) for event in framer.feed(part)]
    got = [unescape(event.payload) for event in events if event.kind is Kind.PACKET]
    assert got == payloads
    assert sum(event.kind is Kind.ACK for event in events) == len(payloads)


def test_ctrl_c_is_seen_between_packets_and_is_data_inside() -> None:
    framer = Framer()
    events = framer.feed(b"\x03" + frame(b"a\x03b") + b"\x03-")
    assert [event.kind for event in events] == [Kind.INTERRUPT, Kind.PACKET, Kind.INTERRUPT, Kind.NAK]
    assert events[1].payload == b"a\x03b"


def test_a_wrong_checksum_is_no_packet_and_does_not_hide_the_next_one() -> None:
    framer = Framer()
    events = framer.feed(b"$abc#00" + b"$abc#zz" + frame(b"ok"))
    assert [event.kind for event in events] == [Kind.BAD, Kind.BAD, Kind.PACKET]
    assert events[2] == Event(Kind.PACKET, b"ok")


@given(st.binary(max_size=300))
def test_noise_never_raises(data: bytes) -> None:
    Framer().feed(data)
    expand(data)
    unescape(data)


def test_run_lengths() -> None:
    # GIVEN replies as gdbserver sends them: `*` and a character, 29 more than the repetitions
    assert expand(b"0* ") == b"0000"
    assert expand(b'70f0*"1') == b"70f0000001"
    assert expand(b"xyz") == b"xyz"
    # An escaped star is made of other bytes and is no run.
    assert unescape(expand(escape(b"a*b"))) == b"a*b"


@given(st.binary(max_size=200))
def test_escaping_is_undone(data: bytes) -> None:
    escaped = escape(data)
    assert not set(b"$#*") & set(escaped)
    assert unescape(escaped) == data


def test_hexadecimal() -> None:
    assert to_hex("äb") == b"c3a462"
    assert from_hex(b"c3a462") == b"\xc3\xa4b"


def test_an_error_text_fits_into_a_frame() -> None:
    text = error_text("what#is $this}? 100*ü\n")
    assert text == b"E.what'is 'this'? 100'''"
    assert Framer().feed(frame(text)) == [Event(Kind.PACKET, text)]
