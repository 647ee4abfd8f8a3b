"""Runs a proxy's recording in a process of its own, to be killed.

    python -m tests.faults.recording FOLDER SEED [LIMIT]

It plays the traffic of `talks(seed)` and prints the session's name. Then, for each write that has reached the log, it
prints how many chunks had been played. With LIMIT, no file may exceed so many bytes until half of the chunks are
played.
"""

import random
import resource
import sys
from pathlib import Path

from proxy.wire.keys import HEARTBEAT, METADATA, PRODUCE, SASL_AUTHENTICATE
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from tests.recorder.capture import traffic
from tests.recorder.capture.traffic import Chunk, Player, Talk

KINDS = (METADATA, HEARTBEAT, PRODUCE, SASL_AUTHENTICATE, traffic.VENDOR)


def talks(seed: int) -> list[Talk]:
    rng = random.Random(seed)
    return [traffic.cut(rng, traffic.talk(rng, number, 60, KINDS), 400) for number in range(3)]


def script(seed: int, made: list[Talk]) -> list[tuple[int, Chunk]]:
    """Returns all chunks, mixed, with their connections."""
    rng = random.Random(seed)
    left = [(talk.connection, list(reversed(talk.chunks))) for talk in made]
    order = []
    while left:
        connection, chunks = rng.choice(left)
        order.append((connection, chunks.pop()))
        left = [one for one in left if one[1]]
    return order


def settings(limit: int) -> RecordSettings:
    return RecordSettings(segment=1 << 20, queue=10_000) if limit else RecordSettings(segment=3_000)


def play(tap: Tap, seed: int, limit: int) -> None:
    made = talks(seed)
    player = Player(tap)
    for talk in made:
        player.open(talk)
    order = script(seed, made)
    for number, (connection, chunk) in enumerate(order, 1):
        player.play(connection, chunk)
        if number % 5 == 0 or number == len(order):
            tap.flush()
            print(number, int(tap.counters()["failed"]), flush=True)
        if number == len(order) // 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for talk in made:
        player.close(talk.connection)


def main() -> None:
    folder, seed, limit = Path(sys.argv[1]), int(sys.argv[2]), int((*sys.argv, "0")[3])
    tap = open_tap(folder, settings(limit))
    print(tap.session, flush=True)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    play(tap, seed, limit)
    tap.close()


if __name__ == "__main__":
    main()
