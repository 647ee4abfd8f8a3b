"""The message language: the text of a `.kafka` file -> frozen `Message` and `Field` values.

Knows the grammar and what Kafka allows, never bytes. `messages/README.md` teaches the language; this module is its
only reader. Every rule is checked here, with the line's number, so that the compiler can trust the values. Versions
are `range` values; an open end ("9+") reaches to OPEN_END, so that a version newer than this catalog still counts as
flexible.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from sys import intern
from typing import Literal, NamedTuple

from proxy.wire.integers import ENCODINGS, INTEGERS, VARINT_TYPES, limits, widest

OPEN_END = 32768  # versions are int16 on the wire
NEVER = range(0)
FIXED_TYPES = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid")
SIZED_TYPES = ("string", "bytes", "records")
MASKED = ("secret", "sensitive")  # masked in captures: credentials, and config values, which may be credentials
NAMING = (
    "address",
    "node_id",
    "topic_name",
    "topic_id",
    "partition",
    "group_id",
    "member_id",
    "producer_id",
    "transactional_id",
)
# holds record data, or may quote some: left out of captures where a rule for records says so
RECORD_DATA = "record_data"
# An ignorable value may be dropped if the version lacks the field. Of any other field, only the default may be dropped.
IGNORABLE = "ignorable"
MARKS = frozenset((*MASKED, *NAMING, RECORD_DATA, IGNORABLE))
# A projection's name for the tag buffer, and the name of unknown tags in a dict.
RESERVED_NAMES = frozenset(["tags", "_tags"])

Default = int | float | str | bool | None
SchemaKind = Literal["request", "response", "data"]


class LanguageError(ValueError):
    """A line that breaks the language's rules. The author of the `.kafka` file is at fault."""

    def __init__(self, line: int, reason: str):
        super().__init__(f"line {line}: {reason}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Field:
    """A field. `type` is as written, without "?": "int32", "[]int32", "[]" (structs), "{}" (a struct).

    If an integer's type depends on the version, `types` are (versions, type) in ascending order, and `type` is the
    fixed type that holds the values of all of them.
    """

    name: str
    type: str
    versions: range
    nullable: range = NEVER
    tag: int | None = None
    default: Default = None  # None means null if `has_default`, otherwise the type's zero
    has_default: bool = False
    fields: tuple["Field", ...] = ()
    marks: frozenset[str] = frozenset()
    types: tuple[tuple[range, str], ...] = ()

    @property
    def is_array(self) -> bool:
        """True for an array."""
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        """The type of the value or of the array's elements; "struct" for a struct."""
        return "struct" if self.fields else self.type.removeprefix("[]")

    def element_at(self, version: int) -> str:
        """The type of the value or of the array's elements on the wire, in one version."""
        written = [type_.removeprefix("[]") for versions, type_ in self.types if version in versions]
        return written[0] if written else self.element


@dataclass(frozen=True, slots=True)
class Message:
    """A request, response or message of data in all its versions.

    `key` is an api's, or the number of a type of record in one internal topic; None for a message without a number.
    """

    name: str
    kind: SchemaKind
    key: int | None
    versions: range
    flexible: range
    fields: tuple[Field, ...]

    @property
    def api(self) -> str:
        """The api's name: the message's name without its kind. For a message of data, its own name."""
        return self.name.removesuffix("Request").removesuffix("Response")


class _Line(NamedTuple):
    number: int
    depth: int
    text: str


@dataclass(slots=True)
class _Block:
    """A message or a shared struct while its lines are read."""

    versions: range = range(OPEN_END)
    flexible: range = range(OPEN_END)
    structs: dict[str, tuple[Field, ...]] = field(default_factory=dict)


def parse(text: str) -> tuple[Message, ...]:
    """The messages of one file, in order.

    Errors: LanguageError with the number of the first line that is wrong.
    """
    messages = []
    structs: dict[str, tuple[Field, ...]] = {}
    for head, body in _blocks(list(_lines(text))):
        if struct := _STRUCT.fullmatch(head.text):
            if struct["name"] in structs:
                raise LanguageError(head.number, f"struct {struct['name']} stands twice")
            structs[struct["name"]] = _fields(body, 1, _Block(structs=structs), head)
        else:
            messages.append(_message(head, body, structs))
    return tuple(messages)


_STRUCT = re.compile(r"struct +(?P<name>[A-Z]\w*)")
_HEAD = re.compile(
    r"(?P<name>[A-Z]\w*)(?: +key (?P<key>\d+))?"
    r" +versions (?P<versions>\S+) +flexible (?P<flexible>\S+)"
)
_FIELD = re.compile(
    r"(?P<name>[a-z]\w*): +(?P<type>\{\}|\[\]\w*|\w+)(?P<null>\?(?P<nullable>[\d+-]*))?(?P<rest>(?: +\S.*)?)"
)
_CHANGE = re.compile(r"(\[?\]?\w+)(?: +v(\d[^\s,]*))?")
_MODIFIER = re.compile(
    r" +(?:v(?P<versions>\d[^\s,]*)(?P<types>(?:, +\[?\]?\w+ +v\d[^\s,]*)*)"
    r"|encoding +(?P<encodings>\w+(?: +v\d[^\s,]*)?(?:, +\w+ +v\d[^\s,]*)*)"
    r"|tag (?P<tag>\d+)|= (?P<default>\S+)|(?P<mark>[a-z_]+))(?= |$)"
)
_VERSIONS = re.compile(r"(\d+)(?:(\+)|-(\d+))?")


def _lines(text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.splitlines(), 1):
        written = re.sub(r"(^|\s)#.*", "", raw).rstrip()
        if written:
            indent = len(written) - len(written.lstrip(" "))
            if indent % 2 or "\t" in written:
                raise LanguageError(number, "indent by two spaces a level")
            yield _Line(number, indent // 2, written.strip())


def _blocks(lines: list[_Line]) -> Iterator[tuple[_Line, list[_Line]]]:
    if lines and lines[0].depth:
        raise LanguageError(lines[0].number, "a field before any message")
    starts = [i for i, line in enumerate(lines) if line.depth == 0]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start], lines[start + 1 : end]


def _message(head: _Line, body: list[_Line], structs: dict[str, tuple[Field, ...]]) -> Message:
    match = _HEAD.fullmatch(head.text)
    if not match:
        raise LanguageError(head.number, "a message starts: NameRequest  key 3  versions 0-13  flexible 9+")
    versions = _versions(match["versions"], head)
    flexible = NEVER if match["flexible"] == "never" else _versions(match["flexible"], head)
    if versions.stop == OPEN_END:
        raise LanguageError(head.number, "a message has a last version: versions 0-13")
    fields = _fields(body, 1, _Block(versions, flexible, structs), head) if body else ()
    key = int(match["key"]) if match["key"] else None
    return Message(match["name"], _kind(match["name"], key, head), key, versions, flexible, fields)


def _kind(name: str, key: int | None, head: _Line) -> SchemaKind:
    kind: SchemaKind = "request" if name.endswith("Request") else "response" if name.endswith("Response") else "data"
    if kind != "data" and key is None:
        raise LanguageError(head.number, f"a {kind} has its api's key: {name}  key 3")
    return kind


def _versions(text: str, line: _Line) -> range:
    match = _VERSIONS.fullmatch(text)
    if not match:
        raise LanguageError(line.number, f"versions are 4, 0-7 or 3+, not {text!r}")
    first = int(match[1])
    last = OPEN_END - 1 if match[2] else int(match[3] or first)
    if last < first:
        raise LanguageError(line.number, f"versions {text} end before they start")
    return range(first, last + 1)


def _fields(lines: list[_Line], depth: int, block: _Block, above: _Line) -> tuple[Field, ...]:
    if not lines or lines[0].depth != depth:
        raise LanguageError((lines or [above])[0].number, f"fields expected, indented by {2 * depth} spaces")
    starts = [i for i, line in enumerate(lines) if line.depth <= depth]
    fields: list[Field] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        new = _field(lines[start], lines[start + 1 : end], block)
        _check_beside(new, fields, lines[start])
        fields.append(new)
    return tuple(fields)


def _field(line: _Line, body: list[_Line], block: _Block) -> Field:
    match = _FIELD.fullmatch(line.text)
    if not match:
        raise LanguageError(line.number, "a field is: name: type  v3+  tag 0  = -1  mark")
    modifiers = _modifiers(match["rest"], line)
    type_, versions, types = _typed(match["type"], modifiers, block, line)
    nullable = _versions(match["nullable"], line) if match["nullable"] else versions if match["null"] else NEVER
    inner = _inner(match, body, _Block(_overlap(versions, block.versions), block.flexible, block.structs), line)
    new = Field(
        # Interned as names in source code are: dicts find the field by identity, without comparing letters.
        intern(match["name"]),
        type_ if not inner else "[]" if type_.startswith("[]") else "{}",
        versions,
        nullable,
        modifiers.tag,
        _default(type_, [of for _, of in types] or [type_], modifiers.default, line) if modifiers.default else None,
        modifiers.default is not None,
        inner,
        frozenset(modifiers.marks),
        types,
    )
    _check(new, block, line)
    return new


def _inner(match: re.Match[str], body: list[_Line], block: _Block, line: _Line) -> tuple[Field, ...]:
    """The fields of a struct, from the lines below it or from the shared struct that it names; () for other types."""
    element = match["type"].removeprefix("[]")
    if element in ("", "{}"):
        return _fields(body, line.depth + 1, block, line)
    if body:
        raise LanguageError(body[0].number, f"{match['name']} is no struct: nothing can stand below it")
    if element in FIXED_TYPES or element in SIZED_TYPES or element in VARINT_TYPES:
        return ()
    if element not in block.structs:
        raise LanguageError(line.number, f"unknown type {element!r}")
    return block.structs[element]


@dataclass(slots=True)
class _Modifiers:
    """The modifiers behind a field's type, as text."""

    versions: str | None = None
    types: str = ""
    encodings: str = ""
    tag: int | None = None
    default: str | None = None
    marks: list[str] = field(default_factory=list)


def _modifiers(rest: str, line: _Line) -> _Modifiers:
    found, at = _Modifiers(), 0
    while at < len(rest):
        match = _MODIFIER.match(rest, at)
        if not match:
            raise LanguageError(line.number, f"can't read {rest[at:].strip()!r}")
        at = match.end()
        found.versions = match["versions"] or found.versions
        found.types = match["types"] or found.types
        found.encodings = match["encodings"] or found.encodings
        found.default = match["default"] or found.default
        found.tag = int(match["tag"]) if match["tag"] else found.tag
        if mark := match["mark"]:
            _check_mark(mark, line)
            found.marks.append(mark)
    return found


def _check_mark(mark: str, line: _Line) -> None:
    if mark not in MARKS:
        raise LanguageError(line.number, f"unknown mark {mark!r}: {', '.join(sorted(MARKS))}")


class _Typed(NamedTuple):
    """A field's type, versions, and types by version if they differ."""

    type: str
    versions: range
    types: tuple[tuple[range, str], ...] = ()


def _typed(type_: str, modifiers: _Modifiers, block: _Block, line: _Line) -> _Typed:
    """Reads both forms: a type by version, or one type with encodings by version."""
    stated = _versions(modifiers.versions, line) if modifiers.versions else block.versions
    changes = _changes(type_, stated, modifiers, line)
    if not changes:
        return _Typed(type_, stated)
    _check_changes(changes, line)
    versions = range(changes[0][0].start, changes[-1][0].stop)
    if modifiers.encodings and (modifiers.types or (modifiers.versions and versions != stated)):
        raise LanguageError(line.number, "a type by version, or one type in the versions of its encodings")
    array, elements = "[]" * type_.startswith("[]"), [of.removeprefix("[]") for _, of in changes]
    fixed = array + (widest(elements) if len(set(elements)) > 1 else elements[0])
    if modifiers.encodings and widest(elements) != type_.removeprefix("[]"):
        raise LanguageError(line.number, f"no version has room for {type_}")
    return _Typed(fixed, versions, tuple(changes) if len(set(elements)) > 1 else ())


def _changes(type_: str, stated: range, modifiers: _Modifiers, line: _Line) -> list[tuple[range, str]]:
    """(versions, type) from either form, as written; [] if the type never changes."""
    if modifiers.types:
        later = [(_versions(since, line), of) for of, since in _CHANGE.findall(modifiers.types)]
        return [(stated, type_), *later]
    return [
        (_versions(since, line) if since else stated, _encoded(type_, name, line))
        for name, since in _CHANGE.findall(modifiers.encodings)
    ]


def _encoded(type_: str, name: str, line: _Line) -> str:
    """The name of `type_` in the given encoding: "unsigned_varint32" for int32 and "unsigned32"."""
    fixed = INTEGERS.get(type_.removeprefix("[]"))
    if name not in ENCODINGS:
        raise LanguageError(line.number, f"unknown encoding {name!r}: {', '.join(ENCODINGS)}")
    if not fixed or fixed.name not in FIXED_TYPES or ENCODINGS[name].bits > fixed.bits:
        raise LanguageError(line.number, f"{name} is no encoding of {type_}")
    return "[]" * type_.startswith("[]") + ENCODINGS[name].name


def _check_changes(changes: list[tuple[range, str]], line: _Line) -> None:
    """Requires integers only, or arrays of integers only, in versions that follow each other."""
    first = changes[0][1]
    for _, type_ in changes:
        if type_.removeprefix("[]") not in INTEGERS or type_.startswith("[]") != first.startswith("[]"):
            raise LanguageError(line.number, f"{first} can't become {type_}: only integers change their type")
    for (before, _), (after, _) in pairwise(changes):
        if before.stop != after.start:
            raise LanguageError(line.number, f"versions must follow each other: version {after.start} does not")


def _default(type_: str, types: list[str], text: str, line: _Line) -> Default:
    if text == "null":
        return None
    try:
        if type_ == "bool":
            return {"true": True, "false": False}[text]
        if type_ == "float64":
            return float(text)
        if type_ != "uuid" and (type_ in FIXED_TYPES or type_ in VARINT_TYPES):
            value = int(text, 0)
            if all(value in limits(of) for of in types):
                return value
    except (KeyError, ValueError):
        pass
    raise LanguageError(line.number, f"{text} is no default of {' and '.join(types)}")


def _overlap(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _check(new: Field, block: _Block, line: _Line) -> None:
    """Refuses what Kafka's own generator refuses, and what this project's readers can't hold."""
    if new.name in RESERVED_NAMES:
        raise LanguageError(line.number, f"the name {new.name!r} is taken by the tag buffer")
    if not _overlap(new.versions, block.versions):
        raise LanguageError(line.number, f"{new.name} is in no version of what it stands in")
    if new.nullable and not (new.is_array or new.fields or new.type in SIZED_TYPES):
        raise LanguageError(line.number, f"{new.type} can't be null")
    if new.has_default and new.default is None and not new.nullable:
        raise LanguageError(line.number, f"{new.name} is null by default, but not nullable")
    if new.tag is not None and _overlap(new.versions, block.versions).start not in block.flexible:
        raise LanguageError(line.number, f"{new.name} is tagged in a version that is not flexible")


def _check_beside(new: Field, others: list[Field], line: _Line) -> None:
    for other in others:
        if not _overlap(new.versions, other.versions):
            continue
        if other.name == new.name:
            raise LanguageError(line.number, f"{new.name} stands twice in the same version")
        if new.tag is not None and new.tag == other.tag:
            raise LanguageError(line.number, f"tag {new.tag} is {other.name}'s already")
