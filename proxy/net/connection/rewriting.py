"""Rewrites a response that names brokers: held whole, or walked while it streams and rewritten at its end.

The rewrite room decides what is changed, and into what. This module collects the response's bytes and waits for the
listeners of the nodes that it names, which must be open before it leaves. Mostly there is nothing to wait for, and then
no task must be woken: so a rewrite is a generator, which yields what it has to wait for (`Waiting`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from proxy.config import ClusterSettings
from proxy.conversation import Cause, Edit, Exchange, FrameKind, Mark, Step
from proxy.mapping.nodes import Node
from proxy.net.brokers.nodes import Nodes
from proxy.net.limits.held_bytes import SMALL, HeldBytes, Holder, Share
from proxy.rewrite import addresses, api_versions, equal_length
from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH
from proxy.wire.keys import API_VERSIONS

# larger Fetch and share responses stream, so that a consumer does not wait for 50 MB to be complete
HOLD_WALKED_BELOW = 256 * 1024

T = TypeVar("T")
Wait = Callable[[], Awaitable[None]]
# yields what it has to wait for, is resumed after that wait, and returns its result
Waiting = Generator[Wait, None, T]


class TooLarge(Exception):
    """A response that must be held is over the limit."""


class NotRewritable(Exception):
    """A response that names brokers can't be rewritten; the message says why. `start`: of its piece in the stream."""

    def __init__(self, reason: Exception, exchange: Exchange, start: int) -> None:
        super().__init__(str(reason))
        self.exchange = exchange
        self.start = start


class Replacement(NamedTuple):
    """The bytes to send for a piece of a frame: its first `unchanged` bytes, then `instead` in place of the others."""

    unchanged: int
    instead: bytes


class FrameRewriter(Protocol):
    """Rewrites one response, which it is fed piece by piece."""

    def feed(self, piece: memoryview, *, last: bool) -> Waiting[Replacement]:
        """Takes a piece of the frame, length included. Raises WireError, TooLarge; OSError: no listener."""


def is_rewritten(api_key: int, api_version: int | None) -> bool:
    """True if responses of this API and version are rewritten. Version None (the dialect of 0.7): never."""
    return api_version is not None and (api_key == API_VERSIONS or addresses.carries(api_key, api_version))


def rewriter(
    exchange: Exchange, nodes: Nodes, share: Share, hold_limit: int, *, hide_unknown: bool = False
) -> FrameRewriter:
    """The rewriter for the response of an exchange for which `is_rewritten`.

    Args:
        share: accounts for the bytes that are held.
        hide_unknown: as in `api_versions.reduce`.

    Raises:
        TooLarge: the response must be held, and is larger than `hold_limit`.
    """
    key, version, size = exchange.api_key, exchange.api_version, exchange.response_size
    assert version is not None, "only what is_rewritten comes here"
    if addresses.walked(key, version) and size > HOLD_WALKED_BELOW:
        return WalkedRewriter(key, version, size, nodes, share, hold_limit)
    _check(size, hold_limit)
    return HeldRewriter(key, version, size, nodes, share, hide_unknown)


def _check(size: int, hold_limit: int) -> None:
    if size > hold_limit:
        raise TooLarge(f"{size} bytes of a response must be held, and the limit is {hold_limit}")


class HeldRewriter:
    """Waits for the whole frame, then splices."""

    def __init__(
        self, api_key: int, api_version: int, size: int, nodes: Nodes, share: Share, hide_unknown: bool
    ) -> None:
        self._api = api_key, api_version
        self._hide_unknown = hide_unknown
        self._size = size
        self._nodes = nodes
        self._share = share
        self._frame = bytearray()

    def feed(self, piece: memoryview, *, last: bool) -> Waiting[Replacement]:
        if last and not self._frame:
            return Replacement(0, (yield from self._whole(piece[LENGTH.size :])))
        if not self._frame:
            yield from _wait_for_share(self._share, self._size)
        self._frame += piece
        return Replacement(0, (yield from self._whole(memoryview(self._frame)[LENGTH.size :])) if last else b"")

    def _whole(self, frame: memoryview) -> Waiting[bytes]:
        key, version = self._api
        if key == API_VERSIONS:
            return api_versions.reduce(version, frame, hide_unknown=self._hide_unknown)
        cluster_id = addresses.cluster_in(key, version, frame)
        nodes = addresses.nodes_in(key, version, frame)
        yield from _wait_for_listeners(self._nodes, nodes, cluster_id)
        if not nodes:
            # as in most Produce responses: searching for addresses again would double the work
            return LENGTH.pack(len(frame)) + frame
        return addresses.splice(key, version, frame, self._nodes.advertised)


