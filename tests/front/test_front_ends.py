"""What stands between a person and GDB: its own text interface, vim's termdebug, and others over the machine interface.

The program has one thread and five calls, so every line and value is known. A front end followed when it shows them.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import ROOT, programs
from harness.run import gdbrr
from harness.said import ENDS
from harness.screen import Screen
from harness.terminal import Terminal

pytestmark = pytest.mark.needs("gdb", "gdbserver", "perf_breakpoints")

SOURCE = (programs.SOURCES / "scenes.c").read_text().splitlines()
ADDS = SOURCE.index("\tvalue += number;") + 1
CALLS = SOURCE.index("\t\there(i);") + 1
LOOPS = CALLS - 1

# What is typed, where it leads, and `value` there.
WAY = (
    ("rr-back -w value", ADDS, 10),
    ("rr-back 2 -w value", ADDS, 3),
    ("rr-history -n 2 value * 1", ADDS, 3),
    ("rr-back 99 -w value", ADDS, 3),
    ("reverse-finish", CALLS, 3),
    ("step", ADDS, 3),
    ("reverse-step", CALLS, 3),
    ("reverse-next", LOOPS, 3),
    ("rr-back -b here if number == 2", ADDS, 1),
    ("rr-goto end", 0, 15),
    ("rr-back -w value + value", ADDS, 10),
)
SETTING = ("set debuginfod enabled off", "set confirm off", "set pagination off", f"source {ROOT / 'gdbinit.py'}")


@pytest.fixture(scope="module")
def program() -> Path:
    return programs.build("scenes", ["-O0"])


@pytest.fixture(scope="module")
def demo(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("front") / "x.demo"
    gdbrr("record", "-o", path, "--", program, "plain")
    assert path.exists()
    return path


# ---------------------------------------------------------------- GDB's own
def framed(shown: str) -> list[str]:
    """The lines of the source window, without its frame."""
    return re.findall(r"^[│|x](.*)[│|x]$", shown, re.MULTILINE)


def marked(shown: str) -> int:
    """The line that the source window points at; 0 for none."""
    found = [int(number) for line in framed(shown) for number in re.findall(r"^\S? *> +(\d+) ", line)]
    return found[0] if len(found) == 1 else 0


@pytest.mark.needs("tmux")
def test_the_text_interface_follows(program: Path, demo: Path) -> None:
    setting = [word for line in (*SETTING, f"rr-replay {demo}", "layout src") for word in ("-ex", line)]
    with Screen(["gdb", "-nx", "-q", *setting, program], (40, 160)) as screen:
        screen.wait_for(lambda shown: shown.rstrip().endswith("(gdb)"))
        for at, (command, line, value) in enumerate(WAY):
            screen.type(command)
            screen.type(f'printf "{at}: value %d\\n", value')
            answer = f"{at}: value {value}\n(gdb)"
            shown = screen.wait_for(lambda shown: answer in shown)  # noqa: B023
            assert marked(shown) == line or not line, f"{command}: {shown}"
        # What the server says has its place as well, and leaves the window of the source alone.
        screen.type("set var value = 77")
        screen.type("rr-back -w value")
        shown = screen.wait_for(lambda shown: "is undone" in shown and "value: 6 -> 10" in shown)
        assert marked(shown) == ADDS and len(framed(shown)) > 10, shown
        for row in framed(shown):
            number, text = re.fullmatch(r".{0,4}?(?:> )? *(\d+)(.*)", row).groups()
            assert SOURCE[int(number) - 1].split() == text.split(), f"the source is no longer itself: {shown}"


@pytest.mark.needs("tmux")
def test_who_changes_the_recorded_process_is_asked_first() -> None:
    """It is as it was behind "no", and the recording ends behind "yes"; a script has nobody to ask."""
    program = programs.build("past_calls")
    setting = [word for line in SETTING if "confirm" not in line for word in ("-ex", line)]
    question = "ends its recording here"

    def prompt(shown: str) -> bool:
        return shown.rstrip().endswith("(gdb)")

    with Screen(["gdb", "-nx", "-q", *setting, program], (60, 150)) as screen:

        def asked(command: str, answer: str) -> str:
            before = screen.wait_for(prompt).count(question)
            screen.type(command)
            screen.wait_for(lambda shown: shown.count(question) > before and shown.rstrip().endswith("(y or n)"))
            screen.type(answer)
            return screen.wait_for(prompt)

        screen.wait_for(prompt)
        screen.type("break holding")
        screen.wait_for(lambda shown: "Breakpoint 1 at" in shown and prompt(shown))
        screen.type("rr-start")
        screen.wait_for(lambda shown: "hit Breakpoint 1" in shown and prompt(shown))
        asked("print add(1, 2)", "n")
        asked("set var total = 100", "n")
        screen.type("print total")
        screen.wait_for(lambda shown: "$1 = 0" in shown and prompt(shown))
        assert "goes on without it" not in asked("set var $rax = 3", "n")
        assert "goes on without it" in asked("set var total = 100", "y")
        screen.type("set var total = 100")
        screen.type("print total")
        shown = screen.wait_for(lambda shown: "$2 = 100" in shown and prompt(shown))
        assert shown.count(question) == 4, shown


# ---------------------------------------------------------------- vim's
VIMRC = """\
set nocompatible noswapfile shortmess+=IF laststatus=2
let g:termdebugger = ['gdb', '-nx', {setting}]
function! Here()
	let signs = sign_getplaced('', {{'group': 'TermDebug'}})[0].signs
	return join(map(filter(signs, {{_, sign -> sign.name == 'debugPC'}}), {{_, sign -> 'stands at ' .. sign.lnum}}))
