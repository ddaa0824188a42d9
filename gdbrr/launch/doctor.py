"""What the facts about this machine mean for recording and going back, and how to mend what is missing.

Runs in: `gdbrr doctor`. May call: gdbrr.launch.probes, each probe in a child of its own with a time limit.
Owns: the list of findings, their words, and the answer to "can this machine record?".
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from gdbrr.errors import GdbrrError
from gdbrr.launch import engine, probes
from gdbrr.launch.probes import Facts, Tell

OLDEST_GDB = 12
OLDEST_GDB_PYTHON = [3, 9]
ENGINE_DESCRIPTORS = 1002  # the launcher hands over descriptors 1000 and 1001 (GR_FD_CTL, GR_FD_DATA)
LITTLE_SPACE = 1 << 30
SIGNAL_SCOPE = 6
"""The version of Landlock that keeps signals inside (preload/fence.c)."""


class Status(Enum):
    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was found, what it means to a user, and how to mend it."""

    status: Status
    found: str
    meaning: str
    mend: str = ""


@dataclass(frozen=True)
class Probe:
    """A question. `required`: without it nothing can be recorded."""

    name: str
    measure: Callable[[Tell], None]
    judge: Callable[[Facts], Finding]
    required: bool = False
    timeout: float = 10.0


@dataclass(frozen=True)
class Report:
    findings: Sequence[tuple[Probe, Finding]]

    @property
    def can_record(self) -> bool:
        return not any(probe.required and finding.status is Status.MISSING for probe, finding in self.findings)


def judge_kernel(facts: Facts) -> Finding:
    found = f"{facts['system']} {facts['release']}, {facts['machine']}"
    if facts["system"] != "Linux" or facts["machine"] != "x86_64":
        return Finding(
            Status.MISSING, found, "gdbrr knows Linux on x86-64 only", "use an x86-64 Linux machine, real or virtual"
        )
    if facts["version"] < [5, 11]:
        return Finding(
            Status.MISSING, found, "Syscall User Dispatch came with Linux 5.11", "use a kernel of 5.11 or newer"
        )
    return Finding(Status.OK, found, "new enough for everything that recording uses")


def judge_engine(facts: Facts) -> Finding:
    if "error" in facts:
        return Finding(Status.MISSING, facts["error"], "nothing can be recorded without the engine", facts["mend"])
    return Finding(Status.OK, facts["path"], "the library that is loaded into the recorded program")


def judge_gdbinit(facts: Facts) -> Finding:
    if "error" in facts:
        return Finding(Status.LIMITED, facts["error"], "GDB has none of the rr- commands without it", facts["mend"])
    return Finding(Status.OK, facts["path"], "what to `source` in GDB, or in ~/.gdbinit, for the rr- commands")


def judge_dispatch(facts: Facts) -> Finding:
    if facts.get("signal") == signal.SIGSYS:
        return Finding(Status.OK, "a call was caught", "no system call escapes the recording, wherever it is issued")
    return Finding(
        Status.MISSING,
        f"refused ({facts['error']})" if "error" in facts else "a call passed through",
        "system calls cannot be caught, so a recording would have holes",
        "use Linux 5.11 or newer, outside of sandboxes that replace the kernel",
    )


def judge_aslr(facts: Facts) -> Finding:
    if facts.get("off"):
        return Finding(Status.OK, "can be switched off", "addresses are the same in the recording and in each replay")
    return Finding(
        Status.MISSING,
        f"cannot be switched off ({facts.get('error', 'no effect')})",
        "addresses would differ in every replay, so recording is refused",
        "in a container: docker run --security-opt seccomp=unconfined",
    )


def judge_ptrace(facts: Facts) -> Finding:
    if facts.get("seize"):
        registers = "" if facts.get("debug_registers") else ", debug registers not"
        return Finding(
            Status.OK if facts.get("debug_registers") else Status.LIMITED,
            f"allowed{registers}",
            "the launcher fixes the random bytes of a start; gdbserver attaches to replays",
            "" if facts.get("debug_registers") else "watchpoints going forward need debug registers: try another host",
        )
    return Finding(
        Status.MISSING,
        f"refused ({facts.get('error', 'no answer')})",
        "a program's start cannot be made repeatable and no debugger can attach",
        "in a container: docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined",
    )


