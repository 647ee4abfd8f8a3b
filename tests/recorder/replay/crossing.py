"""Converts a request or a response to another version, for tests."""

from __future__ import annotations

from proxy.wire import apis
from proxy.wire.catalog import Codec
from proxy.wire.keys import (
    ADD_PARTITIONS_TO_TXN,
    DELETE_TOPICS,
    END_TXN,
    FIND_COORDINATOR,
    LEAVE_GROUP,
    OFFSET_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.records import Record, write_batch, write_message_set
from recorder.replay.plan import Values, Withheld
from recorder.replay.versions.choosing import Topics, request
from tests.strategies import must_codec
from tests.tables import each_row

# versions where a request's layout changes: they have tests of their own
LAID_OUT_ANEW = {
    (OFFSET_FETCH, 7),
    (FIND_COORDINATOR, 3),
    (LEAVE_GROUP, 2),
    (DELETE_TOPICS, 5),
    (ADD_PARTITIONS_TO_TXN, 3),
}
# upgrades that no request takes
NEVER_UP = {(SYNC_GROUP, 4), (END_TXN, 4), (TXN_OFFSET_COMMIT, 4)}
NO_ID = bytes(16)
every_api = each_row("key", apis.api_keys())


class Bijection:
    """Topics that have an id for every name, and a name for every id."""

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}
        self.topics = Topics(self.id, self.name)

    def id(self, name: str) -> bytes:
        return self.ids.setdefault(name, (len(self.ids) + 1).to_bytes(16, "big"))

    def name(self, topic_id: bytes) -> str:
        found = {known: name for name, known in self.ids.items()}.get(topic_id)
        if found is None:
            found = f"topic {topic_id.hex()}"
            self.ids[found] = topic_id
        return found


NO_TOPICS = Topics(lambda name: None, lambda topic_id: None)
EVERY_TOPIC = Bijection().topics
NAME, ID = "logs", b"\x07" * 16
LOGS = Topics({NAME: ID}.get, {ID: NAME}.get)


def sent(key: int, recorded: int, chosen: int, values: Values, topics: Topics = EVERY_TOPIC) -> Values:
    """Returns the one request made of `values`, as the chosen version's codec writes and reads it."""
    found = request(key, recorded, chosen, values, topics)
    assert isinstance(found, dict), found
    return through(must_codec("request", key, chosen), found)


def parts(key: int, recorded: int, chosen: int, values: Values, topics: Topics = EVERY_TOPIC) -> list[Values]:
    found = request(key, recorded, chosen, values, topics)
    assert isinstance(found, list), found
    return [through(must_codec("request", key, chosen), one) for one in found]


def withheld(key: int, recorded: int, chosen: int, values: Values, topics: Topics = EVERY_TOPIC) -> Withheld:
    found = request(key, recorded, chosen, values, topics)
    assert isinstance(found, Withheld), found
    return found


def through(codec: Codec, values: Values) -> Values:
    data = codec.encode(values)
    found, end = codec.decode(data)
    assert end == len(data)
    return found


def produced(version: int, place: int) -> bytes:
    records = [Record(0, 1000, b"k%d" % place, b"v"), Record(1, 1001)]
    return write_batch(records) if version > 2 else write_message_set(records, magic=int(version == 2))


def crosses(key: int, low: int, high: int, boundaries: set[tuple[int, int]]) -> bool:
    return any(low <= last < high for api, last in boundaries if api == key)
