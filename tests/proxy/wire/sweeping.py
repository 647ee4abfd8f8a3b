"""Decides which APIs the sweeps of the codec take.

What a message says is tested for each of them. What the compiler makes of a field is tested in `make test` for messages
that together have each shape of a field, and for the others in `make test-long`, since they prove it again.
"""

from collections.abc import Iterator

from proxy.wire import apis
from proxy.wire.compile.layout import Struct, layout
from tests.strategies import KINDS, must_codec, swept_versions
from tests.sweeps import mostly_long
from tests.tables import each_row

# how deep structs are told apart
DEEPEST = 2
Shape = tuple[object, ...]


def shapes(struct: Struct, depth: int = 0) -> Iterator[Shape]:
    """Yields what the compiler tells fields apart by, for each field of the struct and within it."""
    for slot in struct:
        type_ = "struct" if slot.struct else slot.type
        yield type_, slot.array, slot.nullable, slot.tag is not None, struct.flexible, min(depth, DEEPEST)
        if slot.struct:
            yield from shapes(slot.struct, depth + 1)


def shapes_of(key: int) -> set[Shape]:
    """Returns the shapes of all fields of an API's request and response, in the versions that a sweep takes."""
    codecs = [must_codec(kind, key, version) for version in swept_versions(key) for kind in KINDS]
    return {shape for codec in codecs for shape in shapes(layout(codec.message, codec.version))}


def covering() -> set[int]:
    """Returns few APIs that together have each shape: always the one that has most of those which are left."""
    left = {key: shapes_of(key) for key in apis.api_keys()}
    found = set()
    while any(left.values()):
        best = max(left, key=lambda key: len(left[key]))
        found.add(best)
        taken = left[best]
        left = {key: those - taken for key, those in left.items()}
    return found


def _name(key: int) -> str:
    return apis.api_name(key) or str(key)


every_api = each_row("key", apis.api_keys(), ids=_name)
every_shape = each_row("key", mostly_long(apis.api_keys(), usual=covering().__contains__), ids=_name)
