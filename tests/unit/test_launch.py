"""gdbrr-launch: the program it starts is the controller's own child, always at the same addresses."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gdbrr import abi
from gdbrr.errors import GdbrrError
from gdbrr.launch import spawn
from gdbrr.launch.engine import Engine
from harness import ROOT, programs, users
from harness.run import run

RANDOM = bytes(range(16))
AT_ENTRY_TYPES = {"base": 7, "random": 25}
LAUNCHER = ROOT / "preload" / "gdbrr-launch"


class Place:
    """A control page, a log, and somewhere to print to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.page = abi.map_ctl(path / "ctl", create=True)
        (path / "data").write_bytes(bytes(abi.lib.GR_UNIT))
        self.engine = Engine(path / "libgdbrr.so", LAUNCHER)
        self.out = path / "out"

    def start(self, argv: Sequence[str], **more: object) -> spawn.Start:
        start = spawn.Start(argv[0], argv, ["GREETING=hello"], None, RANDOM, spawn.stack_limit())
        return start._replace(**more)  # type: ignore[arg-type]

    def launch(self, start: spawn.Start) -> int:
        with open(self.out, "wb") as out:
            start = start._replace(stdio=(0, out.fileno(), 2))
            return spawn.launch(self.engine, start, self.page, self.path / "ctl", self.path / "data")

    def run(self, *argv: str, **more: object) -> dict[str, str]:
        """What the program printed: the first word of each line, and the rest."""
        pid = self.launch(self.start(argv, **more))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        lines = (line.partition(" ") for line in self.out.read_text().splitlines())
        return {name: rest for name, _, rest in lines}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.page.close()


@pytest.fixture(scope="module")
def facts() -> str:
    return str(programs.build("start_facts"))


def test_addresses_and_random_bytes_are_the_same_every_time(place: Place, facts: str) -> None:
    first = place.run(facts)
    assert first["random"] == RANDOM.hex()
    assert place.run(facts)["addresses"] == first["addresses"]
    assert place.run(facts, random=bytes(16))["random"] == "0" * 32


def test_addresses_differ_without_the_launcher(facts: str) -> None:
    # The negative control: on a machine that randomises nothing, the test above would show nothing.
    if Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0":
        pytest.skip("this machine randomises no addresses")
    seen = {run(facts).out.split("addresses ")[1].split("\n")[0] for _ in range(4)}
    assert len(seen) > 1


def test_stack_limit_moves_mappings_and_can_be_given(place: Place, facts: str) -> None:
    small, large = (place.run(facts, stack_limit=size << 20) for size in (8, 1024))
    assert small["addresses"] != large["addresses"]


def test_program_gets_its_two_descriptors_and_its_own_limits(place: Place, facts: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        seen = place.run(facts)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert seen["files"] == "512"
    assert [int(fd) for fd in seen["fds"].split()][-2:] == [abi.lib.GR_FD_CTL, abi.lib.GR_FD_DATA]


def test_environment_signals_and_directory_are_what_is_asked_for(place: Place, facts: str, tmp_path: Path) -> None:
    bits = {number: 1 << number - 1 for number in (signal.SIGINT, signal.SIGUSR1)}
    seen = place.run(facts, ignored=bits[signal.SIGINT], blocked=bits[signal.SIGUSR1], cwd=str(tmp_path))
    assert seen["environment"] == "hello"
    assert seen["ignored"] == "1 0 blocked 1"
    assert seen["directory"] == str(tmp_path)
    assert place.run(facts)["ignored"] == "0 0 blocked 0"


def test_death_signal_only_when_asked_for(place: Place, facts: str) -> None:
    assert place.run(facts)["death"] == "signal 0"
    assert place.run(facts, die_with_parent=True)["death"] == f"signal {int(signal.SIGKILL)}"


def test_program_is_a_child_and_the_launcher_leaves_nothing(place: Place) -> None:
    pid = place.launch(place.start(["/bin/sh", "-c", "echo $PPID; exec sleep 60"]))
    try:
        assert place.page.slot(0).pid == pid
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        assert str(pid) in children
        commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
        assert not any(b"gdbrr-launch" in command for command in commands)
        assert not Path(f"/proc/{pid}/task/{pid}/children").read_text()
    finally:
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_stopped_program_stands_at_its_first_instruction(place: Place) -> None:
    pid = place.launch(place.start(["/bin/true"], stop=True, die_with_parent=True))
    _, status = os.waitpid(pid, os.WUNTRACED)
    try:
        assert os.WIFSTOPPED(status)
        auxv = dict(struct.iter_unpack("QQ", Path(f"/proc/{pid}/auxv").read_bytes()))
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(auxv[AT_ENTRY_TYPES["random"]])
            assert memory.read(16) == RANDOM
        # Nothing but the kernel's own mappings, the program and its loader: the loader has not run.
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "libc.so" not in maps
        loader = next(line for line in maps.splitlines() if int(line.split("-")[0], 16) == auxv[AT_ENTRY_TYPES["base"]])
        assert "ld" in loader
    finally:
        os.kill(pid, signal.SIGCONT)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_dies_with_its_controller() -> None:
    script = """
import os, sys, tempfile
from pathlib import Path
sys.path[:0] = sys.argv[1:4]
from unit_launch import Place
place = Place(Path(tempfile.mkdtemp(dir=sys.argv[3])))
print(place.launch(place.start(["/bin/sleep", "60"], die_with_parent=True)), flush=True)
os.kill(os.getpid(), 9)
"""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(__file__, Path(scratch) / "unit_launch.py")
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.append({str(ROOT / 'tests')!r})\n{script}",
                ROOT,
                scratch,
                scratch,
            ],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        pid = int(done.stdout)
        watched = _pidfd(pid)
        assert watched is None or _gone(watched)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _gone(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        return bool(poll.poll(30_000))
    finally:
        os.close(fd)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script"
    path.write_text("#!/bin/sh\necho argv 0 $0\n")
    path.chmod(0o755)
    return path


def test_script_runs_through_its_interpreter(place: Place, script: Path) -> None:
    assert place.run(str(script)) == {"argv": f"0 {script}"}


def _refused(place: Place, path: str | Path) -> GdbrrError:
    with pytest.raises(GdbrrError) as caught:
        place.launch(place.start([str(path)]))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, 0)
    assert caught.value.hint
    return caught.value


