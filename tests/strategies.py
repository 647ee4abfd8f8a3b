"""Generates values of messages from their schemas: all that the wire can carry, with many edge cases.

The generator takes a `random.Random`: a seeded one for sweeps over every version, Hypothesis's own for properties, so
that failures shrink.
"""

import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from proxy.wire import apis, catalog
from proxy.wire.apis import MessageKind
from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import FIXED, Slot, Struct, layout
from proxy.wire.integers import INTEGERS
from tests.sweeps import is_thorough

BITS = {name: integer.bits for name, integer in INTEGERS.items()}
TEXTS = ["", "a", "topic-1", "Grüße, Kafka", "\N{SNOWMAN}" * 43, "x" * 126, "x" * 127, "y" * 130]
COUNTS = [0, 1, 1, 1, 2, 2, 3]
LONG_COUNT = 40  # more than the compiler has prepared readers for
LONG_COUNT_CHANCE = 0.05
UNKNOWN_TAGS = [90, 127, 128, 5000, 2**31]
JAVA_TAGS = UNKNOWN_TAGS[:-1]  # Java reads a tag's number as signed
UNKNOWN_TAGS_CHANCE = 0.1

KINDS: tuple[MessageKind, ...] = ("request", "response")
EVERY_MESSAGE = [(kind, key, version) for key in apis.api_keys() for version in apis.versions(key) for kind in KINDS]


def swept_versions(key: int) -> list[int]:
    """Returns a sweep's versions: all if thorough, else the oldest, the newest, and two around flexible ones."""
    versions = apis.versions(key)
    if is_thorough():
        return list(versions)
    kept = {versions[0], versions[-1]} if versions else set()
    for kind in KINDS:
        message = apis.message(kind, key)
        flexible = [version for version in versions if message and version in message.flexible]
        kept |= {flexible[0], flexible[0] - 1} & {*versions} if flexible else set()
    return sorted(kept)


class Values:
    """Makes values of structs. `tame`: only values that every other codec accepts (known errors, plausible times, no
    unknown tags).
    """

    def __init__(self, random: Random, *, tame: bool = False, unknown_tags: Sequence[int] = UNKNOWN_TAGS):
        self.random, self.tame, self.unknown_tags = random, tame, unknown_tags

    def struct(self, struct: Struct) -> dict[str, Any]:
        values = {slot.name: self.slot(slot) for slot in struct}
        if struct.flexible and not self.tame and self.random.random() < UNKNOWN_TAGS_CHANCE:
            tags = sorted(self.random.sample(self.unknown_tags, 2))
            values["_tags"] = {tag: self.random.choice([b"", b"unknown", b"z" * 200]) for tag in tags}
        return values

    def slot(self, slot: Slot) -> Any:
        if slot.nullable and self.random.random() < 0.3:
            return None
        if slot.array:
            return [self.one(slot) for _ in range(self._count(slot))]
        return self.one(slot)

    def _count(self, slot: Slot) -> int:
        if slot.struct is None and self.random.random() < LONG_COUNT_CHANCE:
            return LONG_COUNT
        return self.random.choice(COUNTS)

    def one(self, slot: Slot) -> Any:
        if slot.struct:
            return self.struct(slot.struct)
        if slot.type in BITS:
            return self._signed(slot)
        match slot.type:
            case "string":
                return self.random.choice(TEXTS)
            case "bool":
                return self.random.random() < 0.5
            case "uuid":
                return bytes(self.random.choice([0, 1, 255]) for _ in range(15)) + b"\x07"
            case "float64":
                return self.random.choice([0.0, -1.5, 1e300])
            case "uint16" | "uint32":
                return self.random.choice([0, 1, 256 ** FIXED[slot.type][1] - 1])
            case _:
                return self.random.choice([b"", b"\0", b"bytes", b"b" * 300])

    def _signed(self, slot: Slot) -> int:
        if self.tame:
            return self.random.choice([0, 1, 3, 42])
        if slot.element_varint and self.random.random() < 0.5:
            return self._groups(BITS[slot.type])
        top = 1 << BITS[slot.type] - 1
        return self.random.choice([0, 1, -1, 42, top - 1, -top])

    def _groups(self, bits: int) -> int:
        """Returns numbers around those at which a varint takes another byte, with either sign."""
        return (1 << self.random.randrange(bits - 1)) - self.random.choice([0, 1]) ^ -self.random.choice([0, 1])


def values_of(
    codec: Codec, seed: object, *, tame: bool = False, unknown_tags: Sequence[int] = UNKNOWN_TAGS
) -> dict[str, Any]:
    """Returns the same values for the same seed."""
    random = Random(f"{codec} {seed}")
    return Values(random, tame=tame, unknown_tags=unknown_tags).struct(layout(codec.message, codec.version))


def extremes(codec: Codec) -> dict[str, Any]:
    """Returns values without nulls and empty ones: the largest numbers, and lengths that take several bytes."""
    return _extremes(layout(codec.message, codec.version))


def _extremes(struct: Struct) -> dict[str, Any]:
    return {slot.name: [_extreme(slot)] * 2 if slot.array else _extreme(slot) for slot in struct}


def _extreme(slot: Slot) -> Any:
    if slot.struct:
        return _extremes(slot.struct)
    if slot.type in BITS:
        return (1 << BITS[slot.type] - 1) - 1
    if slot.type in ("uint16", "uint32"):
        return 256 ** FIXED[slot.type][1] - 1
    others = {"bool": True, "float64": sys.float_info.max, "uuid": b"\xff" * 16, "string": "\N{SNOWMAN}" * 100}
    return others.get(slot.type, bytes(range(256)))


def without_unknown_tags(value: Any) -> Any:
    """Returns the values for a codec that drops unknown tags."""
    if isinstance(value, list):
        return [without_unknown_tags(one) for one in value]
    if isinstance(value, dict):
        return {name: without_unknown_tags(one) for name, one in value.items() if name != "_tags"}
    return value


def must_codec(kind: MessageKind, key: int, version: int) -> Codec:
    found = catalog.codec(kind, key, version)
    assert found is not None, (kind, key, version)
    return found


@st.composite
def messages(draw: st.DrawFn) -> tuple[Codec, dict[str, Any]]:
    """Draws any message of the catalog with values."""
    codec = must_codec(*draw(st.sampled_from(EVERY_MESSAGE)))
    random = draw(st.randoms(use_true_random=False))
    return codec, Values(random).struct(layout(codec.message, codec.version))


def field_paths(struct: Struct, above: str = "") -> list[str]:
    """Returns the paths of all fields of that version."""
    found = []
    for slot in struct:
        found.append(above + slot.name)
        found += field_paths(slot.struct, f"{above}{slot.name}.") if slot.struct else []
    return found


def at_path(values: Mapping[str, Any], path: str) -> list[Any]:
    """Returns the values at a path, flattened over arrays, without null structs."""
    name, _, rest = path.partition(".")
    value = values[name]
    if not rest:
        return [value]
    inner = value if isinstance(value, list) else [value]
    return [found for one in inner if one is not None for found in at_path(one, rest)]
