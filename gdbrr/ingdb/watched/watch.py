"""What `rr-back -w` and `rr-history` look at: an expression, the memory it depends on, and the frame it belongs to.

Runs in: GDB's Python. May call: gdb, through gdbrr.ingdb.compat.
Owns: nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gdbrr.errors import GdbrrError
from gdbrr.ingdb import compat
from gdbrr.ingdb.compat import gdb
from gdbrr.ingdb.watched import lvalues
from gdbrr.ingdb.watched.locals import is_local, select_thread
from gdbrr.timeline.model import FEW

_WORD = 8
_NAME = re.compile(r"[\w$:.]+(?:\[\w+\]|->[\w.]+)*")
"""What a member can follow as it is."""
_REGISTER = re.compile(r"\$([a-z][a-z0-9_]*)\b")


@dataclass(frozen=True)
class Cell:
    """A piece of memory that an expression depends on."""

    addr: int
    size: int

    def point(self) -> dict[str, Any]:
        return {"kind": "change", "addr": self.addr, "length": self.size}


@dataclass(frozen=True)
class Frame:
    """The call that an expression's locals belong to: its frame's address in GDB, where its function begins, where its
    code does, behind what puts the arguments in their places, and whose it is."""

    address: int
    pc: int
    body: int
    thread: Any
    """A ptid."""

    def birth(self) -> dict[str, int]:
        return {"pc": self.pc, "sp": self.address - 8}

    def is_beginning(self, pc: int, thread: int) -> bool:
        """Whether a store of THREAD at PC is an argument's first: until then it has no value."""
        return self.pc <= pc < self.body and thread == self.thread[1]


@dataclass(frozen=True)
class Seen:
    """A value: how it is told, and what is compared."""

    text: str = dataclasses.field(compare=False)
    contents: str | bytes


