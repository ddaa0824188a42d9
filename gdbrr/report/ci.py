"""How a recorded run went, for machines: the one line that ends it, and a JUnit file.

Runs in: `gdbrr record`. May call: the standard library, gdbrr.launch.ends.keep.
Owns: the keys of that line and their order, on which scripts rely.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gdbrr.errors import EXIT_ERROR, GdbrrError
from gdbrr.launch.ends import keep
from gdbrr.report.words import printable

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


STOPPED = "stopped"


class Run(NamedTuple):
    """How it went."""

    argv: Sequence[str]
    code: int = 0
    """The exit status, or -N for signal N."""
    seconds: float = 0.0
    demo: Path | None = None
    problem: str = ""
    """Why there is no demo although one was wanted, or why it is not whole."""
    recorded: bool = True
    stopped: bool = False
    """The program did not end by itself: gdbrr could not go on and ended it."""

    @property
    def result(self) -> str:
        return STOPPED if self.stopped else keep.result_of(self.code)

    @property
    def status(self) -> int:
        """As a shell shows it."""
        return EXIT_ERROR if self.stopped else self.code if self.code >= 0 else 128 - self.code

    @property
    def how(self) -> str:
        if self.stopped:
            return "ended by gdbrr"
        return f"killed by {keep.signal_name(-self.code)}" if self.code < 0 else f"exit status {self.code}"


def line(run: Run) -> str:
    """The last line: `gdbrr: result=crashed signal=SIGSEGV demo=/tmp/x.demo replay='gdbrr replay /tmp/x.demo'`."""
    by_signal = run.code < 0 and not run.stopped
    ended = f"signal={keep.signal_name(-run.code)}" if by_signal else f"status={run.status}"
    words = [f"result={run.result}", ended]
    if run.demo:
        demo = os.path.abspath(run.demo)
        words += [f"demo={shlex.quote(demo)}", f"replay={shlex.quote(replay_command(demo))}"]
    else:
        words += ["demo=none"] if run.recorded else ["demo=none", "recorded=no"]
    return printable("gdbrr: " + " ".join(words))


def replay_command(demo: str) -> str:
    return shlex.join(["gdbrr", "replay", demo])


def attachment(demo: Path) -> str:
    """What Jenkins and GitLab look for in what a test printed, on a line of its own."""
    return f"[[ATTACHMENT|{printable(os.path.abspath(demo))}]]"


def junit(run: Run) -> str:
    """One test suite with one test case, the program."""
    name = _attribute(" ".join(run.argv))
    failed, crashed = run.result == keep.FAILED, run.result in (keep.CRASHED, STOPPED)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites><testsuite name="gdbrr record" tests="1" failures="{failed:d}" errors="{crashed:d}" skipped="0"'
        f' time="{run.seconds:.3f}">',
        f'<testcase classname="gdbrr.record" name={name} time="{run.seconds:.3f}">',
    ]
    if failed or crashed:
        tag = "error" if crashed else "failure"
        lines.append(f"<{tag} type={_attribute(run.result)} message={_attribute(run.how)}/>")
    if run.demo:
        lines.append(f"<system-out>{_text(attachment(run.demo))}\n{_text(line(run))}</system-out>")
    if run.problem:
        lines.append(f"<system-err>{_text('gdbrr: ' + run.problem)}</system-err>")
    return "\n".join([*lines, "</testcase></testsuite></testsuites>", ""])


def write_junit(run: Run, path: Path) -> None:
    try:
        path.write_text(junit(run), encoding="utf-8")
    except OSError as error:
        raise GdbrrError(f"{path} cannot be written: {error.strerror}", "name another file with --junit") from None


def _text(text: str) -> str:
    shown = _NOT_XML.sub(lambda match: printable(match.group()), text)
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return '"' + _text(printable(text)).replace('"', "&quot;") + '"'