def test_missing_program_and_missing_permission_as_a_shell_says_them(place: Place, script: Path) -> None:
    assert _refused(place, "/nonexistent").exit_code == 127
    assert _refused(place, script / "x").exit_code == 127
    script.chmod(0o644)
    assert _refused(place, script).exit_code == 126
    assert _refused(place, script.parent).exit_code == 126
    script.chmod(0o755)
    script.write_text("#!/nonexistent/interpreter\n")
    assert "interpreter does not exist" in _refused(place, script).message
    script.write_text("no magic at all\n")
    assert _refused(place, script).exit_code == 126


@pytest.mark.needs("any_user")
def test_a_machine_without_a_process_to_give_is_told_from_a_refusal() -> None:
    """Of a user whose limit is this one process."""
    with users.place(user := users.lonely()) as where:
        shutil.copy(LAUNCHER, where)
        with abi.map_ctl(where / "ctl", create=True) as page:
            (where / "data").write_bytes(bytes(abi.lib.GR_UNIT))
            (where / "env").write_bytes(b"")
            for name in ("ctl", "data", "env"):
                (where / name).chmod(0o666)
            words = ["--ctl", "ctl", "--data", "data", "--env-file", "env", "--exe", "/bin/true", "--", "true"]
            limits = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "prlimit", "--nproc=1"]
            run(*limits, where / "gdbrr-launch", *words, cwd=where).expect(spawn.LAUNCHER_BUSY)
            run(*limits[:-1], "--nproc=9", where / "gdbrr-launch", *words, cwd=where).expect(0)
            os.waitpid(int(page.slot(0).pid), 0)  # the program is a child of ours


def test_static_program_is_refused_by_name(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "still.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", "-o", tmp_path / "still", source], check=True, stdin=subprocess.DEVNULL)
    assert "still is statically linked" in _refused(place, tmp_path / "still").message


def test_32_bit_program_is_refused_by_name(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "old.s"
    source.write_text(".globl _start\n_start: mov $1, %eax\n int $0x80\n")
    words = ["gcc", "-m32", "-nostdlib", "-static", "-o", tmp_path / "old", source]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    try:
        subprocess.run([tmp_path / "old"], stdin=subprocess.DEVNULL)
    except OSError:
        assert _refused(place, tmp_path / "old").exit_code == 126  # a kernel without 32-bit programs
        return
    assert "is a 32-bit program" in _refused(place, tmp_path / "old").message


def test_setuid_program_is_refused_by_name(place: Place, tmp_path: Path) -> None:
    program = Path("/bin/su")
    if os.geteuid() == 0:  # to whom su gives nothing
        program = tmp_path / "raised"
        shutil.copy("/bin/true", program)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
    assert "is a setuid or setgid program" in _refused(place, program).message


@pytest.mark.parametrize("bits", [0o4755, 0o2755])
def test_setuid_program_of_ones_own_is_refused_too(bits: int, place: Place, tmp_path: Path) -> None:
    """It gets no other rights, but the kernel switches the randomisation of its addresses on again."""
    program = tmp_path / "own"
    shutil.copy("/bin/true", program)
    program.chmod(bits)
    if program.stat().st_mode & 0o7777 != bits:
        pytest.skip("the file system keeps no such bits")
    assert "is a setuid or setgid program" in _refused(place, program).message


def test_program_is_found_like_a_shell_finds_it(tmp_path: Path, script: Path) -> None:
    env = {"PATH": f"/nonexistent:{tmp_path}"}
    assert spawn.find_program("script", env, "/") == (str(script), str(script))
    assert spawn.find_program("./script", {}, str(tmp_path)) == ("./script", str(script))
    with pytest.raises(GdbrrError, match=r"Did you mean \./script") as caught:
        spawn.find_program("script", {"PATH": "/nonexistent"}, str(tmp_path))
    assert caught.value.exit_code == 127
    script.chmod(0o644)
    with pytest.raises(GdbrrError, match="permission denied") as caught:
        spawn.find_program("script", env, "/")
    assert caught.value.exit_code == 126


def test_engine_path_has_always_the_same_length(tmp_path: Path) -> None:
    short, long = (Engine(tmp_path / name / "libgdbrr.so", LAUNCHER).preload() for name in ("a", "b" * 60))
    assert len(short) == len(long) == 256
    assert os.path.normpath(short).lstrip("/") == str(tmp_path / "a" / "libgdbrr.so").lstrip("/")
    assert Engine(tmp_path / "a" / "libgdbrr.so", LAUNCHER).preload("mine.so") == short + ":mine.so"
    with pytest.raises(GdbrrError, match="cannot take"):
        Engine(tmp_path / "a b" / "libgdbrr.so", LAUNCHER).preload()


def test_usage_error_names_the_options() -> None:
    done = run(LAUNCHER, "--unknown", "--", "x")
    assert done.status == 2
    assert "--env-file FILE" in done.err
