"""Publishes messages to a topic, by librdkafka.

Before there is anything to write, `check` finds out if the topic can be written: the cluster must answer, have the
topic, and support record headers if they are needed. Brokers before Kafka 0.11 have no headers, and librdkafka drops
them silently. These brokers have no idempotent producers either, so an idempotent producer shows the lack. The first
message is sent alone: if it is refused, nothing was written.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import click
from confluent_kafka import KafkaError, KafkaException, Producer

from proxy.command_line import ending_signals
from proxy.wire.embedded.logs import LOGS
from recorder.export.message import Message
from recorder.export.refused import CantExport, PartlyExported

# Seconds to wait for a cluster's answer; a new connection with a login takes less than two. An interrupted export waits
# as long for the answers to its messages.
PATIENCE = 15.0
# Seconds until every broker knows a new topic; also the longest wait for one answer before the errors are looked at.
_NEWS = 2.0
# The most existing topics that the error for a missing topic names.
_NAMED = 10
_POLL = 0.1
DEFAULTS: Mapping[str, Any] = {"client.id": "kafka-wiretap-export", "acks": "all", "message.timeout.ms": 60_000}
_WRITABLE = "Assigned"
# code of librdkafka's error -> its meaning, with a place for the address, and the setting that would be right
_REFUSALS: Mapping[int, tuple[str, str]] = {
    KafkaError._AUTHENTICATION: (
        "{} refuses the login",
        "sasl.mechanism, sasl.username and sasl.password of a user that it knows",
    ),
    KafkaError._SSL: (
        "no TLS with {}",
        "ssl.ca.location, the file of the authority that signed its certificate",
    ),
}
_RIGHT_SETTING = "right would be a setting of librdkafka's, as --producer acks=all"


@dataclass(slots=True)
class Publisher:
    """Publishes to one topic. `settings`: the user's settings of librdkafka. `with_headers`: messages need headers."""

    bootstrap: str
    topic: str
    settings: Mapping[str, str] = field(default_factory=dict)
    with_headers: bool = True
    _producer: Any = None
    _state: str = ""
    _trouble: Any = None
    _delivered: Counter[int] = field(default_factory=Counter)
    _interrupted: Event = field(default_factory=Event)

    def check(self) -> None:
        """Connects. Errors: CantExport if the topic can't be written; KeyboardInterrupt."""
        try:
            with self._interrupts_noted():
                self._connect()
        except KafkaException as error:
            raise CantExport(self._why(error.args[0])) from None
        except (AttributeError, TypeError, ValueError) as error:  # raised for settings that are no text
            raise CantExport(f"{error}: {_RIGHT_SETTING}") from None

    def publish(self, messages: Sequence[Message]) -> Mapping[int, int]:
        """Writes all messages. Returns the number of messages by partition.

        Errors: CantExport if nothing was written, PartlyExported if some messages were; KeyboardInterrupt if an
        interrupt came before any message was written.
        """
        try:
            with self._interrupts_noted():
                for some in (messages[:1], messages[1:]):
                    self._send(some)
        except KeyboardInterrupt:
            unanswered = self._stop()
            if not self._delivered and not unanswered:
                raise
            raise self._partly(len(messages), "it was interrupted", at_least=bool(unanswered)) from None
        except KafkaException as error:
            self._producer.purge()
            raise self._ended(len(messages), error.args[0]) from None
        return dict(sorted(self._delivered.items()))

    def _connect(self) -> None:
        # without a logger, librdkafka writes to standard error
        quiet = logging.getLogger("kafka-wiretap.export")
        quiet.propagate = False
        quiet.addHandler(logging.NullHandler())
        self._producer = Producer(self._all_settings(), logger=quiet)
        self._await_topic()
        if self.with_headers:
            self._await_headers()

    def _await_topic(self) -> None:
        """Waits until the topic is known. Asks for all topics, because a request for one topic may create it."""
        topics = self._first_topics()
        until = time.monotonic() + _NEWS
        while self.topic not in topics:
            if time.monotonic() > until:
                there = "" if self._is_anonymous() else ", or none that this login may see"
                raise CantExport(f"{self.bootstrap} has no topic {self.topic}{there}; right would be {_some(topics)}")
            self._heed_interrupts()
            self._producer.poll(_POLL)
            topics = self._producer.list_topics(timeout=PATIENCE).topics
        if topics[self.topic].error is not None:
            raise KafkaException(topics[self.topic].error)

    def _first_topics(self) -> Any:
        """The topics, once a broker has answered. Gives up at once if a broker refuses the login or the TLS."""
        until = time.monotonic() + PATIENCE
        while True:
            self._heed_interrupts()
            try:
                return self._producer.list_topics(timeout=min(_NEWS, PATIENCE)).topics
            except KafkaException:
                self._producer.poll(0)
                if self._is_refused() or time.monotonic() > until:
                    raise

    def _is_refused(self) -> bool:
        return self._trouble is not None and self._trouble.code() in _REFUSALS

    def _is_anonymous(self) -> bool:
        return not self.settings.get("security.protocol", "").lower().startswith("sasl")

    def _all_settings(self) -> dict[str, Any]:
        fixed = {"bootstrap.servers": self.bootstrap, "error_cb": self._on_error}
        if self.with_headers:
            fixed |= {"enable.idempotence": True, "stats_cb": self._on_statistics, "statistics.interval.ms": 100}
        return {**DEFAULTS, **self.settings, **fixed}

    def _await_headers(self) -> None:
        """Waits until the broker has assigned a producer id; brokers without headers can't do that."""
        until = time.monotonic() + PATIENCE
        while self._state != _WRITABLE:
            self._heed_interrupts()
            self._producer.poll(_POLL)
            if self._trouble is not None and self._trouble.fatal():
                raise KafkaException(self._trouble)
            if time.monotonic() > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no producer id came"))

    def _on_statistics(self, statistics: str) -> None:
        self._state = json.loads(statistics).get("eos", {}).get("idemp_state", "")

    def _on_error(self, error: Any) -> None:
        # "all brokers are down" follows the error of the last broker, and says less
        if self._trouble is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._trouble = error

    def _send(self, messages: Iterable[Message]) -> None:
        refused: list[Any] = []

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                self._delivered[message.partition()] += 1
            else:
                refused.append(error)

        for one in messages:
            self._produce(one, on_delivery)
        self._finish()
        if refused:
            raise KafkaException(refused[0])

    def _produce(self, one: Message, on_delivery: Callable[[Any, Any], None]) -> None:
        self._heed_interrupts()
        headers = [*one.headers] or None
        try:
            self._producer.produce(self.topic, one.value, one.key, headers=headers, on_delivery=on_delivery)
        except BufferError:  # the user's setting allows a shorter queue than there are findings
            self._finish()
            self._producer.produce(self.topic, one.value, one.key, headers=headers, on_delivery=on_delivery)

    def _finish(self) -> None:
        """Waits until each message is delivered or refused, in short turns, so that Ctrl-C ends the wait."""
        while self._producer.flush(_POLL):
            self._heed_interrupts()

    @contextmanager
    def _interrupts_noted(self) -> Iterator[None]:
        """A context that only notes Ctrl-C and its like: an exception would break a callback of librdkafka."""
        numbers = ending_signals()
        before = [signal.signal(number, lambda *_: self._interrupted.set()) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _heed_interrupts(self) -> None:
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def _why(self, error: Any) -> str:
        if error.code() == KafkaError._UNSUPPORTED_FEATURE:
            return f"{self.bootstrap} has no record headers (before Kafka 0.11): right would be --mode structured"
        if error.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            if self._producer is not None:
                self._producer.poll(0)
            if self._is_refused():
                said, right = _REFUSALS[self._trouble.code()]
                return f"{said.format(self.bootstrap)}: {self._trouble.str()}; right would be {right}"
            trouble = f" ({self._trouble.str()})" if self._trouble is not None else ""
            return f"no broker answers at {self.bootstrap}{trouble}; right would be --bootstrap HOST:PORT of one"
        if error.code() == KafkaError._INVALID_ARG:
            return f"{error.str()}: {_RIGHT_SETTING}"
        return f"{self.topic} can't be written: {error.str()}"

    def _ended(self, wanted: int, error: Any) -> click.ClickException:
        if not self._delivered:
            return CantExport(f"nothing was published: {self._why(error)}")
        return self._partly(wanted, error.str())

    def _stop(self) -> int:
        """Drops unsent messages and waits for the answers to the others. Returns the number of missing answers."""
        self._producer.purge(in_flight=False)
        until = time.monotonic() + PATIENCE
        while (unanswered := self._producer.flush(_POLL)) and time.monotonic() < until:
            pass
        return int(unanswered)

    def _partly(self, wanted: int, why: str, *, at_least: bool = False) -> PartlyExported:
        done = f"{'at least ' if at_least else ''}{sum(self._delivered.values())} of {wanted}"
        again = "exporting again is safe, since events keep their ids"
        return PartlyExported(f"{done} events were published to {self.topic}, then: {why}; {again}")


def _some(topics: Iterable[str]) -> str:
    """The advice for a missing topic, with some of the existing topics; Kafka's internal topics are left out."""
    names = sorted({*topics} - LOGS.keys())
    if not names:
        return "to create it first"
    return f"to create it, or {', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''}"
