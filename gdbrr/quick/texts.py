"""The json module's own C code, without the module: that compiles regular expressions.

Runs in: commands outside GDB. May call: _json; json where that is not there, and for what is not valid.
Owns: nothing. `loads` and `dumps` are those of json for what is asked for here.
"""

from __future__ import annotations

from gdbrr.quick.rows import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    _json: Any
else:
    try:
        import _json
    except ImportError:
        _json = None

_SPACE = " \t\n\r"


class _How:
    """What the scanner asks for."""

    strict = True
    object_hook = object_pairs_hook = None

    def __init__(self, parse_int: Any, parse_float: Any, parse_constant: Any) -> None:
        self.parse_int, self.parse_float, self.parse_constant = parse_int, parse_float, parse_constant
        self.memo: dict[str, str] = {}


def loads(
    text: str,
    *,
    parse_int: Callable[[str], Any] = int,
    parse_float: Callable[[str], Any] = float,
    parse_constant: Callable[[str], Any] = float,
) -> Any:
    """The value of a JSON text; ValueError where it is none, RecursionError where it is too deep."""
    if _json:
        scan = _json.make_scanner(_How(parse_int, parse_float, parse_constant))
        try:
            value, end = scan(text, len(text) - len(text.lstrip(_SPACE)))
        except StopIteration:
            raise ValueError("no value") from None
        if text[end:].strip(_SPACE):
            raise ValueError("more than one value")
        return value
    import json

    return json.loads(text, parse_int=parse_int, parse_float=parse_float, parse_constant=parse_constant)


def dumps(
    value: object, *, separators: tuple[str, str] = (", ", ": "), sort_keys: bool = False, allow_nan: bool = True
) -> str:
    """The JSON text of a value, in ASCII."""
    if _json:
        item, key = separators
        made = _json.make_encoder(
            {}, _refuse, _json.encode_basestring_ascii, None, key, item, sort_keys, False, allow_nan
        )
        return "".join(made(value, 0))
    import json

    return json.dumps(value, separators=separators, sort_keys=sort_keys, allow_nan=allow_nan)


def _refuse(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} is no JSON")