class Watch:
    """An expression as it is now; `resolve` again after a move, because a pointer in it may have changed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._fixed = _with_registers(text)
        """What is evaluated: a register is what it was here, because searches are for changes of memory."""
        self.parts = lvalues.parts(self._fixed, is_type)
        self.frame = _frame_of() if any(map(is_local, lvalues.names(text))) else None
        self.thread = _thread_of(text)
        """The ptid of the thread that the whole belongs to; None of what all threads have in common."""
        self.cells: list[Cell] = []
        self.type: Any = None
        """Of the whole expression where that is a place in memory, which is the first cell then."""
        self.deep = False
        """What it is shown as comes from other memory, too, as the text that a pointer leads to does."""
        self.resolve()
        if len(self.cells) > 1 and self._fixed != text:  # there may be pointers in the frame of the register
            self.frame = self.frame or _frame_of()

    def resolve(self) -> bool:
        """Find the memory again; False where the expression has no value here."""
        try:
            self._there(self._resolve)
        except gdb.error:
            if self.cells:
                return False
            raise
        return True

    def _there(self, call: Callable[[], Any]) -> Any:
        """CALL where the expression belongs, be it another thread than the one that stopped here."""
        if self.thread is None:
            return call()
        with compat.selection():
            select_thread(self.thread)
            if self.frame is not None:
                _select(self.frame)
            return call()

    def _resolve(self) -> None:
        cells: list[Cell] = []
        value = gdb.parse_and_eval(self._fixed)
        self.deep = _is_deep(_referenced(value))
        whole = _place(value, True)
        self.type = None
        if whole is not None and not whole.size:
            raise GdbrrError(f"{self.text} has no size of its own", hint="name an element of it")
        if whole is not None:
            # A bit-field is less than its bytes, which change for others, too: GDB evaluates it.
            self.type = None if self._bits() else _referenced(value).type
            cells.append(whole)
        for part in self.parts[1:]:
            try:
                cell = _place(gdb.parse_and_eval(part), False)
            except gdb.error:
                continue  # a name that is none by itself
            if cell is not None and cell not in cells:
                cells.append(cell)
        if not cells and self.text.startswith("$"):
            raise GdbrrError(
                f"{self.text} is not in memory, where changes are searched",
                hint=f"try: *(long *) {self.text}",
            )
        if not cells:
            raise GdbrrError(
                f"{self.text} is not an lvalue", hint="name a variable or *ADDRESS, something that is in memory"
            )
        self.cells = cells

    def _bits(self) -> bool:
        """Whether the whole expression is a bit-field."""
        found = lvalues.member(self._fixed, is_type)
        return found is not None and _has_bits(_referenced(gdb.parse_and_eval(found[0])).type, found[1])

    @property
    def plain(self) -> bool:
        """It is one place, whose contents are its value, in whatever frame one stands."""
        return self.type is not None and len(self.cells) == 1

    @property
    def wide(self) -> bool:
        """Too much to be shown: only what changed in it is."""
        return self.type is not None and self.cells[0].size > FEW

    def has(self, hit: dict[str, int]) -> bool:
        """Whether a change that was found is one in it as a whole, and not of what its place depends on."""
        cell = self.cells[0]
        return cell.addr < hit["addr"] + _WORD and hit["addr"] < cell.addr + cell.size

    def part(self, hit: dict[str, int]) -> tuple[str, str, str]:
        """The name, the old and the new value of what a stored word changed."""
        old, new = (hit[name].to_bytes(_WORD, "little") for name in ("was", "became"))
        first = next((at for at in range(_WORD) if old[at] != new[at]), 0)
        at, name, kind = hit["addr"] + first, self.text if _NAME.fullmatch(self.text) else f"({self.text})", self.type
        start = self.cells[0].addr
        while (inner := _inside(kind, at - start)) is not None:
            name, kind, start = name + inner[0], inner[1], start + inner[2]
        begin, end = start - hit["addr"], start - hit["addr"] + kind.sizeof
        if begin < 0 or end > _WORD:  # a number that is longer, or lies across two words
            name, kind, begin, end = f"*(char *) {at:#x}", gdb.lookup_type("char"), first, first + 1
        if kind.code == gdb.TYPE_CODE_PTR and _is_character(kind.target()):
            kind = gdb.lookup_type("void").pointer()  # the text is what it is here, and not what it was there
        was, became = (_text(gdb.Value(data[begin:end], kind)) for data in (old, new))
        return name, was, became

    def points(self) -> list[dict[str, Any]]:
        return [cell.point() for cell in self.cells]

    def target(self) -> dict[str, Any]:
        """What to search for."""
        target: dict[str, Any] = {"points": self.points()}
        if self.frame is not None:
            target["birth"] = self.frame.birth()
        return target

    def address(self) -> str:
        """What names the same memory in any frame."""
        return f"({self.type} *){self.cells[0].addr:#x}" if self.type is not None else "ADDRESS"

    def anywhere(self) -> str:
        """What names the same memory in any frame."""
        return f"*({self.type} *) {self.cells[0].addr:#x}" if self.type is not None else "*ADDRESS"

    def show(self) -> str:
        """Its value now."""
        if self.wide:
            return ""
        try:
            if self.type is not None:
                return _text(gdb.Value(self.cells[0].addr).cast(self.type.pointer()).dereference())
            return str(self._there(lambda: _text(gdb.parse_and_eval(self._fixed))))
        except gdb.error as error:
            return f"<{error}>"

    def seen(self) -> Seen:
        """What it is now."""
        if not self.wide or self.plain:
            return Seen(text := self.show(), text)
        cell, data = self.cells[0], b""
        with contextlib.suppress(gdb.error):
            data = bytes(gdb.selected_inferior().read_memory(cell.addr, cell.size))
        return Seen(f"the one at {cell.addr:#x}", data)

    def show_bytes(self, data: bytes) -> str:
        """DATA as a value of it."""
        if self.type is None or len(data) != self.cells[0].size:
            return "<not available>"
        try:
            return _text(gdb.Value(data, self.type))
        except (gdb.error, ValueError) as error:
            return f"<{error}>"


def is_type(name: str) -> bool:
    try:
        gdb.lookup_type(name)
    except gdb.error:
        return False
    return True


def _inside(kind: Any, offset: int) -> tuple[str, Any, int] | None:
    """What of a value of that type is at OFFSET: how it is named, its type and where it begins; None of a plain one."""
    kind = kind.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        element = kind.target()
        index = offset // element.sizeof
        return f"[{index + kind.range()[0]}]", element, index * element.sizeof
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        for field in kind.fields():
            if getattr(field, "bitpos", None) is None or field.bitsize or not field.type.sizeof:
                continue
            begin = field.bitpos // 8
            if begin <= offset < begin + field.type.sizeof:
                return "" if field.is_base_class or not field.name else f".{field.name}", field.type, begin
    return None


def _text(value: Any) -> str:
    return str(value.format_string(max_elements=FEW))


def _referenced(value: Any) -> Any:
    if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        return value.referenced_value()
    return value


def _is_deep(value: Any) -> bool:
    """Whether GDB reads more memory than VALUE's own to show it: for a printer, a reference, or a text."""
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF) or gdb.default_visualizer(value) is not None:
        return True
    if kind.code == gdb.TYPE_CODE_PTR:
        return _is_character(kind.target())
    if kind.code == gdb.TYPE_CODE_ARRAY:
        first, last = kind.range()
        return bool(first <= last and _is_deep(value[first]))
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return any(_is_deep(value[field]) for field in kind.fields() if hasattr(field, "bitpos"))
    return False


