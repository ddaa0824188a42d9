"""The one open session of a GDB: its server, its connection, and what was set for it and is set back behind it.

Runs in: GDB's Python. May call: gdb through gdbrr.ingdb.compat; no threads.
Owns: the Server and the Link of the session, and the user's values of the settings in CONNECTED.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gdbrr.errors import GdbrrError
from gdbrr.ingdb import asking, compat, moving, program, text
from gdbrr.ingdb.link import Link, Server, brings_files, find_python
from gdbrr.ingdb.params import Settings
from gdbrr.ingdb.words import plain_words, shell_words

if TYPE_CHECKING:
    from gdbrr.ingdb.search import Followed

# sysroot: the program's files are this machine's; fetching them through the connection takes twice as long.
# remotetimeout: a question to the server may wait for a search; 2 seconds are for serial lines.
CONNECTED = {"sysroot": "/", "remotetimeout": "30"}
_SCRIPTS = "auto-load safe-path"
_AT_ONCE = 0.2
"""Seconds that the server waits for a demo's end. Then GDB connects at its start, and reads symbols meanwhile."""
_DEFAULTS = {"sysroot": "target:", "remotetimeout": "2"}


class Session:
    """What the commands work with."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._server: Server | None = None
        self._connection: Any = None
        self._link: Link | None = None
        self._pid = 0
        self._unsaid: list[str] = []
        self._saved: dict[str, str] = {}
        settings.changed = self._changed
        compat.on_disconnect(self._disconnected)
        compat.before_prompts(self._tidy)
        if asking.speaks("mi"):
            compat.behind_exits(self._tidy)
        # A command of GDB's own may have failed in the server just as well; it ends with a stop, or with a script.
        compat.on_stop(self.say_complaints)
        compat.on_exit(self.say_complaints)
        program.follow_libraries(lambda: self._link)
        self._asking = asking.Asking(self)
        moving.before_steps(self._name_thread, self._hush)
        moving.threads_return(lambda: self._link is not None)
        self.began = 0.0
        """When the command that runs began, by the monotonic clock."""
        self.followed: Followed | None = None
        """What the last search for a change was about, and where it ended."""
        self._unseen = False
        """It was moved quietly: front ends do not know where it stands."""

    # ------------------------------------------------------------ opening and closing

    def require(self) -> Link:
        if self._link is None:
            raise GdbrrError("no demo is open", hint="try: rr-replay FILE")
        return self._link

    def open_demo(self, path: str, trust: bool = False, start: bool = False, check: bool = False) -> None:
        """Replay the demo at PATH, standing at its end or START; with TRUST also one that somebody else recorded, with
        CHECK looking at whether its state is the same each time."""
        full = os.path.abspath(os.path.expanduser(path))
        if not os.path.isfile(full):
            raise GdbrrError(f"there is no file {path}", hint="try: rr-start, or gdbrr record PROGRAM")
        packed = brings_files(full)
        patience, began = float(self.settings.patience), time.monotonic()
        where = ["--start"] if start else ["--patience", f"{min(patience, _AT_ONCE):g}"]
        options = [*(["--trust"] if trust else []), *(["--check"] if check else [])]
        # What is no demo, or may not be opened, leaves the open one alone.
        server = self._serve(["serve", *options, *where, full])
        self._open(server, here=not packed, foreign=packed or trust)
        wanted = str(self.status().get("program", ""))
        loaded = program.file()
        if packed:
            pass  # GDB has got the program from the server, as every file
        elif not loaded:
            if os.path.isfile(wanted):
                program.load(wanted)
        elif wanted and os.path.realpath(loaded) != os.path.realpath(wanted):
            compat.write(f"Note: this demo is of {wanted}, and GDB has {loaded}. Try: file {wanted}")
        early = not start and bool(self.status().get("early"))
        moved = early and not self._settles(began + patience)
        if early and not moved:
            self.move(True, where="end")
            self.arrive(shown=False)
        # Where the replay has not come to the end yet, the way there is a move as any other.
        elif moved and not self.move(where="end"):
            compat.write("The replay goes on in the background. Try: rr-goto end")
        if note := self.status().get("note"):
            compat.write(f"Note: {note}")
        if not moved:
            compat.show_frame()

    def _settles(self, deadline: float) -> bool:
        """Whether the replay comes to its end until DEADLINE."""
        while (left := deadline - time.monotonic()) > 0:
            if self.require().request("settle", seconds=left)["settled"]:
                return True
        return False

    def start(self, options: Sequence[str], args: str) -> None:
        """Record the current program from its start and let it run to where `run` would stop."""
        file = program.file()
        if not file:
            raise GdbrrError("no program is loaded", hint="try: file PROGRAM")
        env, folder = program.surroundings()
        shell = compat.setting("startup-with-shell") == "True"
        words = (shell_words if shell else plain_words)(args or program.arguments(), env, folder)
        if args:
            compat.change_setting("args", args)
        keyboard = ["--keyboard", os.ttyname(0)] if asking.at_terminal() else []
        record = ["--record", *keyboard, *self.settings.options(), *options, "--", file, *words]
        if compat.has_process():
            self._serve(["serve", "--look", *record], env, folder).close()  # a slip of the pen ends no recording
        self._make_room()  # before anything runs: what is recorded now may hold what the program needs
        serve = ["serve", *record]
        self._open(self._serve(serve, env, folder, asking.is_input_shared()))
        self._resume(moving.proceed)
        self._stand_at_end()

    def _stand_at_end(self) -> None:
        """Where the program has ended, but was not killed: at the end of its recording."""
        if not program.runs() and (status := self.status()).get("exited") and self.reopen():
            why, note = (each.get("note") for each in (status, self.status()))
            what = f"The recording ended: {why}." if why else "The program has ended; this is the end of its recording."
            compat.write(f"{what} The way is back." + (f"\nNote: {note}" if note and note != why else ""))

    def _make_room(self) -> None:
        """End what this GDB debugs now. A recording or a process outside a session only if the user agrees."""
        if compat.has_process() and (self._link is None or self._recording()):
            compat.kill()
        self.close()

    def _recording(self) -> bool:
        try:
            return bool(self.status()["recording"])
        except GdbrrError:
            return False  # a server that does not answer keeps nothing

    def _serve(
        self, words: Sequence[str], env: dict[str, str] | None = None, folder: str | None = None, shares: bool = False
    ) -> Server:
        words = [words[0], *(["--unsaid"] if moving.repeats() else []), *words[1:]]
        server = Server(find_python(self.settings.python), words, env=env, folder=folder, shares_input=shares)
        try:
            server.wait_ready()
        except BaseException:
            server.close()
            raise
        return server

    def _open(self, server: Server, here: bool = True, foreign: bool = False) -> None:
        """HERE: programs and libraries are files of this machine. FOREIGN: they may be somebody else's, and no script
        in them or beside them is run, whatever folders the user trusts."""
        try:
            self._make_room()
            if foreign:
                self._saved[_SCRIPTS] = compat.setting(_SCRIPTS)
                compat.change_setting(_SCRIPTS, "$debugdir:$datadir/auto-load")
            for name, value in CONNECTED.items():
                if name == "sysroot" and not here:
                    continue
                user = compat.setting(name)
                if user == _DEFAULTS[name]:
                    self._saved[name] = user
                    compat.change_setting(name, value)
            try:
                self._connection = compat.connect(server.socket)
            except compat.ERRORS as error:
                # It may have hung up and be on its way to its end, where it says why.
                why = str(error).rstrip(".")
                failed = GdbrrError(f"GDB cannot connect to the server: {why}", hint="try it again")
                raise server.failure(failed) from error
        except BaseException:
            server.close()
            self._set_back()
            raise
        server.forget_directory()
        self._server = server
        self._link = Link(self._send)
        self._pid = compat.pid()
        if self.settings.engine_frames:
            self._changed("engine-frames")

    def _changed(self, name: str) -> None:
        """A setting that the server has to know of."""
        if name == "engine-frames" and self._link is not None:
            self._link.request("engine_frames", on=self.settings.engine_frames)
            compat.forget_registers()

    def _send(self, packet: str) -> str:
        left = not compat.has_process()
        try:
            return compat.send_packet(self._connection, packet)
        except compat.ERRORS as error:
            if left:  # by `detach`, behind which GDB keeps the connection, and nobody is at its other end
                self.close()
                raise GdbrrError("no demo is open", hint="try: rr-replay FILE") from error
            why = str(error).rstrip(".")
            raise GdbrrError(f"the server does not answer: {why}", hint="try: rr-replay FILE") from error

    def close(self) -> None:
        """End the session, quietly; harmless without one."""
        if self._link is not None:
            compat.disconnect()
        self._end_server()
        self._set_back()

    def _disconnected(self, connection: Any) -> None:
        # GDB is in the middle of taking the connection apart: the server ends when that is done and must not be
        # waited for, and setting sysroot would look for symbols.
        if connection == self._connection:
            self._link = None
            self._connection = None
            if self._server is not None:
                self._server.let_go()

    def _name_thread(self, step: str) -> None:
        if self._link is not None and compat.has_process():
            with contextlib.suppress(GdbrrError):
                lines = compat.lines() if step.endswith(("step", "next")) else []
                self._link.request("selected", tid=compat.selected(), lines=lines, into=step.endswith("step"))

    def _hush(self) -> None:
        """A stop without words here; a front end would take it for the end of its step."""
        if self._link is not None and not asking.has_front_end():
            with contextlib.suppress(GdbrrError), moving.silence(lasting=False) as address:
                self._link.request("arm", silence=address, where="here")
                self._come(moving.resume_quietly)

    def _tidy(self) -> None:
        """When nothing is going on, and behind a disconnect."""
        self.say_complaints()
        if self._link is not None:
            self._asking.at_prompt()
        if self._link is not None and not compat.has_process():
            with contextlib.suppress(GdbrrError):
                self._stand_at_end()
        if self._link is None:
            self._set_back()
            if self._server is not None and self._server.ended():
                self._end_server()

    def say_complaints(self) -> None:
        """What the server left on its standard error: sentences, and with `set gdbrr verbose on` tracebacks too."""
        if self._server is None:
            return
        said = self._server.complaints()
        self._asking.heard(said)
        lines = [*self._unsaid, *said.splitlines(keepends=True)]
        now = [line for line in lines if self.settings.verbose or line.startswith("gdbrr: ")]
        self._unsaid = [line for line in lines if line not in now]
        compat.write_error("".join(now))

    def _end_server(self) -> None:
        self._link = self._connection = self.followed = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def _set_back(self) -> None:
        while self._saved:
            name, value = self._saved.popitem()
            compat.change_setting(name, value)

    # ------------------------------------------------------------ in a session

    def status(self) -> dict[str, Any]:
        """What is open. Of where in time it stands, what is known at once."""
        reply = self.require().request("status")
        return dict(reply)

    def now(self) -> dict[str, Any]:
        """The same, and the moment, however long it takes to find out which pass of a loop this is."""
        status = self.status()
        if not status["late"]:
            return status
        seen = not self._unseen
        with compat.selection():
            if not self.move(True, where="here", named=True):
                raise KeyboardInterrupt
            if seen:
                self.arrive(shown=False)
        status = self.status()
        if status["late"]:  # the server said why
            raise GdbrrError("which moment this is could not be found out", hint="try: rr-goto MOMENT")
        return status

    def move(self, quiet: bool = False, **target: Any) -> bool:
        """Go to TARGET by GDB's own reverse-continue, so that every front end sees a stop; False if interrupted.

        QUIET is for a way through several moments, of which only the last is shown.
        """
        self.reopen()
        self._unseen = quiet
        if told := asking.telling():
            target |= {**told, "since": self.began}
        if quiet:
            with moving.silence() as address:
                self.require().request("arm", silence=address, **target)
                return self._come(moving.resume_quietly)
        self.require().request("arm", **target)
        return self._come(moving.resume)

    def arrive(self, shown: bool = True) -> None:
        """Behind quiet moves: one more stop here, an ordinary one, by which front ends follow.

        Of a silent stop they hear, but not where it is. SHOWN: the command line tells as well.
        """
        self._unseen = False
        self.require().request("arm", where="here")
        self._resume(lambda: moving.stay(shown))

    def be_seen(self, shown: bool = True) -> None:
        """Where the last move was a quiet one."""
        if self._unseen and self._link is not None:
            self.arrive(shown)

    def _come(self, resume: Callable[[], str]) -> bool:
        """To what is armed; False if interrupted."""
        signal = self._resume(resume)
        self.require().request("outcome")
        return signal != "SIGINT"

    def _resume(self, resume: Callable[[], str]) -> str:
        try:
            return resume()
        except compat.ERRORS:
            if self._link is None and self._server is not None:
                raise self._server.failure() from None
            raise

    def reopen(self) -> bool:
        """Where the recorded process has ended GDB has none: give it the end of the recording."""
        if compat.has_process() or not self.status().get("finished"):
            return False
        self.require().request("open")
        compat.attach(self._pid)
        return True

    def say_when(self) -> None:
        status = self.now()
        selected = compat.place()
        its = selected if status["live"] else compat.place(int(status["thread"]))
        compat.write(text.when(status, its.thread, its.name, its.code, selected.thread))

    def say_epochs(self) -> None:
        status = self.now()
        compat.write(text.epochs(self.require().request("epochs"), status["epoch"]))
        compat.write(text.bar(status))

    def save(self, path: str) -> None:
        full = os.path.abspath(os.path.expanduser(path))
        if os.path.lexists(full):
            raise GdbrrError(f"{path} exists", hint="try another name, or remove it first")
        self.require().request("save", path=full)
        compat.write(f"saved {path} ({text.size(os.path.getsize(full))}). Try: rr-replay {path}")

    def live(self, quiet: bool = False) -> None:
        if quiet:
            self.move(True, where="live")
        else:
            self.require().request("arm", where="live")
            self._come(moving.resume)

    def end_recording(self) -> None:
        if self.status()["unrecorded"]:
            raise GdbrrError("the recording has ended already", hint="its process goes on without it")
        self.require().request("end_recording")
        compat.write("The recording ends here. The process goes on without it, and may be changed.")

    def mark(self, name: str) -> None:
        self.now()
        was = self.marks().get(name)
        now = self.require().request("marks", add=name)[name]
        moved = f", and was tick {was}" if was not in (None, now) else ""
        compat.write(f"{name} is tick {now}{moved}. Try: rr-goto {name}")

    def marks(self) -> dict[str, str]:
        return dict(self.require().request("marks"))

    def known_marks(self) -> list[str]:
        """For completion, where errors have no place."""
        try:
            return [] if self._link is None else list(self.marks())
        except GdbrrError:
            return []

    def say_marks(self) -> None:
        compat.write(text.marks(self.marks()))

    def say_info(self) -> None:
        compat.write(text.facts(self.require().request("describe")))
        self.say_when()
