"""gdbrr doctor: what facts are judged to mean, and that no probe can hang or harm."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time

import pytest

from gdbrr.launch import doctor, probes
from gdbrr.launch.doctor import Probe, Status
from gdbrr.launch.probes import Facts, Tell
from harness.run import gdbrr

GOOD_PERF = {"paranoid": "2", "slots": 4, "sigtrap": True, "hits": 9, "expected_hits": 9, "hit_us": 8.0}


@pytest.mark.parametrize(
    ("judge", "facts", "status", "mend"),
    [
        (doctor.judge_kernel, {"system": "Linux", "release": "6.1", "machine": "x86_64", "version": [6, 1]}, "ok", ""),
        (
            doctor.judge_kernel,
            {"system": "Linux", "release": "5.4", "machine": "x86_64", "version": [5, 4]},
            "missing",
            "5.11",
        ),
        (
            doctor.judge_kernel,
            {"system": "Linux", "release": "6.1", "machine": "aarch64", "version": [6, 1]},
            "missing",
            "x86-64",
        ),
        (doctor.judge_dispatch, {"armed": True, "signal": signal.SIGSYS}, "ok", ""),
        (doctor.judge_dispatch, {"armed": True, "passed_through": True}, "missing", "5.11"),
        (doctor.judge_dispatch, {"error": "EINVAL"}, "missing", "5.11"),
        (doctor.judge_aslr, {"off": True}, "ok", ""),
        (doctor.judge_aslr, {"off": False, "error": "EPERM"}, "missing", "seccomp=unconfined"),
        (doctor.judge_ptrace, {"seize": True, "debug_registers": True}, "ok", ""),
        (doctor.judge_ptrace, {"seize": True, "debug_registers": False}, "limited", "debug registers"),
        (doctor.judge_ptrace, {"seize": False, "error": "EPERM"}, "missing", "SYS_PTRACE"),
        (doctor.judge_yama, {"scope": None}, "ok", ""),
        (doctor.judge_yama, {"scope": "1"}, "ok", ""),
        (doctor.judge_yama, {"scope": "2"}, "limited", "ptrace_scope=1"),
        (doctor.judge_yama, {"scope": "3"}, "limited", "reboot"),
        (doctor.judge_perf, GOOD_PERF, "ok", ""),
        (doctor.judge_perf, {"paranoid": "3", "slots": 0, "error": "EACCES"}, "limited", "perf_event_paranoid=2"),
        (doctor.judge_perf, {**GOOD_PERF, "hits": 8}, "limited", "hypervisor"),
        (doctor.judge_perf, {**GOOD_PERF, "sigtrap": False}, "limited", "5.13"),
        (doctor.judge_fence, {"seccomp": True, "landlock": 7}, "ok", ""),
        (doctor.judge_fence, {"seccomp": True, "landlock": 3}, "limited", "Linux 6.12"),
        (doctor.judge_fence, {"seccomp": True, "landlock": 0}, "limited", "lsm="),
        (doctor.judge_fence, {"seccomp": False, "landlock": 7, "error": "EINVAL"}, "missing", "seccomp=unconfined"),
        (doctor.judge_user_namespaces, {"allowed": True}, "ok", ""),
        (doctor.judge_user_namespaces, {"allowed": False, "error": "EPERM"}, "ok", ""),
        (doctor.judge_gdb, {"version": "13.1", "major": 13}, "ok", ""),
        (doctor.judge_gdb, {"version": None}, "limited", "apt-get install gdb"),
        (doctor.judge_gdbserver, {"version": "9.2", "major": 9}, "limited", "apt-get install gdbserver"),
        (doctor.judge_gdb_python, {"gdb": True, "version": [3, 11]}, "ok", ""),
        (doctor.judge_gdb_python, {"gdb": True, "version": [3, 8]}, "limited", "full gdb"),
        (doctor.judge_gdb_python, {"gdb": True, "version": None}, "limited", "full gdb"),
        (doctor.judge_limits, {"stack": [8 << 20, None], "nofile": [1024, 4096]}, "ok", ""),
        (doctor.judge_limits, {"stack": [None, None], "nofile": [1024, 4096]}, "limited", "ulimit -s"),
        (doctor.judge_limits, {"stack": [8 << 20, None], "nofile": [256, 1001]}, "missing", "ulimit -Hn"),
        (doctor.judge_populate, {"works": True}, "ok", ""),
        (doctor.judge_populate, {"works": False, "error": "EINVAL"}, "limited", "5.14"),
        (doctor.judge_disk, {"path": ".", "free": 5 << 30, "writable": True}, "ok", ""),
        (doctor.judge_disk, {"path": ".", "free": 5 << 20, "writable": True}, "limited", "-o"),
        (doctor.judge_disk, {"path": ".", "free": 5 << 30, "writable": False}, "limited", "-o"),
    ],
)
def test_judgement(judge: object, facts: Facts, status: str, mend: str) -> None:
    finding = judge(facts)  # type: ignore[operator]
    assert (finding.status.value, bool(finding.mend)) == (status, bool(mend))
    assert mend in finding.mend
    assert finding.found
    assert finding.meaning


def hang(tell: Tell) -> None:
    tell({"begun": True})
    if os.fork() == 0:
        time.sleep(600)
    time.sleep(600)


def test_probe_that_hangs_is_ended_with_what_it_started() -> None:
    start = time.monotonic()
    facts = probes.run_in_child(hang, 0.3)
    assert time.monotonic() - start < 10
    assert facts == {"begun": True, "timeout": 0.3}


def test_probe_that_dies_tells_what_it_knew() -> None:
    def die(tell: Tell) -> None:
        tell({"begun": True})
        os.kill(os.getpid(), signal.SIGUSR1)

    assert probes.run_in_child(die, 5) == {"begun": True, "signal": signal.SIGUSR1}


def test_probe_that_raises_is_a_finding_that_asks_for_a_report() -> None:
    def fail(_tell: Tell) -> None:
        raise OSError("odd")

    finding = doctor.examine(Probe("odd", fail, doctor.judge_aslr, required=True))
    assert finding.status is Status.MISSING
    finding = doctor.examine(Probe("odd", fail, doctor.judge_kernel, required=True))
    assert "OSError: odd" in finding.found
    assert "--json" in finding.mend


def test_only_required_probes_decide() -> None:
    def refuse(tell: Tell) -> None:
        tell({"off": False, "error": "EPERM"})

    optional = Probe("optional", refuse, doctor.judge_aslr)
    assert doctor.examine_all([optional]).can_record
    assert not doctor.examine_all([optional, Probe("required", refuse, doctor.judge_aslr, required=True)]).can_record


def test_cost_of_a_hit_is_measured() -> None:
    facts = probes.run_in_child(probes.perf_breakpoints, 10)
    if facts["slots"]:
        assert facts["hits"] == facts["expected_hits"]
        assert facts["hit_us"] > 0
    else:
        assert facts["error"]


def test_dispatch_is_really_tried() -> None:
    facts = probes.run_in_child(probes.dispatch, 10)
    assert facts.get("signal") == signal.SIGSYS or facts.get("error") or facts.get("passed_through")


def test_user_namespaces_are_really_tried() -> None:
    """The kernel makes none for a process with two threads: the probe must have asked it."""

    def with_a_second_thread(tell: Tell) -> None:
        end = threading.Event()
        second = threading.Thread(target=end.wait)
        second.start()
        probes.user_namespaces(tell)
        end.set()
        second.join()

    assert probes.run_in_child(with_a_second_thread, 10) == {"allowed": False, "error": "EINVAL"}
    facts = probes.run_in_child(probes.user_namespaces, 10)
    assert facts["allowed"] or facts["error"] != "EINVAL"


def test_text_and_json_say_the_same() -> None:
    text = gdbrr("doctor")
    machine = gdbrr("doctor", "--json")
    assert text.status == machine.status
    report = json.loads(machine.out)
    assert report["can_record"] is (machine.status == 0)
    for finding in report["findings"]:
        assert re.search(rf"^{finding['status']} +{re.escape(finding['name'])} ", text.out, re.MULTILINE)
        assert (finding["status"] == "ok") is (not finding["mend"])
    assert ("This machine can record" in text.out) is report["can_record"]