def judge_yama(facts: Facts) -> Finding:
    scope = facts["scope"]
    if scope in (None, "0", "1"):
        found = "not active" if scope is None else f"ptrace_scope is {scope}"
        return Finding(Status.OK, found, "gdbrr's processes allow their own debugger, so 0 and 1 both do")
    return Finding(
        Status.LIMITED,
        f"ptrace_scope is {scope}",
        "only an administrator may attach a debugger here",
        "sysctl kernel.yama.ptrace_scope=1" if scope == "2" else "3 stays until the next boot: set it to 1 and reboot",
    )


def judge_perf(facts: Facts) -> Finding:
    slots = facts.get("slots", 0)
    if not slots:
        paranoid = facts.get("paranoid")
        return Finding(
            Status.LIMITED,
            f"refused ({facts.get('error', 'no answer')}, perf_event_paranoid is {paranoid})",
            "a tracer sets the debug registers instead; a search with very many hits takes longer",
            "sysctl kernel.perf_event_paranoid=2; in a container also --security-opt seccomp=unconfined",
        )
    found = f"{slots} slots, {facts['hit_us']} us a hit" if "hit_us" in facts else f"{slots} slots"
    if facts.get("hits") != facts.get("expected_hits"):
        return Finding(
            Status.LIMITED,
            f"{found}, but {facts.get('hits')} of {facts.get('expected_hits')} hits were counted",
            "going back to a write may miss one",
            "the hypervisor loses debug exceptions: try another one",
        )
    if not facts.get("sigtrap"):
        return Finding(
            Status.LIMITED,
            found,
            "a hit cannot be counted inside the replay: a tracer does it",
            "use Linux 5.13 or newer (sigtrap events)",
        )
    return Finding(Status.OK, found, "a search for writes or executions counts its hits inside the replay")


def judge_fence(facts: Facts) -> Finding:
    version = facts["landlock"]
    if not facts["seccomp"]:
        return Finding(
            Status.MISSING,
            f"no seccomp filter ({facts['error']})",
            "recording works; a replay runs a program that a demo names, so without a fence it is refused",
            "use a kernel with seccomp filters; in a container: docker run --security-opt seccomp=unconfined",
        )
    if not version:
        return Finding(
            Status.LIMITED,
            "seccomp filter, no Landlock",
            "a replay can change no file, reach no network and start no program; signals of the program are not "
            "raised again in the processes that a debugger looks at",
            "Linux 6.12 or newer with landlock in the lsm= boot parameter",
        )
    found = f"seccomp filter, Landlock version {version}"
    if version < SIGNAL_SCOPE:
        return Finding(
            Status.LIMITED,
            found,
            "a replay can change no file, reach no network and start no program; signals of the program are not "
            "raised again in the processes that a debugger looks at",
            f"Linux 6.12 or newer, which has version {SIGNAL_SCOPE}",
        )
    return Finding(Status.OK, found, "a replay can change no file, reach no network and no process, start no program")


def judge_user_namespaces(facts: Facts) -> Finding:
    found = "allowed" if facts["allowed"] else f"refused ({facts['error']})"
    return Finding(Status.OK, found, "either will do: the fence around a replay is made without them")


def judge_gdb(facts: Facts) -> Finding:
    return _judge_debugger(facts, "GDB", "apt-get install gdb", "the debugger that demos are explored with")


def judge_gdbserver(facts: Facts) -> Finding:
    return _judge_debugger(facts, "gdbserver", "apt-get install gdbserver", "stands on the process GDB looks at")


def _judge_debugger(facts: Facts, name: str, install: str, meaning: str) -> Finding:
    if facts.get("version") is None:
        return Finding(
            Status.LIMITED, "not found", f"recording works without {name}; rr-start and gdbrr debug do not", install
        )
    if facts["major"] < OLDEST_GDB:
        return Finding(
            Status.LIMITED, f"version {facts['version']}", f"older than {OLDEST_GDB}, which is not tried", install
        )
    return Finding(Status.OK, f"version {facts['version']}", meaning)


def judge_gdb_python(facts: Facts) -> Finding:
    version = facts.get("version")
    if version and version >= OLDEST_GDB_PYTHON:
        return Finding(Status.OK, f"Python {version[0]}.{version[1]}", "runs gdbrr's commands inside GDB")
    if version:
        found = f"Python {version[0]}.{version[1]}, too old"
    else:
        found = "none" if facts.get("gdb") else "no GDB"
    return Finding(
        Status.LIMITED,
        found,
        "gdbinit.py needs Python 3.9 or newer inside GDB",
        "install your distribution's full gdb package (not gdb-minimal)",
    )


