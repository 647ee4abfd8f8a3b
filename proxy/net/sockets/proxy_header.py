"""The PROXY protocol's header, read from a client's connection: before anything else, TLS too."""

from __future__ import annotations

import trio

from proxy.net.sockets.proxy_protocol import HeaderReader, Malformed, Route
from proxy.net.sockets.streams import Stream


class NoHeader(Exception):
    """A connection does not begin with a header, the message says why. Close it."""


class Gone(Exception):
    """The client has gone without a byte, as a balancer does that only looks whether somebody listens."""


async def read_header(client: Stream, seconds: float) -> Route | None:
    """For whom the peer connects; None if it doesn't say. Not a byte behind the header is taken.

    Raises:
        NoHeader: there is none, or it has not come in time.
        Gone: there is nothing.
        PeerLost: the connection broke.
    """
    try:
        with trio.fail_after(seconds):
            return await _read(client)
    except Malformed as error:
        raise NoHeader(str(error)) from error
    except trio.TooSlowError as error:
        raise NoHeader("it has not come in time") from error


async def _read(client: Stream) -> Route | None:
    reader, begun = HeaderReader(), False
    while reader.missing:
        # the header is not encrypted, whatever the client's stream makes of the bytes behind it
        piece = await Stream.receive(client, reader.missing)
        if not piece and not begun:
            raise Gone
        if not piece:
            raise NoHeader("it ends in its middle")
        begun = True
        reader.feed(piece)
    return reader.route
