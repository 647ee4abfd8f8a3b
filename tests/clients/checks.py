"""The checks after any work through the proxy: three comparisons with the taps' files, and one of the capture's facts.

- `check_transparent`: brokers got what clients sent, and the reverse, except rewritten addresses.
- `check_no_leak`: no field that clients dial has a broker's host.
- `check_capture`: the capture has every frame that arrived, once, byte for byte except masked spans.
- `check_facts`: the facts beside the frames are those that are made of them, and tell what each decoder tells.

If proxy or brokers end within conversations (`Ending`), each side has a beginning of the other's bytes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as dataset

from proxy.rewrite.addresses import NOT_DIALLED
from proxy.wire import apis, catalog
from proxy.wire.keys import API_VERSIONS
from recorder.capture.fact_maker import fact_rows, make_missing
from recorder.capture.frames import HASH
from recorder.capture.reader import files, row_groups
from recorder.facts.rows import KIND
from tests.brokers.kafka import DIRECT_HOST, TAPPED_HOST
from tests.clients.pairs import pairs
from tests.clients.streams import Conversation, Request, Response
from tests.recorder.facts.twins import assert_tells_all

# the client id of the proxy's own queries, which are not recorded
OWN_QUESTIONS = "kafka-wiretap"
# Requests between a controller and brokers with ZooKeeper. A broker of 0.8 has one listener for all.
BETWEEN_BROKERS = range(4, 8)
UPSTREAM_HOSTS = tuple(template.format("").encode() for template in (DIRECT_HOST, TAPPED_HOST))

# A response over this size with endpoints after its records is rewritten as it streams, at equal length.
HELD_BYTES = 256 * 1024

# The list of nodes in each response that has one: the only bytes of a response that may change.
NODE_LISTS = {
    "Produce": "node_endpoints",
    "Fetch": "node_endpoints",
    "Metadata": "brokers",
    "FindCoordinator": "coordinators",
    "DescribeCluster": "brokers",
    "ShareFetch": "node_endpoints",
    "ShareAcknowledge": "node_endpoints",
}
# of a request: api key and version; of a response: the correlation id
HEAD_BYTES = 4
# frames of one kind whose rows are made by each decoder: a decoder takes a millisecond for a frame by itself
ASKED_OF_A_KIND = 3
PLACE_OF_A_FRAME = [(name, "ascending") for name in ("session", "connection", "sequence")]
# APIs whose list may be dropped: it is a hint, and a longer list has no room in place of a shorter one.
MAY_DROP_NODES = frozenset(["Fetch", "ShareFetch", "ShareAcknowledge"])


class Ending(IntEnum):
    """How conversations ended; each member includes the earlier ones."""

    # both sides had sent everything
    WHOLE = 0
    # a broker ended, or the proxy stopped: exchanges in flight were cut somewhere
    CUT = 1
    # the proxy was killed: the capture lacks its last bytes
    KILLED = 2


# --- transparent ----------------------------------------------------------------------------------------


def check_transparent(
    near: Sequence[Conversation],
    far: Sequence[Conversation],
    advertised: Mapping[str, str],
    ending: Ending = Ending.WHOLE,
) -> None:
    """Compare the clients' side with the brokers'.

    Args:
        advertised: a broker's "host:port" -> the proxy's replacement.
    """
    if ending > Ending.WHOLE:
        _check_beginnings(near, far, advertised)
        return
    unmatched = [conversation for conversation in far if not is_own_question(conversation)]
    # one that left without a request may have been gone before its broker was dialled
    for conversation in (one for one in near if one.requests):
        twins = [other for other in unmatched if _same_requests(conversation, other)]
        assert twins, f"no connection to a broker carried the requests of {conversation}"
        # Clients of one kind may send the same requests, and brokers are dialled in another order than clients connect
        twin = next((other for other in twins if _has_responses_of(conversation, other, advertised)), twins[0])
        unmatched.remove(twin)
        _check_responses(conversation, twin, advertised)
    silent = [one for one in unmatched if one.requests and not is_between_brokers(one)]
    assert not silent, f"brokers were asked what no client asked: {[str(one) for one in silent]}"


def _check_beginnings(near: Sequence[Conversation], far: Sequence[Conversation], advertised: Mapping[str, str]) -> None:
    """Brokers got a beginning of a client's requests, and the client a beginning of their responses."""
    asking = [one for one in near if one.requests]
    asked = [one for one in far if one.requests and not is_own_question(one)]
    fits = partial(_is_continued, advertised=advertised)
    found = pairs(asking, asked, fits, must=lambda one: bool(one.responses), must_other=lambda _: True)
    for conversation in asking:
        if conversation.responses and conversation not in {one for one, _ in found}:
            for candidate in asked:
                if _carried(conversation, candidate, advertised):
                    _check_responses(conversation, candidate, advertised)  # says what is wrong
            raise AssertionError(f"no connection to a broker carried the requests of {conversation}")
    unasked = [str(one) for one in asked if one not in {other for _, other in found}]
    assert not unasked, f"brokers were asked what no client asked: {unasked}"


