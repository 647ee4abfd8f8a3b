"""What must hold for any bytes. A check takes bytes and returns, whatever they are; what it raises is a finding.

Each check reads its choices (which api, which path, how large the pieces are) from the first bytes, so that a fuzzer
learns to make them.
"""

from __future__ import annotations

import json
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from fuzz import conversations, corpus, doors, replays, scripts, spools
from fuzz.findings import Finding, must, same
from proxy import wire
from proxy.terminal import harmless, harmless_lines
from proxy.tools import frames, json_text, plain
from proxy.tools import kafka07 as kafka07_tree
from proxy.tools.tree import Shown
from proxy.wire import embedded, kafka07, primitives, records, sasl, telemetry
from proxy.wire.apis import MessageKind
from proxy.wire.compile.layout import Struct, layout
from proxy.wire.embedded.logs import LOGS
from proxy.wire.error_reader import Unread, error_codes, error_paths, error_reader
from proxy.wire.framing import framed
from proxy.wire.long_polls import LONG_POLLS, allowed_ms, waited

Check = Callable[[bytes], None]

# A dict of few fields is the largest thing that one byte of an array's element can become.
BYTES_PER_BYTE = 400
# What a call needs whatever its input: frames of calls, constants, an exception's traceback.
ALLOWANCE = 300_000
# Measuring doubles the time of an input, so that one in so many is measured; which one follows from its bytes.
MEASURED_OF = 16
# What a batch may unfold to, and what a view's budget is; and how much of it is held at a time, in several forms: as it
# came out, joined, as records, as text.
UNFOLDED = 1 << 20
UNFOLDING = dict.fromkeys(("batches", "pushed", "tools", "old"), 8 * UNFOLDED)
# An event loop, two streams, and for every piece an entry of the log and what becomes of it.
UNFOLDING |= dict.fromkeys(("conversation", *doors.CHECKS, *spools.CHECKS, *replays.CHECKS), 8 * UNFOLDED)
# Bytes of a batch whose records are all held at once, to be written again.
MAX_REWRITTEN = 2000
# Paths of a message that are asked for, evenly spread: each is a function of its own, and kept.
PATHS = 4
KINDS: tuple[MessageKind, ...] = ("request", "response")


def request(data: bytes) -> None:
    """A request's frame."""
    key, version = (int.from_bytes(data[at : at + 2], "big", signed=True) for at in (0, 2))
    allowed_ms(data, key, version)
    with suppress(wire.WireError):
        found = wire.decode_request(data)
        if not isinstance(found, wire.UnknownMessage):
            head, values = found
            again = wire.encode_request(head.api_key, head.api_version, head.correlation_id, head.client_id, values)
            _same_message(wire.decode_request(again), found)


def response(data: bytes) -> None:
    """Api key, version, then a response's frame."""
    if len(data) < 2:
        return
    key, version, frame = data[0], data[1], data[2:]
    codes = error_codes(frame, key, version)
    if key in LONG_POLLS:
        waited(frame, key, version)
    _probed(framed(frame), key, version, codes)
    with suppress(wire.WireError):
        found = wire.decode_response(frame, key, version)
        if not isinstance(found, wire.UnknownMessage):
            head, values = found
            # a refusal is written in another version than was asked for
            written = _must_codec(frame, key, version).version
            again = wire.encode_response(key, written, head.correlation_id, values)
            _same_message(wire.decode_response(again, key, written), found)
            must(isinstance(codes, list) or not _codes_of(key, version), "what decodes tells its error codes")


def _probed(frame: bytes, key: int, version: int, codes: list[int] | Unread) -> None:
    """A probe finds the first error codes, however the frame is cut."""
    probe = error_reader(key, version)
    if probe is None:
        return
    found, arriving = probe.find(frame, 0, len(frame)), probe.begin()
    for byte in frame:
        arriving.feed(bytes([byte]))
    same(arriving.found, found, "the errors of a response that comes byte by byte")
    if isinstance(codes, list):
        must(not Counter(found.codes) - Counter(codes), f"errors that are there: {found.codes} of {codes}")
        must(found.codes == Counter(codes) or found.beyond == 1, f"all errors that are there: {found.codes} of {codes}")


def _must_codec(frame: bytes, key: int, version: int) -> wire.Codec:
    codec = wire.codec_of_response(frame, key, version)
    if codec is None:
        raise Finding("what decodes has a codec")
    return codec


