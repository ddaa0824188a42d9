"""The manifest of a demo: what was recorded, where, and how it ended. Validated, because demos are untrusted.

Runs in: the controller, the server, tests. May call: the standard library, gdbrr.errors.
Owns: the keys of the manifest (docs/demo-format.md lists them). Unknown keys are kept and ignored.
"""

from __future__ import annotations

import os

from gdbrr.demo.format import MANIFEST_RAW, MAX_CARRIED, MAX_CARRIED_BYTES, MAX_THREADS
from gdbrr.errors import GdbrrError
from gdbrr.quick import texts
from gdbrr.quick.rows import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    SavedAt = Mapping[str, Any]
    """The manifest's `stop`: where a recording stood that was saved in the middle of a segment."""

Manifest = dict[str, Any]
MAX_VALUES = 4096
"""Of a profile."""

_HINT = "record the program again"
_INT_DIGITS = 20  # what 64 bits need


def _int(low: int, high: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def _text(v: Any) -> bool:
    return isinstance(v, str) and "\0" not in v


def _hex(low: int, high: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, str) and low <= len(v) <= high and not set(v) - set("0123456789abcdef")


def _list(item: Callable[[Any], bool], most: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, list) and len(v) <= most and all(item(x) for x in v)


def _dict(item: Callable[[Any], bool], most: int = 256) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, dict) and len(v) <= most and all(_text(k) and item(x) for k, x in v.items())


