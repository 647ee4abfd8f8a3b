"""Builds responses as frames, and collects a probe's findings on them, whole and in pieces."""

from collections.abc import Iterable
from random import Random

from hypothesis import strategies as st

from proxy.wire.catalog import Codec
from proxy.wire.error_reader import ErrorReader, FoundErrors, error_reader
from proxy.wire.framing import framed
from proxy.wire.headers import write_response_head

MIB = 1 << 20
randoms = st.randoms(use_true_random=False)


def probe_of(key: int, version: int | None) -> ErrorReader:
    found = error_reader(key, version)
    assert found is not None
    return found


def frame_of(codec: Codec, body: bytes, tags: bytes = b"\0") -> bytes:
    """Returns a whole response with its length. `tags`: the header's, if it has any."""
    head = write_response_head(codec.message.key or 0, codec.version, 7)
    return framed((head[:-1] + tags if len(head) > 4 else head) + body)


def in_pieces(probe: ErrorReader, pieces: Iterable[bytes]) -> FoundErrors:
    arriving = probe.begin()
    for piece in pieces:
        arriving.feed(memoryview(piece))
    return arriving.found


def cut(data: bytes, random: Random) -> list[bytes]:
    """Cuts bytes into pieces, some of them empty."""
    places = sorted(random.randint(0, len(data)) for _ in range(random.randint(0, 9)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def found_whole(probe: ErrorReader, frame: bytes) -> FoundErrors:
    """Returns a probe's findings in a frame that lies among other bytes."""
    return probe.find(b"before" + frame + b"\xff\x7f" * 400, len("before"), len(frame))
