"""All connections to the target: opens channels for lanes, writes requests to them, gives answers to their senders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from proxy.wire.errors import WireError
from recorder.replay.cluster import Cluster
from recorder.replay.engine.channels import Action, Channel, Close, Load, Open, OutgoingRequest
from recorder.replay.engine.item import Lane
from recorder.replay.plan import OfferedVersions, Values
from recorder.replay.requests.apis import TELLS_CLUSTER
from recorder.replay.requests.retries import next_pause

Told = Callable[[int, int, Values], None]


class Links:
    """The channels of one replay.

    Args:
        gone: called with lane and node of each channel that ended unasked, before the senders of its requests hear of
            it.
        told: called with node, API key and values of each answer that may tell the cluster's id, before its sender
            hears of it.
    """

    def __init__(self, cluster: Cluster, gone: Callable[[Lane, int], None], told: Told) -> None:
        self._cluster, self._gone, self._told = cluster, gone, told
        self._actions: list[Action] = []
        self._channels: dict[int, tuple[Lane, Channel]] = {}
        self._numbers = count(1)
        # nodes that can't be dialled -> since when
        self._unreached: dict[int, int] = {}

    def actions(self) -> list[Action]:
        """The actions to take, in this order. Each is returned once."""
        found, self._actions = self._actions, []
        return found

    def load(self, action: Load | None) -> None:
        """Adds the action that reads frames from the capture again, if there is one."""
        if action is not None:
            self._actions.append(action)

    def channel(self, lane: Lane, node: int, principal: str | None, now: int) -> Channel | None:
        """The lane's channel to a node, opened if need be.

        None: the node's address is unknown, or a failed dial pauses.
        """
        found = lane.channels.get(node)
        address = self._cluster.nodes.get(node)
        if found is None and address is not None and now >= lane.dials.get(node, (0, now))[1]:
            found = lane.channels[node] = Channel(next(self._numbers), node, principal)
            self._channels[found.number] = lane, found
            self._actions.append(Open(found.number, node, *address, principal))
        return found

    def is_gone(self, node: int, now: int, wait: int) -> bool:
        """True if a node could not be dialled for so long (ns)."""
        return now - self._unreached.get(node, now) >= wait

    def are_all_gone(self, now: int, wait: int) -> bool:
        """True if no node could be dialled for so long (ns)."""
        nodes = self._cluster.nodes
        return bool(nodes) and all(self.is_gone(node, now, wait) for node in nodes)

    def write(self, channel: Channel, out: OutgoingRequest, now: int) -> None:
        """Sends a request now, or once its channel is open. Errors: WireError for values that can't be written."""
        action = channel.send(out, now)
        if action is not None:
            self._actions.append(action)

    def hang_up(self, lane: Lane, *, only_unopened: bool = False) -> None:
        """Closes the channels of a lane; with `only_unopened`, those that are not open yet."""
        for channel in [each for each in lane.channels.values() if not (only_unopened and each.is_open)]:
            self._channels.pop(channel.number, None)
            self._actions.append(Close(channel.number))
            del lane.channels[channel.node]

    def opened(self, number: int, offered: OfferedVersions, now: int) -> Lane | None:
        """A channel is open, logged in, and its node has said which versions it has. Returns its lane."""
        if number not in self._channels:
            return None
        lane, channel = self._channels[number]
        self._cluster.offered[channel.node] = offered
        lane.dials.pop(channel.node, None)
        self._unreached.pop(channel.node, None)
        self._actions += channel.open(now)
        return lane

    def wrote(self, number: int, count: int, now: int) -> None:
        """The first bytes of `count` more requests of a channel have left."""
        if number not in self._channels:
            return
        channel = self._channels[number][1]
        begun, channel.written = channel.written[:count], channel.written[count:]
        for out in begun:
            out.sender.left(out.given_at, now)
            if not out.awaits:
                out.sender.answered(None, None, now)

    def received(self, number: int, frames: Iterable[bytes], now: int) -> None:
        """Frames arrived. One that answers no request, or can't be read, ends its channel. Errors: those of `told`."""
        for frame in frames:
            if number not in self._channels:
                return
            channel = self._channels[number][1]
            try:
                received = channel.receive(frame)
            except WireError:
                self._actions.append(Close(number))
                self.closed(number, now)
                return
            if received is not None:
                out, values = received
                if out.api_key in TELLS_CLUSTER:
                    self._told(channel.node, out.api_key, values)
                out.sender.answered(values, frame, now)

    def closed(self, number: int, now: int) -> Lane | None:
        """A channel was closed, or could not be opened. Returns its lane."""
        if number not in self._channels:
            return None
        lane, channel = self._channels.pop(number)
        if lane.channels.get(channel.node) is channel:
            del lane.channels[channel.node]
        if not channel.is_open:
            pause = next_pause(lane.dials.get(channel.node, (0, 0))[0])
            lane.dials[channel.node] = pause, now + pause
            self._unreached.setdefault(channel.node, now)
        self._gone(lane, channel.node)
        lost, unsent = channel.cut()
        for out in lost:
            out.sender.answered(None, None, now)
        for out in unsent:
            out.sender.unsent(now)
        return lane
