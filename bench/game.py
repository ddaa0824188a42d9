"""A game: frames a second natively and recorded under the profile `game`, and how large its demo is.

Runs in: python -m bench. May call: chocolate-doom with Freedoom's data, Xvfb, where they are installed.
Owns: how the game is started: it plays its first demonstration as fast as it can, and says how fast that was.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.kit import GDBRR, Bench, Failed, Row, end, only, run
from bench.ways import AGAIN, SERIAL

TABLE, REPLAY = "game: frames a second", "game: replay"
GAME, DATA = Path("/usr/games/chocolate-doom"), Path("/usr/share/games/doom/freedoom1.wad")
SAID = re.compile(r"timed (\d+) gametics in \d+ realtics \(([0-9.]+) fps\)")
TICS = 35
"""A second of the game's."""
ENDED = 255
"""That is how it ends when it has timed itself."""
PARALLEL = "recorded, parallel"
SCREENS = {"no screen (SDL's dummy driver)": "dummy", "a screen (Xvfb)": "x11"}


class Game:
    def __init__(self, bench: Bench, driver: str, env: Mapping[str, str]) -> None:
        self.demo = bench.scratch / f"game-{driver}.demo"
        home = bench.scratch / "game"
        home.mkdir(exist_ok=True)
        told = {"SDL_VIDEODRIVER": driver, "SDL_AUDIODRIVER": "dummy", "OPL_DRIVER": "SDL", "HOME": str(home), **env}
        self._env = ["env", *(f"{name}={value}" for name, value in told.items())]
        self._words = [str(GAME), "-iwad", str(DATA), "-timedemo", "demo1", "-nogui"]
        self.sizes: list[float] = []
        self.seconds: list[float] = []
        self.tics = 0

    def _frames(self, *before: str) -> float:
        done = run([*self._env, *before, *self._words], statuses=(ENDED,))
        found = SAID.search(done.out + done.err)
        if not found:
            raise Failed(f"{GAME} did not time itself:\n{done.err[-500:]}")
        self.tics = int(found[1])
        return float(found[2])

    def native(self) -> float:
        return self._frames()

    def recorded(self, order: str) -> float:
        self.demo.unlink(missing_ok=True)
        frames = self._frames(*GDBRR, "record", "-p", "game", "--order", order, "-o", str(self.demo), "--")
        if order == SERIAL:
            self.sizes.append(self.demo.stat().st_size / 1e6 / (self.tics / TICS) * 100)
        return frames

    def replayed(self) -> float:
        done = run([*self._env, *GDBRR, "replay", "--quiet", str(self.demo)], statuses=(ENDED,))
        self.seconds.append(done.seconds)
        return done.seconds

    def rows(self, bench: Bench, name: str) -> Iterator[Row]:
        ways: dict[str, Callable[[], float]] = {
            "native": self.native,
            PARALLEL: partial(self.recorded, "parallel"),
            SERIAL: partial(self.recorded, SERIAL),
            AGAIN: self.replayed,
        }
        found = bench.interleaved(ways, bench.rounds(2), name=name)
        found.pop(AGAIN, None)
        yield Row(TABLE, name, "frames/s", found, {"demo, MB for 100 s of the game": self.sizes})
        if self.seconds:
            game = [self.tics / TICS]
            yield Row(REPLAY, name, "s", {"the game's own time": game, AGAIN: self.seconds}, compared=False)


def rows(bench: Bench) -> Iterator[Row]:
    if not GAME.exists() or not DATA.exists():
        bench.left_out.append("a game: chocolate-doom and freedoom are not installed")
        return
    for name, driver in SCREENS.items():
        if driver != "x11":
            yield from Game(bench, driver, {}).rows(bench, name)
        elif bench.has("Xvfb", name):
            # Memory that a server shares with its clients cannot be recorded (docs/limits.md).
            with subprocess.Popen(
                ["Xvfb", "-displayfd", "1", "-screen", "0", "800x600x24", "-extension", "MIT-SHM"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True, env=os.environ,
            ) as screen:  # fmt: skip
                try:
                    assert screen.stdout
                    display = screen.stdout.readline().strip()
                    yield from Game(bench, driver, {"DISPLAY": f":{display}"}).rows(bench, name)
                finally:
                    end(screen)


if __name__ == "__main__":
    only(rows)
