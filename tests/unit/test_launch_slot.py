"""The handshake of a slot, against a process that only pretends to be the engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdbrr import abi
from gdbrr.abi import lib
from gdbrr.ctl import control as controls
from gdbrr.ctl import futex
from gdbrr.ctl.control import Armed, Control, Match, ProcessEnded, Slot
from gdbrr.errors import GdbrrError
from gdbrr.launch import spawn
from gdbrr.launch.engine import Engine

Script = Callable[[Slot], None]


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    control = Control(abi.map_ctl(tmp_path / "ctl", create=True))
    yield control
    control.close()


def announce(slot: Slot, state: int) -> None:
    """What the engine does behind a new state."""
    slot._raw.state = state
    slot._raw.ack_seq += 1
    futex.wake(slot._ack_address)


def next_command(slot: Slot, seen: int) -> int:
    while slot._raw.cmd_seq == seen:
        futex.wait(slot._cmd_address, seen, 1.0)
    return int(slot._raw.cmd)


@pytest.fixture
def play(control: Control) -> Iterator[Callable[[Slot, Script], int]]:
    """Run SCRIPT as the process of a slot."""
    pids: list[int] = []

    def start(slot: Slot, script: Script) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                slot._raw.pid = os.getpid()
                script(slot)
            finally:
                os._exit(0)
        pids.append(pid)
        return pid

    yield start
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_command_is_answered(control: Control, play: Callable[[Slot, Script], int]) -> None:
    slot = control.take_slot()

    def engine(slot: Slot) -> None:
        announce(slot, lib.GR_S_STANDING)
        assert next_command(slot, 0) == lib.GR_CMD_RUN
        slot._raw.tick = slot._raw.stop_tick
        announce(slot, lib.GR_S_RUNNING)
        announce(slot, lib.GR_S_STANDING)
        signal.pause()

    pid = play(slot, engine)
    assert slot.wait([lib.GR_S_STANDING]) == lib.GR_S_STANDING
    assert slot.pid == pid
    slot.command(lib.GR_CMD_RUN, stop_tick=77)
    assert slot.wait([lib.GR_S_STANDING]) == lib.GR_S_STANDING
    assert slot.tick == 77


def test_old_answer_is_not_taken_for_a_new_one(control: Control) -> None:
    slot = control.take_slot()
    announce(slot, lib.GR_S_STANDING)
    assert slot.answered([lib.GR_S_STANDING])
    slot.command(lib.GR_CMD_RUN, stop_tick=1)
    assert not slot.answered([lib.GR_S_STANDING])
    with pytest.raises(ProcessEnded, match="does not answer"):
        slot.wait([lib.GR_S_STANDING], timeout=0.01)


def test_end_of_the_process_is_noticed(control: Control, play: Callable[[Slot, Script], int]) -> None:
    slot = control.take_slot()
    play(slot, lambda slot: None)
    while not slot.pid:
        slot.nap(0.001)
    with pytest.raises(ProcessEnded, match="ended by itself"):
        slot.wait([lib.GR_S_STANDING])


def test_panic_ends_every_wait(control: Control) -> None:
    slot = control.take_slot()
    slot._raw.panic.set = 1
    slot._raw.panic.code = lib.GR_PANIC_DESYNC
    slot._raw.panic.text = b"another operation\nthe way out"
    announce(slot, lib.GR_S_PANIC)
    assert slot.wait([lib.GR_S_STANDING]) == lib.GR_S_PANIC
    panic = slot.panic
    assert panic
    assert (panic.text, panic.hint, panic.desynchronised) == ("another operation", "the way out", True)


def test_wait_can_be_left_by_its_caller(control: Control) -> None:
    slot = control.take_slot()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        slot.wait([lib.GR_S_STANDING], poll=stop)


def test_newest_hits_are_kept_in_order(control: Control) -> None:
    slot = control.take_slot()
    slot.arm([Armed(0x1000, 4, lib.GR_POINT_CHANGE, 7, 3)], Match({"rip": 5, "rax": 6}, {"rax": 7}))
    point = slot._raw.point[0]
    assert (slot._raw.points, point.addr, point.len, point.from_tick, point.stop_at) == (1, 0x1000, 4, 7, 3)
    assert (slot._raw.match_on, slot._raw.match.rip, slot._raw.match.rax) == (1, 5, 6)
    assert (slot._raw.meant.rip, slot._raw.meant.rax) == (5, 7)
    for number in range(lib.GR_HITS + 3):
        slot._raw.hit[number % lib.GR_HITS].tick = number
        slot._raw.hits += 1
    assert [hit.tick for hit in slot.hits()] == list(range(3, lib.GR_HITS + 3))
    slot.arm([])
    assert slot.hits() == []


def test_slots_are_handed_out_once_and_clean(control: Control) -> None:
    slots = [control.take_slot(flags=lib.GR_SLOT_HOLD_END) for _ in range(lib.GR_SLOTS - 1)]
    assert sorted(slot.index for slot in slots) == list(range(1, lib.GR_SLOTS))
    with pytest.raises(GdbrrError, match=r"Lower limits\.checkpoints"):
        control.take_slot()
    announce(slots[0], lib.GR_S_PANIC)
    control.give_slot(slots[0])
    fresh = control.take_slot()
    assert fresh.index == slots[0].index
    assert (fresh._raw.ack_seq, fresh.state, fresh._raw.flags) == (0, lib.GR_S_EMPTY, 0)


def test_trace_is_a_ring(control: Control) -> None:
    slot = control.take_slot()
    for place in range(3):
        control._raw.trace[place] = 100 + place
    slot._raw.trace_len = 3
    assert control.trace(slot) == ([100, 101, 102], True)
    control._raw.trace[lib.GR_TRACE_MAX - 1] = 99
    slot._raw.trace_len = lib.GR_TRACE_MAX + 2
    pcs, whole = control.trace(slot)
    assert not whole
    assert (pcs[-3], pcs[-2:]) == (99, [100, 101])


@pytest.mark.parametrize("hits", [1 << 40, (1 << 64) - 1, lib.GR_HITS + 1])
def test_more_hits_than_there_can_be_are_no_hits(hits: int, control: Control) -> None:
    """INVARIANT(page-is-untrusted), as for all that follow."""
    slot = control.take_slot()
    slot.arm([Armed(0x1000, 4, lib.GR_POINT_CHANGE)])
    slot._raw.hits = hits
    with pytest.raises(ProcessEnded, match="tampered"):
        slot.take_hits([])
    assert len(slot.hits()) == lib.GR_HITS


def test_a_hit_of_no_point_and_one_with_an_endless_place(control: Control) -> None:
    slot = control.take_slot()
    slot.arm([Armed(0x1000, 4, lib.GR_POINT_CHANGE)])
    slot._raw.hits = 1
    slot._raw.hit[0].place_len = (1 << 64) - 1
    assert len(slot.hits()[0].place) == lib.GR_PLACE
    slot._raw.hit[0].point = 1
    with pytest.raises(ProcessEnded, match="tampered"):
        slot.hits()


def test_lengths_that_lead_beyond_their_room(control: Control, play: Callable[[Slot, Script], int]) -> None:
    slot = control.take_slot()

    def answer(slot: Slot) -> None:
        next_command(slot, 0)
        control._raw.digest_len = lib.GR_DIGEST_ROOM + 1
        announce(slot, lib.GR_S_STANDING)

    slot._raw.state = lib.GR_S_STANDING
    play(slot, answer)
    with pytest.raises(ProcessEnded, match="tampered"):
        control.digest(slot)
    slot._raw.trace_len = (1 << 64) - 1
    assert len(control.trace(slot)[0]) == lib.GR_TRACE_MAX
    slot._raw.stretches = (1 << 32) - 1
    slot._raw.stretch[0].start, slot._raw.stretch[0].end = 0x1000, 0x2000
    slot._raw.stretch[1].start, slot._raw.stretch[1].end = 0x1000, (1 << 64) - 1
    slot._raw.stretch[2].start, slot._raw.stretch[2].end = 0x2000, 0x1000
    assert slot.take_stretches() == [(0x1000, 0x2000)]


def test_a_panic_of_no_kind(control: Control) -> None:
    slot = control.take_slot()
    slot._raw.panic.set, slot._raw.panic.code = 1, 4711
    slot._raw.panic.text = b"\x1b" * (lib.GR_PANIC_TEXT - 1) + b"x"
    with pytest.raises(ProcessEnded, match="tampered"):
        _ = slot.panic


def test_what_was_written_here_is_not_read_back(control: Control) -> None:
    slot = control.take_slot(lib.GR_SLOT_HOLD_END, 3)
    slot._raw.flags, slot._raw.final_thread = 0xFFFFFFFF, 7
    slot.flag(lib.GR_SLOT_TRACE)
    assert (slot._raw.flags, slot.flags, slot.final_thread) == (
        lib.GR_SLOT_HOLD_END | lib.GR_SLOT_TRACE, lib.GR_SLOT_HOLD_END | lib.GR_SLOT_TRACE, 3,
    )  # fmt: skip


def test_numbers_of_no_process(control: Control) -> None:
    slot = control.take_slot()
    slot._raw.pid = 0xFFFFFFFF
    with pytest.raises(ProcessEnded):
        slot.wait([lib.GR_S_STANDING])


def test_an_engine_that_does_not_start_is_not_waited_for(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "START_LIMIT", 0.05)
    with pytest.raises(ProcessEnded, match="did not start within"):
        control.slot(0).wait([lib.GR_S_STANDING])
    announce(control.slot(0), lib.GR_S_RUNNING)
    with pytest.raises(ProcessEnded, match="does not answer"):
        control.slot(0).wait([lib.GR_S_STANDING], timeout=0.2)


def test_a_launcher_that_does_not_come_back_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows a packed program up to its engine, and that may not want to come there."""
    monkeypatch.setattr(controls, "START_LIMIT", 0.05)
    launcher = tmp_path / "launcher"
    launcher.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 600\n")
    launcher.chmod(0o755)
    start = spawn.Start("/bin/true", ["true"], [], None, bytes(16), -1)
    with abi.made_ctl() as (page, fd):
        with pytest.raises(GdbrrError, match="did not start within"):
            spawn.launch(Engine(tmp_path / "engine", launcher), start, page, spawn.file_of(fd), tmp_path / "data")
        page.close()
    pid = (tmp_path / "pid").read_text().strip() if (tmp_path / "pid").exists() else "none"
    assert not Path(f"/proc/{pid}").exists()
