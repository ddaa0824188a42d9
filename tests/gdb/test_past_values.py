"""Going back to changes of expressions, listing all of them, times and bookmarks, in a real GDB on a real replay."""

from __future__ import annotations

import csv
import json
import re
from itertools import groupby
from pathlib import Path

import pytest

from harness import programs
from harness.said import NO_MORE

from .session import recorded, whole

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(programs.build("past_values"), tmp_path_factory.mktemp("values"))


def past(demo: Path, *commands: str) -> str:
    return whole(programs.build("past_values"), f"rr-replay {demo}", *commands)


def listed(out: str) -> list[list[str]]:
    """The rows of one `rr-history --csv`."""
    lines = out.splitlines()
    start = lines.index("value,before,moment,thread,code") + 1
    stop = next((at for at in range(start, len(lines)) if lines[at].count(",") < 4), len(lines))
    return list(csv.reader(lines[start:stop]))


def test_every_change_is_listed_and_can_be_gone_to(demo: Path) -> None:
    out = past(demo, "rr-history --csv sum", "echo \\n", "rr-when")
    rows = listed(out)
    assert len(rows) == 6 and rows[0][0] == "96" and rows[-1][1] == "0", out
    assert [row[1] for row in rows] == [row[0] for row in rows[1:]] + ["0"], "what it was is what the one before made"
    assert {row[4] for row in rows} == {"add at past_values.c:35"}
    assert len({row[3] for row in rows}) == 2, "two threads"
    end = re.findall(r"^tick (\d+) of \1 ", out, re.MULTILINE)
    assert len(end) == 2, "it stands where it stood"
    # Each row against the moment itself, and against going there by searching.
    visits = [word for row in rows for word in (f"rr-goto {row[2]}", "print sum", "next", "print sum")]
    out = past(demo, *visits)
    seen = re.findall(r"^\$\d+ = (\d+)$", out, re.MULTILINE)
    assert seen == [value for row in rows for value in (row[1], row[0])], out
    out = past(demo, *["rr-back -w sum"] * 7)
    assert re.findall(r"^sum: (\d+) -> (\d+) ", out, re.MULTILINE) == [(row[1], row[0]) for row in rows], out
    assert "rr-back: sum does not change before here. Try: rr-goto start" in out


def test_a_search_in_vain_stays(demo: Path) -> None:
    """The start, where it ended, is nobody's concern."""
    out = past(demo, "rr-goto 3", "rr-when", "rr-back -w sum", "rr-back -b fibonacci", "rr-back 99 -w sum", "rr-when")
    assert len(re.findall(r"^tick 3 ", out, re.MULTILINE)) == 3, out
    assert not NO_MORE.search(out) and not re.search(r"^tick 0 ", out, re.MULTILINE), out
    assert len(re.findall("^rr-back: .* before here. Try: rr-goto start$", out, re.MULTILINE)) == 3, out


def test_the_forms_of_the_list(demo: Path) -> None:
    out = past(demo, "rr-history -n 1 --json sum", "rr-history -n 1 sum", "rr-history head->payload[0]")
    line = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    assert line["value"] == "96" and line["code"] == "add at past_values.c:35"
    assert re.search(
        rf"^96 \(was {line['before']}\)  tick {line['moment']}  thread {line['thread']}  add at ", out, re.M
    )
    assert "0 (was <Cannot access memory at address 0x10>)" in out


def test_a_pointer_that_moves_is_followed(demo: Path) -> None:
    out = past(demo, "rr-history --csv head->key", *["rr-back -w head->key"] * 3)
    changes = re.findall(r"^head->key: (\S+) -> (\S+) at past_values.c:34", out, re.MULTILINE)
    rows = listed(out)
    assert len(rows) == 6 and [(row[1], row[0]) for row in rows[:3]] == changes, out
    assert rows[-1][1].startswith("<Cannot access memory")


def test_an_expression_and_a_wide_place(demo: Path) -> None:
    out = past(
        demo, "rr-history -n 2 --csv sum * 2 + head->key", "rr-back -w wide", "rr-back 3 -w wide", "rr-back -w wide[0]"
    )
    rows = listed(out)
    assert len(rows) == 2 and rows[0][4] == "add at past_values.c:35" and rows[1][4] == "add at past_values.c:34", out
    assert len(re.findall(r"^wide: .* at past_values.c:36 by thread", out, re.MULTILINE)) == 2, out
    assert "rr-back: wide[0] does not change before here" in out


