"""Made requests that a recorded request needs: each is made once, and again with growing pauses if its error may pass.

A room asks with a key for what it lacks. `ask` returns what the room gives to the engine: the made request at first, a
`Hold` while it is in flight, a `Withheld` once the target has refused it for good.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from proxy.wire import kafka_error
from recorder.replay.plan import AskFirst, Hold, MadeRequest, NotSent, Reason, Values, Withheld

# as for retriable errors of recorded requests
FIRST_PAUSE = 20 * 10**6
# longer pauses would not help: `--wait` would end before the next try
LONGEST_PAUSE = 10**9
# Keys that are remembered. The oldest are forgotten: a hostile target could refuse any number of requests.
_MOST = 10_000
# the error of the other partitions where one could not be added, whose own error tells the cause
_OPERATION_NOT_ATTEMPTED = 55

Done = Callable[[Values | None], None]


@dataclass
class _Attempt:
    at: int
    pause: int = FIRST_PAUSE
    is_under_way: bool = True
    error: str | None = None


class PendingRequests:
    """The made requests of one room that have not succeeded yet."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, _Attempt] = {}

    def ask(
        self,
        key: Hashable,
        now: int,
        reason: Reason,
        make: Callable[[Done], MadeRequest],
        learn: Callable[[Values], None],
        fail: Callable[[int], None] = lambda code: None,
    ) -> NotSent:
        """Why a recorded request that lacks a value is not sent.

        Args:
            key: the value that it lacks.
            reason: for which it is withheld if the target never gives the value.
            make: the made request, which calls a function with its answer.
            learn: called with an answer without error; `fail`: called with an error that will not pass.
        """
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Attempt(now)
            if len(self._asked) > _MOST:
                del self._asked[next(iter(self._asked))]
        elif asked.error is not None:
            return Withheld(reason, asked.error)
        elif asked.is_under_way or now < asked.at + asked.pause:
            return Hold(reason)
        else:
            asked.at, asked.pause = now, min(2 * asked.pause, LONGEST_PAUSE)
        asked.is_under_way = True
        return AskFirst((make(lambda answer: self._done(key, asked, answer, learn, fail)),))

    def forget(self, key: Hashable) -> None:
        """Forgets that a key was asked for."""
        self._asked.pop(key, None)

    def _done(
        self,
        key: Hashable,
        asked: _Attempt,
        answer: Values | None,
        learn: Callable[[Values], None],
        fail: Callable[[int], None],
    ) -> None:
        asked.is_under_way = False
        if self._asked.get(key) is not asked or answer is None:
            return
        error = kafka_error(first_error(answer))
        if not error.code:
            del self._asked[key]
            learn(answer)
        elif not error.retriable:
            asked.error = error.name
            fail(error.code)


def first_error(answer: Values) -> int:
    """The error of an answer to a made request; 0: none."""
    codes = [code for code in _errors(answer) if code]
    return next((code for code in codes if code != _OPERATION_NOT_ATTEMPTED), codes[0] if codes else 0)


def _errors(answer: Values) -> Iterator[int]:
    yield answer.get("error_code") or 0
    for topic in answer.get("results_by_topic_v3_and_below") or ():
        for partition in topic["results_by_partition"]:
            yield partition["partition_error_code"]
