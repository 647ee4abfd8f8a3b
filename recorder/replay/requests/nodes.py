"""The nodes of the target that stand for a recorded one.

By rank of id, recorded node i of R stands for target node i mod T; where the target has more nodes, for all j with
j mod R = i. So every recorded node has a target node, and every target node a recorded one, whatever the sizes of the
two clusters. `--node` overrides this for single nodes; then a target node may stand for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from proxy.wire.catalog import CACHE_SIZE
from recorder.replay.cluster import Cluster


class Nodes:
    """The pairs of nodes. `recorded`: ids of recorded nodes.

    `chosen`: recorded id -> target's id, before the rule of ranks.

    Attributes:
        of: recorded node, the target's nodes, which seldom change -> what `stand_ins` tells.
    """

    def __init__(self, recorded: Iterable[int], chosen: Mapping[int, int]) -> None:
        self._ranks = {node: rank for rank, node in enumerate(sorted({*recorded}))}
        self._chosen = chosen
        self.of = lru_cache(CACHE_SIZE)(self._found)

    def knows(self, recorded: int) -> bool:
        """True for a node of the recording."""
        return recorded in self._ranks or recorded in self._chosen

    def stand_ins(self, recorded: int | None, cluster: Cluster) -> tuple[int, ...]:
        """The target's nodes for a recorded one; () if the target lacks the chosen one, or no node is known yet.

        For a node that the recording does not know (None, or an id that only a request names), the target's first node.
        """
        return self.of(recorded, tuple(cluster.nodes))

    def _found(self, recorded: int | None, nodes: tuple[int, ...]) -> tuple[int, ...]:
        targets = sorted(nodes)
        if recorded is not None and recorded in self._chosen:
            chosen = self._chosen[recorded]
            return (chosen,) if chosen in nodes else ()
        if recorded not in self._ranks:
            return tuple(targets[:1])
        rank, recorded_nodes = self._ranks[recorded], len(self._ranks)
        if len(targets) <= recorded_nodes:
            return (targets[rank % len(targets)],) if targets else ()
        return tuple(targets[rank::recorded_nodes])

    def replicas(self, recorded: Iterable[int], cluster: Cluster) -> list[int]:
        """The target's nodes for a partition's replicas: as many as recorded, or as the target has.

        If two recorded replicas have the same node, the target's next node replaces the second one: all partitions of a
        topic must have the same number of replicas.
        """
        wanted = [*dict.fromkeys(recorded)]
        found = dict.fromkeys(node for each in wanted for node in self._replica(each, cluster))
        targets = sorted(cluster.nodes)
        start = targets.index(next(iter(found))) if found and next(iter(found)) in targets else 0
        for node in targets[start:] + targets[:start]:
            if len(found) >= len(wanted):
                break
            found.setdefault(node)
        return [*found]

    def _replica(self, recorded: int, cluster: Cluster) -> tuple[int, ...]:
        return self.stand_ins(recorded, cluster)[:1] if self.knows(recorded) else (recorded,)
