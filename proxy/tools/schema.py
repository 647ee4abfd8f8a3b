"""A message at one version: its fields as a table, and the functions that were written for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from proxy.tools.listing import as_lines, flexible, span
from proxy.wire.catalog import Codec
from proxy.wire.compile.decoder import decoder
from proxy.wire.compile.encoder import encoder
from proxy.wire.compile.projector import projector
from proxy.wire.compile.walker import walker
from proxy.wire.language import Field, Message

TITLES = ("field", "type", "default", "tag", "since", "marks")


def title(message: Message, version: int) -> str:
    """One line: name, key, version, all versions, and whether this version is flexible."""
    key = f"  key {message.key}" if message.key is not None else ""
    shape = "flexible" if version in message.flexible else "not flexible"
    return f"{message.name}{key}  version {version} of {span(message.versions)}  {shape} (flexible {flexible(message)})"


def as_text(message: Message, version: int) -> Iterator[str]:
    """The title and a line for each field; the fields of structs are indented. A nullable type ends with "?"."""
    yield title(message, version)
    rows = [
        ("  " * (depth + 1) + field.name, _type(field, version), *_facts(field))
        for field, depth in _flat(message.fields, version, 0)
    ]
    yield from as_lines(TITLES, rows) if rows else ["  (no fields)"]


def as_json(message: Message, version: int) -> dict[str, Any]:
    """The table as one object; the fields of structs are under `fields`."""
    return {
        "name": message.name,
        "kind": message.kind,
        "key": message.key,
        "version": version,
        "versions": span(message.versions),
        "flexible": version in message.flexible,
        "fields": _fields_json(message.fields, version),
    }


def _fields_json(fields: Sequence[Field], version: int) -> list[dict[str, Any]]:
    return [_field_json(field, version) for field in fields if version in field.versions]


def _field_json(field: Field, version: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": field.name, "type": _type(field, version).rstrip("?")}
    facts |= {"nullable": version in field.nullable, "versions": span(field.versions), "marks": sorted(field.marks)}
    facts |= {"default": field.default} if field.has_default else {}
    facts |= {"tag": field.tag} if field.tag is not None else {}
    return facts | ({"fields": _fields_json(field.fields, version)} if field.fields else {})


def _flat(fields: Sequence[Field], version: int, depth: int) -> Iterator[tuple[Field, int]]:
    for field in fields:
        if version in field.versions:
            yield field, depth
            yield from _flat(field.fields, version, depth + 1)


def _type(field: Field, version: int) -> str:
    written = field.type if field.fields else "[]" * field.is_array + field.element_at(version)
    return written + ("?" if version in field.nullable else "")


def _facts(field: Field) -> tuple[str, str, str, str]:
    written = {None: "null", True: "true", False: "false"}
    default = field.default
    shown = written[default] if default is None or isinstance(default, bool) else str(default)
    since = f"v{field.versions.start}" if field.versions.start else ""
    tag = "" if field.tag is None else str(field.tag)
    return shown if field.has_default else "", tag, since, " ".join(sorted(field.marks))


def source(codec: Codec, function: str, paths: Sequence[str]) -> str:
    """The text of one function (decode, encode, project or walk), as it was written for this message and version.

    `paths`: the fields of a projection, or the field where a walk stops.

    Errors: ValueError if the message lacks a path, or if a projection or a walk gets none.
    """
    message, version = codec.message, codec.version
    if function in ("project", "walk") and not paths:
        raise ValueError(f"{function} needs the path of a field: --path {first_path(message, version)}")
    makers: dict[str, Callable[[], Callable[..., Any]]] = {
        "decode": lambda: decoder(message, version),
        "encode": lambda: encoder(message, version),
        "project": lambda: projector(message, version, tuple(paths)),
        "walk": lambda: walker(message, version, paths[0], None),
    }
    return inspect.getsource(makers[function]())


def first_path(message: Message, version: int) -> str:
    """The path of a field, as an example in an error's text."""
    return next((field.name for field in message.fields if version in field.versions), "tags")
