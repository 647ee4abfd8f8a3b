"""A filter's text -> a tree of conditions; errors point at the place; what may come next.

    any       all ("or" all)*
    all       one ("and" one)*
    one       "not" one | "(" any ")" | comparison
    comparison   FIELD | FIELD OPERATOR value | FIELD "in" "(" value ("," value)* ")"

Lark makes an LALR parser of the grammar. It reads a text of any depth without recursion, and knows at each place which
tokens may come.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from proxy.similar import LIKELY, nearest
from proxy.terminal import harmless, quoted
from proxy.tools.names import api_names
from proxy.wire.error_codes import ERRORS
from recorder.query.fields import FIELDS, Field, Kind
from recorder.query.syntax import (
    ALONE,
    EQUAL,
    LIKE,
    ORDERS,
    UNEQUAL,
    UNLIKE,
    Comparison,
    Node,
    Not,
    Or,
    together,
)
from recorder.query.values import read_value

# a filter is typed; what a program writes may list some hundred names
MOST_LETTERS = 32_768
# evaluating a tree takes some calls of Python's for each level
MOST_LEVELS = 60
# letters around the place of an error that its sentence shows
_SHOWN = 60

_GRAMMAR = r"""
start: any
?any: all ("or" all)*                       -> either
?all: one ("and" one)*                      -> both
?one: "not" one                             -> negated
    | "(" any ")"
    | FIELD                                 -> alone
    | FIELD OPERATOR value                  -> compared
    | FIELD "in" "(" value ("," value)* ")" -> among