def _is_continued(near: Conversation, far: Conversation, advertised: Mapping[str, str]) -> bool:
    return _carried(near, far, advertised) and _has_responses_of(near, far, advertised)


def _has_responses_of(near: Conversation, far: Conversation, advertised: Mapping[str, str]) -> bool:
    try:
        _check_responses(near, far, advertised)
    except AssertionError:
        return False
    return True


def _carried(near: Conversation, far: Conversation, advertised: Mapping[str, str]) -> bool:
    """True if the broker got this client's requests, or a beginning of them."""
    ports = {told.rpartition(":")[2] for told in advertised.values()}
    dialled = near.dialled.rpartition(":")[2]
    if dialled in ports and dialled != advertised[far.dialled].rpartition(":")[2]:
        return False
    return near.requests[: len(far.requests)] == far.requests


def is_own_question(conversation: Conversation) -> bool:
    return any(request.client_id == OWN_QUESTIONS for request in conversation.requests)


def is_between_brokers(conversation: Conversation) -> bool:
    return any(request.head[0] in BETWEEN_BROKERS for request in conversation.requests)


def _same_requests(near: Conversation, far: Conversation) -> bool:
    """True if requests are equal, except ApiVersions in a version that the proxy doesn't know and answers itself."""
    if near.requests == far.requests:
        return True
    return near.requests[1:] == far.requests and _is_refused(near.requests[0])


def _is_refused(request: Request) -> bool:
    key, version, _ = request.head
    return key == API_VERSIONS and version not in apis.versions(API_VERSIONS)


def _check_responses(near: Conversation, far: Conversation, advertised: Mapping[str, str]) -> None:
    made = len(near.requests) - len(far.requests) if near.requests and _is_refused(near.requests[0]) else 0
    got = near.responses[made:]
    # a client that leaves doesn't wait for responses in flight
    assert len(got) <= len(far.responses), f"{near}: more responses than the {len(far.responses)} of the broker"
    for response, original in zip(got, far.responses, strict=False):
        if response.frame != original.frame:
            _check_rewritten(response, original, advertised)


def _check_rewritten(got: Response, original: Response, advertised: Mapping[str, str]) -> None:
    name = apis.api_name(got.api_key)
    where = f"{name} v{got.api_version}"
    if name == "ApiVersions":
        _check_reduced(decoded(got), decoded(original))
        return
    assert name in NODE_LISTS, f"{where}: the proxy changed a response that carries no address"
    ours, theirs = decoded(got), decoded(original)
    ours.pop("_tags", None)
    theirs.pop("_tags", None)
    listed = NODE_LISTS[name] if NODE_LISTS[name] in theirs else ""  # FindCoordinator before version 4 is its own node
    nodes, originals = (values.pop(listed) if listed else [_own_node(values)] for values in (ours, theirs))
    assert ours == theirs, f"{where}: more than addresses changed"
    if not (name in MAY_DROP_NODES and not nodes and len(got.frame) > HELD_BYTES):
        assert nodes == [_moved(node, advertised) for node in originals], where
    if name in MAY_DROP_NODES and len(got.frame) > HELD_BYTES:
        assert len(got.frame) == len(original.frame), f"{where}: a large one was not rewritten at equal length"


def _own_node(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values.pop(name) for name in ("node_id", "host", "port")}


def _moved(node: dict[str, Any], advertised: Mapping[str, str]) -> dict[str, Any]:
    address = f"{node['host']}:{node['port']}"
    if address not in advertised:
        assert not node["host"], f"an address that no broker was given: {address}"
        return node
    host, _, port = advertised[address].rpartition(":")
    return node | {"host": host, "port": int(port)}


