"""The settings of what is read from the traffic beside the proxy: metrics by topic, client and group; who may look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from proxy.schema.keys import Key
from proxy.schema.kinds import COUNT, FILE

_OFF = "not counted"


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What a process beside the proxy reads from the traffic. It runs only if a setting here asks for it.

    `topics`, `clients`, `groups`: the most values of the label. `token_file`: holds what `top` must show.
    """

    topics: Annotated[
        int | None,
        Key(
            COUNT,
            "topics",
            "Metrics by topic, of this many topics at most. Further ones count as `other`.",
            1000,
            unset=_OFF,
        ),
    ] = None
    clients: Annotated[
        int | None,
        Key(
            COUNT,
            "clients",
            "Metrics by client id, and by client software, of this many each at most. Further ones count as `other`.",
            1000,
            unset=_OFF,
        ),
    ] = None
    groups: Annotated[
        int | None,
        Key(
            COUNT,
            "groups",
            "Offsets and lag by group, topic and partition, of this many partitions of groups at most. Further ones "
            "are left out and counted.",
            10_000,
            unset=_OFF,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        Key(
            FILE,
            "token_file",
            "Who shows the text in this file may look at the traffic with `kafka-wiretap top`, from this machine, by "
            "the address of `metrics`.",
            "/etc/wiretap/token",
            unset="nobody may",
        ),
    ] = None

    @property
    def is_asked_for(self) -> bool:
        """True if a setting asks for the process."""
        return any(value is not None for value in (self.topics, self.clients, self.groups, self.token_file))
