"""Many hostile clients in a process of their own; and a broker that withstands them.

    python -m tests.faults.crowd broker
    python -m tests.faults.crowd KIND HOST PORT COUNT AT_ONCE SEED [hold]

A broker prints its port. A crowd opens COUNT connections to a listener of that kind, AT_ONCE at a time, and prints
"done" when the last one has ended. With `hold` all stay open: the crowd prints "held", and ends them at the next input.
"""

import random
import resource
import socket
import ssl
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

import trio

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import METADATA, PRODUCE
from tests.faults.live import HOST, OFFERED, answer

# a broker closes a connection with a longer frame
LONGEST = 1 << 20
BACKLOG = 4096

Garbage = Callable[[random.Random], bytes]


def _request(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    return framed(struct.pack(">hhih", key, version, correlation_id, 4) + b"evil" + body)


def _noise(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 2000))


def _http(rng: random.Random) -> bytes:
    return b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * rng.randrange(30) + b"\r\n"


def _hello(rng: random.Random) -> bytes:
    """A ClientHello of TLS; every other one has an invalid server name, or one that is no text."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    name = rng.choice(("boot.proxy.test", "b1.proxy.test", "nobody.proxy.test", "xxxx.proxy.test"))
    with suppress(ssl.SSLWantReadError):
        _CONTEXT.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read().replace(b"xxxx", b"\xff\xfe\0\x80")


def _half_head(rng: random.Random) -> bytes:
    return framed(catalog.encode_request(METADATA, 9, 1, "evil", {"topics": []}))[: rng.randrange(1, 12)]


def _huge(rng: random.Random) -> bytes:
    return rng.choice((b"\x7f\xff\xff\xff", b"\x06\x40\0\1", b"\x05\xf5\xe1\0")) + rng.randbytes(20)


def _negative(rng: random.Random) -> bytes:
    return rng.choice((b"\xff\xff\xff\xff", b"\x80\0\0\0")) + rng.randbytes(20)


def _unknown(rng: random.Random) -> bytes:
    """A request with an unknown API, which must not become a metric's label."""
    return _request(rng.randrange(-(1 << 15), 1 << 15), rng.randrange(-(1 << 15), 1 << 15), 1, rng.randbytes(9))


def _newer(rng: random.Random) -> bytes:
    return _request(rng.randrange(100), rng.randrange(1 << 15), rng.randrange(1 << 31), b"\0")


def _body(rng: random.Random) -> bytes:
    key = rng.choice(list(OFFERED))
    return _request(key, rng.randrange(OFFERED[key] + 1), 7, rng.randbytes(rng.randrange(300)))


def _same_ids(rng: random.Random) -> bytes:
    return framed(catalog.encode_request(METADATA, 9, 7, "evil", {"topics": []})) * rng.randrange(2, 9)


def _endless_head(rng: random.Random) -> bytes:
    """The head of a Produce request, with an incomplete client id."""
    return struct.pack(">ihhih", 90_000, PRODUCE, 9, 1, 0x7FFF) + bytes(rng.randrange(20_000))


def _header(rng: random.Random) -> bytes:
    """A PROXY header, good or bad; listeners that expect none take it for garbage."""
    ports = rng.randrange(70_000), rng.randrange(70_000)
    return rng.choice(
        (
            b"PROXY TCP4 192.0.2.%d 198.51.100.1 %d %d\r\n" % (rng.randrange(300), *ports),
            b"PROXY UNKNOWN " + bytes(90),
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff" + bytes(2000),
            b"\r\n\r\n\0\r\nQUIT\n" + rng.randbytes(30),
        )
    )


def _nothing(rng: random.Random) -> bytes:
    return b""


# garbage for every listener; a connection to hold gets bytes that do not end it
GARBAGE: tuple[Garbage, ...] = (
    *(_noise, _http, _hello, _half_head, _huge, _negative, _unknown),
    *(_newer, _body, _same_ids, _endless_head, _header, _nothing),
)
HELD: tuple[Garbage, ...] = (_half_head, _nothing)
_GOOD_HEADER = b"PROXY TCP4 192.0.2.%d 198.51.100.1 5 6\r\n"


