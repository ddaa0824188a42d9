"""Packed demos of this kernel are replayed below another one, whose vDSO is another, too: `make kernel`.

Runs in: a command of its own, some minutes. May call: the other files of this folder, gdbrr.
Owns: the demos in build/kernel.
"""

from __future__ import annotations

import shutil
import sys

from harness import programs
from harness.run import gdbrr
from kernel import vm

PROGRAMS = ("two_threads", "start_facts", "spine", "libc_loader", "sync_queue")
COMMANDS = {
    "ls": ("/bin/ls", "-l", "/"),
    "python": ("/usr/bin/python3", "-S", "-c", "import time, json; print(time.time(), time.localtime())"),
}
LIMIT = 1800.0
PLAIN = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW"}
"""What qemu's processor does not have: the C library chooses other code there, which leaves other registers."""


def main() -> int:
    if vm.missing():
        print(f"gdbrr: {vm.missing()}", file=sys.stderr)
        return 1
    demos = vm.HERE / "demos"
    shutil.rmtree(demos, ignore_errors=True)
    demos.mkdir(parents=True)
    for name, words in {**{name: (str(programs.build(name, ("-ldl",))),) for name in PROGRAMS}, **COMMANDS}.items():
        demo = demos / f"{name}.demo"
        done = gdbrr("record", "--order", "serial", "-o", demo, "--", *words, env=PLAIN)
        gdbrr("pack", demo).expect(0)
        demo.with_suffix(".out").write_text(done.out)
        demo.with_suffix(".status").write_text(str(done.status))
        demo.unlink()
    said = vm.run(LIMIT)
    print(said)
    lines = [line.split(" ")[0] for line in said.splitlines()]
    return 0 if lines[-1:] == ["done"] and "same" in lines and "other" not in lines else 1


if __name__ == "__main__":
    sys.exit(main())
