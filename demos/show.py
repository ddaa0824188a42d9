"""Plays the session of a demonstration and checks that it went as expected: `show.py NAME [--quiet]`.

Runs in: `make demo` and tests/demos. May call: gdb, with the checkout's gdbinit.py and the program in build/demos.
Owns: the gdb it starts, and how a session is shown: what a person would type behind `(gdb)`, comments as comments.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300


def commands(session: str) -> list[str]:
    """Arguments that make gdb show each line of SESSION and then do it."""
    words = []
    for line in filter(None, map(str.strip, session.splitlines())):
        prompt = f"\\n{quoted(line)}\\n" if line.startswith("#") else f"(gdb) {quoted(line)}\\n"
        words += ["-ex", f"echo {prompt}"]
        if not line.startswith("#"):
            words += ["-ex", line]
    return words


def quoted(text: str) -> str:
    """TEXT as gdb's `echo` prints it unchanged."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def missing(expected: str, transcript: str) -> str | None:
    """The first pattern of EXPECTED that does not match, in order, at the start of a line of TRANSCRIPT."""
    position = 0
    for pattern in filter(None, expected.splitlines()):
        match = re.compile(pattern, re.MULTILINE).search(transcript, position)
        if match is None:
            return pattern
        position = match.end()
    return None


def play(name: str, show: bool) -> str:
    """The transcript; shown line by line while it happens."""
    program = ROOT / "build" / "demos" / name
    session = (ROOT / "demos" / name / "session.gdb").read_text()
    setting = ["set pagination off", "set confirm off", "set width 0", "set style enabled off"]
    options = [word for line in [*setting, f"source {ROOT / 'gdbinit.py'}"] for word in ("-ex", line)]
    lines = []
    with tempfile.TemporaryDirectory(prefix="gdbrr-demo-") as scratch:
        process = subprocess.Popen(
            ["gdb", "-nx", "-q", "-batch", *options, *commands(session), "--args", str(program)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=scratch,
            env={**os.environ, "DEBUGINFOD_URLS": ""},
            text=True,
            errors="replace",
            start_new_session=True,
        )
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(LIMIT)
        try:
            assert process.stdout
            for line in process.stdout:
                lines.append(line)
                if show:
                    print(line, end="", flush=True)
            process.wait()
        finally:
            signal.alarm(0)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Play a demonstration's GDB session.")
    parser.add_argument("name", help="a folder of demos/")
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong")
    args = parser.parse_args()
    transcript = play(args.name, show=not args.quiet)
    pattern = missing((ROOT / "demos" / args.name / "expected.txt").read_text(), transcript)
    if pattern is not None:
        if args.quiet:
            print(transcript)
        print(f"gdbrr: the session did not go as expected: no line matches {pattern!r}", file=sys.stderr)
        print("gdbrr: .venv/bin/gdbrr doctor says what this machine lacks, and how to mend it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
