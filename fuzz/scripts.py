"""Conversations to start from: real requests with their answers, logins, and what ends a connection."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from fuzz import corpus, kafka07
from fuzz.conversations import AS_IT_IS, JOINED, SEVENS, SINGLES, packed, pair
from fuzz.plays import UPSTREAM, Chunk, Options
from proxy.conversation import Direction
from proxy.rewrite import addresses
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import (
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)

REQUEST, RESPONSE = Direction
SECRET = b"correct-horse"
# what breaks readers: ends of ranges, lengths that are none, heads of other protocols
EDGES: tuple[bytes, ...] = (b"\xff", b"\0", b"\x80", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\4")
EDGES += (b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n\r\n")
# Metadata and a vendor's api, in versions that there aren't
EDGES += (b"\0\0\0\x0c\0\3\0\x63\0\0\0\1\xff\xff\0\0", b"\0\0\0\x0a\x27\x11\0\0\0\0\0\2\xff\xff")

# the end of the names of scripts that are recorded without records
DROPPED = "-dropped"

Script = list[Chunk]
Pair = tuple[bytes, bytes]


def pairs() -> list[tuple[str, bytes, bytes]]:
    """(name, request, response) of the corpus; nodes are at hosts that nobody else has."""
    asked = {name: frame for name, _, _, frame in corpus.frames("request")}
    found = []
    for name, key, version, frame in corpus.frames("response"):
        if name in asked:
            if addresses.carries(key, version):
                moved = addresses.splice(key, version, frame, lambda node: Address(f"b{node}.{UPSTREAM}", 9092))
                frame = moved[4:]
            found.append((name, asked[name], frame))
    return found


def scripts() -> dict[str, tuple[Options, Script]]:
    """All of them, by name."""
    found = {f"pair-{name}": _in_turn([pair(asked, answer, 7)]) for name, asked, answer in pairs()}
    found |= _mixed() | _logins() | _settings() | _endings()
    made: dict[str, tuple[Options, Script]] = {}
    for number, (name, script) in enumerate(sorted(found.items())):
        recut = (AS_IT_IS, JOINED, SEVENS, SINGLES)[number % 4]
        drained_after = number % 7 if number % 11 == 0 else None
        options = Options(number % 2 == 1, number % 5 == 0, recut, drained_after, short_turns=number % 3 == 0)
        made[name] = options, script
    return made | _without_records(made) | _of_kafka07()


def _without_records(made: dict[str, tuple[Options, Script]]) -> dict[str, tuple[Options, Script]]:
    """Those that hold batches, recorded without their records."""
    apis = ("-Produce-", "-Fetch-", "-ShareFetch-", "mixed-")
    holding = [name for name in made if any(api in name for api in apis)]
    return {f"{name}{DROPPED}": (made[name][0]._replace(drops=True), made[name][1]) for name in holding}


def _of_kafka07() -> dict[str, tuple[Options, Script]]:
    """In all the pieces that there are."""
    return {
        f"kafka07-{name}-{recut}": (Options(recut=recut, is_old=True), script)
        for name, script in kafka07.scripts().items()
        for recut in (AS_IT_IS, JOINED, SEVENS, SINGLES)
    }


def inputs() -> Iterator[corpus.Input]:
    """As a fuzzer takes them."""
    for name, script in scripts().items():
        yield corpus.Input("conversation", name, packed(*script))


def _in_turn(calls: Sequence[Pair]) -> Script:
    return [chunk for asked, answered in calls for chunk in ((REQUEST, asked), (RESPONSE, answered))]


def _at_once(calls: Sequence[Pair]) -> Script:
    return [(REQUEST, b"".join(one for one, _ in calls)), (RESPONSE, b"".join(one for _, one in calls))]


def _mixed() -> dict[str, Script]:
    rng, all_pairs = random.Random(5), pairs()
    found = {}
    for number in range(24):
        calls = [pair(*rng.choice(all_pairs)[1:], rng.randrange(-9, 1 << 31)) for _ in range(rng.randint(2, 6))]
        found[f"mixed-{number}"] = (_in_turn if number % 2 else _at_once)(calls)
    return found


def _call(key: int, version: int, number: int, asked: Any, answered: Any) -> Pair:
    request = catalog.encode_request(key, version, number, "fuzz", asked)
    return framed(request), framed(catalog.encode_response(key, version, number, answered))


def metadata(number: int, version: int = 9) -> Pair:
    """Somebody asks for the nodes."""
    brokers = [{"node_id": node, "host": f"b{node}.{UPSTREAM}", "port": 9092} for node in (1, 2)]
    return _call(METADATA, version, number, {"topics": []}, {"brokers": brokers})


def _handshake(version: int, mechanism: str, error: int = 0) -> Pair:
    return _call(SASL_HANDSHAKE, version, 1, {"mechanism": mechanism}, {"error_code": error, "mechanisms": [mechanism]})


def _logins() -> dict[str, Script]:
    plain, token = b"\0user\0" + SECRET, framed(b"\0user\0" + SECRET)
    found = {}
    for version in (0, 1, 2):
        login = _call(SASL_AUTHENTICATE, version, 2, {"auth_bytes": plain}, {"auth_bytes": SECRET})
        found[f"login-{version}"] = _in_turn([_handshake(1, "PLAIN"), login, metadata(3), login, metadata(4)])
    empty = framed(b"")
    found["tokens-plain"] = _in_turn([_handshake(0, "PLAIN"), (token, empty), metadata(3)])
    scram = [(framed(one), framed(other)) for one, other in ((b"n,,n=u,r=1", b"r=12,s=QQ==,i=1"), (SECRET, SECRET))]
    found["tokens-scram"] = _in_turn([_handshake(0, "SCRAM-SHA-256"), *scram, metadata(3)])
    found["tokens-oauth"] = _in_turn([_handshake(0, "OAUTHBEARER"), (token, empty), metadata(3)])
    gssapi = (framed(b"\x60" + SECRET), framed(b"\x60" + SECRET))
    found["tokens-gssapi"] = _in_turn([_handshake(0, "GSSAPI"), gssapi, gssapi, metadata(3)])
    found["tokens-raw"] = _in_turn([gssapi, gssapi, metadata(3)])
    found["tokens-refused"] = _in_turn([_handshake(0, "PLAIN", 33), metadata(3), metadata(4)])
    found["tokens-none"] = _in_turn([_handshake(0, "PLAIN"), metadata(3), metadata(4)])
    return found


def _settings() -> dict[str, Script]:
    """Settings that may be passwords and one that is none, and answers that quote them."""
    quoting = {"error_code": 40, "error_message": f"no {SECRET.decode()}", "resource_type": 2, "resource_name": "t"}
    told = {"ssl.key.password": SECRET.decode(), "cleanup.policy": "compact", "a.vendors": SECRET.decode()}
    configs = [{"name": name, "value": value} for name, value in told.items()]
    resource = {"resource_type": 2, "resource_name": "t", "configs": configs}
    found = {}
    for key, version in product((ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS), (0, 1)):
        call = _call(key, version, 2, {"resources": [resource]}, {"responses": [quoting]})
        found[f"settings-{key}-{version}"] = _in_turn([metadata(1), call, call, metadata(3)])
    return found


def _endings() -> dict[str, Script]:
    first = _in_turn([metadata(1)])
    vendor, versions = framed(b"\x27\x11\0\0\0\0\0\2\xff\xffbody"), framed(b"\0\x12\0\x63\0\0\0\3\xff\xff\0")
    silent = framed(catalog.encode_request(0, 9, 4, "fuzz", {"acks": 0, "timeout_ms": 1, "topic_data": []}))
    found = {f"edge-{number}": [*first, (REQUEST, edge)] for number, edge in enumerate(EDGES)}
    found |= {f"answered-edge-{number}": [*first, (RESPONSE, edge)] for number, edge in enumerate(EDGES)}
    found["vendor"] = [(REQUEST, vendor), *_in_turn([metadata(5)])]
    found["newest"] = [(REQUEST, versions * 3), *_in_turn([metadata(5)]), (REQUEST, versions)]
    found["one-way"] = [(REQUEST, silent), *_in_turn([metadata(5)])]
    found["same-ids"] = _in_turn([metadata(5)] * 3) + _at_once([metadata(5), metadata(5, 1), metadata(5, 0)])
    return found


def mutated(rng: random.Random, script: Sequence[Chunk], others: Sequence[Chunk]) -> Script:
    """The script, to which a few things happened: to its bytes, its chunks, their order."""
    made = list(script)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(made) + 1)
        if not made or rng.random() < 0.1:
            made.insert(at, rng.choice(others))
            continue
        at = min(at, len(made) - 1)
        made[at : at + 1] = rng.choice(CHANGES)(rng, *made[at])
    if len(made) > 1 and rng.random() < 0.2:
        one, other = rng.randrange(len(made)), rng.randrange(len(made))
        made[one], made[other] = made[other], made[one]
    return made


def _overwritten(rng: random.Random, direction: Direction, data: bytes) -> Script:
    # heads decide about most things
    at = rng.randrange(min(len(data), rng.choice((16, 1 << 20))) or 1)
    edge = rng.choice((*EDGES, rng.randbytes(1), rng.randbytes(4)))
    return [(direction, data[:at] + edge + data[at + len(edge) :])]


def _inserted(rng: random.Random, direction: Direction, data: bytes) -> Script:
    at = rng.randrange(len(data) + 1)
    return [(direction, data[:at] + rng.choice((*EDGES, rng.randbytes(3))) + data[at:])]


def _cut(rng: random.Random, direction: Direction, data: bytes) -> Script:
    return [(direction, data[: rng.randrange(len(data) + 1)])]


def _split(rng: random.Random, direction: Direction, data: bytes) -> Script:
    at = rng.randrange(len(data) + 1)
    return [(direction, data[:at]), (direction, data[at:])]


def _doubled(rng: random.Random, direction: Direction, data: bytes) -> Script:
    return [(direction, data)] * 2


def _dropped(rng: random.Random, direction: Direction, data: bytes) -> Script:
    return []


def _turned(rng: random.Random, direction: Direction, data: bytes) -> Script:
    return [(Direction(1 - direction), data)]


CHANGES = (_overwritten, _overwritten, _overwritten, _inserted, _cut, _split, _split, _doubled, _dropped, _turned)