def _row(required: dict[str, Callable[[Any], bool]], **optional: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A JSON object with these keys; others are allowed."""

    def check(v: Any) -> bool:
        if not isinstance(v, dict):
            return False
        return all(k in v and good(v[k]) for k, good in required.items()) and all(
            good(v[k]) for k, good in optional.items() if k in v
        )

    return check


_u64 = _int(0, (1 << 64) - 1)
_limit = _int(-1, (1 << 64) - 1)
_build_id = _hex(0, 128)
_scalar: Callable[[Any], bool] = lambda v: v is None or _text(v) or isinstance(v, (bool, int, float))  # noqa: E731


def _moment(v: Any) -> bool:
    import re  # few demos have one

    return isinstance(v, str) and re.fullmatch(r"[0-9]{1,20}:0x[0-9a-f]{1,12}#[1-9][0-9]{0,18}", v) is not None


def carried_path(v: Any) -> bool:
    """Absolute, and already what it comes to: so that it cannot lead out of where it is put."""
    parts = v[1:].split("/") if _text(v) and v[:1] == "/" and len(os.fsencode(v)) < 4096 else [""]
    return all(part not in ("", ".", "..") and len(os.fsencode(part)) <= 255 for part in parts)


def _loader_row(v: Any) -> bool:
    """What the loader asked, and what it was told (preload/carried.c)."""
    import re  # few demos carry files

    if not (_list(_text, 4)(v) and len(v) == 4 and all(len(part) <= 4096 for part in v)):
        return False
    numbers = re.fullmatch(r"[0-9]{1,20} [0-9]{1,20}", f"{v[1]} {v[2]}") is not None
    answer = re.fullmatch(r"=(/|[0-9]{1,4})|-[0-9]{1,4}|>.*", v[3], re.DOTALL) is not None
    number = re.fullmatch(r"[0-9]{1,20}", v[1]) is not None
    return numbers if v[0] in ("map", "stat", "auxv") else v[0] == "path" and number and answer


_OF_VERSIONS = set("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.+-")

REQUIRED: dict[str, Callable[[Any], bool]] = {
    "gdbrr": lambda v: isinstance(v, str) and 1 <= len(v) <= 64 and set(v) <= _OF_VERSIONS,
    "abi": _int(0, 1 << 31),
    "program": _text,
    "argv": _list(_text, 1 << 20),
    "env": _list(lambda v: _text(v) and "=" in v, 1 << 20),
    "cwd": _text,
    "order": _text,
    "random": _hex(32, 32),
    "end": _row({"kind": lambda v: v in ("exit", "signal", "unknown"), "value": _int(-(1 << 31), (1 << 32) - 1)}),
}
OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "limits": _dict(lambda v: _list(_limit, 2)(v) and len(v) == 2),
    "profile": _row(
        {}, name=_text, source=_text, values=_dict(_row({}, value=_scalar, origin=_text), MAX_VALUES)
    ),  # what each value may be is gdbrr.config's
    "signals": _row({}, ignored=_u64, blocked=_u64),
    "started": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v < 1 << 37,
    "engine": _row({}, path=_text, build_id=_build_id),
    "objects": _list(_row({"path": _text}, build_id=_build_id, base=_u64, size=_u64, mtime=_u64), 1 << 16),
    "inputs": _list(_row({"path": _text, "size": _u64, "mtime": _u64}), 1 << 16),
    "written": _list(_row({"path": _text, "thread": _int(0, MAX_THREADS - 1), "operation": _u64}), 1 << 16),
    "notices": _list(_text, 1 << 16),
    "unknown": _list(_int(-(1 << 31), (1 << 31) - 1), 64),
    "stop": _row({"thread": _int(0, MAX_THREADS - 1), "moment": _moment}),
    "children": _int(0, 1 << 34),
    "redacted": _row({"bytes": _u64, "environment": lambda v: isinstance(v, bool)}, hashes=_u64),
    "minimised": _row({"keep": _text, "zero": _u64}),
    "host": _dict(_scalar),
    "carried": _row(
        {
            "files": _list(
                _row(
                    {
                        "path": carried_path,
                        "names": _list(carried_path, 256),
                        "size": _int(0, MAX_CARRIED_BYTES),
                        "sha256": _hex(64, 64),
                        "kind": lambda v: v in ("program", "engine", "object", "data", "debug"),
                        "build_id": _build_id,
                    }
                ),
                MAX_CARRIED,
            ),
            "loader": _list(_loader_row, 1 << 16),
            "program": _int(0, MAX_CARRIED - 1),
            "engine": _int(0, MAX_CARRIED - 1),
            "argv": _list(_text, 1 << 20),
        }
    ),
    "threads": _list(
        _row({"index": _int(0, MAX_THREADS - 1)}, recorded_tid=_int(0, 1 << 31), parent=_int(-1, MAX_THREADS - 1)),
        MAX_THREADS,
    ),
}


def check(manifest: object) -> Manifest:
    """The manifest itself if every key has the right shape."""
    if not isinstance(manifest, dict):
        raise GdbrrError("the manifest is not a JSON object", hint=_HINT)
    for key in REQUIRED:
        if key not in manifest:
            raise GdbrrError(f"the manifest has no {key!r}", hint=_HINT)
    for key, good in (REQUIRED | OPTIONAL).items():
        if key in manifest and not good(manifest[key]):
            raise GdbrrError(f"the manifest's {key!r} is not valid", hint=_HINT)
    return manifest


def _bounded_int(text: str) -> int:
    if len(text) > _INT_DIGITS:
        raise ValueError("a number is too long")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0:  # infinite, or no number
        raise ValueError("a number is not finite")
    return value


def parse(raw: bytes) -> Manifest:
    """Read and check the JSON text of a manifest."""
    if len(raw) > MANIFEST_RAW:
        raise GdbrrError(f"the manifest has {len(raw)} bytes; the limit is {MANIFEST_RAW}", hint=_HINT)
    try:
        text = raw.decode("utf-8")
        found = texts.loads(text, parse_int=_bounded_int, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        raise GdbrrError("the manifest is not valid JSON", hint=_HINT) from None
    if "\\ud" in text.lower():
        _check_texts(found)
    return check(found)


def _check_texts(found: object) -> None:
    """INVARIANT(texts-are-bytes): every text can be written and be the name of a file.

    A lone surrogate stands for a byte that is no text, as os.fsdecode makes it, or for nothing; that is refused."""
    import json

    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise GdbrrError("the manifest holds half a character", hint=_HINT) from None


def serialise(manifest: Manifest) -> bytes:
    """The JSON text of a checked manifest. Bytes that are not UTF-8 travel as os.fsdecode() shows them."""
    raw = texts.dumps(check(manifest), separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(raw) > MANIFEST_RAW:
        raise GdbrrError(
            f"arguments and environment need a manifest of {len(raw)} bytes; the limit is {MANIFEST_RAW}",
            hint="record with a smaller environment",
        )
    return raw
