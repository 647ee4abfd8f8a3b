"""Rewrites responses that name brokers. Most are held until whole; of large ones with records, only the tail is held.

`proxy.rewrite` decides which bytes change, and into what. This module collects the response's bytes, and waits until
the listeners of the named nodes are open: only then may the response leave. Most rewrites need not wait, and should
not cost a task switch. So a rewrite is a generator (`MayWait`): it yields a function for each wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from proxy.config import ClusterSettings
from proxy.conversation import Cause, Edit, Exchange, FrameKind, Mark, Step
from proxy.mapping.nodes import Node
from proxy.net.brokers.nodes import Nodes
from proxy.net.limits.held_bytes import COUNTED_ABOVE, HeldBytes, Holder, Share
from proxy.rewrite import addresses, api_versions, equal_length
from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH
from proxy.wire.keys import API_VERSIONS

# bytes. Larger Fetch, ShareFetch and ShareAcknowledge responses stream: a consumer need not wait for all of 50 MB
HOLD_WALKED_BELOW = 256 * 1024

T = TypeVar("T")
Wait = Callable[[], Awaitable[None]]
# a generator that returns a T. It yields each `Wait`, and is resumed once that `Wait` was awaited
MayWait = Generator[Wait, None, T]


class TooLarge(Exception):
    """A response, or the tail of one, must be held and is larger than the limit."""


class NotRewritable(Exception):
    """A response that names brokers can't be rewritten; the message says why.

    `start`: the stream offset at which the step's part of the response begins.
    """

    def __init__(self, reason: Exception, exchange: Exchange, start: int) -> None:
        super().__init__(str(reason))
        self.exchange = exchange
        self.start = start


class Replacement(NamedTuple):
    """What to send for a piece of a frame: its first `unchanged` bytes, then `changed` in place of the others."""

    unchanged: int
    changed: bytes


class FrameRewriter(Protocol):
    """Rewrites one response, piece by piece."""

    def feed(self, piece: memoryview, *, last: bool) -> MayWait[Replacement]:
        """Takes the next piece of the frame; the first piece begins with the length.

        Raises:
            WireError: the frame can't be read. TooLarge. OSError: a named node can't have a listener.
        """


def is_rewritten(api_key: int, api_version: int | None) -> bool:
    """True if responses of this API and version are rewritten. False for version None, the dialect of 0.7."""
    return api_version is not None and (api_key == API_VERSIONS or addresses.carries(api_key, api_version))


def make_rewriter(
    exchange: Exchange, nodes: Nodes, share: Share, hold_limit: int, *, hide_unknown: bool = False
) -> FrameRewriter:
    """Returns a rewriter for an exchange's response. `is_rewritten` must be true of the exchange's API and version.

    Args:
        share: accounts for the bytes that are held.
        hide_unknown: leave vendors' APIs, which the proxy can't decode, out of ApiVersions responses.

    Raises:
        TooLarge: the response must be held, and is larger than `hold_limit`.
    """
    key, version, size = exchange.api_key, exchange.api_version, exchange.response_size
    assert version is not None, "responses of the dialect of 0.7 are never rewritten"
    if addresses.is_walked(key, version) and size > HOLD_WALKED_BELOW:
        return WalkedRewriter(key, version, size, nodes, share, hold_limit)
    _check_hold_limit(size, hold_limit)
    return HeldRewriter(key, version, size, nodes, share, hide_unknown)


def _check_hold_limit(size: int, hold_limit: int) -> None:
    if size > hold_limit:
        raise TooLarge(f"{size} bytes of a response must be held, and the limit is {hold_limit}")


class HeldRewriter:
    """Holds the frame until it is whole, then replaces the addresses in it."""

    def __init__(
        self, api_key: int, api_version: int, size: int, nodes: Nodes, share: Share, hide_unknown: bool
    ) -> None:
        self._api = api_key, api_version
        self._hide_unknown = hide_unknown
        self._size = size
        self._nodes = nodes
        self._share = share
        self._frame = bytearray()

    def feed(self, piece: memoryview, *, last: bool) -> MayWait[Replacement]:
        if last and not self._frame:
            rewritten = yield from self._rewrite(piece[LENGTH.size :])
            return Replacement(len(piece), b"") if rewritten is None else Replacement(0, rewritten)
        if not self._frame:
            yield from _wait_for_share(self._share, self._size)
        self._frame += piece
        if not last:
            return Replacement(0, b"")
        rewritten = yield from self._rewrite(memoryview(self._frame)[LENGTH.size :])
        return Replacement(0, bytes(self._frame) if rewritten is None else rewritten)

    def _rewrite(self, frame: memoryview) -> MayWait[bytes | None]:
        """The frame to send, with its length; None: it stays as it is."""
        key, version = self._api
        if key == API_VERSIONS:
            return api_versions.reduce(version, frame, hide_unknown=self._hide_unknown)
        cluster_id = addresses.cluster_id_in(key, version, frame)
        nodes = addresses.nodes_in(key, version, frame)
        yield from _wait_for_listeners(self._nodes, key, nodes, cluster_id)
        if not nodes:
            return None
        return addresses.splice(key, version, frame, self._nodes.advertised)


class WalkedRewriter:
    """Passes on the frame up to its tail, the part that may hold addresses. Rewrites the tail at equal length."""

    def __init__(self, api_key: int, api_version: int, size: int, nodes: Nodes, share: Share, hold_limit: int) -> None:
        self._api = api_key, api_version
        self._nodes = nodes
        self._share = share
        self._hold_limit = hold_limit
        # bytes still to come: of the frame's length field, and of the whole frame
        self._length_left = LENGTH.size
        self._bytes_left = LENGTH.size + size
        self._walk = catalog.walk_response(api_key, api_version, equal_length.tail_field(api_key))
        self._tail: bytearray | None = None

    def feed(self, piece: memoryview, *, last: bool) -> MayWait[Replacement]:
        unchanged = (yield from self._walk_on(piece)) if self._tail is None else 0
        self._bytes_left -= len(piece)
        if self._tail is not None:
            self._tail += piece[unchanged:]
        if not last:
            return Replacement(unchanged, b"")
        if self._tail is None:
            raise WireError("the frame ends before its fields do")
        return Replacement(unchanged, (yield from self._rewrite_tail(bytes(self._tail))))

    def _walk_on(self, piece: memoryview) -> MayWait[int]:
        """Walks over a piece. Returns how many of its bytes are before the tail."""
        length = min(self._length_left, len(piece))
        self._length_left -= length
        stop = self._walk.feed(piece[length:]) if len(piece) > length else None
        if stop is None:
            return len(piece)
        tail_size = self._bytes_left - length - stop
        _check_hold_limit(tail_size, self._hold_limit)
        yield from _wait_for_share(self._share, tail_size)
        self._tail = bytearray()
        return length + stop

    def _rewrite_tail(self, tail: bytes) -> MayWait[bytes]:
        key, version = self._api
        yield from _wait_for_listeners(self._nodes, key, equal_length.nodes_in_tail(key, version, tail))
        return equal_length.rewrite_tail(key, version, tail, self._nodes.advertised)


def _wait_for_share(share: Share, size: int) -> MayWait[None]:
    if size > COUNTED_ABOVE:
        yield partial(share.take, size)


def _wait_for_listeners(
    nodes: Nodes, api_key: int, named: Sequence[Node], cluster_id: str | None = None
) -> MayWait[None]:
    if named:
        is_list = api_key in addresses.LISTING
        nodes.note((node.node_id for node in named), is_list=is_list)
        if is_list and cluster_id is None:
            nodes.identity.listed_without_id()
    if nodes.needs_ensure(named, cluster_id):
        yield partial(nodes.ensure, named, cluster_id)


class Rewriting:
    """Rewrites one connection's responses, one at a time. `held` counts the bytes held for `holder`, the connection."""

    def __init__(self, nodes: Nodes, held: HeldBytes, holder: Holder, settings: ClusterSettings) -> None:
        self._nodes = nodes
        # the share of the one response that is being rewritten
        self._share = Share(held, holder)
        self._settings = settings
        self._rewriter: FrameRewriter | None = None
        # the rewrite of the newest step, and the `Wait` that it yielded last (None: it is finished)
        self._unfinished: MayWait[None] | None = None
        self._wait: Wait | None = None

    @property
    def has_begun(self) -> bool:
        """True from the first piece of a response until `release`."""
        return self._rewriter is not None

    def begin(self, step: Step) -> bool:
        """Adds edits to a step, for the responses in it that name brokers. Returns False if `finish` must be awaited.

        Raises:
            NotRewritable: a response can't be rewritten. Neither it nor the bytes after it may be sent (`end_before`).
        """
        marks = [mark for mark in step.marks if _may_name_nodes(mark, step)]
        if not marks:
            return True
        self._unfinished = self._add_edits(step, marks)
        self._wait = next(self._unfinished, None)
        return self._wait is None

    async def finish(self) -> None:
        """Adds the edits that `begin` could not add without waiting. Raises NotRewritable, as `begin` does."""
        while self._unfinished is not None and self._wait is not None:
            try:
                await self._wait()
            except OSError as error:
                self._wait = self._unfinished.throw(error)
            else:
                self._wait = next(self._unfinished, None)

    def _add_edits(self, step: Step, marks: Sequence[Mark]) -> MayWait[None]:
        for mark in marks:
            exchange = mark.exchange
            assert exchange is not None
            start, stop = mark.start - step.offset, mark.stop - step.offset
            try:
                replacement = yield from self._replacement(mark, exchange, memoryview(step.data)[start:stop])
            except (WireError, TooLarge, OSError) as error:
                raise NotRewritable(error, exchange, mark.start) from error
            if start + replacement.unchanged < stop:
                step.edits.append(Edit(start + replacement.unchanged, stop, replacement.changed))

    def _replacement(self, mark: Mark, exchange: Exchange, piece: memoryview) -> MayWait[Replacement]:
        if mark.first:
            self.release()
            limit, hide_unknown = self._settings.hold_limit, self._settings.hide_unknown
            self._rewriter = make_rewriter(exchange, self._nodes, self._share, limit, hide_unknown=hide_unknown)
        assert self._rewriter is not None
        return (yield from self._rewriter.feed(piece, last=mark.last))

    def release(self) -> None:
        """Gives back the bytes held for a response. Called once the response is sent, or when the next one begins."""
        self._share.release()
        self._rewriter = None

    def end(self) -> None:
        """Gives back all held bytes. Called once the connection has ended, maybe in the middle of a response."""
        if self._unfinished is not None:
            self._unfinished.close()
        self._unfinished = self._wait = None
        self.release()