def _check_reduced(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """The client is offered nothing that the broker lacks."""
    ranges = {row["api_key"]: range(row["min_version"], row["max_version"] + 1) for row in theirs["api_keys"]}
    for row in ours["api_keys"]:
        offered = {row["min_version"], row["max_version"]}
        assert offered <= set(ranges[row["api_key"]]), f"{row} is more than the broker's {ranges[row['api_key']]}"


def decoded_request(request: Request) -> dict[str, Any]:
    """Decodes the body likewise."""
    asked = catalog.decode_request(request.frame)
    assert not isinstance(asked, catalog.UnknownMessage), f"{asked} is in the catalog of no version"
    return asked[1]


def decoded(response: Response) -> dict[str, Any]:
    """Decodes the body with the project's own codec, which has its own oracles in tests/proxy/wire."""
    answer = catalog.decode_response(response.frame, response.api_key, response.api_version)
    assert not isinstance(answer, catalog.UnknownMessage), f"{answer} is in the catalog of no version"
    return answer[1]


# --- no leak --------------------------------------------------------------------------------------------


def check_no_leak(near: Sequence[Conversation]) -> None:
    """Searches all bytes that clients got for the brokers' hosts; each find must be one of NOT_DIALLED."""
    for conversation in near:
        for response in conversation.responses:
            if any(host in response.frame for host in UPSTREAM_HOSTS):
                _check_finds(response)


def _check_finds(response: Response) -> None:
    codec = catalog.codec("response", response.api_key, response.api_version)
    assert codec, f"api {response.api_key} v{response.api_version} shows an upstream host, and can't be read"
    message, body = codec.message.name, decoded(response)
    finds = [path for path, value in _leaves(body, "") if any(host in value for host in UPSTREAM_HOSTS)]
    assert finds, f"{message} v{response.api_version} shows an upstream host outside every field"
    leaks = [path for path in finds if not _is_excepted(message, path, body)]
    assert not leaks, f"{message} v{response.api_version} shows an upstream host in {leaks}"


def _is_excepted(message: str, path: str, body: dict[str, Any]) -> bool:
    if message == "DescribeClusterResponse" and body.get("endpoint_type") != 2:
        return False  # the exception is for controllers
    fields = [row.path for row in NOT_DIALLED if row.message == message]
    anywhere = {row.path for row in NOT_DIALLED if not row.message}
    return path.rpartition(".")[2] in anywhere or any(path == field or path.startswith(f"{field}.") for field in fields)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, bytes]]:
    """Yields (path, bytes) of every value in a body; items of a list share a path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    elif isinstance(value, str):
        yield path, value.encode()
    elif isinstance(value, bytes | bytearray | memoryview):
        yield path, bytes(value)


# --- the capture ----------------------------------------------------------------------------------------

Row = dict[str, Any]


def check_capture(
    folder: Path, near: Sequence[Conversation], far: Sequence[Conversation], ending: Ending = Ending.WHOLE
) -> None:
    """Compare each connection in the capture with the tap before the brokers; no frame is left over."""
    rows = captured_connections(folder)
    gaps = [event for event in _table(folder / "events") if event["kind"] == "gap"]
    assert not gaps, f"the capture has gaps: {gaps}"
    for number, frames in rows.items():
        _check_numbers(number, frames)
    if ending > Ending.WHOLE:
        _check_captured_beginnings([*rows.values()], far, ending)
        return
    unmatched = [one for one in far if (one.requests or one.cut_request) and not is_own_question(one)]
    for number, frames in rows.items():
        forwarded, answered = _forwarded(frames)
        twin = _take(unmatched, partial(_is_capture_of, rows=forwarded))
        assert twin, _difference(number, forwarded, unmatched)
        _check_made(answered, near)
    missing = [str(one) for one in unmatched if not is_between_brokers(one)]
    assert not missing, f"the capture has {len(rows)} connections, and not these: {missing}"


def _check_captured_beginnings(captured: Sequence[list[Row]], far: Sequence[Conversation], ending: Ending) -> None:
    """The capture has all requests that brokers got, and a beginning of their responses."""
    asked = [one for one in far if one.requests and not is_own_question(one)]
    fits = partial(_is_cut_capture_of, ending=ending)
    found = pairs(asked, captured, fits, must=lambda _: ending < Ending.KILLED, must_other=_has_answers)
    kept = [id(rows) for _, rows in found]
    strange = [_shape(rows) for rows in captured if _has_answers(rows) and id(rows) not in kept]
    assert not strange, f"the capture has connections that equal nothing that passed to a broker: {strange}"
    missing = [str(one) for one in asked if one not in {one for one, _ in found}]
    assert not missing or ending is Ending.KILLED, f"the capture lacks {missing}"


def _has_answers(rows: Sequence[Row]) -> bool:
    return any(row["made_by"] == "broker" for row in rows)


def _is_cut_capture_of(conversation: Conversation, rows: Sequence[Row], ending: Ending) -> bool:
    requests, responses = (
        [row for row in rows if row["made_by"] == maker and not (row["note"] or "").startswith("cut")]
        for maker in ("client", "broker")
    )
    sent, answered = [one.frame for one in conversation.requests], [one.frame for one in conversation.responses]
    if ending < Ending.KILLED and (len(sent) > len(requests) or len(responses) > len(answered)):
        return False
    return all(map(is_kept, requests, sent)) and all(map(is_kept, responses, answered))


def arrived(folder: Path, far: Sequence[Conversation]) -> Iterator[tuple[Row, bytes]]:
    """The rows of a capture that passed `check_capture`, each with its frame as the brokers' tap has it."""
    unmatched = [one for one in far if one.requests and not is_own_question(one)]
    for rows in captured_connections(folder).values():
        forwarded, _ = _forwarded(rows)
        twin = _take(unmatched, partial(_is_capture_of, rows=forwarded))
        if twin is not None:
            for maker, frames in (("client", twin.requests), ("broker", twin.responses)):
                made, _ = _cut_apart([row for row in forwarded if row["made_by"] == maker])
                yield from zip(made, (one.frame for one in frames), strict=False)


