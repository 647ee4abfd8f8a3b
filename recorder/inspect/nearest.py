"""The names in a capture that a filter probably meant that nothing passes: a topic, a group, a client."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from proxy.similar import LIKELY, nearest
from proxy.terminal import printable
from proxy.wire.errors import OverBudget
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.query.syntax import EQUAL, Node, comparisons
from recorder.query.values import Client
from recorder.reading.capture import Capture

# exchanges that are looked at, and different names of a field: a capture may have any number of both
_LOOKED_AT, _NAMES = 100_000, 10_000
# the field whose values are looked through, by the field of a condition
_SOUGHT_IN = {
    "topic": "topic",
    "group": "group",
    "client": "client_id",
    "client_id": "client_id",
    "principal": "principal",
    "software": "software",
    "transactional_id": "transactional_id",
}


def meant(capture: Capture, node: Node) -> str:
    """The end of a sentence about a filter that nothing passes: "; did you mean the topic orders?"; "" for none."""
    asked = [*_asked(node)]
    known = _known(capture, {_SOUGHT_IN[name] for name, _ in asked}) if asked else {}
    found = []
    for name, text in asked:
        names = known.get(_SOUGHT_IN[name], set())
        near = None if text in names else nearest(text, names, likeness=LIKELY)
        if near is not None:
            found.append(f"the {name.replace('_', ' ')} {printable(near)}")
    return f"; did you mean {' and '.join(found)}?" if found else ""


def _asked(node: Node) -> Iterator[tuple[str, str]]:
    """Each name that a condition gives, behind its field."""
    for one in comparisons(node):
        if one.field.name in _SOUGHT_IN and one.operator == EQUAL:
            yield from ((one.field.name, each.name if isinstance(each, Client) else each) for each in one.values)


def _known(capture: Capture, fields: set[str]) -> dict[str, set[str]]:
    """The values of fields in the capture, as far as they can be read."""
    found = defaultdict[str, set[str]](set)
    columns = sorted(fields)
    with suppress(OverBudget, DamagedFileError, UnknownFormatError, OSError):
        passed = capture.exchanges(columns=columns, brief=True)
        for pair in islice(passed, _LOOKED_AT):
            for name, value in passed.values(pair, columns).items():
                values = value if isinstance(value, list) else [value]
                found[name].update(each for each in values if isinstance(each, str) and len(found[name]) < _NAMES)
    return found