def end_before(step: Step, error: NotRewritable) -> list[Exchange]:
    """Ends a step before the response that can't be rewritten, and sets the cause that ends the connection.

    Returns the exchanges whose complete responses are after that response, and so are not sent.
    """
    number, finished = error.exchange.number, step.finished
    step.stop = error.start - step.offset
    step.edits = [edit for edit in step.edits if edit.stop <= step.stop]
    step.finished = [exchange for exchange in finished if exchange.number < number]
    step.cause = Cause.NOT_REWRITABLE
    return [exchange for exchange in finished if exchange.number > number]


def _may_name_nodes(mark: Mark, step: Step) -> bool:
    """False for what is no response that is rewritten, and for a whole one that is seen to name no node."""
    kind, exchange, begin, end, start, stop, _ = mark
    if exchange is None or kind is not FrameKind.RESPONSE or exchange.by_proxy:
        return False
    key, version = exchange.api_key, exchange.api_version
    naming_none = addresses.naming_none(key, version)
    if naming_none is None or version is None:
        return is_rewritten(key, version)
    if start != begin or stop != end or end - begin > HOLD_WALKED_BELOW:
        return True
    frame = memoryview(step.data)[begin + LENGTH.size - step.offset : end - step.offset]
    if naming_none.knows(frame):
        return False
    try:
        if addresses.nodes_in(key, version, frame):
            return True
    except WireError:
        # the rewriter ends the connection there
        return True
    naming_none.note(frame)
    return False
