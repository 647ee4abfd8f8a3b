"""A response that names brokers, on its way through: held whole, or walked as it streams and rewritten at its end.

What is changed, and into what, is the rewrite room's; here it is waited for bytes, and for the listeners of the nodes
that the response names, which must be open before it leaves.
"""

from __future__ import annotations

from typing import Protocol

from proxy.conversation import Exchange
from proxy.net.held import HeldBytes
from proxy.net.nodes import Nodes
from proxy.rewrite import addresses, api_versions, equal_length
from proxy.wire import catalog
from proxy.wire.errors import WireError

API_VERSIONS = 18
# larger Fetch and share responses stream, so that a consumer does not wait for 50 MB to be complete
HOLD_WALKED_BELOW = 256 * 1024


class TooLarge(Exception):
    """A response that must be held is over the limit."""


class FrameRewriter(Protocol):
    async def feed(self, piece: memoryview, *, last: bool) -> bytes:
        """What may leave after this piece of the frame (its length in front). Raises WireError, TooLarge."""

    def release(self) -> None:
        """Called once the frame has been sent, or its connection has ended."""


def is_rewritten(api_key: int, api_version: int) -> bool:
    """Whether a response of this API and version is changed on its way."""
    return api_key == API_VERSIONS or addresses.carries(api_key, api_version)


def rewriter(exchange: Exchange, nodes: Nodes, held: HeldBytes, hold_limit: int) -> FrameRewriter:
    """For the response of an exchange for which `is_rewritten`.

    Raises:
        TooLarge: it must be held, and is larger than `hold_limit`.
    """
    key, version, size = exchange.api_key, exchange.api_version, exchange.response_size
    if addresses.walked(key, version) and size > HOLD_WALKED_BELOW:
        return Walked(key, version, nodes, hold_limit)
    if size > hold_limit:
        raise TooLarge(f"a response of {size} bytes must be held, and the limit is {hold_limit}")
    return Held(key, version, size, nodes, held)


class Held:
    """Waits for the whole frame, then splices."""

    def __init__(self, api_key: int, api_version: int, size: int, nodes: Nodes, held: HeldBytes) -> None:
        self._api = api_key, api_version
        self._size = size
        self._nodes = nodes
        self._held = held
        self._reserved = False
        self._frame = bytearray()

    async def feed(self, piece: memoryview, *, last: bool) -> bytes:
        if not self._reserved:
            await self._held.reserve(self._size)
            self._reserved = True
        self._frame += piece
        return await self._whole(bytes(memoryview(self._frame)[4:])) if last else b""

    async def _whole(self, frame: bytes) -> bytes:
        key, version = self._api
        if key == API_VERSIONS:
            return api_versions.reduce(version, frame)
        await self._nodes.ensure(addresses.nodes_in(key, version, frame))
        return addresses.splice(key, version, frame, self._nodes.advertised)

    def release(self) -> None:
        if self._reserved:
            self._held.release(self._size)
            self._reserved = False


class Walked:
    """Lets the frame through up to where the endpoints may stand, holds the rest, and rewrites it at equal length."""

    def __init__(self, api_key: int, api_version: int, nodes: Nodes, hold_limit: int) -> None:
        self._api = api_key, api_version
        self._nodes = nodes
        self._limit = hold_limit
        self._length_left = 4
        self._walk = catalog.walk_response(api_key, api_version, equal_length.stop_of(api_key))
        self._tail: bytearray | None = None

    async def feed(self, piece: memoryview, *, last: bool) -> bytes:
        through = b""
        if self._tail is None:
            through, piece = self._step(piece)
        if self._tail is not None:
            self._tail += piece
            if len(self._tail) > self._limit:
                raise TooLarge(f"what follows the records is over {self._limit} bytes")
        if not last:
            return through
        if self._tail is None:
            raise WireError("the frame ends before its fields do")
        return through + await self._rewritten(bytes(self._tail))

    def _step(self, piece: memoryview) -> tuple[bytes, memoryview]:
        """Walks over a piece: what of it may leave, and what of it is the tail."""
        length = min(self._length_left, len(piece))
        self._length_left -= length
        stop = self._walk.feed(piece[length:]) if len(piece) > length else None
        if stop is None:
            return bytes(piece), piece[len(piece) :]
        self._tail = bytearray()
        return bytes(piece[: length + stop]), piece[length + stop :]

    async def _rewritten(self, tail: bytes) -> bytes:
        key, version = self._api
        await self._nodes.ensure(equal_length.nodes_in_tail(key, version, tail))
        return equal_length.rewrite_tail(key, version, tail, self._nodes.advertised)

    def release(self) -> None:
        """Nothing was reserved: the tail of a response is a few nodes long."""
