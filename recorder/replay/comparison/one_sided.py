"""Commits that one cluster alone has taken: after such a commit a group's offsets differ as its consequence.

the commit                                             its partitions, until both clusters take a commit of them
-----------------------------------------------------------------------------------------------------------------
one cluster took it, the other refused it; a           consequences: of an answer to OffsetFetch only errors are
  difference of its own                                  compared, and it may name them on one side alone
the recorded cluster took it, the target never         the same: the report counts the commit as withheld, or lost
  answered it
one cluster took it, the other answered with an        nothing follows: a client commits again (`tolerated`)
  error that passes
both refused it, or the recorded answer is missing     as before
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from proxy.wire.errors import WireError
from proxy.wire.keys import OFFSET_FETCH
from recorder.replay import partitions
from recorder.replay.comparison.terms import EnclosingNames
from recorder.replay.comparison.tolerated import NO_ERROR, are_alike
from recorder.replay.names import Names
from recorder.replay.partitions import Topic, TopicPartition
from recorder.replay.plan import Exchange, Values
from recorder.replay.requests.apis import COMMITS
from recorder.replay.translator import Translator


class OneSidedCommits(Translator):
    """The groups' partitions whose last commit one cluster alone has taken. A translator, which changes nothing."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._places: set[tuple[str, TopicPartition]] = set()

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room looks at."""
        return api_key in COMMITS

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Both clusters have answered a commit."""
        group = exchange.request["group_id"]
        recorded = partitions.errors(exchange.api_key, exchange.answer, self._names.topic)
        target = partitions.errors(exchange.api_key, answer, self._names.recorded_topic)
        for place in recorded.keys() & target.keys():
            codes = recorded[place], target[place]
            if codes == (NO_ERROR, NO_ERROR):
                self._places.discard((group, place))
            elif NO_ERROR in codes and not are_alike(exchange.api_key, *codes):
                self._places.add((group, place))

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """The target did not get a commit, or did not answer it."""
        # a commit that can't be read names no group
        with suppress(WireError):
            group = exchange.request["group_id"]
            recorded = partitions.errors(exchange.api_key, exchange.answer, self._names.topic)
            for each in partitions.in_request(exchange.api_key, exchange.request):
                topic = self._names.topic(each.topic)
                # if the recorded answer is not read yet, it counts as taken, as most commits are
                if topic is not None and recorded.get((topic, each.partition), NO_ERROR) == NO_ERROR:
                    self._places.add((group, (topic, each.partition)))

    def consequences(self, exchange: Exchange, answer: Values) -> frozenset[EnclosingNames]:
        """The partitions in the answers to an OffsetFetch whose offsets follow from such a commit.

        Each is there under all names that its topic has in the two answers.
        """
        if exchange.api_key != OFFSET_FETCH or not self._places:
            return frozenset()
        told = [*_told(exchange.answer or {}, str, self._names.topic)]
        told += _told(answer, self._names.recorded, self._names.recorded_topic)
        # a comparison names the partitions of both answers by the topic's name or id in the recorded one
        called: dict[str, set[Topic]] = {}
        for each in told:
            called.setdefault(each.place[0], set()).add(each.topic)
        asked = exchange.request.get("group_id", "")
        return frozenset(
            EnclosingNames(group=each.group, topic=topic, partition=each.place[1])
            for each in told
            if (each.group or asked, each.place) in self._places
            for topic in called[each.place[0]]
        )


class _ToldOffset(NamedTuple):
    """An offset in an answer to OffsetFetch.

    Attributes:
        group: its recorded name; None if the answer names none.
        topic: its name or id in the answer; `place`: with its recorded name.
    """

    group: str | None
    topic: Topic
    place: TopicPartition


def _told(answer: Values, group: Callable[[str], str], name: Callable[[Topic], str | None]) -> Iterator[_ToldOffset]:
    """The offsets in an answer. `group`, `name`: the recorded name of a group, and of a topic."""
    for each in partitions.in_answer(OFFSET_FETCH, answer):
        own, named = each.around.around[-1].get("group_id"), name(each.topic)
        if named is not None:
            yield _ToldOffset(None if own is None else group(own), each.topic, (named, each.partition))
