"""The smallest proxy in trio: it only passes bytes on. kafka-wiretap is compared with it.

Usage: python -m bench.relay UPSTREAM_HOST:PORT LISTEN_HOST:PORT
"""

import socket
import sys

import trio

RECEIVE_SIZE = 512 * 1024


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def pass_on(source: trio.socket.SocketType, sink: trio.socket.SocketType) -> None:
    while chunk := await source.recv(RECEIVE_SIZE):
        rest = memoryview(chunk)
        while rest:
            rest = rest[await sink.send(rest) :]
    sink.shutdown(socket.SHUT_WR)


async def connection(stream: trio.SocketStream) -> None:
    client, broker = stream.socket, trio.socket.socket()
    with broker:
        for side in client, broker:
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await broker.connect(address(sys.argv[1]))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pass_on, client, broker)
                nursery.start_soon(pass_on, broker, client)
        except* OSError:
            pass


async def main() -> None:
    host, port = address(sys.argv[2])
    listener, *_ = await trio.open_tcp_listeners(port, host=host)
    print(f"listening on {host}:{listener.socket.getsockname()[1]}", file=sys.stderr, flush=True)
    await trio.serve_listeners(connection, [listener])


if __name__ == "__main__":
    trio.run(main)
