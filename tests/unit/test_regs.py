"""Where registers lie in `g` packets, and substituting the program's for the engine's."""

from __future__ import annotations

from gdbrr.rsp.regs import RIP, RSP, Layout, amd64

XML = """<target><feature name="org.gnu.gdb.i386.core">
<reg name="rax" bitsize="64" type="int64" regnum="0"/><reg name="eflags" bitsize="32" type="i386_eflags" regnum="1"/>
<reg name="st0" bitsize="80" type="i387_ext"/></feature><feature name="org.gnu.gdb.i386.linux">
<reg name="orig_rax" bitsize="64" type="int" regnum="7"/><reg name="fs_base" bitsize="64" type="int"/>
</feature></target>"""


def packet(layout: Layout) -> bytes:
    """Every register filled with its own number."""
    return b"".join(b"%02x" % row.number * row.size for row in layout.by_number.values())


def test_a_description_gives_numbers_and_offsets() -> None:
    layout = Layout.from_xml(XML)
    rows = [(row.name, row.number, row.offset, row.size) for row in layout.by_number.values()]
    assert rows == [
        *(("rax", 0, 0, 8), ("eflags", 1, 8, 4), ("st0", 2, 12, 10), ("orig_rax", 7, 22, 8), ("fs_base", 8, 30, 8)),
    ]


def test_without_a_description_it_is_what_gdb_assumes() -> None:
    layout = Layout.from_xml("<target/>")
    assert (layout.by_number[RIP].name, layout.by_number[RIP].offset) == ("rip", 128)
    assert (layout.by_number[RSP].name, layout.by_name["mxcsr"].offset) == ("rsp", 164 + 80 + 32 + 256)


def test_general_registers_are_substituted_and_vectors_pass() -> None:
    layout = Layout.from_xml(XML)
    shown = {"rax": 0x1122, "eflags": 0x1_0000_0246, "fs_base": 5, "rip": 9}
    done = layout.substitute(packet(layout), shown)
    assert done == b"2211000000000000" + b"46020000" + b"02" * 10 + b"ff" * 8 + b"0500000000000000"


def test_a_register_that_is_not_shown_stays() -> None:
    layout = amd64()
    done = layout.substitute(packet(layout), {"rsp": 1})
    assert layout.cut(done, RSP) == b"0100000000000000"
    assert layout.cut(done, RIP) == b"10" * 8
    assert layout.shown(RIP, {"rsp": 1}) is None
    assert layout.shown(99, {"rsp": 1}) is None


def test_writing_back_keeps_the_call_that_the_kernel_may_restart() -> None:
    layout = Layout.from_xml(XML)
    done = layout.substitute(packet(layout), {"rax": 0}, keep_call=True)
    assert layout.cut(done, 7) == b"07" * 8


def test_reading_back_what_was_substituted() -> None:
    layout = amd64()
    shown = {name: number * 1000 for number, name in enumerate(("rax", "rbx", "r15", "rip", "eflags"))}
    assert layout.read(layout.substitute(packet(layout), shown)).items() >= shown.items()


def test_unavailable_registers_and_short_packets_are_left_out() -> None:
    layout = amd64()
    assert layout.read(b"xx" * 8 + b"01" + b"00" * 7) == {"rbx": 1}
    assert layout.substitute(b"00" * 8, {"rax": 1, "rbx": 2}) == b"0100000000000000"
