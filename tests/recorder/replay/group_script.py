"""Passes single exchanges through the translator of groups, without a coordinator."""

from __future__ import annotations

from recorder.replay.cluster import Cluster
from recorder.replay.groups.groups import Groups
from recorder.replay.mapping import Pairs
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.plan import Exchange, MadeRequest, NotSent, Resend, Values
from tests.recorder.replay.group_clients import answer_to, like_recorded, recorded

GROUP = "g"
JOIN = {
    "group_id": GROUP,
    "session_timeout_ms": 9000,
    "rebalance_timeout_ms": 60_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"m"}],
}


def joined(member: str, generation: int, leader: str, *others: str) -> Values:
    members = [{"member_id": one, "metadata": b"m"} for one in (member, *others)] if leader == member else []
    return {
        "error_code": 0,
        "generation_id": generation,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": leader,
        "member_id": member,
        "members": members,
    }


def refused(error: int, member: str = "") -> Values:
    return joined(member, -1, "") | {"error_code": error, "members": []}


class Script:
    """The engine's part for one exchange at a time. The test moves `now`."""

    def __init__(
        self, *, speed: float | None = 1.0, prefix: str = "", topics: dict[bytes, bytes] | None = None
    ) -> None:
        """`topics`: recorded topic id -> the target's."""
        cluster, names = Cluster(), {}
        for number, (source, target) in enumerate((topics or {}).items()):
            names[source] = f"topic-{number}"
            cluster.name_topic(prefix + names[source], target)
        self.groups = Groups(Pairs(), Names(prefix, names, cluster), Options(speed=speed, prefix=prefix))
        self.now = 0

    def asked(self, exchange: Exchange) -> tuple[NotSent | None, Values]:
        values = exchange.decoded()
        return self.groups.request(exchange, values, self.now), values

    def send(
        self, api_key: int, version: int, values: Values, answer: Values | None, connection: int = 1
    ) -> tuple[Exchange, Values]:
        """Sends a request whose recorded response is given; returns the sent values."""
        exchange = recorded(api_key, version, values, connection=connection)
        if answer is not None:
            answer_to(exchange, answer)
        self.groups.due(exchange)
        refusal, sent = self.asked(exchange)
        assert refusal is None, refusal
        self.groups.sent(exchange, sent, self.now)
        return exchange, sent

    def answer(self, exchange: Exchange, sent: Values, answer: Values) -> Resend | None:
        return self.groups.answered(exchange, sent, like_recorded(exchange, answer), self.now)

    def pass_by(
        self, api_key: int, version: int, values: Values, answer: Values, target: Values, connection: int = 1
    ) -> Values:
        """Plays a request with its recorded and its target's response; returns the sent values."""
        exchange, sent = self.send(api_key, version, values, answer, connection)
        assert self.answer(exchange, sent, target) is None
        return sent

    def join(
        self,
        member: str,
        target: str,
        *,
        generation: int = 1,
        on_target: int = 7,
        leader: str = "",
        elected: str = "",
        connection: int = 1,
    ) -> None:
        """Joins a member of version 5 with its ids: the recorded and the target's."""
        self.pass_by(11, 5, JOIN, refused(79, member), refused(79, target), connection)
        answer, found = joined(member, generation, leader or member), joined(target, on_target, elected or target)
        self.pass_by(11, 5, JOIN | {"member_id": member}, answer, found, connection)

    def made(self) -> list[MadeRequest]:
        return self.groups.tick(self.now)[0]
