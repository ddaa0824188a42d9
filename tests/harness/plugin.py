"""The harness as a pytest plugin: needs, time limits, kept demos, counted skips.

Runs in: pytest and its workers. May call: the other files of this folder.
Owns: the marker `needs(NAME...)`, the marker `limit(SECONDS)`, and the summary of skips.
"""

from __future__ import annotations

import collections
import os
import signal
from collections.abc import Callable, Generator, Iterator
from types import FrameType

import pytest

from harness import keep, needs, pids

SECONDS = 120.0


def pytest_configure(config: pytest.Config) -> None:
    # Whoever runs the tests in the background (`&`, nohup) hands on signals that are ignored, to every program in them.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    config.addinivalue_line("markers", f"needs(*names): skip unless the machine has them: {', '.join(needs.NEEDS)}")
    config.addinivalue_line("markers", f"limit(seconds): fail after so long; {SECONDS:g} is the rule")


@pytest.fixture
def go_on_from() -> Iterator[Callable[[int], None]]:
    """`pids.choosing`; what others take for theirs is not the test's time."""
    with pids.choosing() as choose:
        yield choose


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if not needs.met(name):
                pytest.skip(needs.reason(name))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    marker = item.get_closest_marker("limit")
    seconds = float(marker.args[0]) if marker else SECONDS

    def too_slow(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail(f"no end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, too_slow)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and not hasattr(report, "wasxfail"):
        text = skip_reason(report)
        if os.environ.get("CI") == "true" and not needs.expected(text):
            report.outcome = "failed"
            report.longrepr = f"skipped under CI, and not for a reason that harness/needs.py expects: {text}"
    if report.failed and report.when == "call":
        place = getattr(item, "funcargs", {}).get("tmp_path")
        kept = keep.keep(item.nodeid, place) if place else []
        if kept:
            report.sections.append(("kept demos", keep.advice(kept)))


def skip_reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = collections.Counter(skip_reason(report) for report in terminalreporter.stats.get("skipped", []))
    for text, count in sorted(skipped.items()):
        terminalreporter.write_line(f"{count} skipped: {text}")