?value: WORD | STRING
FIELD: /[A-Za-z_][A-Za-z0-9_.]*/
OPERATOR: /[!=<>]=|[<>~]|!~/
STRING: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/
WORD: /[^\s()"',=!<>~][^\s()"',=<>~]*/
%ignore /\s+/
"""
# what people write who know other languages -> what it is here
_ELSEWHERE = {"&": "and", "|": "or", "!": "not", "=": "=="}
_WORDS = {
    "FIELD": "a field",
    "NOT": "not",
    "LPAR": "(",
    "RPAR": ")",
    "AND": "and",
    "OR": "or",
    "IN": "in",
    "COMMA": ",",
    "OPERATOR": "==, !=, ~, <, >",
    "WORD": "a value",
}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class FilterError(ValueError):
    """A text that is no filter.

    Attributes:
        sentence: what is wrong with it.
        at: the place in the text.
        pointed: two lines that show the place.
    """

    def __init__(self, sentence: str, text: str, at: int) -> None:
        self.sentence, self.at, self.pointed = sentence, at, pointed(text, at)
        super().__init__(f"{sentence}\n{self.pointed}")


def pointed(text: str, at: int) -> str:
    """The text around a place, and below it a caret at that place."""
    begin = max(at - _SHOWN, 0)
    before = ("..." if begin else "") + harmless(text[begin:at])
    behind = harmless(text[at : at + _SHOWN]) + ("..." if at + _SHOWN < len(text) else "")
    return f"  {before}{behind}\n  {' ' * len(before)}^"


class _Wrong(Exception):
    """A fault of a token. `at`: its place."""

    def __init__(self, sentence: str, at: int | None) -> None:
        super().__init__(sentence)
        self.sentence, self.at = sentence, at or 0


def parse(text: str) -> Node:
    """The tree of a filter. Errors: FilterError."""
    if len(text) > MOST_LETTERS:
        raise FilterError(f"a filter has {MOST_LETTERS} letters at most", text, MOST_LETTERS)
    if not text.strip():
        raise FilterError("an empty filter names nothing: right would be api == Produce", text, 0)
    try:
        # the transformer makes nodes in place of Lark's trees
        return cast(Node, _parser().parse(text))
    except _Wrong as error:
        raise FilterError(error.sentence, text, error.at) from None
    except UnexpectedInput as error:
        raise FilterError(*_unexpected(error, text)) from None


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", lexer="contextual", transformer=_Builder())


class _Builder(Transformer[Token, Node]):
    """Makes the nodes from the innermost outwards, while the text is read."""

    def start(self, parts: list[Node]) -> Node:
        return parts[0]

    def either(self, parts: list[Node]) -> Node:
        return parts[0] if len(parts) == 1 else _shallow(Or(tuple(parts)))

    def both(self, parts: list[Node]) -> Node:
        return _shallow(together(*parts))

    def negated(self, parts: list[Node]) -> Node:
        return _shallow(Not(parts[0]))

    def alone(self, parts: list[Token]) -> Node:
        field = _field(parts[0])
        if field.kind is not Kind.ERROR:
            name = field.name
            right = f"{name} == ..., {name} {'>' if '>' in operators(field) else '~'} ..."
            raise _Wrong(f"{name} alone says nothing: right would be {right}", parts[0].start_pos)
        return Comparison(field, ALONE)

    def compared(self, parts: list[Token]) -> Node:
        name, operator, value = parts
        field = _field(name)
        if operator not in operators(field):
            right = ", ".join(operators(field))
            raise _Wrong(f"{operator} does not compare {field.name}: right would be {right}", operator.start_pos)
        return Comparison(field, str(operator), (_value(field, operator, value),))

    def among(self, parts: list[Token]) -> Node:
        field = _field(parts[0])
        if EQUAL not in operators(field):
            right = ", ".join(operators(field))
            raise _Wrong(f"{field.name} has no list of values: right would be {right}", parts[0].start_pos)
        return Comparison(field, EQUAL, tuple(_value(field, EQUAL, value) for value in parts[1:]))


def _shallow(node: Node) -> Node:
    if node.depth > MOST_LEVELS:
        raise _Wrong(f"a filter has {MOST_LEVELS} levels at most", 0)
    return node


def operators(field: Field) -> tuple[str, ...]:
    """The operators that compare a field's values."""
    if field.kind in (Kind.NUMBER, Kind.SIZE, Kind.TIME):
        return (EQUAL, UNEQUAL, *ORDERS)
    if field.kind is Kind.MOMENT:
        return tuple(ORDERS)
    return (EQUAL, UNEQUAL, LIKE, UNLIKE)


def _field(token: Token) -> Field:
    name = str(token).lower()
    if name in FIELDS:
        return FIELDS[name]
    near = nearest(name, FIELDS, likeness=LIKELY)
    right = f"did you mean {near}?" if near else f"there are {', '.join(FIELDS)}"
    raise _Wrong(f"{quoted(str(token))} is no field: {right}", token.start_pos)


def _value(field: Field, operator: str, token: Token) -> Any:
    text = str(token)
    if token.type == "STRING":
        text = _ESCAPED.sub(r"\1", text[1:-1])
    try:
        return read_value(field, operator, text)
    except ValueError as error:
        raise _Wrong(str(error), token.start_pos) from None


def _unexpected(error: UnexpectedInput, text: str) -> tuple[str, str, int]:
    """What is wrong with a text that the grammar refuses: the arguments of FilterError."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return f"the filter ends too early: there is missing {_expected(error.accepts or ())}", text, len(text)
    # characters that no token begins with have no place of their own at the end
    at = error.pos_in_stream if error.pos_in_stream is not None else len(text)
    allowed = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "accepts", None)
    if text[at] in "\"'" and "STRING" in (allowed or ()):
        return f"this text has no closing {text[at]}", text, at
    meant = _ELSEWHERE.get(text[at])
    if meant:
        return f"{quoted(text[at])} is no operator: right would be {meant}", text, at
    found = text[at:].split(maxsplit=1)[0]
    return f"{quoted(found[:_SHOWN])} can't stand here: right would be {_expected(allowed or ())}", text, at


def _expected(terminals: Iterable[str]) -> str:
    named = {*terminals}
    return ", ".join(word for name, word in _WORDS.items() if name in named) or "the filter's end"


# what ends a word: the next one begins behind it
_BREAK = re.compile(r"""[\s()"',=!<>~]""")


def completions(begun: str) -> list[str]:
    """The texts that the last word of a begun filter may become, each as the whole filter up to there."""
    if len(begun) > MOST_LETTERS:
        return []
    at = max((found.end() for found in _BREAK.finditer(begun)), default=0)
    before, word = begun[:at], begun[at:]
    if before.count('"') % 2 or before.count("'") % 2:
        return []
    parser = _parser().parse_interactive(before)
    tokens: list[Token] = []
    try:
        tokens = list(parser.exhaust_lexer())
        accepted = parser.accepts()  # type: ignore[no-untyped-call]
    except (UnexpectedInput, _Wrong):
        return []
    last = next((FIELDS.get(str(token).lower()) for token in reversed(tokens) if token.type == "FIELD"), None)
    return [f"{before}{each}" for each in _next(accepted, last) if each.lower().startswith(word.lower())]


def _next(accepted: Iterable[str], field: Field | None) -> Sequence[str]:
    """The words that may stand at a place. `field`: the last one before it."""
    named = {*accepted}
    words = [_WORDS[name] for name in ("NOT", "AND", "OR", "IN") if name in named]
    if "FIELD" in named:
        words += FIELDS
    if field is not None and "OPERATOR" in named:
        words += operators(field)
    if field is not None and "WORD" in named:
        words += field.choices or _KNOWN.get(field.kind, tuple)()
    return words


def _error_names() -> tuple[str, ...]:
    return tuple(error.name for error in ERRORS.values())


_KNOWN: Mapping[Kind, Any] = {Kind.API: api_names, Kind.ERROR: _error_names}
