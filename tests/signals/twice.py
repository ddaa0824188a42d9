"""Two loops that a signal ends, a child in between: what the engine keeps for the one is still there for the other."""

import signal
import subprocess


def stop(number: int, frame: object) -> None:
    raise TimeoutError


signal.signal(signal.SIGPROF, stop)
for turn in range(2):
    count = 0
    signal.setitimer(signal.ITIMER_PROF, 0.05)
    try:
        while True:
            count += 1
    except TimeoutError:
        print(turn, count, flush=True)
    subprocess.run(["/bin/true"], check=True)
