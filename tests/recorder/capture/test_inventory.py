"""Tests of the log's inventory: a number for each entry, and the totals of the log."""

import json
from typing import Any

import pytest

from recorder.capture.inventory import ClosedTotals, Identities, Inventory
from recorder.capture.spool import MAX_KNOWN, NO_CONNECTION, NUMBERS, EntryKind


def closed(sequence: int, *offsets: int) -> bytes:
    return json.dumps({"cause": "drained", "sequence": sequence, "offsets": offsets}).encode()


def number(inventory: Inventory, kind: EntryKind, connection: int, data: bytes = b"") -> int:
    (found,) = inventory.number_entries([(kind, 0, connection, 0, 0, data, ())])
    return found


def told(inventory: Inventory) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(inventory.text())
    return found


def test_the_entries_of_each_connection_are_numbered_from_0_on() -> None:
    inventory = Inventory()
    given = [number(inventory, EntryKind.BYTES, connection) for connection in (7, 7, 8, 7, 8)]
    assert given == [0, 1, 0, 2, 1]
    assert told(inventory)["open"] == [[7, 3], [8, 2]]
    assert told(inventory)["closed"] == {"connections": 0, "frames": 0, "bytes": 0}


def test_numbers_begin_again_where_they_end() -> None:
    inventory = Inventory()
    given = [number(inventory, EntryKind.BYTES, 1) for _ in range(NUMBERS + 2)]
    assert given[-3:] == [NUMBERS - 1, 0, 1]


def test_a_checkpoint_has_the_number_of_the_next_entry() -> None:
    inventory = Inventory()
    kinds = (EntryKind.OPENED, EntryKind.CHECKPOINT, EntryKind.BYTES, EntryKind.CHECKPOINT, EntryKind.BYTES)
    assert [number(inventory, kind, 1) for kind in kinds] == [0, 1, 1, 2, 2]


def test_a_closed_connection_is_counted_with_all_that_it_held() -> None:
    inventory = Inventory()
    number(inventory, EntryKind.OPENED, 1)
    number(inventory, EntryKind.OPENED, 2)
    assert number(inventory, EntryKind.CLOSED, 1, closed(5, 10, 20)) == 1
    assert number(inventory, EntryKind.CLOSED, 2, closed(6, 0, 3)) == 1
    assert told(inventory)["open"] == []
    assert told(inventory)["closed"] == {"connections": 2, "frames": 11, "bytes": 33}


@pytest.mark.parametrize("kind", [EntryKind.NODE, EntryKind.CLOCK, EntryKind.END, EntryKind.INVENTORY])
def test_entries_of_no_connection_have_no_numbers(kind: EntryKind) -> None:
    inventory = Inventory()
    assert [number(inventory, kind, NO_CONNECTION) for _ in range(2)] == [0, 0]
    assert told(inventory)["open"] == []


def test_connections_that_came_and_went_unsaid_are_counted_too() -> None:
    inventory = Inventory()
    facts = {"reason": "queue_full", "connections": 3, "frames": 20, "bytes": 200}
    assert number(inventory, EntryKind.GAP, NO_CONNECTION, json.dumps(facts).encode()) == 0
    assert told(inventory)["closed"] == {"connections": 3, "frames": 20, "bytes": 200}


def test_totals_add_up() -> None:
    totals = ClosedTotals()
    totals.add_closed(3, (1, 2))
    totals.add_unlogged({"connections": 2, "frames": 4, "bytes": 5})
    assert totals == ClosedTotals(3, 7, 8)


def known(cluster: str | None = "main", **of_it: list[str]) -> dict[str, Any]:
    return {"cluster": cluster, "ids": [], "upstreams": [], "listeners": []} | of_it


def test_what_a_cluster_can_be_known_by_is_repeated_all_of_it() -> None:
    inventory = Inventory()
    for each in (known(ids=["x"]), known("b", upstreams=["u:1"]), known(ids=["x", "y"], listeners=["l:1"])):
        assert number(inventory, EntryKind.CLUSTER, NO_CONNECTION, json.dumps(each).encode()) == 0
    assert told(inventory)["clusters"] == [known(ids=["x", "y"], listeners=["l:1"]), known("b", upstreams=["u:1"])]


def test_what_is_kept_of_a_cluster_is_limited() -> None:
    identities = Identities()
    for start in (0, MAX_KNOWN - 1):
        identities.add(known(upstreams=[f"u:{number}" for number in range(start, start + MAX_KNOWN)]))
    (kept,) = identities.values()
    assert kept["upstreams"] == [f"u:{number}" for number in range(MAX_KNOWN)]
