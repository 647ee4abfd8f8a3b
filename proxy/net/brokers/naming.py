"""How long no answer has named a node: after a while, the node's listener is given back.

Brokers in pods come with ever new ids, and each id takes a listener. An answer that lists all nodes of a cluster
(Metadata, DescribeCluster) shows which of them are gone. So time counts only from one such answer to the next: while
Metadata fails, no answer names anything, and no node may be forgotten for that.

The proxy asks for the nodes itself when no client has done so for `question_seconds`. If it gets no answer, the time
since the last one does not count. Where brokers demand a login, only clients' answers count, and of the time between
two of them `longest_gap` at most.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

# the part of the time until a node is forgotten after which the proxy asks for the nodes itself. An hour makes it five
# minutes, which is how often clients ask (metadata.max.age.ms)
QUESTION_PART = 1 / 12
# seconds; more questions would show nothing new
SHORTEST_QUESTION = 1.0
# the longest gap between answers that counts, in questions: one of them may be lost
GAP_QUESTIONS = 2


class Naming:
    """The nodes of one cluster that answers have named, and when. `forget_seconds`: after these, a node is unnamed.

    question_seconds: the time without an answer after which the proxy asks itself.
    """

    def __init__(self, forget_seconds: float, node_ids: Iterable[int] = ()) -> None:
        self._forget_seconds = forget_seconds
        self.question_seconds = max(forget_seconds * QUESTION_PART, SHORTEST_QUESTION)
        # seconds that lie between answers which list all nodes
        self._counted = 0.0
        self._listed_at: float | None = None
        # node id -> the counted seconds when it was named last, in this order
        self._named_at: dict[int, float] = dict.fromkeys(node_ids, 0.0)

    @property
    def longest_gap(self) -> float:
        """The part of the time between two answers that counts, at most."""
        return self.question_seconds * GAP_QUESTIONS

    @property
    def was_listed(self) -> bool:
        """True if an answer has listed all nodes within `question_seconds`."""
        return self._listed_at is not None and trio.current_time() - self._listed_at < self.question_seconds

    def count_list(self) -> None:
        """Counts an answer that lists all nodes."""
        now = trio.current_time()
        if self._listed_at is not None:
            self._counted += min(now - self._listed_at, self.longest_gap)
        self._listed_at = now

    def count_failure(self) -> None:
        """Counts a question for all nodes that has no answer: the time up to the next answer does not count."""
        self._listed_at = None

    def name(self, node_id: int) -> None:
        """An answer names this node."""
        self._named_at.pop(node_id, None)
        self._named_at[node_id] = self._counted

    def forget(self, node_id: int) -> None:
        """Forgets a node."""
        self._named_at.pop(node_id, None)

    @property
    def longest_unnamed(self) -> list[int]:
        """All nodes; those first that were not named for longest."""
        return [*self._named_at]

    @property
    def unnamed(self) -> list[int]:
        """The nodes that no answer has named for `forget_seconds`."""
        return [node_id for node_id, at in self._named_at.items() if self._counted - at >= self._forget_seconds]