def check_facts(folder: Path) -> None:
    """Asserts that the capture's facts are whole, those of its frames, and tell the same as each decoder does.

    Of the frames with one API, version and direction, the first few are asked of the decoders.
    """
    assert make_missing(folder) == []
    frames = pa.concat_tables(table for file in files(folder) for table in row_groups(file))
    kinds = zip(*(frames[name].to_pylist() for name in KIND), strict=True)
    numbers = defaultdict[tuple[Any, ...], list[int]](list)
    for number, kind in enumerate(kinds):
        numbers[kind].append(number)
    asked = [number for of_kind in numbers.values() for number in of_kind[:ASKED_OF_A_KIND]]
    for frame in frames.take(asked).to_pylist():
        # facts open no frame that is not stored whole
        assert_tells_all(frame if frame["stored"] == frame["size"] else frame | {"frame": None})
    for name, made in fact_tables(folder).items():
        kept = dataset.dataset(folder / "facts" / name).to_table()
        assert kept.sort_by(PLACE_OF_A_FRAME).equals(made.sort_by(PLACE_OF_A_FRAME)), name


def fact_tables(folder: Path) -> dict[str, pa.Table]:
    """The facts of a capture's frames, by table, as they are made without files."""
    made = defaultdict[str, list[pa.RecordBatch]](list)
    for file in files(folder):
        for decoder, batch in fact_rows(file):
            made[decoder.name].append(batch)
    return {name: pa.Table.from_batches(batches) for name, batches in made.items()}


def captured_connections(folder: Path) -> dict[tuple[str, int], list[Row]]:
    """The capture's frames by session and connection, in their order."""
    rows: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(_table(folder / "frames"), key=lambda row: (row["session"], row["connection"], row["sequence"])):
        rows.setdefault((row["session"], row["connection"]), []).append(row)
    return rows


def connections_that_ended(folder: Path, cause: str) -> set[tuple[str, int]]:
    """The session and number of each connection that ended for this cause."""
    rows = _table(folder / "events")
    return {(row["session"], row["connection"]) for row in rows if row["kind"] == "closed" and row["cause"] == cause}


def _table(folder: Path) -> list[Row]:
    return dataset.dataset(folder).to_table().to_pylist() if folder.exists() else []


