"""What must hold of a connection, whatever client and broker send, in whatever pieces and order.

- nothing is raised: a relay ends for a cause
- requests leave as they came, less those that the proxy answers; responses leave as they came, but for the edits of
  the address table
- no address of a broker leaves in a field that a client dials, as a client reads what it is sent
- how the bytes are cut into chunks, and how many frames of a chunk are looked at in a turn, changes nothing
- the log holds what came, every byte once, and no secret; where no records are recorded, it says so of each byte that
  it lacks, and lacks all keys, values and headers
- series of metrics are the catalog's

In the dialect of 0.7 all of it is simpler: `fuzz.kafka07`.

The twins here are slow and simple: streams are lists of frames; a client takes its answers in the order of its
requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from struct import Struct
from typing import Any, NamedTuple

from fuzz import kafka07
from fuzz.corpus import RECORDS
from fuzz.findings import must, same
from fuzz.plays import ADVERTISED, Chunk, Options, Outcome, PlayedNodes, play
from proxy import wire
from proxy.conversation import Cause, Direction
from proxy.net.connection.rewriting import is_rewritten
from proxy.rewrite import addresses, api_versions
from proxy.wire import apis, catalog, records
from proxy.wire.apis import MessageKind
from proxy.wire.error_codes import ERRORS
from proxy.wire.framing import LENGTH, framed
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, FETCH, FIND_COORDINATOR, METADATA, PRODUCE, SASL_HANDSHAKE
from proxy.wire.plain_settings import PLAIN_SETTINGS
from proxy.wire.records.blank import HEADS
from recorder.capture.spool import DATA, OF_STREAMS, EntryKind, Spans

# of a request, behind its length: key, version, correlation id
HEAD = Struct(">hhi")
# lists of nodes by their fields' names, in whichever message
LISTS = ("brokers", "coordinators", "node_endpoints")
# what a script is cut into anew: as it is, each side's chunks joined, pieces of seven bytes, single ones
AS_IT_IS, JOINED, SEVENS, SINGLES = range(4)
# more pieces than these take too long
MAX_PIECES = 400


def unpacked(data: bytes) -> tuple[Options, list[Chunk]]:
    """An input as a script: options and where the proxy stops, then a direction with a length, and the chunk."""
    how, stop = (data[0], data[1]) if len(data) > 1 else (0, 0)
    drained_after = stop if how & 16 else None
    options = Options(
        bool(how & 1), bool(how & 2), how >> 2 & 3, drained_after, bool(how & 32), bool(how & 64), bool(how & 128)
    )
    chunks, at = [], 2
    while at + 2 < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        chunk = data[at + 2 : at + 2 + (size & 0x7FFF)]
        if chunk:
            chunks.append((Direction(size >> 15), chunk))
        at += 2 + (size & 0x7FFF)
    return options, chunks


def packed(options: Options, chunks: Sequence[Chunk]) -> bytes:
    """A script as an input."""
    drained = options.drained_after
    how = options.walked | options.hide_unknown << 1 | options.recut << 2 | (drained is not None) << 4
    how |= options.is_old << 5 | options.short_turns << 6 | options.drops << 7
    head = bytes([how, drained or 0])
    pieces = [(direction, data[at : at + 0x7FFF]) for direction, data in chunks for at in range(0, len(data), 0x7FFF)]
    return head + b"".join((direction << 15 | len(data)).to_bytes(2, "big") + data for direction, data in pieces)


def conversation(data: bytes) -> None:
    """A whole conversation, as `packed` writes it."""
    options, chunks = unpacked(data)
    outcome = play(chunks, options)
    check(outcome, options)
    # where reading stops, once the proxy is to stop, depends on what has been read
    if options.drained_after is not None:
        return
    if options.recut:
        _same_outcome(play(list(recut(chunks, options.recut)), options), outcome)
    if options.short_turns:
        _same_outcome(play(chunks, options._replace(short_turns=False)), outcome)


def recut(chunks: Sequence[Chunk], how: int) -> Iterator[Chunk]:
    """The same bytes in the same order, in other pieces."""
    for direction, run in groupby(chunks, lambda chunk: chunk[0]):
        data = b"".join(chunk for _, chunk in run)
        size = {JOINED: len(data), SEVENS: 7, SINGLES: 1}[how]
        size = max(size, len(data) // MAX_PIECES)
        yield from ((direction, data[at : at + size]) for at in range(0, len(data), size))


def _same_outcome(one: Outcome, other: Outcome) -> None:
    """Of the same bytes in other chunks. What was read beyond the place where somebody is cut off depends on them."""
    if {Cause.CLIENT_CLOSED, Cause.PROBE} & {one.cause, other.cause}:
        same(one.cause, other.cause, "the end, in other chunks")
        # in a frame that turns out to be no message, what came before the piece that shows it may stay
        for what in (_left, _counts) if one.drops else (_left, _logs, _counts):
            same(what(one), what(other), "the same bytes in other chunks")
    else:
        for found, wanted in zip(_left(one), _left(other), strict=True):
            must(found.startswith(wanted) or wanted.startswith(found), f"in other chunks {found!r} leaves: {wanted!r}")


def _left(outcome: Outcome) -> list[bytes]:
    return outcome.left


def _logs(outcome: Outcome) -> list[bytes]:
    return [_logged(outcome, direction) for direction in Direction]


def _counts(outcome: Outcome) -> tuple[Any, ...]:
    traffic = outcome.traffic
    rows = {
        labels: (row.exchanges, row.one_way, row.by_proxy, row.request_buckets, row.response_buckets)
        for labels, row in traffic.rows.items()
    }
    return traffic.opaque_frames, traffic.errors.named, traffic.errors.unread, rows


def check(outcome: Outcome, options: Options) -> None:
    """All that holds of a single play."""
    for direction in Direction:
        _log_holds(outcome, direction)
    if options.is_old:
        kafka07.check(outcome)
        return
    _requests_pass(outcome.read[0], outcome.left[0])
    _responses_pass(outcome, options)
    _no_address_leaves(outcome)
    _no_secret_is_logged(outcome)
    if outcome.drops:
        _no_record_is_logged(outcome)
    _labels_are_the_catalogs(outcome)


class Frame(NamedTuple):
    """A frame with its length, which may be less than it says; where it begins in its stream."""

    data: bytes
    at: int

    @property
    def is_whole(self) -> bool:
        return len(self.data) >= 4 and len(self.data) == 4 + LENGTH.unpack_from(self.data)[0]

    @property
    def head(self) -> tuple[int, int, int] | None:
        """Of a request: key, version, correlation id."""
        if len(self.data) < 12 or LENGTH.unpack_from(self.data)[0] < 8:
            return None
        found: tuple[int, int, int] = HEAD.unpack_from(self.data, 4)
        return found


def _frames(stream: bytes) -> Iterator[Frame]:
    """Up to a length that none may have, which is the last one's."""
    at = 0
    while at < len(stream):
        size = LENGTH.unpack_from(stream, at)[0] if at + 4 <= len(stream) else 0
        stop = at + 4 + size if size >= 0 else len(stream)
        yield Frame(stream[at:stop], at)
        at = stop


