"""The ids that GDB sees."""

from __future__ import annotations

from gdbrr.rsp.ids import ids_of, place_of_id
from gdbrr.timeline.model import ThreadView


def view(index: int, tid: int, recorded: int) -> ThreadView:
    return ThreadView(index, tid, recorded, True, {}, 0, False, 0, 0)


def test_ids_are_those_of_the_recording() -> None:
    assert ids_of([view(0, 50, 7001), view(1, 51, 7002)]) == {50: 7001, 51: 7002}


def test_what_is_no_id_is_replaced_by_the_same_number_in_every_process() -> None:
    recorded = [0, 0xFFFFFFFF, 7, 7, 1 << 31]
    first = ids_of([view(index, 50 + index, number) for index, number in enumerate(recorded)])
    second = ids_of([view(index, 90 - index, number) for index, number in reversed(list(enumerate(recorded)))])
    assert list(first.values()) == [second[90 - index] for index in range(5)]
    assert len(set(first.values())) == 5
    assert all(0 < number < 1 << 31 for number in first.values())
    assert first[52] == 7


def test_half_a_pointer_is_no_id() -> None:
    """INVARIANT(id-is-no-pointer): where ids begin again, a thread of a replay may have the one of 0x7fff."""
    descriptor = b"".join(word.to_bytes(8, "little") for word in (0x7FFFF7D80740, 0, 0x7FFF, 3 << 32 | 0x7FFF))
    assert place_of_id(0x7FFF, descriptor) == 16
    assert place_of_id(3, descriptor) is None
