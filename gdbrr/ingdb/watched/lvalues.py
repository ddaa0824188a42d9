"""The parts of a C or C++ expression that may be lvalues: `p->next[i].key` depends on `p`, `i`, `p->next` and itself.

Runs in: GDB's Python, and without GDB in tests. May call: the standard library and gdbrr.errors; never gdb.
Owns: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gdbrr.errors import GdbrrError

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<name>(?:::)?[A-Za-z_$][\w$]*(?:::~?[A-Za-z_$][\w$]*)*)
  | (?P<number>\.?\d(?:[\w.]|(?<=[eEpP])[+-])*)
  | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<sign>->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>=?:.,()\[\]{}@])
    )""",
    re.VERBOSE,
)
_PREFIX = ("*", "&", "-", "+", "!", "~")
_BINARY = (*"*/%+-<>&|^?:@", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||")
_CHANGES = ("=", "++", "--", "<<=", ">>=")
_TYPE_WORDS = re.compile(r"\b(?:struct|union|enum|class|unsigned|signed|int|char|long|short|float|double|void|bool)\b")
_TYPE = re.compile(r"[\w\s:*&<>,]+\Z")
_DECLARATOR = re.compile(r"\(\s*\*[\s*]*\)(?:\s*\[\s*\w*\s*\])+\s*\Z")
"""Of a pointer to an array, behind what its elements are: `(*)[5]`."""
_DEPTH = 100


class NotParsed(Exception):
    """This is more than simple expressions; GDB may understand it all the same."""


@dataclass(frozen=True)
class _Token:
    text: str
    kind: str
    start: int
    end: int


def parts(text: str, is_type: Callable[[str], bool] = lambda name: False) -> list[str]:
    """TEXT and the expressions in it that it depends on, the whole one first.

    IS_TYPE tells a cast from an expression in parentheses. What is not understood is left whole.
    """
    whole = text.strip()
    try:
        spans = _Parser(whole, is_type).parse()
    except NotParsed:
        return [whole]
    found = [whole[start:end] for start, end in spans]
    return list(dict.fromkeys([whole, *found]))


def names(text: str) -> list[str]:
    """The identifiers in TEXT that are not members."""
    found, before = [], ""
    for match in _TOKEN.finditer(text):
        if match["name"] and before not in (".", "->"):
            found.append(match["name"])
        before = match[0].strip()
    return found


def member(text: str, is_type: Callable[[str], bool] = lambda name: False) -> tuple[str, str] | None:
    """Where TEXT as a whole is a member of something, as `p->next.key`: that, and the name of the member."""
    whole = text.strip()
    try:
        parser = _Parser(whole, is_type)
        parser.parse()
    except NotParsed:
        return None
    if (0, len(whole)) in parser.members:
        end, name = parser.members[0, len(whole)]
        return whole[:end], name
    return member(whole[1:-1], is_type) if whole[:1] == "(" and whole[-1:] == ")" else None


class _Parser:
    def __init__(self, text: str, is_type: Callable[[str], bool]) -> None:
        self._text = text
        self._is_type = is_type
        self._tokens: list[_Token] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match or match.end() == at:
                raise NotParsed
            kind = match.lastgroup or ""
            self._tokens.append(_Token(match[kind], kind, match.start(kind), match.end()))
            at = match.end()
        self._at = 0
        self._depth = 0
        self._spans: list[tuple[int, int]] = []
        self.members: dict[tuple[int, int], tuple[int, str]] = {}
        """Of each that is a member of another: where that one ends, and the name."""

    def parse(self) -> list[tuple[int, int]]:
        self._expression()
        if self._at != len(self._tokens):
            raise NotParsed
        return self._spans

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _next(self) -> _Token:
        if self._at >= len(self._tokens):
            raise NotParsed
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, text: str) -> _Token:
        token = self._next()
        if token.text != text:
            raise NotParsed
        return token

    def _expression(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise NotParsed
        self._unary()
        while self._peek() in _BINARY:
            self._next()
            self._unary()
        if self._peek() in _CHANGES:
            raise GdbrrError(f"{self._text} would change something", hint="name what to watch, without assigning to it")
        self._depth -= 1

    def _unary(self) -> tuple[int, int]:
        self._depth += 1
        if self._depth > _DEPTH:
            raise NotParsed
        token = self._next()
        if token.text in _PREFIX:
            _, end = self._unary()
        elif token.text in _CHANGES:
            raise GdbrrError(f"{self._text} would change something", hint="name what to watch, without changing it")
        elif token.text == "sizeof":
            raise NotParsed
        elif token.text == "(":
            close = self._closing()
            inner = self._text[token.end : self._tokens[close].start].strip()
            if self._casts(inner, close):
                self._at = close + 1
                _, end = self._unary()
            else:
                self._expression()
                return self._postfix(token.start, self._expect(")").end)
        elif token.kind == "sign":
            raise NotParsed
        else:
            if token.kind == "name":
                self._spans.append((token.start, token.end))
            return self._postfix(token.start, token.end)
        self._spans.append((token.start, end))
        self._depth -= 1
        return token.start, end

    def _closing(self) -> int:
        """Where the parenthesis ends that was just opened."""
        depth = 1
        for at in range(self._at, len(self._tokens)):
            depth += {"(": 1, ")": -1}.get(self._tokens[at].text, 0)
            if not depth:
                return at
        raise NotParsed

    def _casts(self, inner: str, close: int) -> bool:
        """Whether `(INNER)` is a cast: a type with an operand behind it."""
        behind = self._tokens[close + 1] if close + 1 < len(self._tokens) else None
        inner = _DECLARATOR.sub("", inner)
        operand = behind is not None and (behind.kind != "sign" or behind.text in (*_PREFIX, "("))
        if not operand or not _TYPE.match(inner):
            return False
        base = inner.rstrip("* &").strip()
        return bool(_TYPE_WORDS.search(inner)) or (bool(base) and self._is_type(base))

    def _postfix(self, start: int, end: int) -> tuple[int, int]:
        while True:
            what = self._peek()
            if what == "[":
                self._next()
                self._expression()
                end = self._expect("]").end
            elif what in (".", "->"):
                self._next()
                name = self._next()
                if name.kind != "name":
                    raise NotParsed
                self.members[start, name.end] = end, name.text
                end = name.end
            elif what == "(":
                raise GdbrrError(f"{self._text} calls a function", hint="watch what the function reads")
            else:
                self._depth -= 1
                return start, end
            self._spans.append((start, end))
