"""Profiles: what a file may say, which file is used, where every value came from, and what goes into a demo."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdbrr.cli import main as cli
from gdbrr.config import profiles, schema, tables
from gdbrr.config.profiles import Profile, Value
from gdbrr.errors import GdbrrError
from harness import ROOT

RECORD, NATIVE, IGNORE, REFUSE = range(4)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with an empty configuration directory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "gdbrr"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def resolve_text(tmp_path: Path, text: str, *sets: str) -> Profile:
    return profiles.resolve(str(write(tmp_path / "mine.toml", text)), None, sets)


def nr(name: str) -> int:
    return tables.syscall_by_name()[name].nr


def class_number(name: str) -> int:
    return [cls.name for cls in tables.classes()].index(name)


def test_numbers_are_those_of_the_engine() -> None:
    abi = (ROOT / "preload/abi.h").read_text()
    actions = re.search(r"enum gr_action \{([^}]*)\}", abi)
    assert actions
    names = [name.strip() for name in actions[1].split(",")]
    assert names[: len(tables.MODES)] == [f"GR_ACT_{mode.upper()}" for mode in tables.MODES]
    assert names[profiles.ACT_REFUSE] == "GR_ACT_REFUSE"
    assert f"#define GR_SYS_MAX {profiles.SYS_MAX}\n" in abi
    assert f"#define GR_CLASS_MAX {profiles.CLASS_MAX}\n" in abi
    assert f"#define GR_KIND_MAX {profiles.KIND_MAX}\n" in abi


def test_every_knob_has_one_key() -> None:
    assert sorted(schema.KNOB_KEYS.values()) == sorted(knob.name for knob in tables.knobs())


# ---------------------------------------------------------------- which file is used
def test_lookup_goes_from_named_to_shipped(home: Path, tmp_path: Path) -> None:
    program = write(tmp_path / "bin" / "server", "")
    assert profiles.resolve(None, program, []).name == "default"
    write(home / "profile.toml", '[classes]\ntime = "native"\n')
    assert profiles.resolve(None, program, []).values["classes.time"].value == "native"
    beside = write(program.parent / ".gdbrr.toml", '[classes]\nrandom = "ignore"\n')
    profile = profiles.resolve(None, program, [])
    # THEN the nearer file is used alone
    assert profile.values["classes.random"] == Value("ignore", f"{beside}:2")
    assert profile.values["classes.time"] == Value("record", "default")
    assert profiles.resolve("sparse", program, []).name == "sparse"
    mine = write(tmp_path / "mine.toml", 'order = "parallel"\n')
    assert profiles.resolve(str(mine), program, []).values["order"].origin == f"{mine}:1"


def test_program_is_found_behind_a_link(home: Path, tmp_path: Path) -> None:
    program = write(tmp_path / "real" / "server", "")
    write(tmp_path / "real" / ".gdbrr.toml", '[classes]\nrandom = "ignore"\n')
    (tmp_path / "link").symlink_to(program)
    assert profiles.resolve(None, tmp_path / "link", []).values["classes.random"].value == "ignore"


def test_set_stands_above_the_file(home: Path) -> None:
    profile = profiles.resolve("sparse", None, ["file=record", "epochs.ticks=512", "calls.getpid=ignore"])
    assert profile.values["classes.file"] == Value("record", "--set")
    assert profile.values["epochs.ticks"] == Value(512, "--set")
    assert profile.values["calls.getpid"] == Value("ignore", "--set")
    # AND a knob may be called by its own name, as `set gdbrr` does
    assert profiles.resolve("sparse", None, ["log_limit=64M"]).knobs()["log_limit"] == 64 << 20


# ---------------------------------------------------------------- what goes into the control page
@pytest.mark.parametrize("name", profiles.SHIPPED)
def test_shipped_profile_makes_sound_actions(name: str) -> None:
    by_number, by_class = profiles.resolve(name, None, []).actions()
    assert (len(by_number), len(by_class)) == (profiles.SYS_MAX, profiles.CLASS_MAX)
    known = tables.syscall_by_nr()
    for number, action in enumerate(by_number):
        refused = number not in known or "REFUSED" in known[number].flags
        assert (action == REFUSE) == refused
        # INVARIANT(replay-never-waits)
        if action not in (RECORD, REFUSE) and "BLOCKS" in known[number].flags:
            assert any(effect.word == "MAKES" for effect in known[number].effects) or "BY_FD" in known[number].flags
        # INVARIANT(replay-lasts-nowhere)
        assert action in (RECORD, REFUSE) or "IRREV" not in known[number].flags
    assert set(by_class[len(tables.classes()) :]) == {REFUSE}
    assert by_class[class_number("memory")] == NATIVE


def test_shipped_profiles_differ_as_they_say() -> None:
    def by_class(name: str) -> bytes:
        return profiles.resolve(name, None, []).actions()[1]

    assert by_class("sparse")[class_number("file")] == NATIVE
    assert by_class("default") == by_class("server") == by_class("game")
    tsc = class_number("tsc")
    assert (by_class("default")[tsc], by_class("full")[tsc]) == (NATIVE, RECORD)
    assert by_class("default")[:tsc] == by_class("full")[:tsc]
    game = profiles.resolve("game", None, []).kinds()
    names = [kind.name for kind in tables.kinds()]
    assert {names[at] for at, rule in enumerate(game) if rule} == {"graphics", "sound", "character"}
    assert set(game) == {0, 1 + IGNORE}
    assert not any(profiles.resolve("default", None, []).kinds())
    assert profiles.resolve("server", None, []).knobs()["epoch_ticks"] == 65536
    for name in profiles.SHIPPED:
        assert profiles.about(profiles.shipped_path(name))[0].endswith(".")
    shipped = {path.stem for path in profiles.shipped_path("default").parent.iterdir()}
    assert shipped == set(profiles.SHIPPED)


def test_class_call_and_waiting(home: Path) -> None:
    by_number, _ = profiles.resolve(None, None, ["file=native", "proc=ignore", "calls.getpid=record"]).actions()
    assert by_number[nr("openat")] == NATIVE
    assert by_number[nr("stat")] == NATIVE
    assert by_number[nr("getuid")] == IGNORE
    assert by_number[nr("getpid")] == RECORD
    # calls that wait for another process, or change the world, are recorded whatever their class
    assert [by_number[nr(name)] for name in ("wait4", "flock", "unlink", "renameat2")] == [RECORD] * 4


def test_knobs_stand_in_the_order_of_the_table(home: Path) -> None:
    values = profiles.resolve(None, None, ["epochs.bytes=1M", "limits.checkpoints=3"]).knobs()
    assert list(values) == [knob.name for knob in tables.knobs()]
    assert (values["order"], values["epoch_bytes"], values["checkpoints"]) == (0, 1 << 20, 3)


# ---------------------------------------------------------------- what a file may say
def test_every_kind_of_value(tmp_path: Path) -> None:
    text = """# mine
