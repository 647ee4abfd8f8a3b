"""Decoded values as a tree for people: ids are printed as Kafka's tools print them, secrets are marked as masked.

Decoded messages inside messages and record batches replace their bytes. A masked value must never pass for a real one:
it becomes `Masked`, with its length. The tree holds dicts, lists, numbers, text, bytes, None and Masked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.tools.packed import log_record, opened_records
from proxy.wire import apis, embedded
from proxy.wire.budget import Budget
from proxy.wire.catalog import SECRET_MARKS
from proxy.wire.embedded.blobs import layout_version
from proxy.wire.errors import OverBudget, WireError
from proxy.wire.language import RECORD_DATA, Field, Message
from proxy.wire.plain_settings import may_be_secret
from proxy.wire.primitives import uuid_text

TAGS = "_tags"
Values = Mapping[str, Any]
# a topic that has the same id in every cluster; versions with topic ids do not name it otherwise
TOPICS_BY_ID = {bytes(15) + b"\1": "__cluster_metadata"}


@dataclass(frozen=True, slots=True)
class Masked:
    """A value that is not shown. `length`: its bytes; None if unknown."""

    length: int | None


@dataclass(frozen=True, slots=True)
class Shown:
    """The options of a tree. `mask`: secrets become `Masked`. `records`: the most records shown of each field.

    `budget`: pays for everything that is decoded. Values that would exceed it stay bytes, or have a reason in `why`.
    `lacks_records`: blank values that quote records become `Masked`, because a capture has left them out.
    """

    mask: bool = False
    records: int = 10
    budget: Budget = dataclasses.field(default_factory=Budget)
    lacks_records: bool = False


def message_tree(message: Message, version: int, values: Values, shown: Shown) -> dict[str, Any]:
    """The values of a request or a response."""
    if message.key is not None and message.kind in ("request", "response"):
        kind: apis.MessageKind = "request" if message.kind == "request" else "response"
        values = embedded.expand(kind, message.key, values, budget=shown.budget)
    tree = _Tree(version, shown).struct(values, message.fields)
    if message.name == "PushTelemetryRequest" and isinstance(tree.get("metrics"), bytes):
        tree["metrics"] = _telemetry(values, shown.budget)
    return tree


def records_tree(data: bytes, topic: str | None, shown: Shown) -> list[dict[str, Any]]:
    """Record batches as trees; keys and values are decoded if `topic` is an internal topic."""
    return _Tree(0, shown, topic).records(data)


def record_tree(topic: str, key: bytes | None, value: bytes | None, shown: Shown) -> dict[str, Any]:
    """The key and the value of one record of an internal topic. Errors: Truncated, Malformed."""
    opened = _Tree(0, shown, topic).record(key, value, control=False)
    if "why" in opened and not shown.budget.used_up:
        # raises the error: `why` alone is for one record among others
        embedded.decode_record(topic, key, value)
    return opened


def blob_tree(name: str, data: bytes, shown: Shown) -> dict[str, Any]:
    """A blob: a message inside messages, behind its version. Errors: Truncated, Malformed; ValueError for the name."""
    tree = _Tree(0, shown)
    try:
        found = embedded.decode_blob(name, data, budget=shown.budget)
    except OverBudget as error:
        begun: dict[str, Any] = tree.side(embedded.Embedded(name, error.version or 0, error.values or {}))
        return begun | {"why": str(error)}
    if isinstance(found, embedded.Unknown):
        known = embedded.versions(name)
        return {
            "message": name,
            "why": f"unknown: version {found.version} of {known[0]}-{known[-1]} known",
            "bytes": data,
        }
    opened: dict[str, Any] = tree.side(found)
    return opened


def _telemetry(values: Values, budget: Budget) -> Any:
    """A client's metrics; their bytes if they can't be read, with the reason if that is a missing package."""
    from proxy.wire import telemetry

    try:
        return telemetry.decode(values, budget=budget)
    except ModuleNotFoundError as error:
        return {"why": str(error), "bytes": values["metrics"]}
    except WireError:
        return values["metrics"]


@dataclass(frozen=True, slots=True)
class _Tree:
    """Makes the tree of one message at one version.

    The other attributes are facts from the structs around a value. `topic`: the topic that it belongs to.
    `is_sensitive`: the broker's flag of a setting; None if there is none. `is_plain`: the setting's value may be shown.
    """

    version: int
    shown: Shown
    topic: str | None = None
    is_sensitive: bool | None = None
    is_plain: bool = False

    def struct(self, values: Values, fields: Sequence[Field]) -> dict[str, Any]:
        named = {field.name: field for field in fields if self.version in field.versions}
        is_sensitive = values.get("is_sensitive", self.is_sensitive)
        is_plain = not may_be_secret(values.get("name"), is_sensitive)
        inner = _Tree(self.version, self.shown, _topic(values, named) or self.topic, is_sensitive, is_plain)
        return {
            name: dict(value) if name == TAGS else inner.value(value, named[name]) for name, value in values.items()
        }

    def value(self, value: Any, field: Field) -> Any:
        if value is None:
            return None
        if self.shown.mask and field.marks & SECRET_MARKS and not self._may_be_shown(value, field):
            return hide(value)
        if self.shown.lacks_records and RECORD_DATA in field.marks and field.type != "records" and _is_blank(value):
            return hide(value)
        if field.is_array and isinstance(value, list):
            return [self._element(one, field) for one in value]
        return self._element(value, field)

    def _may_be_shown(self, value: Any, field: Field) -> bool:
        """True for the value of a plain setting, unless it is blank: captures of earlier versions blanked it."""
        return "secret" not in field.marks and self.is_plain and bool(value.strip("\0"))

    def _element(self, value: Any, field: Field) -> Any:
        if field.fields:
            return self.struct(value, field.fields)
        if isinstance(value, dict):
            return self._packed(value)
        if field.element == "records" and value:
            return self.records(value)
        return uuid_text(bytes(value)) if field.element == "uuid" else value

    def _packed(self, found: dict[str, Any]) -> dict[str, Any]:
        """The tree of a message inside messages, from the dict that `embedded.expand` makes of it."""
        message, version = _schema(found["message"]), layout_version(found["message"], found["version"])
        return found | {"values": _Tree(version, self.shown).struct(found["values"], message.fields)}

    def records(self, data: bytes) -> list[dict[str, Any]]:
        return opened_records(data, self.shown.records, self.record, self.shown.budget)

    def record(self, key: bytes | None, value: bytes | None, control: bool) -> dict[str, Any]:
        """A record's key and value, decoded in internal topics and control batches."""
        found = log_record(self.topic, key, value, control, self.shown.budget)
        return {name: self.side(side) for name, side in found.items()}

    def side(self, side: Any) -> Any:
        if not isinstance(side, embedded.Embedded):
            return side
        values = embedded.expand_data(side.name, side.values, budget=self.shown.budget)
        facts = {"message": side.name, "version": side.version, "values": values}
        return self._packed(facts | ({"rest": side.rest} if side.rest else {}))


def _schema(name: str) -> Message:
    found = embedded.message(name)
    if found is None:
        kind: apis.MessageKind = "request" if name.endswith("Request") else "response"
        found = apis.message(kind, apis.api_key(name.removesuffix("Request").removesuffix("Response")) or 0)
    assert found is not None, name
    return found


def _topic(values: Values, fields: Mapping[str, Field]) -> str | None:
    """The topic that a struct names; None if it names none."""
    for name, field in fields.items():
        value = values.get(name)
        if "topic_name" in field.marks and isinstance(value, str):
            return value
        if "topic_id" in field.marks and isinstance(value, bytes) and value in TOPICS_BY_ID:
            return TOPICS_BY_ID[value]
    return None


def _is_blank(value: str | bytes) -> bool:
    return not (value.strip("\0") if isinstance(value, str) else value.strip(b"\0"))


def hide(value: Any) -> Any:
    """The value as `Masked`; an empty value stays as it is, because it hides nothing."""
    if isinstance(value, str | bytes | memoryview):
        length = len(value.encode()) if isinstance(value, str) else len(value)
        return Masked(length) if length else value
    return Masked(None)