def _is_answered(frame: Frame) -> bool:
    head = frame.head
    return head is not None and head[0] == API_VERSIONS and head[1] > api_versions.newest_known()


def _requests_pass(read: bytes, left: bytes) -> None:
    at = 0
    for frame in _frames(read):
        rest = left[at : at + len(frame.data)]
        if rest == frame.data:
            at += len(rest)
        elif not _is_answered(frame):
            must(frame.data.startswith(rest), f"a request leaves as it came: {rest!r} is not {frame.data!r}")
            must(at + len(rest) == len(left), "nothing leaves behind a request that was cut off")
            return
    must(at == len(left), f"more leaves than has come: {left[at:]!r}")


def _responses_pass(outcome: Outcome, options: Options) -> None:
    """Each frame that leaves is one that came, in its turn, or is the proxy's own."""
    asked: dict[int, list[tuple[int, int]]] = {}
    for frame in _frames(outcome.read[0]):
        if frame.head is not None:
            asked.setdefault(frame.head[2], []).append(frame.head[:2])
    came = list(_frames(outcome.read[1]))
    turn = 0
    for frame in _frames(outcome.left[1]):
        number = int.from_bytes(frame.data[4:8], "big", signed=True)
        if turn < len(came) and came[turn].data.startswith(frame.data):
            turn += 1
        elif frame.data == api_versions.unsupported(number) and any(map(_is_new, asked.get(number, ()))):
            continue
        else:
            must(turn < len(came), f"more leaves than has come: {frame.data!r}")
            apis = [api for api in asked.get(number, ()) if is_rewritten(*api)]
            must(
                _is_edit(frame, came[turn], apis, options.hide_unknown),
                f"{frame.data!r} is no edit of {came[turn].data!r}",
            )
            turn += 1


def _is_new(api: tuple[int, int]) -> bool:
    return api[0] == API_VERSIONS and api[1] > api_versions.newest_known()