order = "parallel"
[ classes ]   # spaces
time = "native"
"file" = "ignore"
[calls]
getpid = "ignore"
[epochs]
ticks = 100
bytes = "1M"
"""
    values = resolve_text(tmp_path, text).values
    mine = tmp_path / "mine.toml"
    assert values["classes.time"] == Value("native", f"{mine}:4")
    assert values["classes.file"] == Value("ignore", f"{mine}:5")
    assert values["calls.getpid"] == Value("ignore", f"{mine}:7")
    assert values["epochs.ticks"] == Value(100, f"{mine}:9")
    assert values["epochs.bytes"] == Value(1 << 20, f"{mine}:10")
    assert values["limits.log"] == Value(4 << 30, "default")


def test_dotted_keys_have_lines_too(tmp_path: Path) -> None:
    assert resolve_text(tmp_path, '\nclasses.time = "native"\n').values["classes.time"].origin.endswith("mine.toml:2")
    # inline tables are read, and named without a line
    assert resolve_text(tmp_path, 'classes = {time = "native"}').values["classes.time"].origin.endswith("mine.toml")


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ('[classes]\ntme = "native"', 2, "'tme' is not a key of [classes]", "did you mean time?"),
        ('[classes]\ntime = "nativ"', 2, "classes.time = 'nativ' is not a mode", "did you mean native?"),
        ('[classes]\nnet = "native"', 2, "classes.net cannot be 'native'", "the only mode it has is record"),
        ('[classes]\ntime = ["native"]', 2, "classes.time = a list is not a mode", "modes are record, native, ignore"),
        ('time = "native"', 1, "there is no key 'time'", "did you mean classes.time?"),
        ('[class]\ntime = "native"', 2, "there is no key 'class.time'", "did you mean classes.time?"),
        ("[epochs]\ntick = 5", 2, "'tick' is not a key of [epochs]", "did you mean ticks?"),
        ("[epochs]\nticks = 1", 2, "epochs.ticks = 1 is out of range", "it can be from 16 to 1073741824"),
        ("[epochs]\nticks = true", 2, "epochs.ticks = True is not a number", "write a whole number"),
        ('[limits]\nlog = "2Q"', 2, "limits.log = '2Q' is not a number", "write a whole number with a unit, e.g. 512M"),
        ("[limits]\nlog = 0x" + "f" * 5000, 2, "limits.log = a huge number is out of range", "it can be from 1M to 1T"),
        ("epochs = 3", 1, "epochs is a section, not a key", "its keys stand below [epochs], or as epochs.NAME"),
        ('[calls]\ngetpdi = "ignore"', 2, "there is no system call 'getpdi'", "did you mean getpid?"),
        ('[calls]\nread = "native"', 2, "calls.read: its mode is that of its descriptor", "set the class"),
        ('[calls]\nmmap = "record"', 2, "calls.mmap: this call is served by code of its own", "leave it out"),
        ('[calls]\nbpf = "record"', 2, "calls.bpf: this call cannot be recorded", "leave it out"),
        ('[calls]\nwait4 = "native"', 2, "calls.wait4 cannot be 'native'", "the only mode it has is record"),
        ('[calls]\nunlink = "native"', 2, "calls.unlink cannot be 'native'", "the only mode it has is record"),
        ('order = "paralel"', 1, "order cannot be 'paralel'", "did you mean parallel?"),
        ("seed = -1", 1, "seed = -1 is out of range", "it can be from 0 to 4294967295"),
        ('[[paths]]\nmatch = "proc/**"\nmode = "record"', 2, "paths: 'proc/**' is not a pattern", "patterns are whole"),
        ('[[paths]]\nmatch = "/proc/**"\nmode = "reco"', 2, "paths./proc/** = 'reco' is not a mode", "did you mean"),
        ('[[paths]]\nmatch = "/proc/**"', 1, "paths: each rule is a table", "e.g."),
    ],
)
def test_wrong_entry_is_named(text: str, line: int, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(GdbrrError) as caught:
        resolve_text(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'mine.toml'}:{line}: {message}")
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("item", ["time", "=native", "time=", "tme=native", "seed=x"])
def test_wrong_set_is_named(item: str, home: Path) -> None:
    with pytest.raises(GdbrrError) as caught:
        profiles.resolve(None, None, [item])
    assert caught.value.message.startswith(f"--set {item}: ")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"[classes\n", "line 1"),
        (b"\xff\xfe", "not a text in UTF-8"),
        (b"x = " + b"[" * 100_000, "mine.toml"),
        (b"x = " + b"9" * 5000, "mine.toml"),
        (b"#" * (2 << 20), "too long"),
    ],
)
def test_what_is_no_toml_is_named(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(GdbrrError, match=what):
        profiles.resolve(str(tmp_path / "mine.toml"), None, [])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("spares", "did you mean sparse?"), ("x", "profiles are default"), ("./x.toml", "`gdbrr profiles`")],
)
def test_missing_profile_is_named(name: str, hint: str) -> None:
    with pytest.raises(GdbrrError) as caught:
        profiles.resolve(name, None, [])
    assert caught.value.hint.startswith(hint)


TOML_WORDS = st.sampled_from(
    [
        "order",
        "classes",
        "calls",
        "epochs",
        "time",
        "ticks",
        "=",
        ".",
        "[",
        "]",
        "[[",
        "{",
        "}",
        '"',
        "native",
        "1",
        "\n",
        " ",
        "é",
    ]
)


@settings(max_examples=150, deadline=None)
@given(words=st.lists(TOML_WORDS, max_size=12))
def test_any_text_is_a_profile_or_an_error(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text("".join(words))
    try:
        assert len(profiles.resolve(str(path), None, []).actions()[0]) == profiles.SYS_MAX
    except GdbrrError as error:
        assert error.message and error.hint


# ---------------------------------------------------------------- in a demo
def test_json_round_trip(home: Path) -> None:
    profile = profiles.resolve("game", None, ["calls.getpid=ignore", "limits.log=8G"])
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again == profile
    assert again.actions() == profile.actions()


def test_values_a_demo_does_not_have_are_defaults() -> None:
    profile = Profile.from_json({"name": "x", "source": "y", "values": {}})
    assert profile.values["classes.time"] == Value("record", "default")


GOOD: dict[str, Any] = {"name": "x", "source": "y", "values": {"classes.time": {"value": "native", "origin": "z"}}}


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"name": "x" * 5000},
        {"extra": 1},
        {"values": []},
        {"values": {"classes.time": "native"}},
        {"values": {"classes.time": {"value": "native"}}},
        {"values": {"classes.time": {"value": "x" * 5000, "origin": "z"}}},
        {"values": {"classes.time": {"value": "natiev", "origin": "z"}}},
        {"values": {"classes.net": {"value": "native", "origin": "z"}}},
        {"values": {"classes.x": {"value": "native", "origin": "z"}}},
        {"values": {"x" * 5000: {"value": "native", "origin": "z"}}},
        {"values": {"epochs.ticks": {"value": -1, "origin": "z"}}},
        {"values": {str(number): {"value": 1, "origin": "z"} for number in range(1000)}},
    ],
)
def test_false_demo_is_refused(change: dict[str, Any]) -> None:
    Profile.from_json(GOOD)
    with pytest.raises(GdbrrError, match="the demo's profile is not valid"):
        Profile.from_json({**GOOD, **change})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(list(schema.keys())),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "source", "values", "value", "origin", *schema.keys()]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(data=JSON, values=st.dictionaries(st.sampled_from(list(schema.keys())), JSON, max_size=3))
def test_any_json_is_a_profile_or_an_error(data: object, values: dict[str, object]) -> None:
    whole = {"name": "x", "source": "y", "values": {key: {"value": v, "origin": "z"} for key, v in values.items()}}
    for candidate in (data, {"name": "x", "source": "y", "values": data}, whole):
        try:
            assert len(Profile.from_json(candidate).knobs()) == len(tables.knobs())
        except GdbrrError as error:
            assert len(error.message) < 500


# ---------------------------------------------------------------- gdbrr profiles
def test_list_says_which_one_holds(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profiles"]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^{name} +For ", out, re.MULTILINE) for name in profiles.SHIPPED)
    assert re.search(r"^  shipped: +default  <- used$", out, re.MULTILINE)
    # WHEN a program has a profile of its own
    program = shutil.copy(shutil.which("true") or "/bin/true", tmp_path / "program")
    beside = write(tmp_path / ".gdbrr.toml", "")
    assert cli.main(["profiles", "list", "--program", str(program)]) == 0
    assert f"{beside}  <- used\n" in capsys.readouterr().out
    assert cli.main(["profiles", "list", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["profiles"]) == list(profiles.SHIPPED)


def test_show_prints_every_value_and_its_origin(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profiles", "show", "sparse", "--set", "time=native"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("profile sparse\n  For small demos")
    rows = {row[0]: row[1:] for row in map(str.split, out.splitlines()) if row}
    assert rows["classes.file"] == ["native", "sparse.toml:7"]
    assert rows["classes.time"] == ["native", "--set"]
    assert rows["limits.log"] == ["4G", "default"]
    assert set(schema.keys()) <= set(rows)
    assert cli.main(["profiles", "show", "sparse", "--json"]) == 0
    assert Profile.from_json(json.loads(capsys.readouterr().out)) == profiles.resolve("sparse", None, [])


def test_show_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profiles", "show", "spares"]) == 1
    assert capsys.readouterr().err == "gdbrr profiles: there is no profile 'spares'. Did you mean sparse?\n"
    assert cli.main(["profiles", "show", "--program", "./no-such-program"]) == 1
    assert "there is no program ./no-such-program" in capsys.readouterr().err


def test_what_the_native_module_holds_is_what_the_tables_say() -> None:
    plain = profiles.resolve(None, None, [], Path("/nonexistent"))
    assert plain.actions() == plain.computed_actions()
    assert b"".join(plain.actions()) == profiles.default_actions()
    other = profiles.resolve(None, None, ["time=native"], Path("/nonexistent"))
    assert other.actions() == other.computed_actions() != plain.actions()
    one = profiles.resolve(None, None, ["calls.getpid=native"], Path("/nonexistent"))
    assert one.actions() == one.computed_actions() != plain.actions()
