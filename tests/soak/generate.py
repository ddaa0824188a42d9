"""Random programs: threads, locks, queues, calls, memory, signals; whatever they find goes into the line they print.

    .venv/bin/python tests/soak/generate.py SEED > program.c

Runs in: pytest, and a command of its own. May call: nothing.
Owns: the shapes of the programs. INVARIANT(always-ends): locks are taken in one order; whoever gets has given before,
in the same phase; the parties meet between phases, so whom a signal is sent to is alive.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

RUNTIME = Path(__file__).with_name("runtime.h")
MUTEXES, QUEUES, PIPES, BLOCKS, SHELF, ONCES = 5, 3, 2, 6, 12, 3
# Sections by rank: what is open inside of another has a higher one.
SECTIONS = [
    *[(f"LOCK({i});", f"UNLOCK({i});") for i in range(MUTEXES)],
    *[(f"{verb}({i});", f"UNRW({i});") for i in range(2) for verb in ("READ", "WRITE")],
    *[(f"SEM({i});", f"UNSEM({i});") for i in range(2)],
    ("SPIN;", "UNSPIN;"),
]
KINDS = ("PTHREAD_MUTEX_NORMAL", "PTHREAD_MUTEX_RECURSIVE", "PTHREAD_MUTEX_ERRORCHECK")


class Writer:
    """One program, from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.parties = self.random.choice((1, 2, 2, 3, 3, 4, 5, 8))
        self.phases = self.random.randint(1, 3)
        self.children = self.random.choice((0, 0, 2, 6, 20))
        self.signals = self.random.random() < 0.5
        self.forks = self.random.random() < 0.2
        self.flag_values = [0] * self.parties

    # ------------------------------------------------------------ statements
    def simple(self) -> str:
        """One that waits for nobody, wherever it stands."""
        draw = self.random
        size = draw.choice((8, 24, 100, 700, 5000, 40000, 300000))
        return draw.choice(
            (
                "look_at_clock();",
                "draw();",
                "identify();",
                "sched_yield();",
                f"nap({draw.randint(1, 200)});",
                f"compute({draw.randint(1, 20000)});",
                f"take({draw.randrange(BLOCKS)}, {draw.randint(1, size)}, {draw.randrange(4)});",
                f"take({draw.randrange(BLOCKS)}, {draw.randint(1, 200)}, {draw.randrange(4)});",
                f"swap({draw.randrange(BLOCKS)}, {draw.randrange(SHELF)});",
                f"swap({draw.randrange(BLOCKS)}, {draw.randrange(SHELF)});",
                f"give_back({draw.randrange(BLOCKS)});",
                f"race({draw.randrange(4)}, {draw.randint(1, 60)});",
                f"race({draw.randrange(4)}, {draw.randint(1, 60)});",
                "say();",
                "roll();",
            )
        )

    def call(self) -> str:
        """One that needs no turn of others, but is better not done inside of a section."""
        draw = self.random
        calls = [
            "read_file();",
            "talk_to_yourself();",
            f"map({draw.randint(1, 40)});",
            "set_key();",
            f"once_only({draw.randrange(ONCES)});",
            f"mask({draw.randrange(2)});" if self.signals else "identify();",
        ]
        if self.forks:
            calls.append("have_child();")
        return draw.choice(calls)

    def section(self, rank: int, depth: int) -> list[str]:
        draw = self.random
        rank = draw.randrange(rank, len(SECTIONS))
        first, last = SECTIONS[rank]
        if first.startswith("LOCK") and draw.random() < 0.3:
            first = draw.choice((first.replace("LOCK", "TRYLOCK"), f"TIMEDLOCK({rank}, {draw.randint(1, 300)});"))
        elif first.startswith("READ") and draw.random() < 0.3:
            first = "TRY" + first
        elif first.startswith("SEM") and draw.random() < 0.4:
            number = first[4]
            first = draw.choice((f"TRYSEM({number});", f"LIMITSEM({number}, {draw.randint(1, 300)});"))
        body = [self.simple() for _ in range(draw.randint(0, 3))]
        if depth and rank + 1 < len(SECTIONS) and draw.random() < 0.4:
            # Both ways into a read-write lock have neighbouring ranks: never one inside of the other.
            body += self.section(rank + 2, depth - 1) if rank + 2 < len(SECTIONS) else []
        return [first, *[f"\t{line}" for line in body], last]

    def block(self, length: int, thread: int | None) -> list[str]:
        draw, lines = self.random, []
        for _ in range(length):
            what = draw.random()
            if what < 0.45:
                part = self.section(0, 2)
            elif what < 0.8 or thread is None:
                part = [self.simple()]
            elif what < 0.93 or not self.signals:
                part = [self.call()]
            else:
                one, any_one = f"disturb({draw.randrange(self.parties)});", f"disturb_somebody({draw.randrange(99)});"
                part = [draw.choice((one, any_one))]
            if draw.random() < 0.25:
                part = [f"for (int i = {draw.randint(2, 12)}; i; i--) {{", *[f"\t{line}" for line in part], "}"]
            lines += part
        return lines

    # ------------------------------------------------------------ threads
    def phase(self, number: int) -> list[list[str]]:
        """What each party does until they meet. Everybody gives before anybody gets."""
        draw = self.random
        gives: list[list[str]] = [[] for _ in range(self.parties)]
        gets: list[list[str]] = [[] for _ in range(self.parties)]
        for _ in range(draw.randint(0, 3 * self.parties)):
            giver, getter = draw.randrange(self.parties), draw.randrange(self.parties)
            if draw.random() < 0.7:
                q = draw.randrange(QUEUES)
                gives[giver].append(f"put({q}, {draw.randrange(2)});")
                gets[getter].append(f"get({q}, {draw.choice((0, 0, 50, 400))});")
            else:
                p = draw.randrange(PIPES)
                gives[giver].append(f"tell({p});")
                gets[getter].append(f"hear({p}, {draw.randrange(2)});")
        for _ in range(draw.randrange(3)):
            giver, getter = draw.randrange(self.parties), draw.randrange(self.parties)
            self.flag_values[giver] += 1
            gives[giver].append(f"raise_flag({giver});")
            gets[getter].append(f"await_flag({giver}, {self.flag_values[giver]});")
        return [self.mixed(gives[i], i) + self.mixed(gets[i], i) for i in range(self.parties)]

    def mixed(self, given: list[str], thread: int) -> list[str]:
        lines = []
        for line in given:
            lines += [*self.block(self.random.randint(0, 2), thread), line]
        return lines + self.block(self.random.randint(1, 4), thread)

    def text(self) -> str:
        draw, bodies = self.random, [["meet_main();"] for _ in range(self.parties)]
        for number in range(self.phases):
            for body, lines in zip(bodies, self.phase(number), strict=True):
                body += [*lines, "meet();"]
        functions = []
        for child in range(self.children):
            functions.append(function(f"child_{child}", self.block(draw.randint(1, 4), None)))
            body = bodies[draw.randrange(self.parties)]
            body.insert(draw.choice(tops(body)), f"{draw.choice(('bear_and_join', 'bear_and_leave'))}(child_{child});")
        functions += [function(f"party_{i}", body) for i, body in enumerate(bodies)]
        kinds = ", ".join(draw.choice(KINDS) for _ in range(MUTEXES))
        robust = ", ".join(str(int(draw.random() < 0.2)) for _ in range(MUTEXES))
        inherits = ", ".join(str(int(draw.random() < 0.15)) for _ in range(MUTEXES))
        main = [
            f"static const int kinds[] = {{{kinds}}}, robust[] = {{{robust}}}, inherits[] = {{{inherits}}};",
            f"begin(kinds, robust, inherits, {self.parties}, {draw.randrange(2)});",
            *[f"threads[{i}] = bear(party_{i}, 0);" for i in range(self.parties)],
            f"return finish({self.parties});",
        ]
        functions.append("int main(void)\n{\n" + "".join(f"\t{line}\n" for line in main) + "}\n")
        return f"// Generated from seed {self.seed}.\n" + RUNTIME.read_text() + "\n" + "\n".join(functions)


def tops(body: list[str]) -> list[int]:
    """Where another statement may stand: in front of a statement, outside of sections and loops."""
    places, depth = [], 0
    for number, line in enumerate(body):
        if not line.startswith("\t"):
            opens = line.endswith("{") or line.partition("(")[0] in OPENING or line == "SPIN;"
            closes = line == "}" or line.startswith("UN")
            if not depth and not closes:
                places.append(number)
            depth += opens - closes
    return places


OPENING = {"LOCK", "TRYLOCK", "TIMEDLOCK", "READ", "TRYREAD", "WRITE", "SEM", "TRYSEM", "LIMITSEM"}


def function(name: str, body: list[str]) -> str:
    return f"static void {name}(void)\n{{\n" + "".join(f"\t{line}\n" for line in body) + "}\n"


def generate(seed: int) -> str:
    return Writer(seed).text()


if __name__ == "__main__":
    sys.stdout.write(generate(int(sys.argv[1])))