def _same_message(again: Any, first: Any) -> None:
    """Head and values that were encoded and decoded; tags of a head are not kept, so that its body may move."""
    (head, values), (first_head, first_values) = again, first
    same(head._replace(body=0), first_head._replace(body=0), "a head that was encoded and decoded")
    same(values, first_values, "a body that was encoded and decoded behind its head")


@lru_cache(None)
def _codes_of(key: int, version: int) -> tuple[str, ...]:
    """The paths of a response's error codes."""
    return error_paths(key, version)


def body(data: bytes) -> None:
    """Kind and size of pieces, api key, version, path; then a body: projections and walks find what its values say."""
    if len(data) < 4:
        return
    kind, size = KINDS[data[0] & 1], (data[0] >> 1) + 1
    codec = wire.codec(kind, data[1], data[2])
    if codec is None:
        return
    buf = data[4:]
    values = _decoded(codec, buf)
    if values is not None:
        _stable(codec, values)
    _counted(codec, buf)
    paths = _paths(codec)
    if paths:
        _projected(codec, buf, values, paths[data[3] % len(paths)])
        _walked(codec, buf, values, data[3], size)


def _decoded(codec: wire.Codec, buf: bytes) -> dict[str, Any] | None:
    try:
        values, end = codec.decode(buf)
    except wire.WireError as error:
        must(error.api == codec.message.api, "an error names its api")
        must(error.version == codec.version, "an error names its version")
        must(error.offset is not None and 0 <= error.offset <= len(buf), "an error's offset is in the buffer")
        return None
    must(end <= len(buf), "a message ends within the buffer")
    return values


def _counted(codec: wire.Codec, buf: bytes) -> None:
    """What is paid for is decoded as what is not, and with little to pay with it is that or too much."""
    for budget in (wire.Budget(), wire.Budget(len(buf) + 1000)):
        try:
            counted = codec.decode(buf, budget=budget)
        except wire.OverBudget as error:
            must(budget.size < wire.Budget().size, "a small body does not come to a gigabyte")
            must(error.values is not None, "there is what was decoded until then")
        except wire.WireError:
            must(_is_wrong(codec, buf), "what can be decoded can be when it is paid for")
        else:
            same(counted, codec.decode(buf), "values that were paid for, and the same without")


def _is_wrong(codec: wire.Codec, buf: bytes) -> bool:
    try:
        codec.decode(buf)
    except wire.WireError:
        return True
    return False


def _stable(codec: wire.Codec, values: dict[str, Any]) -> None:
    written = codec.encode(values)
    again, end = codec.decode(written)
    must(end == len(written), "what was encoded is read to its end")
    same(again, values, "values that were encoded and decoded")
    must(codec.encode(again) == written, "values are encoded one way")


def _projected(codec: wire.Codec, buf: bytes, values: dict[str, Any] | None, path: str) -> None:
    try:
        found = codec.project((path,))(buf, 0)[path]
    except wire.WireError:
        must(values is None, f"what decodes can be projected: {path}")
        return
    for _, start, end in found:
        must(0 <= start <= end <= len(buf), "a span lies within the buffer")
    if values is not None:
        same([value for value, _, _ in found], list(_at(values, path)), f"what a projection finds at {path}")


def _at(values: Any, path: str) -> Iterator[Any]:
    """What stands at a path of decoded values, flattened over arrays."""
    name, _, rest = path.partition(".")
    inner = values if isinstance(values, list) else [values]
    for one in inner:
        if one is not None:
            yield from _at(one[name], rest) if rest else [one[name]]


def _walked(codec: wire.Codec, buf: bytes, values: dict[str, Any] | None, choice: int, size: int) -> None:
    """A walk finds the same place, whole or in pieces; and the one that a projection finds."""
    stops = _stops(codec)
    stop = stops[choice % len(stops)]
    whole = _place(codec.walk(stop), [buf])
    pieces = _place(codec.walk(stop), [buf[at : at + size] for at in range(0, len(buf), size)] or [b""])
    must(whole == pieces, f"a walk to {stop} in pieces of {size} ends where it does in one: {whole}, {pieces}")
    if values is not None:
        must(whole is not None, f"a walk to {stop} finds it in what decodes")
        ((_, start, _),) = codec.project((stop,))(buf, 0)[stop]
        must(whole == start, f"a walk to {stop} and a projection agree: {whole}, {start}")


def _place(walk: wire.Walk, pieces: Sequence[bytes]) -> int | str | None:
    before = 0
    for piece in pieces:
        try:
            found = walk.feed(piece)
        except wire.WireError:
            return "malformed"
        if found is not None:
            return before + found
        before += len(piece)
    return None


