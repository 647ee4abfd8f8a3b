"""Made requests that someone waits for: each is made once, and again with growing pauses while its error may pass.

The rooms ask with a key that says what they lack. The answer to `ask` is what they hand on to the engine: the made
request the first time, to be held while it is under way, to be withheld once the target has refused it for good.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from proxy.wire import kafka_error
from recorder.replay.plan import Hold, Made, Needs, Reason, Refusal, Values, Withheld

# As for retriable errors of the recorded requests.
FIRST_PAUSE = 20 * 10**6
# Longer ones would only delay the end of `--wait`.
LONGEST_PAUSE = 10**9
# What nobody asks for any more is forgotten: failures of a hostile target.
_MOST = 10_000
# Of the other partitions, where one could not be added: the cause stands at that one.
_OPERATION_NOT_ATTEMPTED = 55

Done = Callable[[Values | None], None]


@dataclass
class _Asked:
    at: int
    pause: int = FIRST_PAUSE
    is_under_way: bool = True
    error: str | None = None


class Asking:
    """The made requests of one room that have not succeeded yet."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, _Asked] = {}

    def ask(
        self,
        key: Hashable,
        now: int,
        reason: Reason,
        make: Callable[[Done], Made],
        learn: Callable[[Values], None],
        fail: Callable[[int], None] = lambda code: None,
    ) -> Refusal:
        """What a request that lacks something gets.

        Args:
            key: what it lacks.
            reason: for which it is withheld if it is never given.
            make: the made request that tells its answer to a function.
            learn: told the answer that has no error; `fail`: told the error that will not pass.
        """
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Asked(now)
            if len(self._asked) > _MOST:
                del self._asked[next(iter(self._asked))]
        elif asked.error is not None:
            return Withheld(reason, asked.error)
        elif asked.is_under_way or now < asked.at + asked.pause:
            return Hold(reason)
        else:
            asked.at, asked.pause = now, min(2 * asked.pause, LONGEST_PAUSE)
        asked.is_under_way = True
        return Needs((make(lambda answer: self._done(key, asked, answer, learn, fail)),))

    def forget(self, key: Hashable) -> None:
        """Lets it be asked for as if it never had been."""
        self._asked.pop(key, None)

    def _done(
        self,
        key: Hashable,
        asked: _Asked,
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
    """The error that an answer to a made request has; 0: none."""
    codes = [code for code in _errors(answer) if code]
    return next((code for code in codes if code != _OPERATION_NOT_ATTEMPTED), codes[0] if codes else 0)


def _errors(answer: Values) -> Iterator[int]:
    yield answer.get("error_code") or 0
    for topic in answer.get("results_by_topic_v3_and_below") or ():
        for partition in topic["results_by_partition"]:
            yield partition["partition_error_code"]
