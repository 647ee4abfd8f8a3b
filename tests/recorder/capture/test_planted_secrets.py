"""Tests of secrets planted in every field that is marked as one, in all versions: none reaches a file of the capture.

Each message arrives whole, in two chunks cut at a byte, and broken off at a byte; after another exchange, and as the
first frames of its connection, while they may be a login. The fast tests cut at some bytes, the long ones at each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from proxy.conversation.exchange import Direction
from proxy.wire import apis, catalog
from proxy.wire.compile.layout import Struct, layout
from proxy.wire.keys import HEARTBEAT, SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.capture.compactor import compact_session
from recorder.capture.fact_maker import make_missing
from recorder.capture.session import RecordSettings, WhenFull
from recorder.capture.tap import open_tap
from tests.recorder.capture.looks import session_folder
from tests.recorder.capture.traffic import Chunk, Player, Talk, framed
from tests.strategies import KINDS, must_codec

# no four bytes of it occur by chance
SECRET = "Zq~7^vKx9!Wj4Yq=8&Hb|Pm5"
PIECE = 4
# a setting that Kafka does not know may be a password
SETTING = "a.vendors.password"
# a client id that the capture must have
KEPT = "kept"
# an application's tag, the length behind it, Kerberos's object identifier, the kind of token
KERBEROS_HEAD = b"\x60\x82\x02\x5e" + b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02" + b"\1\0"
# bytes of each frame at which the fast tests cut
SOME_CUTS = 2


class Dialogue(NamedTuple):
    """The frames that one side, then the other, sends on a connection, each with its length."""

    name: str
    frames: tuple[tuple[Direction, bytes], ...]


def planted(struct: Struct, secrets: frozenset[str], above: str = "") -> dict[str, Any]:
    """Returns values with two elements in each array, and the secret in each of these paths."""
    values = {}
    for slot in struct:
        path = above + slot.name
        one: Any
        if slot.struct:
            one = planted(slot.struct, secrets, f"{path}.")
        elif path in secrets:
            one = SECRET if slot.type == "string" else SECRET.encode()
        else:
            one = _plain(slot.type, slot.name)
        values[slot.name] = [one, one] if slot.array else one
    return values


def _plain(kind: str, name: str) -> Any:
    texts = {"string": SETTING if name == "name" else "text", "uuid": b"\1" * 16, "bool": True, "float64": 1.0}
    return texts.get(kind, b"bytes" if kind in ("bytes", "records") else 0)


def _message(kind: Any, key: int, version: int, correlation_id: int) -> bytes:
    codec = must_codec(kind, key, version)
    values = planted(layout(codec.message, version), frozenset(catalog.secrets(kind, key, version)))
    if kind == "request":
        return framed(catalog.encode_request(key, version, correlation_id, KEPT, values))
    return framed(catalog.encode_response(key, version, correlation_id, values))


def _asked(key: int, version: int, correlation_id: int) -> tuple[tuple[Direction, bytes], ...]:
    request, response = (_message(kind, key, version, correlation_id) for kind in KINDS)
    return (Direction.REQUEST, request), (Direction.RESPONSE, response)


@cache
def every_message() -> list[Dialogue]:
    """Returns an exchange of each API and version with a secret in its request or its response."""
    return [
        Dialogue(f"{apis.api_name(key)} {version}", _asked(key, version, 2))
        for key in apis.api_keys()
        for version in apis.versions(key)
        if any(catalog.secrets(kind, key, version) for kind in KINDS)
    ]


def _login(mechanism: str, said: Iterable[bytes], told: Iterable[bytes], *, is_bare: bool) -> Dialogue:
    """A login: bare tokens after a SaslHandshake 0, or tokens in SaslAuthenticate."""
    shaken = {"mechanisms": [mechanism]}
    frames = [
        catalog.encode_request(SASL_HANDSHAKE, int(not is_bare), 2, KEPT, {"mechanism": mechanism}),
        catalog.encode_response(SASL_HANDSHAKE, int(not is_bare), 2, shaken),
    ]
    for number, tokens in enumerate(zip(said, told, strict=True), 3):
        if is_bare:
            frames += tokens
        else:
            request, response = ({"auth_bytes": token} for token in tokens)
            frames.append(catalog.encode_request(SASL_AUTHENTICATE, 2, number, KEPT, request))
            frames.append(catalog.encode_response(SASL_AUTHENTICATE, 2, number, response))
    name = f"{mechanism}, {'bare' if is_bare else 'framed'}"
    return Dialogue(name, tuple((Direction(at % 2), framed(frame)) for at, frame in enumerate(frames)))


def every_login() -> list[Dialogue]:
    proof = SECRET.encode()
    tokens = {
        "PLAIN": ([b"\0anna\0" + proof], [b""]),
        "SCRAM-SHA-256": (
            [b"n,,n=anna,r=" + proof, b"c=biws,r=" + proof + b",p=" + proof],
            [b"r=" + proof + b",s=" + proof + b",i=4096", b"v=" + proof],
        ),
        "OAUTHBEARER": ([b"n,,\1auth=Bearer " + proof + b"\1\1"], [proof]),
        "GSSAPI": ([KERBEROS_HEAD + proof, proof], [proof, proof]),
        "OF-A-VENDOR": ([proof], [proof]),
    }
    return [_login(name, *both, is_bare=is_bare) for name, both in tokens.items() for is_bare in (False, True)]


def a_raw_token() -> Dialogue:
    """GSSAPI's first packet, which old clients send without a handshake. Source of its head: RFC 2743, 3.1."""
    return Dialogue("raw GSSAPI", ((Direction.REQUEST, framed(KERBEROS_HEAD + SECRET.encode())),))