class WalkedRewriter:
    """Lets the frame through up to where the endpoints may stand, holds the rest, and rewrites it at equal length."""

    def __init__(self, api_key: int, api_version: int, size: int, nodes: Nodes, share: Share, hold_limit: int) -> None:
        self._api = api_key, api_version
        self._nodes = nodes
        self._share = share
        self._limit = hold_limit
        # bytes still to come: of the length, and of all
        self._length_left = LENGTH.size
        self._left = LENGTH.size + size
        self._walk = catalog.walk_response(api_key, api_version, equal_length.stop_of(api_key))
        self._tail: bytearray | None = None

    def feed(self, piece: memoryview, *, last: bool) -> Waiting[Replacement]:
        through = (yield from self._walk_on(piece)) if self._tail is None else 0
        self._left -= len(piece)
        if self._tail is not None:
            self._tail += piece[through:]
        if not last:
            return Replacement(through, b"")
        if self._tail is None:
            raise WireError("the frame ends before its fields do")
        return Replacement(through, (yield from self._rewritten(bytes(self._tail))))

    def _walk_on(self, piece: memoryview) -> Waiting[int]:
        """Walks over a piece: how much of it may leave. What stands behind that is the tail."""
        length = min(self._length_left, len(piece))
        self._length_left -= length
        stop = self._walk.feed(piece[length:]) if len(piece) > length else None
        if stop is None:
            return len(piece)
        tail = self._left - length - stop
        _check(tail, self._limit)
        yield from _wait_for_share(self._share, tail)
        self._tail = bytearray()
        return length + stop

    def _rewritten(self, tail: bytes) -> Waiting[bytes]:
        key, version = self._api
        yield from _wait_for_listeners(self._nodes, equal_length.nodes_in_tail(key, version, tail))
        return equal_length.rewrite_tail(key, version, tail, self._nodes.advertised)


def _wait_for_share(share: Share, size: int) -> Waiting[None]:
    if size > SMALL:
        yield partial(share.take, size)


def _wait_for_listeners(nodes: Nodes, named: Sequence[Node], cluster_id: str | None = None) -> Waiting[None]:
    if nodes.needs_ensure(named, cluster_id):
        yield partial(nodes.ensure, named, cluster_id)


class Rewriting:
    """Rewrites one connection's responses, one at a time. `holder`: the connection."""

    def __init__(self, nodes: Nodes, held: HeldBytes, holder: Holder, settings: ClusterSettings) -> None:
        self._nodes = nodes
        # the share of the one response that is being rewritten
        self._share = Share(held, holder)
        self._settings = settings
        self._rewriter: FrameRewriter | None = None
        # the rewrite of the step at hand, and the wait that it has yielded last
        self._step: Waiting[None] | None = None
        self._wait: Wait | None = None

    @property
    def has_begun(self) -> bool:
        """True if a rewriter still holds bytes of a response, which may have been sent."""
        return self._rewriter is not None

    def begin(self, step: Step) -> bool:
        """Adds the edits of marked responses that name brokers. False: the rewrite has to wait, so `finish` it.

        Raises:
            NotRewritable: neither that response nor anything behind it may be sent.
        """
        self._step = self._edited(step)
        self._wait = next(self._step, None)
        return self._wait is None

    async def finish(self) -> None:
        """Adds the other edits of the step that was begun. Raises NotRewritable, as `begin` does."""
        while self._step is not None and self._wait is not None:
            try:
                await self._wait()
            except OSError as error:
                self._wait = self._step.throw(error)
            else:
                self._wait = next(self._step, None)

    def _edited(self, step: Step) -> Waiting[None]:
        for mark in step.marks:
            exchange = mark.exchange
            if exchange is None or not _is_for_rewriting(mark, exchange):
                continue
            start, stop = mark.start - step.offset, mark.stop - step.offset
            try:
                replacement = yield from self._rewritten(mark, exchange, memoryview(step.data)[start:stop])
            except (WireError, TooLarge, OSError) as error:
                raise NotRewritable(error, exchange, mark.start) from error
            if start + replacement.unchanged < stop:
                step.edits.append(Edit(start + replacement.unchanged, stop, replacement.instead))

    def _rewritten(self, mark: Mark, exchange: Exchange, piece: memoryview) -> Waiting[Replacement]:
        if mark.first:
            self.release()
            limit, hide_unknown = self._settings.hold_limit, self._settings.hide_unknown
            self._rewriter = rewriter(exchange, self._nodes, self._share, limit, hide_unknown=hide_unknown)
        assert self._rewriter is not None
        return (yield from self._rewriter.feed(piece, last=mark.last))

    def release(self) -> None:
        """Called once the rewritten response has been sent."""
        self._share.release()
        self._rewriter = None

    def end(self) -> None:
        """Called once the connection has ended, even in the middle of a response: gives back all that is held."""
        if self._step is not None:
            self._step.close()
        self._step = self._wait = None
        self.release()


def end_before(step: Step, error: NotRewritable) -> list[Exchange]:
    """Ends a step, and with it the connection, before the response that can't be rewritten.

    Returns the exchanges whose responses come after that one, and are not sent.
    """
    bad, finished = error.exchange.number, step.finished
    step.stop = error.start - step.offset
    step.edits = [edit for edit in step.edits if edit.stop <= step.stop]
    step.finished = [one for one in finished if one.number < bad]
    step.cause = Cause.NOT_REWRITABLE
    return [one for one in finished if one.number > bad]


def _is_for_rewriting(mark: Mark, exchange: Exchange) -> bool:
    is_response = mark.kind is FrameKind.RESPONSE and not exchange.by_proxy
    return is_response and is_rewritten(exchange.api_key, exchange.api_version)
