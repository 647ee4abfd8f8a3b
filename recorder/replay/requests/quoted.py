"""Values that clients quote from earlier answers: page cursors, telemetry ids, a group's protocol.

A request gets what the target last answered. If it has answered nothing, a cursor is null (the first page) and an id is
zero. A protocol then stays, since it is one of those that the members themselves named.
"""

from __future__ import annotations

from proxy.wire.keys import (
    DESCRIBE_TOPIC_PARTITIONS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    JOIN_GROUP,
    SYNC_GROUP,
)
from proxy.wire.places import NO_ID
from recorder.replay.mapping import Pairs, ValueKind
from recorder.replay.names import Names
from recorder.replay.plan import Exchange, Values
from recorder.replay.requests.apis import Trait, Treatment, those, treatment

# requests that quote such values, and those whose answers give them
QUOTING_APIS = those(Trait.QUOTES)


class QuotedValues:
    """Puts values of the target's answers into requests, and learns them."""

    def __init__(self, names: Names, pairs: Pairs) -> None:
        self._names, self._pairs = names, pairs

    def put(self, exchange: Exchange, values: Values) -> None:
        """Changes a request's values. Groups have their recorded names here."""
        if exchange.api_key == DESCRIBE_TOPIC_PARTITIONS and values["cursor"] is not None:
            recorded = _cursor(values["cursor"])
            values["cursor"] = self._pairs.target(ValueKind.CURSOR, recorded, exchange.connection)
        elif treatment(exchange.api_key) is Treatment.TELEMETRY:
            self._put_telemetry(values)
        elif exchange.api_key == SYNC_GROUP and values.get("protocol_name") is not None:
            found = self._pairs.target(ValueKind.PROTOCOL, values["protocol_name"], values["group_id"])
            values["protocol_name"] = values["protocol_name"] if found is None else found

    def _put_telemetry(self, values: Values) -> None:
        client = values["client_instance_id"]
        if "subscription_id" in values:
            recorded = values["subscription_id"]
            values["subscription_id"] = self._pairs.target(ValueKind.SUBSCRIPTION, recorded, client) or 0
        values["client_instance_id"] = self._pairs.target(ValueKind.CLIENT_INSTANCE, client) or NO_ID

    def learn(self, exchange: Exchange, values: Values, answer: Values) -> None:
        """Pairs the recorded answer's values with the target's. `values` and `answer` are in the target's terms."""
        recorded = exchange.answer
        if recorded is None:
            return
        if exchange.api_key == DESCRIBE_TOPIC_PARTITIONS and recorded["next_cursor"] is not None:
            found, scope = _cursor(recorded["next_cursor"]), exchange.connection
            self._pairs.learn(ValueKind.CURSOR, found, answer["next_cursor"], scope)
        elif exchange.api_key == GET_TELEMETRY_SUBSCRIPTIONS and not recorded["error_code"] | answer["error_code"]:
            client = recorded["client_instance_id"]
            self._pairs.learn(ValueKind.CLIENT_INSTANCE, client, answer["client_instance_id"])
            self._pairs.learn(ValueKind.SUBSCRIPTION, recorded["subscription_id"], answer["subscription_id"], client)
        elif exchange.api_key == JOIN_GROUP and recorded["protocol_name"] and answer["protocol_name"]:
            group = self._names.recorded(values["group_id"])
            self._pairs.learn(ValueKind.PROTOCOL, recorded["protocol_name"], answer["protocol_name"], group)


def _cursor(cursor: Values) -> tuple[str, int]:
    return cursor["topic_name"], cursor["partition_index"]