def every_dialogue() -> list[Dialogue]:
    return [*every_message(), *every_login(), a_raw_token()]


def before() -> tuple[tuple[Direction, bytes], ...]:
    return _asked(HEARTBEAT, 4, 1)


Chunks = list[tuple[Direction, bytes]]


def variants(dialogue: Dialogue, cuts_of: Any) -> Iterator[Chunks]:
    """Yields the chunks of each connection: each frame cut in two, or broken off, with or without frames before."""
    for at, (direction, frame) in enumerate(dialogue.frames):
        for cut in cuts_of(len(frame)):
            for first in (before(), ()):
                begun = [*first, *dialogue.frames[:at], (direction, frame[:cut])]
                yield begun
                yield [*begun, (direction, frame[cut:]), *dialogue.frames[at + 1 :]]


def record(folder: Path, connections: Iterable[Chunks]) -> list[bytes]:
    """Records the connections, compacts and makes facts. Returns all that stood in files of the log meanwhile."""
    tap = open_tap(folder, RecordSettings(segment=1 << 20, when_full=WhenFull.WAIT), "s")
    player, clock = Player(tap), count(1)
    # closed where the next ones begin, so that states have connections
    open_ones: list[int] = []
    for number, chunks in enumerate(connections, 1):
        player.open(Talk(number, []), next(clock))
        open_ones.append(number)
        for direction, data in chunks:
            if data:
                player.play(number, Chunk(direction, data, next(clock)))
        while len(open_ones) > 5:
            player.close(open_ones.pop(0))
        if not number % 500:
            tap.flush()
    tap.flush()
    log = [path.read_bytes() for path in session_folder(folder, "s").iterdir()]
    for number in open_ones:
        player.close(number)
    tap.flush()
    log += [path.read_bytes() for path in session_folder(folder, "s").iterdir()]
    tap.close()
    states: dict[str, bytes] = {}

    def look(step: str) -> None:
        for path in session_folder(folder, "s").glob("*.state"):
            states.setdefault(path.name, path.read_bytes())

    compact_session(folder, "s", before_step=look)
    assert make_missing(folder) == []
    return [*log, *states.values()]


def columns(folder: Path) -> list[bytes]:
    """Returns every value of the Parquet files, decompressed; and their footers."""
    found: list[bytes] = []
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        for column in table.columns:
            found += [value if isinstance(value, bytes) else str(value).encode() for value in column.to_pylist()]
        found.append(str(pq.read_metadata(path).to_dict()).encode())
    return found


PIECES = [SECRET[at : at + PIECE].encode() for at in range(len(SECRET) - PIECE + 1)]


def check(folder: Path, connections: Iterable[Chunks], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        log = record(folder, connections)
    kept = columns(folder)
    said = "\n".join(record.getMessage() + str(record.__dict__) for record in caplog.records).encode()
    facts = [path for path in folder.rglob("*.parquet") if "facts" in path.parts]
    assert facts
    for what in (b"".join(log), b"\n".join(kept), said):
        assert [piece for piece in PIECES if piece in what] == []
    assert KEPT.encode() in b"".join(log)
    assert KEPT.encode() in kept


def test_a_secret_is_planted_in_every_field_that_is_marked_as_one() -> None:
    for dialogue in every_message():
        (_, request), (_, response) = dialogue.frames
        key, version = int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big")
        for kind, frame in zip(KINDS, (request, response), strict=True):
            # each path lies in one array or two, of two elements each
            planted_in = frame.count(SECRET.encode())
            assert planted_in >= len(catalog.secrets(kind, key, version)), dialogue.name
    assert len(every_message()) > 20


def test_secrets_that_arrive_in_two_chunks_or_break_off_are_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(1)
    dialogues = every_dialogue()
    sample = (
        connection
        for dialogue in dialogues
        for connection in variants(dialogue, lambda size: random.sample(range(1, size), SOME_CUTS))
    )
    check(tmp_path, sample, caplog)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_secrets_that_are_cut_at_any_byte_are_not_kept(
    part: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dialogues = every_dialogue()[part::4]
    check(tmp_path, (one for dialogue in dialogues for one in variants(dialogue, lambda size: range(1, size))), caplog)