def test_a_local_is_followed_to_the_birth_of_its_frame(demo: Path) -> None:
    out = past(
        demo,
        *("break fibonacci if n == 0", "reverse-continue", "up", "rr-history --csv a", "echo \\n", "info frame"),
        *("rr-back -w a", "rr-back -w a", "rr-back -w a", "backtrace 1"),
    )
    rows = listed(out)
    # fibonacci(2), in the middle of its sum: a was n, then fibonacci(1).
    assert [row[0] for row in rows] == ["1", "2"], out
    assert re.findall(r"^a: \S+ -> (\d) ", out, re.MULTILINE) == ["1", "2"], out
    assert re.search(r"^rr-back: a does not change before here in this call. Try: rr-back -w \*\(long", out, re.M)
    assert re.search(r"^#0  .*fibonacci \(n=2\)", out[out.rindex("rr-back: a") :], re.MULTILINE), out


def test_a_place_with_a_condition(demo: Path) -> None:
    out = past(
        demo,
        *(
            "break fibonacci if n == 1",
            "rr-back -b fibonacci if n == 4",
            "backtrace 1",
            "rr-back 2 -b fibonacci if n==3",
        ),
        *("rr-goto end", "rr-back -b fibonacci if n == 17", "rr-when", "rr-back -b if n == 3"),
    )
    assert re.search(r"^#0  fibonacci \(n=4\)", out, re.MULTILINE), out
    assert "rr-back: fibonacci if n==3 is not executed that often before here" in out
    assert "rr-back: fibonacci if n == 17 is not executed before here" in out
    assert re.search(r"^tick (\d+) of \1 \(100%\)", out[out.rindex("n == 17") :], re.MULTILINE), "it stays"
    assert "lacks a place or a condition" in out


def test_an_argument_has_no_value_before_its_call(demo: Path) -> None:
    """Where its first one is put there, nothing has changed yet; so the object that it points to is not taken for one
    that changed there, either."""
    out = past(
        demo, "break add", "reverse-continue", "delete", "finish", "reverse-step", "rr-back -w key", "rr-history key",
        "rr-when", "rr-back -w node->next", "rr-goto end", "rr-back -b fibonacci if n == 4", "rr-back -w n", "rr-when",
    )  # fmt: skip
    assert re.search(r"^rr-back: key does not change before here in this call\. Try: rr-back -w \*\(l", out, re.M), out
    assert "key does not change before here.\n" in out and "node->next: 0x0 -> 0x" in out, out
    assert "rr-back: n does not change before here in this call" in out and "fibonacci (n=4)" in out, out


def test_a_bit_field_is_not_its_neighbours(demo: Path) -> None:
    """They are in the same bytes."""
    out = past(demo, "rr-history --csv bits.low", "echo \\n", "rr-history --csv bits.high", "echo \\n", "print bits")
    low, high = (listed(part) for part in (out, out[out.rindex("value,before") :]))
    keys = [int(row[0]) for row in high]
    assert len(keys) == 6 and all(0 <= key < 32 for key in keys), out
    assert [int(row[0]) for row in low] == [number for number, _ in groupby(key % 8 for key in keys)], out
    for rows in (low, high):
        assert [row[1] for row in rows] == [row[0] for row in rows[1:]] + ["0"], out
    out = past(demo, "rr-back -w bits.low", "rr-back -w (bits).low", "rr-back 2 -w bits.low")
    told = re.findall(r"^\(?bits\)?\.low: (\d) -> (\d) at past_values\.c:37 ", out, re.MULTILINE)
    assert told == [(low[at][1], low[at][0]) for at in (0, 1, 3)], out