def _is_edit(left: Frame, came: Frame, apis: list[tuple[int, int]], hide_unknown: bool) -> bool:
    """Whether one is the other as the address table would have it for one of these apis."""
    if not (came.is_whole and left.data[4:8] == came.data[4:8]):
        # one that streams keeps its length, and may be cut off anywhere
        return left.data[:8] == came.data[:8] and bool(apis)
    return any(_is_edit_of(key, version, left, came, hide_unknown) for key, version in apis)


def _is_edit_of(key: int, version: int, left: Frame, came: Frame, hide_unknown: bool) -> bool:
    if not left.is_whole:
        return left.data[:4] == came.data[:4]
    try:
        before = _decoded(key, version, came)
        after = _decoded(key, version, left)
    except wire.WireError:
        # a text that is none, or bytes behind the message: those who only look for addresses read it
        return left.data == _rewritten(key, version, came.data[4:], hide_unknown)
    if key == API_VERSIONS:
        before, after = ({**one, "api_keys": []} for one in (before, after))
    return repr(_without_nodes(before)) == repr(_without_nodes(after))


def _rewritten(key: int, version: int, frame: bytes, hide_unknown: bool) -> bytes:
    try:
        if key == API_VERSIONS:
            return api_versions.reduce(version, frame, hide_unknown=hide_unknown)
        return addresses.splice(key, version, frame, PlayedNodes.told)
    except (wire.WireError, OSError):
        return b""


def _decoded(key: int, version: int, frame: Frame) -> Any:
    found = wire.decode_response(frame.data[4:], key, version)
    return {} if isinstance(found, wire.UnknownMessage) else found[1]


def _without_nodes(values: Any) -> Any:
    """Neither what is rewritten, nor what makes up a rewritten tail's length."""
    if isinstance(values, dict):
        hidden = ("host", "port", "node_endpoints", "_tags")
        return {name: _without_nodes(value) for name, value in values.items() if name not in hidden}
    return [_without_nodes(value) for value in values] if isinstance(values, list) else values


def _no_address_leaves(outcome: Outcome) -> None:
    """A client takes an answer for the oldest request that waits for one, and reads where the nodes are."""
    waiting = _awaiting(outcome.read[0])
    for frame in _frames(outcome.left[1]):
        number = int.from_bytes(frame.data[4:8], "big", signed=True)
        key, version = next(((key, version) for key, version, asked in waiting if asked == number), (None, None))
        if key is None or version is None or not frame.is_whole:
            return
        if key == SASL_HANDSHAKE and version == 0 and frame.data[8:10] == b"\0\0":
            # what follows is the mechanism's
            return
        try:
            nodes = list(_nodes(key, _decoded(key, version, frame)))
        except wire.WireError:
            continue
        for node_id, host in nodes:
            told = host == ADVERTISED and node_id in outcome.ensured
            must(told, f"{apis.api_name(key)} v{version}: a client is told {host!r} of node {node_id}")


def _awaiting(read: bytes) -> Iterator[tuple[int, int, int]]:
    """Key, version and correlation id of the requests that are answered, up to one that nobody could read."""
    for frame in _frames(read):
        head = frame.head
        if head is None:
            return
        if head[0] == PRODUCE:
            try:
                found = wire.decode_request(frame.data[4:])
            except wire.WireError:
                return
            if isinstance(found, wire.UnknownMessage) or found[1]["acks"] == 0:
                continue
        yield head


def _nodes(key: int, values: Any) -> Iterator[tuple[int, str]]:
    if key not in (PRODUCE, 1, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, 78, 79):
        return
    for one in [node for name in LISTS for node in values.get(name) or ()] + ([values] if "host" in values else []):
        node_id = one.get("node_id", one.get("broker_id"))
        if node_id != -1 or one["host"]:
            yield node_id, one["host"]


def _logged(outcome: Outcome, direction: Direction) -> bytes:
    """The stream as the log has it, with zeros in place of what it lacks."""
    stream = b""
    for kind, way, _, _, _, data, spans in outcome.log:
        if way == direction and kind == EntryKind.CUT:
            stream += _filled(data, spans)
        elif way == direction and kind == EntryKind.OMITTED:
            stream += bytes(json.loads(data)["length"])
        elif way == direction and kind in OF_STREAMS:
            stream += data
    return stream


def _filled(data: bytes, spans: Spans) -> bytes:
    made, rest = bytearray(), data
    for start, length in spans:
        count = start - len(made)
        made += rest[:count] + bytes(length)
        rest = rest[count:]
    return bytes(made) + rest


