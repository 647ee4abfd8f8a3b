"""Asks a proxy's admin page for what `top` shows. All calls block; each has a connection of its own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from prometheus_client.parser import text_string_to_metric_families

from proxy.schema.addresses import Address
from proxy.units import MIB
from proxy.wire.errors import in_bytes

# the longest that an answer, or the next line of one, may take, in seconds
PATIENCE_SECONDS = 10.0
# bytes of an answer, or of a line of one: what the tables' bounds allow, were all names long
MOST = 64 * MIB
_PREFIX = "kafka_wiretap_"
Json = dict[str, Any]


class NoAnswer(Exception):
    """The proxy can't be asked. The text is a sentence that says why, and what would be right."""


class WrongFilter(Exception):
    """A filter that can't be read. `at`: the place in its text."""

    def __init__(self, sentence: str, at: int) -> None:
        super().__init__(sentence)
        self.at = at


class NodeState(NamedTuple):
    """What the proxy knows of a node. `is_up`: None while nobody has dialled it; `since`: seconds since 1970."""

    is_up: bool | None = None
    since: float | None = None
    connections: int = 0


class Recording(NamedTuple):
    """What the proxy has not recorded since it began. Where it records nothing: what those who look did not get.

    Attributes:
        gaps: stretches of a connection that were dropped. bytes: what they had.
        is_broken: nothing can be recorded now. is_stopped: nothing is recorded now, to leave room on the volume.
    """

    gaps: int = 0
    bytes: float = 0
    is_broken: bool = False
    is_stopped: bool = False


class ProxyState(NamedTuple):
    """What the proxy's metrics tell. `nodes`: those that it knows, by their ids."""

    nodes: Mapping[str, NodeState]
    recording: Recording


# what an answer breaks with; deep JSON is beyond Python's recursion, and infinity is no number of connections
_BROKEN = (OSError, http.client.HTTPException, ValueError, RecursionError, OverflowError)
# bytes of an answer that refuses: a sentence
_MOST_OF_REFUSAL = 1 << 16
_REFUSALS = {
    401: "it wants another token: right would be the file that the proxy's live.token_file names",
    403: "it answers only on its own machine: right would be 127.0.0.1 there, or a forwarded port",
    404: "nobody may watch it: right would be a proxy with live.token_file",
    421: "it wants to be asked by an IP address or localhost",
    502: "its live process does not answer now: it may have just begun",
}


class Client:
    """Asks one proxy. `address`: of its `metrics`; `token`: what its `live.token_file` holds."""

    def __init__(self, address: Address, token: str) -> None:
        self.address, self._token = address, token

    def watch(self, text: str) -> Iterator[Json]:
        """The sums of what passes a filter since now, once a second, until the connection ends.

        Errors: NoAnswer, WrongFilter.
        """
        connection, answer = self._asked("/live/top/watch", filter=text)
        try:
            while line := _bounded(answer.readline(MOST + 1)):
                yield json.loads(line)
        except _BROKEN as error:
            raise NoAnswer(f"{self.address} ended in the middle: {error}") from error
        finally:
            connection.close()
        raise NoAnswer(f"{self.address} has ended")

    def exchanges(self, text: str, limit: int) -> list[Json]:
        """The newest exchanges that pass a filter. Errors: NoAnswer, WrongFilter."""
        found: list[Json] = self._told("/live/top/exchanges", filter=text, limit=str(limit))["exchanges"]
        return found

    def exchange(self, name: str) -> Json:
        """An exchange, by its id, decoded. Errors: NoAnswer."""
        return self._told("/live/top/exchange", id=name)

    def state(self) -> ProxyState:
        """What the proxy tells of itself. Errors: NoAnswer."""
        connection, answer = self._asked("/metrics")
        try:
            return _state(_bounded(answer.read(MOST + 1)).decode())
        except (*_BROKEN, LookupError) as error:
            raise NoAnswer(f"{self.address} has no page of metrics: {error}") from error
        finally:
            connection.close()

    def _told(self, path: str, **asked: str) -> Json:
        connection, answer = self._asked(path, **asked)
        try:
            told: Json = json.loads(_bounded(answer.read(MOST + 1)))
            return told
        except _BROKEN as error:
            raise NoAnswer(f"{self.address} ended in the middle: {error}") from error
        finally:
            connection.close()

    def _asked(self, path: str, **asked: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=PATIENCE_SECONDS)
        try:
            target = f"{path}?{urlencode(asked)}" if asked else path
            connection.request("GET", target, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            if answer.status == 200:
                return connection, answer
            body = answer.read(_MOST_OF_REFUSAL)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoAnswer(f"{self.address} does not answer: {error}") from error
        connection.close()
        raise self._refused(answer.status, body)

    def _refused(self, status: int, body: bytes) -> Exception:
        try:
            told = json.loads(body)
            sentence, at = str(told["error"]), told.get("at")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return NoAnswer(f"{self.address}: {_REFUSALS.get(status, f'it answers with status {status}')}")
        return WrongFilter(sentence, at) if isinstance(at, int) else NoAnswer(sentence)


def _bounded(text: bytes) -> bytes:
    """The text. Errors: ValueError if it is too long."""
    if len(text) > MOST:
        raise ValueError(f"it tells more than {in_bytes(MOST)} at a time")
    return text


def _state(text: str) -> ProxyState:
    """What metrics tell. Errors: ValueError, LookupError."""
    nodes: dict[str, NodeState] = {}
    recording = Recording()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix(_PREFIX)
            if name in _OF_NODES:
                node = sample.labels["node"]
                nodes[node] = nodes.get(node, NodeState())._replace(**_OF_NODES[name](sample.value))
            elif name in _OF_RECORDING:
                recording = recording._replace(**_OF_RECORDING[name](sample.value))
    return ProxyState(nodes, recording)


_Change = Callable[[float], dict[str, Any]]
_OF_NODES: Mapping[str, _Change] = {
    "node_up": lambda value: {"is_up": value == 1},
    "node_up_since_seconds": lambda value: {"since": value},
    "node_connections": lambda value: {"connections": int(value)},
}
# a proxy has the numbers of a recording, or those of a feed
_OF_RECORDING: Mapping[str, _Change] = {
    "recorder_gaps_total": lambda value: {"gaps": int(value)},
    "recorder_dropped_bytes_total": lambda value: {"bytes": value},
    "recorder_failed": lambda value: {"is_broken": value == 1},
    "recorder_stopped": lambda value: {"is_stopped": value == 1},
    "live_gaps_total": lambda value: {"gaps": int(value)},
    "live_dropped_bytes_total": lambda value: {"bytes": value},
}