def _context() -> ssl.SSLContext:
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


_CONTEXT = _context()


class Crowd:
    """COUNT connections to one listener."""

    def __init__(self, kind: str, where: tuple[str, int], count: int, at_once: int, seed: int) -> None:
        self._kind = kind
        self._where = where
        self._count = count
        self._limit = trio.CapacityLimiter(at_once)
        self._rng = random.Random(f"{kind} {seed}")
        self._open = 0
        self._all_open = trio.Event()

    async def come_and_go(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(self._count):
                nursery.start_soon(self._one, random.Random(self._rng.random()), number)

    async def hold(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(self._count):
                nursery.start_soon(self._held, random.Random(self._rng.random()), number)
            await self._all_open.wait()
            print("held", flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline)
            nursery.cancel_scope.cancel()

    async def _one(self, rng: random.Random, number: int) -> None:
        async with self._limit:
            with suppress(OSError, trio.BrokenResourceError):
                stream = await self._connect(number)
                async with stream:
                    await self._misbehave(stream, rng, number)

    async def _connect(self, number: int) -> trio.SocketStream:
        """Connects from many addresses: one address has too few ports."""
        sock = trio.socket.socket()
        try:
            await sock.bind((f"127.0.{number % 7}.{2 + number % 11}", 0))
            await sock.connect(self._where)
        except BaseException:
            sock.close()
            raise
        return trio.SocketStream(sock)

    async def _misbehave(self, stream: trio.SocketStream, rng: random.Random, number: int) -> None:
        data = GARBAGE[number % len(GARBAGE)](rng)
        if self._kind == "balanced" and rng.random() < 0.7:
            data = _GOOD_HEADER % rng.randrange(256) + data
        if self._kind in ("tls", "sni") and rng.random() < 0.1:
            # garbage in order
            name = rng.choice(("boot.proxy.test", "b1.proxy.test"))
            await self._say(trio.SSLStream(stream, _CONTEXT, server_hostname=name, https_compatible=True), data)
        else:
            await self._say(stream, data)
        if rng.random() < 0.3:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        await stream.send_eof()
        while await stream.receive_some():
            pass

    async def _say(self, stream: trio.abc.SendStream, data: bytes) -> None:
        if data:
            await stream.send_all(data)

    async def _held(self, rng: random.Random, number: int) -> None:
        with suppress(OSError, trio.BrokenResourceError):
            async with self._limit:
                stream = await self._connect(number)
                if self._kind == "balanced":
                    await stream.send_all(_GOOD_HEADER % rng.randrange(256))
                await self._say(stream, HELD[number % len(HELD)](rng))
            async with stream:
                self._open += 1
                if self._open == self._count:
                    self._all_open.set()
                await trio.sleep_forever()


async def _serve() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host=HOST, backlog=BACKLOG)
    port = listener.socket.getsockname()[1]
    print(port, flush=True)

    async def connection(stream: trio.SocketStream) -> None:
        with suppress(OSError, trio.BrokenResourceError):
            await _answer(stream, port)

    await trio.serve_listeners(connection, [listener])


async def _answer(stream: trio.SocketStream, port: int) -> None:
    data = b""
    async for chunk in stream:
        data += chunk
        while len(data) >= 4:
            size = int.from_bytes(data[:4], "big")
            if not 8 <= size <= LONGEST:
                return
            if len(data) < 4 + size:
                break
            frame, data = data[4 : 4 + size], data[4 + size :]
            key, version = struct.unpack_from(">hh", frame)
            if not 0 <= version <= OFFERED.get(key, -1):
                return
            await stream.send_all(answer(frame, (HOST, port)))


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sys.argv[1] == "broker":
        return trio.run(_serve)
    kind, host, port, count, at_once, seed, *held = sys.argv[1:]
    crowd = Crowd(kind, (host, int(port)), int(count), int(at_once), int(seed))
    trio.run(crowd.hold if held else crowd.come_and_go)
    print("done", flush=True)
    return None


if __name__ == "__main__":
    main()