def test_a_place_as_break_takes_it(demo: Path) -> None:
    """By options, in one thread alone, with a condition that can be none."""
    ways = ("-function add", "-source past_values.c -line 31", "past_values.c:add", "past_values.c:31")
    out = past(demo, *(line for way in ways for line in ("rr-goto end", f"rr-back -b {way}", "echo \\n")))
    ticks = re.findall(r"^tick (\d+):\S+ of ", out, re.MULTILINE)
    assert len(ticks) == len(ways) and len(set(ticks)) == 1, out
    out = past(
        demo,
        *("rr-back -b add", "rr-back -b work", "rr-back -b past_values.c:45", "thread apply all -q print $_thread"),
        *("rr-back -b add thread 1", "rr-back -b add thread 99", "rr-back -b -function nowhere"),
        *("rr-goto end", "rr-back -b add if nothing == 1", "rr-back -b add if key =="),
    )
    assert "rr-back: add thread 1 is not executed before here" in out, out
    assert "rr-back: there is no thread 99 here. See: info threads" in out, out
    assert 'rr-back: Function "nowhere" not defined.' in out, out
    assert 'rr-back: No symbol "nothing" in current context.' in out, out
    assert "rr-back: A syntax error in expression" in out, out


def test_a_place_in_one_thread(demo: Path) -> None:
    """The one that one stands in at its last call, whoever calls behind that; with a condition and a count, too."""
    at_call = past(demo, "rr-back -b add", "print $_gthread", "print key")
    thread, key = re.findall(r"^\$\d = (\d+)$", at_call, re.MULTILINE)
    there = ("rr-back -b add", "print key", "next", "next")
    for way, last in (("", 1), ("2 ", 2)):
        out = past(demo, *there, f"rr-back {way}-b add thread {thread}", "print key")
        assert re.findall(r"^\$\d = (\d+)$", out, re.MULTILINE) == [key, str(int(key) - last + 1)], out
    out = past(demo, *there, f"rr-back 4 -b add thread {thread}")
    assert f"rr-back: add thread {thread} is not executed that often before here" in out, out
    out = past(demo, *there, f"rr-back -b add thread {thread} if key % 10 == 0", "print key")
    assert re.findall(r"^\$\d = (\d+)$", out, re.MULTILINE)[-1] == str(int(key) // 10 * 10), out


def test_times_and_bookmarks(demo: Path) -> None:
    out = past(
        demo,
        *("rr-goto 50%", "rr-mark middle", "rr-goto end", "rr-goto middle", "rr-mark", "rr-goto 0s", "rr-goto +60s"),
        *("rr-goto -60s", "rr-goto 60s", "rr-goto nowhere", "info gdbrr", "rr-goto 25:00:00"),
        "rr-goto 2001-02-03 04:05",
    )
    ticks = [int(tick) for tick in re.findall(r"^tick (\d+)(?::\S+)? of ", out, re.MULTILINE)]
    last = ticks[0]
    assert ticks[1] == ticks[3] and ticks[2] == last and ticks[4] == 0 and ticks[5] == last and ticks[6] == 0, out
    assert f"middle is tick {ticks[1]}. Try: rr-goto middle" in out
    assert "rr-goto: 60.000 s is not in this demo. It goes from 0 to 0." in out
    assert "rr-goto: there is no bookmark nowhere. Known are: middle" in out
    assert re.search(rf"^demo: +{re.escape(str(demo))}$", out, re.MULTILINE)
    assert re.search(r"^bookmarks: +middle$", out, re.MULTILINE)
    assert "rr-goto: 25:00:00 is no time of day: hour must be in 0..23. Try: rr-goto 14:03:05" in out
    assert re.search(r"rr-goto: 2001-02-03 04:05:00.000 is not in this demo. It goes from 20.*:.* to 20.*:", out), out
    out = past(demo, "rr-goto middle", "rr-mark -d middle", "rr-mark")
    assert f"tick {ticks[1]} of" in out and "There are no bookmarks" in out


def test_a_recording_can_be_looked_through_and_goes_on() -> None:
    program = programs.build("past_values")
    out = whole(
        program,
        *("break fibonacci", "rr-start --order random --seed 5", "rr-history --csv sum", "echo \\n", "rr-when"),
        *("delete", "continue"),
    )
    rows = listed(out)
    assert len(rows) == 6 and rows[0][0] == "96", out
    assert "\nrecording: " in out
    assert "96 " in out[out.rindex("recording: ") :]
