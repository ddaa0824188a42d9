"""The smallest profile with which a program still replays: what is not needed is left out, costliest first, by trying.

Runs in: `gdbrr suggest`. May call: errors, config, demo, launch, gdbrr.sparse.
Owns: what is tried, and in which order. INVARIANT(found-by-trying): every value of the profile that is found was in a
profile with which the program was recorded and replayed synchronised, with the recorded output.
"""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gdbrr.config.profiles import Profile, Value
from gdbrr.demo import guess
from gdbrr.demo.reader import Demo
from gdbrr.errors import GdbrrError
from gdbrr.sparse import candidates, payload, tour, trial
from gdbrr.sparse.candidates import Candidate
from gdbrr.sparse.company import Company
from gdbrr.sparse.trial import Interrupted, Run

if TYPE_CHECKING:
    from gdbrr.launch.record import Request

TRIES = 60
CHECKS = 2
"""Further recordings of the profile that was found, each replayed."""
LIMIT = 60.0
_LEAST, _SHARE = 64, 200
"""Bytes of events that are worth a trial, and which part of all that are left."""
_DAY = 86_400 + 3_661
"""Seconds by which the clocks of a demo are put forward to see whether anything depends on them."""
_CLOCKS = ("clock_gettime", "gettimeofday")

Say = Callable[[str], None]


class Step(NamedTuple):
    """What came of one candidate."""

    candidate: Candidate
    mode: str
    """The one that it has in the profile found; `record` where none of the others did."""
    why: str
    """What was wrong with the others."""
    cpu: float | None
    """Seconds of processor time that the recording took less."""
    saved: int
    """Bytes of events that it held less."""


@dataclass
class Found:
    """Everything that was found out. As far as it came: Ctrl-C leaves it."""

    profile: Profile
    native: Run
    full: Run
    best: Run
    usage: list[candidates.Use]
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tries: int = 0
    whole: bool = True
    interrupted: bool = False
    checks: int = 0
    """How often the profile that was found was recorded and replayed in the end."""