def _log_holds(outcome: Outcome, direction: Direction) -> None:
    read, at = outcome.read[direction], 0
    for kind, way, _, offset, _, data, spans in outcome.log:
        if way != direction or kind not in (*OF_STREAMS, EntryKind.OMITTED):
            continue
        must(offset == at or (not offset and kind == EntryKind.OMITTED), f"the log goes on at {offset}, not at {at}")
        if kind == EntryKind.OMITTED:
            must(outcome.drops or not json.loads(data)["length"], "nothing is left out of a recording of everything")
            at += json.loads(data)["length"]
            continue
        logged = _filled(data, spans) if kind == EntryKind.CUT else data
        hidden = bytearray(read[at : at + len(logged)])
        for start, length in spans:
            hidden[start : start + length] = bytes(length)
        same(logged, bytes(hidden), "what is logged")
        at += len(logged)
    must(at == len(read), f"{len(read) - at} bytes that came are not in the log")
    must(not any(b"recorder_fault" in item[DATA] for item in outcome.log), "the recorder takes everything")


def _no_record_is_logged(outcome: Outcome) -> None:
    """Of every whole frame that reads as one with batches, whatever it was taken for."""
    logs = _logs(outcome)
    for frame in _frames(outcome.read[0]):
        if frame.is_whole and frame.head is not None and frame.head[0] == PRODUCE:
            _no_record_of(frame, "request", *frame.head[:2], logs[0])
    waiting = _awaiting(outcome.read[0])
    for frame in _frames(outcome.read[1]):
        number = int.from_bytes(frame.data[4:8], "big", signed=True)
        key, version = next(((key, version) for key, version, asked in waiting if asked == number), (None, None))
        if key is None or version is None or not frame.is_whole or key == SASL_HANDSHAKE:
            return
        if key == FETCH:
            _no_record_of(frame, "response", key, version, logs[1])


def _no_record_of(frame: Frame, kind: MessageKind, key: int, version: int, log: bytes) -> None:
    codec, path = catalog.codec(kind, key, version), RECORDS[kind, key]
    if codec is None:
        return
    data = frame.data[4:]
    try:
        begin = wire.request_head(data).body if kind == "request" else wire.response_head(data, key, version).body
        found = [(value, stop) for value, _, stop in codec.project((path,))(data, begin)[path] if value]
        batches = [(stop - len(value), one) for value, stop in found for one in records.batches(value)]
    except wire.WireError:
        return
    for start, batch in batches:
        first, last = (frame.at + 4 + start + at for at in (batch.start + HEADS[batch.magic], batch.end))
        is_marker = kind == "response" and batch.is_end_marker
        must(is_marker or not any(log[first:last]), f"records are logged: {log[first:last]!r}")


def _no_secret_is_logged(outcome: Outcome) -> None:
    """Of every whole frame that reads as a message with secrets, whatever it was taken for."""
    log = _logged(outcome, Direction.REQUEST)
    for frame in _frames(outcome.read[0]):
        if frame.is_whole and frame.head is not None:
            for start, stop in _secrets(frame):
                hidden = log[frame.at + 4 + start : frame.at + 4 + stop]
                must(not any(hidden), f"a secret of {apis.api_name(frame.head[0])} is logged: {hidden!r}")


def _secrets(frame: Frame) -> list[tuple[int, int]]:
    key, version, _ = frame.head or (0, 0, 0)
    paths = catalog.secrets("request", key, version)
    codec = catalog.codec("request", key, version) if paths else None
    if codec is None:
        return []
    names = {path: f"{path.removesuffix('value')}name" for path in paths if path.endswith(".value")}
    try:
        found = codec.project((*paths, *names.values()))(frame.data[4:], wire.request_head(frame.data[4:]).body)
    except wire.WireError:
        return []
    for path, name in names.items():
        # settings that everybody may see
        called = [told for told, _, _ in found[name]]
        found[path] = [one for one, told in zip(found[path], called, strict=True) if told not in PLAIN_SETTINGS]
    values = [one for path in paths for one in found[path] if one[0]]
    return [(stop - len(value), stop) for value, _, stop in values]


def _labels_are_the_catalogs(outcome: Outcome) -> None:
    for api, version in outcome.traffic.rows:
        known = api == "other" or any(apis.api_name(key) == api for key in range(200))
        must(known and (version == "other" or version.isdigit()), f"a series of {api!r}, version {version!r}")
    for api, error in outcome.traffic.errors.named:
        known = error == "other" or any(other.name == error for other in ERRORS.values())
        must(known and any(of == api for of, _ in outcome.traffic.rows), f"a series of {api!r}, error {error!r}")


def pair(request: bytes, response: bytes, number: int) -> tuple[bytes, bytes]:
    """A request and its answer, with their lengths and this correlation id."""
    tag = number.to_bytes(4, "big", signed=True)
    return framed(request[:4] + tag + request[8:]), framed(tag + response[4:])