def judge_limits(facts: Facts) -> Finding:
    stack, hard_files = facts["stack"][0], facts["nofile"][1]
    size = "unlimited" if stack is None else f"{stack >> 10} KiB"
    found = f"stack {size}, descriptors up to {'any number' if hard_files is None else hard_files}"
    if hard_files is not None and hard_files < ENGINE_DESCRIPTORS:
        return Finding(
            Status.MISSING,
            found,
            f"the engine is handed descriptors below {ENGINE_DESCRIPTORS}",
            f"raise the hard limit: ulimit -Hn {ENGINE_DESCRIPTORS} or more, as root or in limits.conf",
        )
    if stack is None:
        return Finding(
            Status.LIMITED,
            found,
            "an unlimited stack moves the memory map: such demos replay only where it is allowed too",
            "ulimit -s 8192",
        )
    return Finding(Status.OK, found, "the usual memory map, and room for the engine's descriptors")


def judge_populate(facts: Facts) -> Finding:
    if facts.get("works"):
        return Finding(Status.OK, "works", "space for a recording's log can be reserved before it is written")
    return Finding(
        Status.LIMITED,
        f"refused ({facts.get('error')})",
        "a full disk is noticed only when the log is written",
        "use Linux 5.14 or newer",
    )


def judge_disk(facts: Facts) -> Finding:
    found = f"{facts['free'] / (1 << 30):.1f} GiB free in {facts['path']}"
    if not facts["writable"]:
        return Finding(Status.LIMITED, found, "demos are written here unless -o says otherwise", "use gdbrr record -o")
    if facts["free"] < LITTLE_SPACE:
        return Finding(Status.LIMITED, found, "a long recording may fill it", "free some space or use gdbrr record -o")
    return Finding(Status.OK, found, "demos are written here unless -o says otherwise")


def engine_facts(tell: Tell) -> None:
    try:
        tell({"path": str(engine.find().library)})
    except GdbrrError as error:
        tell({"error": error.message, "mend": error.hint})


def gdbinit_facts(tell: Tell) -> None:
    try:
        tell({"path": str(engine.gdbinit())})
    except GdbrrError as error:
        tell({"error": error.message, "mend": error.hint})


PROBES: Sequence[Probe] = (
    Probe("engine", engine_facts, judge_engine, required=True),
    Probe("gdbinit.py", gdbinit_facts, judge_gdbinit),
    Probe("kernel", probes.kernel, judge_kernel, required=True),
    Probe("syscall dispatch", probes.dispatch, judge_dispatch, required=True),
    Probe("ASLR control", probes.aslr, judge_aslr, required=True),
    Probe("ptrace", probes.ptrace, judge_ptrace, required=True),
    Probe("limits", probes.limits, judge_limits, required=True),
    Probe("Yama", probes.yama, judge_yama),
    Probe("perf breakpoints", probes.perf_breakpoints, judge_perf),
    Probe("GDB", probes.gdb, judge_gdb, timeout=30.0),
    Probe("Python in GDB", probes.gdb_python, judge_gdb_python, timeout=30.0),
    Probe("gdbserver", probes.gdbserver, judge_gdbserver),
    Probe("populate", probes.populate, judge_populate),
    Probe("disk", probes.disk, judge_disk),
    Probe("replay fence", probes.fence, judge_fence),
    Probe("user namespaces", probes.user_namespaces, judge_user_namespaces),
)


def examine(probe: Probe) -> Finding:
    """Ask one question. A probe that hangs, or dies where it should not, is a finding too."""
    facts = probes.run_in_child(probe.measure, probe.timeout)
    if "timeout" in facts:
        return Finding(
            Status.MISSING,
            f"no answer within {facts['timeout']:g} s",
            "the machine may be overloaded, or the question is not answered inside this sandbox",
            "try gdbrr doctor again when the machine is idle",
        )
    try:
        return probe.judge(facts)
    except KeyError:
        return Finding(
            Status.MISSING,
            facts.get("error", f"the probe ended by signal {facts.get('signal')}"),
            "this machine answers in a way that is not known to gdbrr",
            "report it, with the output of gdbrr doctor --json",
        )


def examine_all(questions: Sequence[Probe] = PROBES) -> Report:
    return Report([(probe, examine(probe)) for probe in questions])