endfunction
set statusline=%{{Here()}}
call timer_start(50, {{-> execute('redrawstatus!')}}, {{'repeat': -1}})
"""


@pytest.mark.needs("tmux", "termdebug")
def test_termdebug_follows(program: Path, demo: Path, tmp_path: Path) -> None:
    vimrc = tmp_path / "vimrc"
    setting = ", ".join(f"'-iex', '{line}'" for line in (*SETTING, "set width 0"))
    vimrc.write_text(VIMRC.format(setting=setting))
    # Vim 9.1 does not keep the functions of a package that its own start comes by once more, behind the user's file.
    with Screen(["vim", "-Nu", vimrc, "-c", "packadd termdebug", "-c", f"Termdebug {program}"], (50, 120)) as screen:
        screen.wait_for(lambda shown: "New UI allocated" in shown)
        screen.type(f"rr-replay {demo}")
        screen.wait_for(lambda shown: "tick 2 of 2" in shown)
        for at, (command, line, value) in enumerate(WAY):
            screen.type(command)
            screen.type(f'printf "{at}: value %d\\n", value')
            # The editor hears of it on another connection, a moment before or behind.
            where = rf"^stands at {line} *$" if line else ""
            answer = f"{at}: value {value}\n"
            screen.wait_for(lambda shown: answer in shown and re.search(where, shown, re.MULTILINE))  # noqa: B023


# ---------------------------------------------------------------- others
def records(program: Path, *commands: str) -> dict[str, list[str]]:
    """What the machine interface says to each of COMMANDS."""
    lines = [f'-interpreter-exec console "{command}"' for command in commands]
    setting = [word for line in SETTING for word in ("-iex", line)]
    script = "".join(f"{line}\n-data-evaluate-expression {at}\n" for at, line in enumerate(lines))
    out = subprocess.run(
        ["gdb", "-nx", "-q", "-i", "mi", *setting, program],
        input=script, capture_output=True, text=True, timeout=100, check=False,
    ).stdout  # fmt: skip
    parts = re.split(r'^\^done,value="\d+"$', out, flags=re.MULTILINE)
    assert len(parts) == len(commands) + 1, out
    return dict(zip(commands, (part.splitlines() for part in parts), strict=False))


def test_the_last_thing_heard_is_where_it_stands(program: Path, demo: Path) -> None:
    told = records(program, f"rr-replay {demo}", *(command for command, _, _ in WAY))
    for command, line, _ in WAY:
        heard = [record for record in told[command] if record.startswith(("*running", "*stopped"))]
        assert len(heard) > 1 and heard[-1].startswith("*stopped,"), told[command]
        assert 'frame={addr="' in heard[-1] and 'thread-id="1"' in heard[-1], told[command]
        assert f'line="{line}"' in heard[-1] or not line, told[command]


def test_a_search_is_no_hit_of_breakpoints(program: Path, demo: Path, tmp_path: Path) -> None:
    """What a command passes on its way is nobody else's affair: nothing is counted, and no commands are run."""
    script = tmp_path / "commands.gdb"
    script.write_text("commands 1\nsilent\necho PASSED\\n\nend\n")
    told = records(
        program,
        *(f"rr-replay {demo}", "break here", f"source {script}", f"break scenes.c:{ADDS}", "disable 2", "watch value"),
        *("rr-back 2 -w value + value", "rr-back -b here if number == 2", "rr-back -b here if number == 7"),
        *("rr-history value + value", "rr-back -b here", "info breakpoints", "reverse-continue", "reverse-continue"),
    )
    said = {command: "\n".join(lines) for command, lines in told.items()}
    for command in list(said)[6:-3]:
        assert '~"PASSED' not in said[command] and "*stopped" in said[command], said[command]
    assert "already hit" not in said["info breakpoints"], said["info breakpoints"]
    assert re.findall(r"(\d)\s+breakpoint +keep ([yn])", said["info breakpoints"]) == [("1", "y"), ("2", "n")]
    assert "hw watchpoint" in said["info breakpoints"]


@pytest.mark.parametrize(("scene", "end"), [("plain", "exited"), ("crash", "exited-signalled")])
def test_the_way_is_back_from_an_end_that_a_front_end_led_to(program: Path, scene: str, end: str) -> None:
    """By its own commands, with none of gdbrr's in between; and GDB quits as it is used to."""
    setting = [word for line in SETTING for word in ("-iex", line)]
    with Terminal("gdb", "-nx", "-q", "-i=mi", *setting, program, size=(40, 200), limit=60) as front:
        front.type(f"-break-insert main\nrr-start {scene}\n")
        front.wait_for("Breakpoint 1, ")
        front.type("-break-delete 1\n-exec-continue\n")
        if scene == "crash":
            front.wait_for("signal-received")
            front.type("-exec-continue\n")
        front.wait_for(f'reason="{end}"')
        front.wait_for("The way is back.")
        front.type("-exec-step-instruction --reverse\n")
        front.wait_for('reason="end-stepping-range"')
        front.type("-exec-continue --reverse\n")
        front.wait_for(*ENDS)
        front.type("-gdb-exit\n")
        assert front.wait() == 0 and b"Fatal" not in front.seen, front.seen
