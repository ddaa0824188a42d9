"""A server made of canned moments: enough remote protocol for GDB, and the verbs of qGdbrr.

Runs in: a process of its own, in place of `gdbrr serve`; started by the link with the server's command line.
May call: the standard library.
Owns: the moments of STUB_MOMENTS: one {"pc", "value", "thread"} a tick, and STUB_NOTES, where it notes what it is told.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

PID = 0x1000
TIDS = (0x1000, 0x1001)
NAMES = ("main", "worker")


def main(words: list[str]) -> int:
    # -I -c BOOT PLACE ROOT serve --socket PATH [--record] ...
    serve = words[words.index("serve") :]
    note("serve", words=serve, env=dict(os.environ), cwd=os.getcwd())
    if os.environ.get("STUB_FAILS"):
        print("gdbrr serve: the engine is not built. In a checkout run `make build`", file=sys.stderr)
        return 1
    if os.environ.get("STUB_SAYS"):
        print(os.environ["STUB_SAYS"], flush=True)
        return 1
    path = serve[serve.index("--socket") + 1]
    os.mkdir(os.path.dirname(path), 0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        if os.environ.get("STUB_DELAYS"):
            # Longer than any test: only the end of the lifeline ends it.
            os.read(0, 1)
            note("ended")
            return 0
        print(f"ready {path}", flush=True)
        # The lifeline: the end of standard input is the end of the server, also before GDB has connected.
        if 0 in select.select([listener, 0], [], [])[0]:
            return 0
        connection = listener.accept()[0]
    with connection:
        Stub(connection, "--record" in serve).serve()
    note("ended")
    return 0


def note(what: str, **facts: Any) -> None:
    with open(os.environ["STUB_NOTES"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"what": what, **facts}) + "\n")


class Stub:
    def __init__(self, connection: socket.socket, live: bool) -> None:
        self.connection = connection
        self.moments = json.loads(Path(os.environ["STUB_MOMENTS"]).read_text(encoding="utf-8"))
        self.program = os.environ["STUB_PROGRAM"]
        self.image = Path(self.program).read_bytes()
        self.live = live
        self.early = bool(os.environ.get("STUB_EARLY"))
        self.now = 0 if live or self.early else len(self.moments) - 1
        self.finished = False
        self.target: dict[str, Any] = {}
        self.buffer = b""

    # ------------------------------------------------------------ packets

    def serve(self) -> None:
        while True:
            packet = self.next_packet()
            if packet is None:
                return
            note("packet", text=packet)
            answer = self.answer(packet)
            body = answer.encode("latin-1")
            self.connection.sendall(b"+$" + body + b"#%02x" % (sum(body) & 255))

    def next_packet(self) -> str | None:
        while True:
            start = self.buffer.find(b"$")
            stop = self.buffer.find(b"#", start)
            if start >= 0 and stop >= 0 and len(self.buffer) >= stop + 3:
                packet = self.buffer[start + 1 : stop]
                self.buffer = self.buffer[stop + 3 :]
                return packet.decode("latin-1")
            readable = select.select([self.connection, 0], [], [])[0]
            more = self.connection.recv(4096) if self.connection in readable else b""
            if not more:
                return None
            self.buffer += more

    def answer(self, packet: str) -> str:
        moment = self.moments[self.now]
        if packet.startswith("qSupported"):
            return "PacketSize=4000;ReverseContinue+;ReverseStep+;qXfer:threads:read+"
        if packet.startswith("qGdbrr:"):
            question = json.loads(bytes.fromhex(packet[7:]))
            note("asked", **{"question": question})
            return json.dumps(self.reply(question)).encode().hex()
        if packet in ("!", "D") or packet.startswith(("H", "T", "D;", "Z", "z")):
            return "OK"
        if packet.startswith("vKill"):
            note("killed")
            return "OK"
        if packet == "vCont?":
            return "vCont;c;C;s;S"
        if packet.startswith("vCont;c") or packet == "c":
            self.now = len(self.moments) - 1
            self.finished = bool(os.environ.get("STUB_EXITS"))
            return "W07" if self.finished else f"T0b{self.thread()}"
        if packet.startswith("vAttach"):
            return f"T00{self.thread()}"
        if packet == "?":
            return f"T00{self.thread()}"
        if packet == "bc":
            if os.environ.get("STUB_COMPLAINS"):
                print("Traceback of the server", file=sys.stderr, flush=True)
            return self.go_back()
        if packet == "qC":
            return f"QC{TIDS[moment['thread']]:x}"
        if packet.startswith("qAttached"):
            return "1"
        if packet.startswith("qXfer:threads:read"):
            rows = "".join(f'<thread id="{TIDS[i]:x}" name="{NAMES[i]}"/>' for i in range(len(TIDS)))
            return f"l<threads>{rows}</threads>"
        if packet == "g":
            registers = [0] * 16
            registers[7] = 0x7FFFFFFFE000
            return struct.pack("<17Q7I", *registers, moment["pc"], 0x202, 0x33, 0x2B, 0, 0, 0, 0).hex()
        if packet.startswith("m"):
            addr, length = (int(part, 16) for part in packet[1:].split(","))
            return self.memory(addr, length).hex()
        return ""

    def thread(self) -> str:
        return f"thread:{TIDS[self.moments[self.now]['thread']]:x};"

    def memory(self, addr: int, length: int) -> bytes:
        """The program's file, with the variable's value of this moment laid over it."""
        found = bytearray(length)
        offset, size, count = struct.unpack_from("<Q14x2H", self.image, 32)
        for index in range(count):
            kind, _, at, virtual, _, stored, _, _ = struct.unpack_from("<2I6Q", self.image, offset + index * size)
            if kind == 1:
                for byte in range(max(addr, virtual), min(addr + length, virtual + stored)):
                    found[byte - addr] = self.image[at + byte - virtual]
        variable = int(os.environ["STUB_VARIABLE"], 16)
        for index, byte in enumerate(struct.pack("<i", self.moments[self.now]["value"])):
            if addr <= variable + index < addr + length:
                found[variable + index - addr] = byte
        return bytes(found)

    # ------------------------------------------------------------ time

    def go_back(self) -> str:
        target, self.target = self.target, {}
        if "count" in target:
            for _ in range(target["count"]):
                hit = self.last_hit(target["points"])
                if hit is None:
                    self.now = 0
                    return f"T05replaylog:begin;{self.thread()}"
                self.now = hit
        elif "moment" in target:
            self.now = int(target["moment"].partition(":")[0])
        elif "epochs_back" in target:
            self.now = max(0, (self.now - 1) // 4 * 4 - 4 * (target["epochs_back"] - 1))
        elif "epoch" in target:
            self.now = target["epoch"] * 4
        elif "percent" in target:
            self.now = int((len(self.moments) - 1) * target["percent"] / 100)
        elif target.get("where") == "live":
            self.now = len(self.moments) - 1
        elif target.get("where") != "here":
            self.now = 0 if target.get("where", "start") == "start" else len(self.moments) - 1
            if not target:
                return f"T05replaylog:begin;{self.thread()}"
        if os.environ.get("STUB_INTERRUPTS"):
            return f"T02{self.thread()}"
        return f"T00{self.thread()}"

    def last_hit(self, points: list[dict[str, Any]]) -> int | None:
        for tick in range(self.now - 1, -1, -1):
            here, behind = self.moments[tick], self.moments[tick + 1]
            if points[0]["kind"] == "change":
                if here["value"] != behind["value"]:
                    return tick
            elif here["pc"] in [point["addr"] for point in points]:
                return tick
        return None

    def reply(self, question: dict[str, Any]) -> dict[str, Any]:
        ticks = len(self.moments) - 1
        verb = question.pop("verb")
        if verb == "status":
            return {
                "ok": {
                    "moment": str(self.now), "start": "0", "end": str(ticks), "ticks": ticks, "epoch": self.now // 4,
                    "epochs": 3, "thread": self.moments[self.now]["thread"], "live": self.live, "approximate": False,
                    "program": self.program, "recording": self.live, "finished": self.finished, "exited": self.finished,
                    "early": self.early and not self.now, "late": False,
                }
            }  # fmt: skip
        if verb == "epochs":
            rows = [{"index": i, "start": 4 * i, "end": 4 * i + 4, "bytes": 100, "time": None, "checkpoint": i == 1}
                    for i in range(3)]  # fmt: skip
            return {"ok": rows}
        if verb == "settle":
            time.sleep(question["seconds"])  # it is not reached in the time that was given
            return {"ok": {"settled": False}}
        if verb == "save":
            Path(question["path"]).write_bytes(b"x" * 1200)
            return {"ok": {}}
        if verb == "open":
            self.live = False
            return {"ok": {}}
        if verb == "outcome":
            return {"ok": None}
        if verb == "arm":
            if question.get("where") == "live" and not self.live:
                return {"error": "nothing is being recorded", "hint": "try: rr-start"}
            if question.get("moment") == "999":
                return {"error": "moment 999 is not in this demo", "hint": "it goes from 0 to 11"}
            self.target = question
            return {"ok": {}}
        return {"error": f"no verb {verb}", "hint": ""}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