def _check_numbers(connection: tuple[str, int], rows: Sequence[Row]) -> None:
    """Each frame has its own sequence, and a response its request's exchange, api and correlation id."""
    sequences = [row["sequence"] for row in rows]
    assert sequences == list(range(len(rows))), f"connection {connection}: {sequences}"
    requests = {row["exchange"]: row for row in rows if row["kind"] == "request"}
    for row in rows:
        if row["kind"] == "response":
            request = requests[row["exchange"]]
            for name in ("correlation_id", "api_key", "api_version", "client_id"):
                assert row[name] == request[name], f"connection {connection}, {row['api']}: {name}"
            assert row["request_size"] == request["size"]


def _forwarded(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Returns the frames that passed through, and the proxy's own responses."""
    answered = {row["exchange"] for row in rows if row["made_by"] == "proxy"}
    made = [row for row in rows if row["made_by"] == "proxy"]
    return [row for row in rows if row["exchange"] not in answered], made


def _is_capture_of(conversation: Conversation, rows: Sequence[Row]) -> bool:
    requests, cut_request = _cut_apart([row for row in rows if row["made_by"] == "client"])
    responses, cut_response = _cut_apart([row for row in rows if row["made_by"] == "broker"])
    sent, answered = [one.frame for one in conversation.requests], [one.frame for one in conversation.responses]
    # a response to a client that has left never arrived at the proxy
    return (
        len(sent) == len(requests)
        and len(responses) <= len(answered)
        and all(map(is_kept, requests, sent))
        and all(map(is_kept, responses, answered))
        and _are_one(cut_request, conversation.cut_request)
        and _are_one(cut_response, conversation.cut_response)
    )


def _cut_apart(rows: Sequence[Row]) -> tuple[list[Row], bytes]:
    """Returns the whole frames, and the beginning of the one that the connection's end cut off (b"": none)."""
    if rows and (rows[-1]["note"] or "").startswith("cut"):
        return list(rows[:-1]), rows[-1]["frame"]
    return list(rows), b""


def _are_one(one: bytes, other: bytes) -> bool:
    """True for two beginnings of one frame, which may be cut at different bytes."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def is_kept(row: Row, frame: bytes) -> bool:
    """True if the row is that frame, byte for byte, with masked spans blanked, and without what a rule dropped.

    Of a frame whose records were hashed only the head is compared.
    """
    if row["size"] != len(frame) or row["stored"] != len(frame) or row["omitted"]:
        return False
    if row["records"] == HASH:
        return bool(row["frame"][:HEAD_BYTES] == frame[:HEAD_BYTES])
    if row["dropped"]:
        starts = [0, *(span["start"] + span["length"] for span in row["dropped"])]
        ends = [*(span["start"] for span in row["dropped"]), len(frame)]
        return bool(row["frame"] == b"".join(frame[start:end] for start, end in zip(starts, ends, strict=True)))
    if not row["masked"]:
        return bool(row["frame"] == frame)
    if not catalog.may_hold_secrets(row["kind"], row["api_key"]):
        return False
    blanked = bytearray(frame)
    for span in row["masked"]:
        start, length = span.values() if isinstance(span, dict) else span
        blanked[start : start + length] = bytes(length)
    return bool(row["frame"] == bytes(blanked))


def _check_made(answers: Sequence[Row], near: Sequence[Conversation]) -> None:
    """The responses that the proxy reports as its own are those that a client got."""
    got = Counter(response.frame for one in near for response in one.responses)
    for row in answers:
        assert got[row["frame"]], f"no client got the answer that the proxy made to {row['api']}"


def _difference(number: tuple[str, int], rows: Sequence[Row], candidates: Sequence[Conversation]) -> str:
    others = "\n".join(map(str, candidates))
    return (
        f"captured connection {number} equals nothing that passed to a broker.\n"
        f"It has {_shape(rows)}\nLeft are:\n{others}"
    )


def _shape(rows: Sequence[Row]) -> Counter[tuple[str, str]]:
    return Counter((row["api"], row["made_by"]) for row in rows)


def _take(candidates: list[Conversation], fits: Callable[[Conversation], bool]) -> Conversation | None:
    """Removes the first match from the list and returns it."""
    for index, candidate in enumerate(candidates):
        if fits(candidate):
            return candidates.pop(index)
    return None