@lru_cache(None)
def _paths(codec: wire.Codec) -> tuple[str, ...]:
    """Some paths of fields that are not tagged, evenly spread."""
    paths = list(_untagged(layout(codec.message, codec.version)))
    return tuple(paths[:: max(1, len(paths) // PATHS)])


def _untagged(struct: Struct, above: str = "") -> Iterator[str]:
    for slot in struct.slots:
        yield above + slot.name
        if slot.struct:
            yield from _untagged(slot.struct, f"{above}{slot.name}.")


@lru_cache(None)
def _stops(codec: wire.Codec) -> tuple[str, ...]:
    """The first and the last field that a walk can stop at."""
    struct = layout(codec.message, codec.version)
    names = [slot.name for slot in struct.slots] + ["tags"] * struct.flexible
    return tuple(dict.fromkeys((names[0], names[-1])))


def heads(data: bytes) -> None:
    """Heads, varints and tag buffers, wherever they begin."""
    with suppress(wire.WireError):
        must(wire.request_head(data).body <= len(data), "a head ends within the frame")
    for read in (primitives.read_uvarint, primitives.read_tags):
        with suppress(wire.WireError):
            must(read(data, 0)[1] <= len(data), "what is read ends within the buffer")


def tools(data: bytes) -> None:
    """Whatever `kafka-wiretap wire decode` is given: a request, or a response to an api and version."""
    key, version = (data[0], data[1]) if len(data) > 1 else (0, 0)
    for answered, given in ((None, data), ((key, version), data[2:])):
        shown = Shown(mask=True, budget=wire.Budget(UNFOLDED))
        with suppress(wire.WireError):
            for one in frames.trees(frames.octets_of(given), frames.Asked(answered, shown)):
                text = "".join(json_text.pieces(one, shown.budget.text))
                must(harmless_lines(text) == text, "JSON holds nothing that a terminal obeys")
                json.loads(text)
                for line in plain.as_lines(one, 0, 8):
                    must(harmless(line) == line, f"a line holds nothing that a terminal obeys: {line!r}")


def batches(data: bytes) -> None:
    """Records in any format, their checksums set aside: a fuzzer would hardly get past them."""
    with suppress(wire.WireError):
        must(records.partial(data) + sum(one.end - one.start for one in records.batches(data)) == len(data), "no gaps")
    with suppress(wire.WireError):
        for _ in records.read(data, limit=UNFOLDED):
            pass
    with _within(data):
        for batch in records.batches(data):
            for count, _ in enumerate(records.read_batch(data, batch, limit=UNFOLDED, check_crc=False), 1):
                must(batch.count is None or count <= batch.count, "no more records than the batch counts")
            if batch.magic == 2 and batch.end - batch.start < MAX_REWRITTEN:
                _rewritten(data, batch)


def _rewritten(data: bytes, batch: records.Batch) -> None:
    """What was read can be written, and is read the same."""
    found = list(records.read_batch(data, batch, limit=UNFOLDED, check_crc=False))
    time, control = batch.timestamp_type, batch.control
    try:
        written = records.write_batch(
            found,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            timestamp_type=time,
            max_timestamp=batch.max_timestamp,
            control=control,
        )
    except wire.WireError:
        # a header that doesn't fit its records can be read, and is not written
        return
    same(list(records.read(written)), found, "records that were read, written and read")


@contextmanager
def _within(data: bytes) -> Iterator[None]:
    """What is raised here is of the error family; it says of what, and its offset is in the buffer."""
    try:
        yield
    except wire.WireError as error:
        inside = error.offset is not None and 0 <= error.offset <= len(data)
        must(inside, f"an error's offset is in the buffer: {error!r} at {error.offset}")
        must(bool(error.api), f"an error names what it was: {error!r}")


def inside(data: bytes) -> None:
    """Which message, which version; then an embedded message, and a record of each log that holds some."""
    if len(data) < 3:
        return
    names = embedded.names()
    name, buf = names[data[0] % len(names)], data[2:]
    codec = embedded.codec(name, data[1])
    if codec is not None:
        values = _decoded(codec, buf)
        if values is not None:
            _stable(codec, values)
            embedded.expand_data(name, values)
        _counted(codec, buf)
    with _within(buf):
        embedded.decode_blob(name, buf)
    middle = 1 + data[1] % len(buf)
    for topic in LOGS:
        with _within(buf):
            embedded.decode_record(topic, buf[:middle], buf[middle:])
    with _within(buf):
        embedded.decode_control(buf[:middle], buf[middle:])


def old(data: bytes) -> None:
    """Which request is answered; then bytes of Kafka 0.7: a request, a response, messages, what ZooKeeper holds."""
    if not data:
        return
    buf = data[1:]
    with suppress(wire.WireError):
        found = kafka07.decode_request(buf)
        same(kafka07.decode_request(kafka07.encode_request(found)), found, "a request of 0.7")
        list(plain.as_lines(kafka07_tree.request_tree(found, 8, budget=wire.Budget(UNFOLDED)), 0, 8))
    with suppress(wire.WireError):
        answer = kafka07.decode_response(buf, ASKED[data[0] % len(ASKED)])
        same(kafka07.encode_response(answer), buf, "a response of 0.7")
        same(kafka07.decode_response_to(buf, ASKED[data[0] % len(ASKED)].type), answer, "a response read by a type")
        list(plain.as_lines(kafka07_tree.response_tree(answer, 8, budget=wire.Budget(UNFOLDED)), 0, 8))
    for asked in kafka07.RequestType:
        kafka07.error_codes(buf, asked)
    for read in (kafka07.request_head, kafka07.response_head, kafka07.messages.tail):
        with suppress(wire.WireError):
            read(buf)
    with _within(buf):
        for message in kafka07.messages.read(buf, limit=UNFOLDED, check_crc=False):
            must(0 <= message.offset <= message.next_offset <= len(buf), "a message's places are in the buffer")
    for parse in ZOOKEEPER:
        with suppress(wire.WireError):
            parse(buf.decode("latin-1"))


def login(data: bytes) -> None:
    """A login's token, of a mechanism that is known or not, from either side."""
    for mechanism in (None, "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI"):
        sasl.principal(mechanism, data)
        for sender in SENDERS:
            must(sasl.read(mechanism, data, sender).text.isprintable(), "a token's text can be shown")
    sasl.handshake_mechanism(data)


def pushed(data: bytes) -> None:
    """The codec, then what a client pushes about itself."""
    if data:
        with suppress(wire.WireError):
            telemetry.decode({"compression_type": data[0], "metrics": data[1:]}, limit=UNFOLDED)


SENDERS: tuple[sasl.Sender, ...] = ("client", "server")
_FETCH = kafka07.Fetch("t", 0, 0, 1000)
ZOOKEEPER = (kafka07.zookeeper.registration, kafka07.zookeeper.partition_count, kafka07.zookeeper.broker_partition)
ASKED = (_FETCH, kafka07.MultiFetch((_FETCH, _FETCH)), kafka07.Offsets("t", 0, -1, 3))

CHECKS: dict[str, Check] = {
    "request": request,
    "response": response,
    "body": body,
    "heads": heads,
    "tools": tools,
    "batches": batches,
    "inside": inside,
    "old": old,
    "login": login,
    "pushed": pushed,
    "conversation": conversations.conversation,
    **doors.CHECKS,
    **spools.CHECKS,
    **replays.CHECKS,
}
# what a fuzzer takes turns at: parts that differ much in how long an input takes would starve each other
GROUPS = {
    "wire": [name for name in CHECKS if name not in ("conversation", *doors.CHECKS, *spools.CHECKS, *replays.CHECKS)],
    "conversation": ["conversation"],
    "doors": list(doors.CHECKS),
    "spools": list(spools.CHECKS),
    "replays": list(replays.CHECKS),
}


def inputs() -> list[corpus.Input]:
    """To start from, for all of them."""
    return [*corpus.inputs(), *scripts.inputs(), *doors.inputs(), *spools.inputs(), *replays.inputs()]


def run(name: str, data: bytes, *, measured: bool | None = None) -> None:
    """The check of that name, and of some inputs the memory that it takes.

    Errors: Finding; whatever else is raised is one too.
    """
    check = CHECKS[name]
    check(data)
    if measured or (measured is None and zlib.crc32(data) % MEASURED_OF == 0):
        # functions are compiled by now: what is measured is the input's
        peak = _peak(check, data)
        most = BYTES_PER_BYTE * len(data) + ALLOWANCE + UNFOLDING.get(name, 0)
        must(peak <= most, f"{peak} bytes of memory for an input of {len(data)}: at most {most}")


def _peak(check: Check, data: bytes) -> int:
    tracemalloc.start()
    try:
        check(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