def _is_character(kind: Any) -> bool:
    name, kind = str(kind), kind.strip_typedefs()
    return kind.code == gdb.TYPE_CODE_CHAR or (kind.code == gdb.TYPE_CODE_INT and ("char" in name or kind.sizeof == 1))


def _place(value: Any, whole: bool) -> Cell | None:
    """Where VALUE is, if it is in memory. Parts count where they are read: pointers and numbers, no arrays."""
    value = _referenced(value)
    code = value.type.strip_typedefs().code
    if value.address is None or code == gdb.TYPE_CODE_FUNC:
        return None
    if not whole and code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY):
        return None
    return Cell(int(value.address), int(value.type.sizeof))


def _has_bits(owner: Any, name: str) -> bool:
    """Whether OWNER, or what it points to, has a bit-field NAME."""
    owner = owner.strip_typedefs()
    if owner.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
        owner = owner.target().strip_typedefs()
    if owner.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return False
    for field in owner.fields():
        if field.name == name:
            return bool(field.bitsize)
        if (field.is_base_class or not field.name) and _has_bits(field.type, name):
            return True
    return False


# ---------------------------------------------------------------- frames


def _frame_of() -> Frame | None:
    """The selected frame, that of the call where it is of an inlined function; None where it is of no known one."""
    try:
        frame = gdb.selected_frame()
    except gdb.error:
        return None
    while frame is not None and frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    if frame is None or frame.function() is None:
        return None
    function = frame.function()
    start = int((function.symtab and function.value().address) or 0)
    return Frame(address_of(frame), start, _body(function, start), gdb.selected_thread().ptid) if start else None


def _thread_of(text: str) -> Any:
    """The thread that TEXT is about, if it has a register, a local or a thread's own variable in it."""
    thread = gdb.selected_thread()
    if thread is None or not (
        _REGISTER.search(text) or any(is_local(name) or _is_own(name) for name in lvalues.names(text))
    ):
        return None
    return thread.ptid


def _is_own(name: str) -> bool:
    """Whether NAME is a variable of which each thread has one."""
    try:
        symbol = gdb.lookup_symbol(name)[0]
    except gdb.error:
        return False
    return symbol is not None and symbol.is_variable and symbol.addr_class == gdb.SYMBOL_LOC_COMPUTED


def _with_registers(text: str) -> str:
    """TEXT with what registers hold here in their places."""

    def held(found: re.Match[str]) -> str:
        try:
            value = gdb.selected_frame().read_register(found[1])
            kind = value.type.strip_typedefs()
            if kind.code not in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_PTR):
                return found[0]
            return f"(({value.type}) {int(value) & (1 << 8 * value.type.sizeof) - 1:#x})"
        except (gdb.error, ValueError):  # a variable of GDB's
            return found[0]

    return _REGISTER.sub(held, text)


def _body(function: Any, start: int) -> int:
    """Where a breakpoint at FUNCTION, which begins at START, would be."""
    try:
        places = compat.code_addresses(f"-qualified -function {function.name}")
    except (gdb.error, GdbrrError):
        return start
    end = int(gdb.block_for_pc(start).end)
    return next((place for place in places if start <= place < end), start)


def address_of(frame: Any) -> int:
    """What GDB calls the frame's address. Python has no word for it."""
    before = gdb.selected_frame()
    try:
        frame.select()
        found = re.search(r"frame at (0x[0-9a-f]+)", gdb.execute("info frame", to_string=True))
    finally:
        before.select()
    return int(found[1], 16) if found else 0


def _select(wanted: Frame) -> None:
    frame = gdb.newest_frame()
    for _ in range(_MOST_FRAMES):
        if frame is None or not frame.is_valid():
            break
        if address_of(frame) == wanted.address and frame.type() != gdb.INLINE_FRAME:
            frame.select()
            return
        frame = frame.older()
    raise gdb.error("its frame is not there")


_MOST_FRAMES = 10000