class Search:
    def __init__(
        self,
        request: Request,
        scratch: Path,
        say: Say,
        tries: int = TRIES,
        limit: float = LIMIT,
        company: Company | None = None,
    ) -> None:
        self._request = request
        self._company = company or Company()
        self._demo = scratch / "trial.demo"
        self._full = scratch / "full.demo"
        self._altered = scratch / "altered.demo"
        self._earlier = scratch / "earlier.demo"
        self._say = say
        self._most = tries
        self._limit = limit
        self._statuses: dict[int, int] = {}
        self._outputs: set[bytes] = set()
        self._recordings = self._accepted_at = 0
        self._accepted: list[tuple[Profile, Run]] = []
        """Every profile that was found good, each with what it left out added to the one before."""

    def run(self) -> Found:
        """Find the profile. Interrupted while there is none to be left; later it leaves the best one."""
        found = self._begin()
        try:
            self._look(found)
            self._confirm(found)
        except (Interrupted, KeyboardInterrupt):
            found.whole, found.interrupted = False, True
            found.notes.append("interrupted: this is the best profile up to there")
        found.profile, found.best = self._accepted[-1]
        self._note_differences(found)
        return found

    # ---------------------------------------------------------------- the whole run
    def _begin(self) -> Found:
        self._say("running the program by itself")
        native = trial.native(self._request.argv, self._limit, self._company)
        self._seen(native)
        profile = self._decided()
        notes: list[str] = []
        self._say("recording it in full")
        verdict = self._attempt(profile)
        if not verdict.good and profile.values["order"].value == "parallel":
            self._say("recording it in full, one thread at a time")
            serial = _with(profile, ("order", "serial"))
            again = self._attempt(serial)
            if again.good:
                notes.append(
                    f"in order parallel it does not replay: {verdict.why}. Its threads race, or wait in a way of their"
                    " own: the profile has order serial"
                )
                profile, verdict = serial, again
        if not verdict.good:
            raise GdbrrError(
                f"even recorded in full the program does not replay: {verdict.why}",
                "record it with gdbrr record; gdbrr replay then says more",
            )
        shutil.copy(self._demo, self._full)
        self._accept(profile, verdict.run)
        self._say("looking at what it uses")
        with Demo.open(self._full) as demo:
            arguments = tour.look(demo, trust=False)
            self._calls = list(payload.calls(demo, arguments))
        usage = candidates.usage(self._calls)
        return Found(profile, native, verdict.run, verdict.run, usage, notes=notes, tries=1)

    def _accept(self, profile: Profile, run: Run) -> None:
        self._accepted.append((profile, run))
        self._accepted_at = self._recordings

    def _decided(self) -> Profile:
        """The profile to begin with, with an order that is known."""
        profile = self._request.profile
        if profile.values["order"].value != "auto":
            return profile
        guessed = guess.order_for(self._request.program()[1], self._request.env)
        return profile.with_order(guessed.order, guessed.why)

    def _attempt(self, profile: Profile) -> trial.Verdict:
        verdict = trial.attempt(self._request, profile, self._demo, self._limit, self._company)
        self._recordings += verdict.run.recordings
        self._seen(verdict.run)
        return verdict

    def _seen(self, run: Run) -> None:
        self._statuses[run.status] = self._statuses.get(run.status, 0) + 1
        self._outputs.add(run.output)

    def _note_differences(self, found: Found) -> None:
        if len(self._statuses) > 1:
            seen = ", ".join(f"{status} ({count} times)" for status, count in sorted(self._statuses.items()))
            found.notes.append(f"its runs end differently: exit status {seen}; another run may need what these did not")
        elif len(self._outputs) > 1:
            found.notes.append("its output differs from run to run; each replay wrote that of its own recording")

    # ---------------------------------------------------------------- the search
    def _look(self, found: Found) -> None:
        queue: list[Candidate] = []
        for candidate in candidates.first(self._calls, found.profile):
            heapq.heappush(queue, candidate)
        while queue:
            candidate = heapq.heappop(queue)
            least = max(_LEAST, self._accepted[-1][1].events // _SHARE)
            if candidate.size < least:
                continue
            if found.tries >= self._most:
                found.whole = False
                found.notes.append(f"ended after {found.tries} trials; --tries allows more")
                return
            step = self._one(candidate, found)
            if step.mode != "record":
                found.steps.append(step)
                continue
            parts = candidate.parts()
            if not parts or not any(part.size >= least for part in parts):
                found.steps.append(step)
            for part in parts:
                heapq.heappush(queue, part)

    def _one(self, candidate: Candidate, found: Found) -> Step:
        """Try the modes of CANDIDATE on top of the best profile so far."""
        best, before = self._accepted[-1]
        at, why = self._accepted_at, ""
        cpu: float | None = None
        for mode in candidate.modes:
            self._say(f"trial {found.tries + 1}: {candidate.about} {mode}")
            if mode == "ignore" and candidate.cls == "time" and not self._clocks_are_free(candidate, found):
                why = "what it does depends on the time"
                continue
            profile = _with(best, (candidate.key, mode), *candidate.rules)
            found.tries += 1
            try:
                profile.rules()
                verdict = self._attempt(profile)
            except GdbrrError as error:
                why = error.message
                continue
            cpu = before.cpu - verdict.run.cpu
            expected = before.events + round(found.full.growth * (self._recordings - at))
            if verdict.good and verdict.run.events < expected:
                self._accept(profile, verdict.run)
                return Step(candidate, mode, why, cpu, expected - verdict.run.events)
            why = verdict.why or "the demo is no smaller without it"
        return Step(candidate, "record", why, cpu, 0)

    def _clocks_are_free(self, candidate: Candidate, found: Found) -> bool:
        """Whether the full demo replays with other times in it.

        A clock that is read again on replay shows nearly the same time, by which a program that depends on the day or
        the minute is not told from one that does not.
        """
        found.tries += 1
        with Demo.open(self._full) as demo:
            changes = []
            for call in candidate.calls:
                if call.thing.call in _CLOCKS and call.payload and call.payload[0].size >= 16:
                    span = call.payload[0].part(0, 8)
                    seconds = int.from_bytes(payload.read(demo, span), "little") + _DAY
                    changes.append((span, (seconds & (1 << 64) - 1).to_bytes(8, "little")))
            payload.rewrite(demo, self._altered, changes)
        return not trial.replay(self._altered, found.full)

    def _confirm(self, found: Found) -> None:
        """The profile that was found holds several times in a row, and its first demo still replays when the program
        has run again; what does not is taken back, newest first."""
        while found.checks < CHECKS and len(self._accepted) > 1:
            profile, _ = self._accepted[-1]
            self._say(f"recording it once more with what was found ({found.checks + 1} of {CHECKS})")
            found.tries += 1
            verdict = self._attempt(profile)
            why = verdict.why
            if not why and found.checks == 0:
                shutil.copy(self._demo, self._earlier)
            elif not why:
                why = trial.replay(self._earlier, verdict.run)
            found.checks += 1
            if why:
                found.checks = 0
                self._take_back(found, why)

    def _take_back(self, found: Found, why: str) -> None:
        self._accepted.pop()
        for at in range(len(found.steps) - 1, -1, -1):
            if found.steps[at].mode != "record":
                found.steps[at] = found.steps[at]._replace(mode="record", why=f"not in every run: {why}", saved=0)
                return


def _with(profile: Profile, *settings: tuple[str, str]) -> Profile:
    fresh = {key: Value(value, "suggest") for key, value in settings}
    return profile._replace(values={**profile.values, **fresh})
