"""`python -m bench.replay_loop HOST:PORT FOLDER`: a plain loop that writes a capture's requests.

What a replay is compared with: blocking sockets, a thread for each recorded connection, nothing but the recorded bytes.
A request leaves when as many answers have come as the recording had before its first byte. The frames are in memory
before the clock runs. Prints `exchanges N ns T`.
"""

import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from proxy.wire.budget import Allowance
from recorder.capture import frames as c
from recorder.capture.reader import files, row_groups

READ = 256 << 10
# a request with its length, and how many answers must have come before it
Step = tuple[bytes, int]


def steps(folder: Path) -> dict[int, list[Step]]:
    """What each connection writes."""
    found: dict[int, list[Step]] = defaultdict(list)
    answers: dict[int, int] = defaultdict(int)
    for connection, kind, frame in _rows(folder):
        if kind == c.REQUEST:
            found[connection].append((len(frame).to_bytes(4, "big") + frame, answers[connection]))
        else:
            answers[connection] += 1
    return found


def _rows(folder: Path) -> Iterator[tuple[int, str, bytes]]:
    # all frames are in memory in the end, however many there are
    allowance = Allowance("the loop", sys.maxsize)
    for file in files(folder):
        for table in row_groups(file, (c.CONNECTION, c.KIND, c.FRAME), allowance=allowance):
            for batch in table.to_batches(max_chunksize=64):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def play(connection: socket.socket, mine: list[Step]) -> None:
    """One connection, from its first request to its last answer."""
    rest, answers = bytearray(), 0
    for frame, before in [*mine, (b"", len(mine))]:
        while answers < before:
            rest += connection.recv(READ)
            at = 0
            while len(rest) - at >= 4 and len(rest) - at - 4 >= (size := int.from_bytes(rest[at : at + 4], "big")):
                at += 4 + size
                answers += 1
            del rest[:at]
        connection.sendall(frame)


def main() -> int:
    address, folder = sys.argv[1:]
    host, _, port = address.rpartition(":")
    mine = steps(Path(folder))
    ready = threading.Barrier(len(mine) + 1)

    def run(each: list[Step]) -> None:
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.wait()
            play(connection, each)

    threads = [threading.Thread(target=run, args=(each,)) for each in mine.values()]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.monotonic_ns()
    for thread in threads:
        thread.join()
    print("exchanges", sum(map(len, mine.values())), "ns", time.monotonic_ns() - begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())
