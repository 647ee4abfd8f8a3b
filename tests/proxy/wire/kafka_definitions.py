"""Reads Kafka's own message definitions from the `kafka-clients` jar, in the terms of this project's language.

The JSON is in the jar under `common/message/`. It is read when the tests run, and never stored. One version of a
message becomes a flat tuple of its fields on the wire, so both sides can be compared with `==`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from proxy.wire.apis import MessageKind
from proxy.wire.language import FIXED_TYPES, SIZED_TYPES, Field, Message

Definition = Mapping[str, Any]
OPEN_END = 32768

# Renamed APIs and fields (by message, name and type): the catalog uses the newest name.
RENAMED_APIS = {"ListClientMetricsResources": "ListConfigResources"}
RENAMED = {
    ("TxnOffsetCommitRequest", "generation_id", "int32"): "generation_id_or_member_epoch",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag", "int32"): "acceptable_recovery_lag_legacy",
    ("VoteRequest", "candidate_epoch", "int32"): "replica_epoch",
    ("VoteRequest", "candidate_id", "int32"): "replica_id",
    ("VoteRequest", "candidate_directory_id", "uuid"): "replica_directory_id",
    ("ListClientMetricsResourcesResponse", "client_metrics_resources", "[]ClientMetricsResource"): "config_resources",
    ("ListClientMetricsResourcesResponse", "name", "string"): "resource_name",
}


class OnTheWire(NamedTuple):
    """A field of one version; `inner`: the fields of its struct."""

    name: str
    type: str
    nullable: bool
    tag: int | None
    default: Any
    inner: tuple["OnTheWire", ...]


def definitions(jar: Path) -> dict[tuple[int, MessageKind], Definition]:
    """Returns (api key, kind) -> definition, from a kafka-clients jar."""
    found: dict[tuple[int, MessageKind], Definition] = {}
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(("Request.json", "Response.json")):
                definition = json.loads(re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode()))
                found[definition["apiKey"], definition["type"]] = definition
    return found


def version_range(text: str | None) -> range:
    if text in (None, "none"):
        return range(0)
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", str(text))
    assert match, text
    first = int(match[1])
    return range(first, OPEN_END if match[2] else int(match[3] or first) + 1)


def snake_case(name: str) -> str:
    """NodeEndpoints -> node_endpoints, KRaftControllerId -> k_raft_controller_id."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()


def api_name(definition: Definition) -> str:
    """Returns the newest name of the api."""
    name = re.sub(r"(Request|Response)$", "", definition["name"])
    return RENAMED_APIS.get(name, name)


def field_name(definition: Definition, one: Definition) -> str:
    """Returns the newest name of the field, in the catalog's spelling."""
    name = snake_case(one["name"])
    return RENAMED.get((definition["name"], name, one["type"]), name)


def fields_of(definition: Definition, version: int, above: Definition | None = None) -> list[Definition]:
    """Returns Kafka's fields of that version: of the message, or of the struct in the field `above`."""
    written = definition["fields"]
    if above:
        structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
        written = above.get("fields") or structs.get(above["type"].removeprefix("[]"), [])
    return [one for one in written if version in version_range(one.get("versions"))]


def walk(
    definition: Definition, version: int, above: Definition | None = None, path: str = ""
) -> Iterator[tuple[str, Definition]]:
    """Yields every field of that version, with its path in the catalog's names."""
    for one in fields_of(definition, version, above):
        here = path + field_name(definition, one)
        yield here, one
        yield from walk(definition, version, one, f"{here}.")


def theirs(definition: Definition, version: int, above: Definition | None = None) -> tuple[OnTheWire, ...]:
    """Returns Kafka's fields of that version."""

    def field(one: Definition) -> OnTheWire:
        array, element = one["type"].startswith("[]"), one["type"].removeprefix("[]")
        plain = element in FIXED_TYPES or element in SIZED_TYPES
        tagged = version in version_range(one.get("taggedVersions"))
        return OnTheWire(
            field_name(definition, one),
            "[]" * array + (element if plain else "struct"),
            version in version_range(one.get("nullableVersions")),
            int(one["tag"]) if tagged else None,
            default_value("[]" if array else element if plain else "struct", one.get("default")),
            theirs(definition, version, one),
        )

    return tuple(field(one) for one in fields_of(definition, version, above))


def ours(message: Message, version: int) -> tuple[OnTheWire, ...]:
    """Returns the catalog's fields of that version."""

    def fields(written: tuple[Field, ...]) -> tuple[OnTheWire, ...]:
        return tuple(field(one) for one in written if version in one.versions)

    def field(one: Field) -> OnTheWire:
        zero = default_value("[]" if one.is_array else one.element, None)
        return OnTheWire(
            one.name,
            "[]" * one.is_array + one.element_at(version),
            version in one.nullable,
            one.tag,
            one.default if one.has_default else zero,
            fields(one.fields),
        )

    return fields(message.fields)


def default_value(element: str, written: Any) -> Any:
    """Returns a default as a value; Kafka writes defaults as strings, numbers or booleans, decimal or hexadecimal."""
    if written == "null":
        return None
    zeros: dict[str, Any] = {"[]": (), "struct": (), "string": "", "bytes": b"", "records": b""}
    if written in (None, ""):
        return zeros.get(element, 0)
    if element == "bool":
        return str(written).lower() == "true"
    return written if element == "string" else int(str(written), 0)
