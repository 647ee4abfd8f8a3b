"""What is done with the requests of one API and version: a plan that is made once, and looked up for each exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from proxy.wire.apis import name_or_key
from proxy.wire.keys import END_TXN
from recorder.replay.comparison.compare import reason_apart
from recorder.replay.comparison.unchanged import names_nothing
from recorder.replay.mapping import ValueKind
from recorder.replay.options import Options
from recorder.replay.outcome import ApiCounts, Latency, Result
from recorder.replay.plan import Exchange, NotSent, Reason, Resend, Values
from recorder.replay.requests import apis
from recorder.replay.requests.apis import CHANGES_TOPICS, LONG_POLLS, NOTED_WHEN_DUE, OF_SESSIONS, Treatment, treatment
from recorder.replay.translator import Translator
from recorder.replay.versions import choosing

Request = Callable[[Exchange, Values, int], NotSent | None]
Sent = Callable[[Exchange, Values, int], None]
Answered = Callable[[Exchange, Values, Values, int], Resend | None]
Lost = Callable[[Exchange, Values | None], None]


@dataclass(eq=False, slots=True)
class Route:
    """The plan for one API and version.

    Attributes:
        refusal: why such requests are never sent; None: they may be.
        is_regenerated: each connection of the replay makes its own.
        may_be_refused: for its values or for what it deletes; `is_deletion`: it deletes.
        requests, sents, answereds, losts: of those translators that have something to say, in their order.
        is_of_sessions: its requests and answers differ by node.
        is_poll: it says how long the target may wait for records.
        writes: it changes something on the cluster.
        awaits_recording: its recorded answer should be known when it leaves: it is a long poll, or it writes.
        is_noted_when_due: the groups room uses it once it is due.
        changes_topics, makes_topics: it creates, deletes or enlarges topics; it creates or enlarges them.
        is_answered_plainly: an answer in the recorded version is the recorded client's without a change.
        apart: why the latencies of its exchanges count apart (`compare.reason_apart`); None: their answers tell.
        latencies: those counted, by that reason.
        names_nothing: no field of the answer holds a value that the target assigned or a name that it changes.
        result: counts what is found; `counted`: the API's counts, once something was counted.
    """

    api_key: int
    version: int
    name: str
    result: Result
    refusal: Reason | None
    is_regenerated: bool
    may_be_refused: bool
    is_deletion: bool
    requests: tuple[Request, ...]
    sents: tuple[Sent, ...]
    answereds: tuple[Answered, ...]
    losts: tuple[Lost, ...]
    is_of_sessions: bool
    is_poll: bool
    writes: bool
    awaits_recording: bool
    is_noted_when_due: bool
    changes_topics: bool
    makes_topics: bool
    is_answered_plainly: bool
    names_nothing: bool
    is_of_transactions: bool
    apart: str | None
    latencies: dict[str, Latency] = field(default_factory=dict)
    counted: ApiCounts | None = None
    _offered: range | None = None
    _newest: int | None = None
    _chosen: int | None = None

    @property
    def counts(self) -> ApiCounts:
        """The counts of the API."""
        if self.counted is None:
            self.counted = self.result.api(self.name)
        return self.counted

    def chosen(self, offered: range | None, newest: int | None) -> int | None:
        """The version in which requests are sent; None if there is none. See `choosing.version_to_send`."""
        # a node's versions are one object until it is dialled again
        if offered is not self._offered or newest != self._newest:
            self._offered, self._newest = offered, newest
            self._chosen = choosing.version_to_send(self.api_key, self.version, offered, newest=newest)
        return self._chosen


class Routes:
    """The routes of one replay.

    Args:
        translators: in the order in which they are asked.
        same: the kinds of names that are the same on both sides.
    """

    def __init__(
        self, options: Options, translators: Iterable[Translator], result: Result, same: frozenset[ValueKind]
    ) -> None:
        self._options, self._translators, self._result, self._same = options, tuple(translators), result, same
        self._found: dict[tuple[int, int], Route] = {}

    def of(self, exchange: Exchange) -> Route:
        """The route of an exchange."""
        key = exchange.api_key, exchange.version
        return self._found.get(key) or self._find(*key)

    def _find(self, api_key: int, version: int) -> Route:
        concerned = [one for one in self._translators if one.concerns(api_key, version)]
        found = self._found[api_key, version] = Route(
            api_key,
            version,
            name_or_key(api_key),
            self._result,
            refusal=apis.forbidden(self._options, api_key, version),
            is_regenerated=treatment(api_key) is Treatment.OWN,
            may_be_refused=apis.may_be_refused(api_key),
            is_deletion=treatment(api_key) is Treatment.DELETES,
            requests=tuple(one.request for one in concerned if _says(one, "request")),
            sents=tuple(one.sent for one in concerned if _says(one, "sent")),
            answereds=tuple(one.answered for one in concerned if _says(one, "answered") and one.learns(api_key)),
            losts=tuple(one.lost for one in concerned if _says(one, "lost")),
            is_of_sessions=api_key in OF_SESSIONS,
            is_poll=api_key in LONG_POLLS,
            writes=apis.writes(api_key),
            awaits_recording=api_key in LONG_POLLS or apis.writes(api_key),
            is_noted_when_due=api_key in NOTED_WHEN_DUE,
            changes_topics=api_key in CHANGES_TOPICS,
            makes_topics=api_key in CHANGES_TOPICS and treatment(api_key) is not Treatment.DELETES,
            is_answered_plainly=api_key not in OF_SESSIONS | {END_TXN},
            names_nothing=names_nothing(api_key, version, self._same),
            is_of_transactions=api_key in choosing.TRANSACTIONS_V2,
            apart=None if api_key in LONG_POLLS else reason_apart(api_key, None, None),
        )
        return found


def _says(translator: Translator, method: str) -> bool:
    return getattr(type(translator), method) is not getattr(Translator, method)
