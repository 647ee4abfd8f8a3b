"""Shows a frame, an exchange with both of its frames, or a connection, as text, JSON or a hex dump.

A frame is shown by its head and its body as a tree, or by a dump of its bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from proxy.terminal import printable
from proxy.tools.body import Body
from proxy.tools.plain import INDENT, as_lines
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import in_bytes
from recorder.capture import frames as c
from recorder.capture.origins import origin_of
from recorder.capture.outcome import Outcome
from recorder.capture.reader import Row
from recorder.capture.remote import Place
from recorder.facts.response_errors import ResponseErrors, row_errors
from recorder.hashing.batches import HASHED
from recorder.ids import Id
from recorder.inspect import connection
from recorder.inspect.body import body, needs_request
from recorder.inspect.lines import (
    api_name,
    errors_json,
    errors_text,
    exchange_json,
    frame_id,
    instant,
    moment,
    wait_text,
)
from recorder.query.columns import rows_of_ids
from recorder.reading.exchanges import Pair, exchange_id, pairs
from recorder.reading.rows import all_bodies, request_of, rows
from recorder.terminal import milliseconds

Tree = dict[str, Any]
Found = TypeVar("Found")
_WIDTH = 16
# in a replay's capture, the key of the recorded exchange's id
ORIGIN = "replays"
# the most sessions that the error for an ambiguous id names
MAX_SESSIONS = 20


class Form(NamedTuple):
    """The form of the output. `kind`: text, json or hex. `most`: bytes shown of each value, or of a hex dump.

    `records`: the most records shown of each field of record batches. `budget`: pays for everything that is shown.
    `named`: True if a hex dump begins with its frame's id.
    """

    kind: str
    most: int
    records: int
    budget: Budget
    named: bool = False

    def body(self, row: Row, request: Row | None = None) -> Body:
        """A row's decoded body. `request`: the row of its request, if decoding needs it."""
        return body(row, self.records, request, budget=self.budget)

    @property
    def of_files(self) -> int:
        """The limit in bytes of memory for reading files: a small output may need much reading."""
        return max(self.budget.size, DEFAULT_BUDGET)

    def reading(self, row: Row) -> ResponseErrors:
        """The errors of a response. They have a budget of their own, because they are few and not kept."""
        return row_errors(row, budget=Budget(self.budget.size))


def shown(folder: Place, asked: Id, form: Form) -> Iterator[str] | Tree:
    """The connection, exchange or frame of an id: as lines of text, or as a tree for JSON.

    Errors: LookupError, with a sentence, if no session or several have that id; the errors of `rows`.
    """
    wanted = rows_of_ids(
        sessions=(asked.session,) if asked.session else (),
        connections=(asked.connection,),
        exchanges=() if asked.exchange is None else (asked.exchange,),
        sequences=() if asked.sequence is None else (asked.sequence,),
    )
    if asked.exchange is None and asked.sequence is None:
        known = connection.connections(folder, wanted, most=form.of_files)
        _check_one([one.session for one in known], asked, folder, "connection")
        return connection.as_json(known[0]) if form.kind == "json" else connection.as_text(known[0])
    every = rows(folder, wanted, bodies=all_bodies, most=form.of_files)
    found = _of_one_session(every, asked, folder, "frame" if asked.exchange is None else "exchange")
    if asked.exchange is None:
        row = _first(found)
        row[ORIGIN] = _origin(folder, row, form)
        request = request_of(folder, row, most=form.of_files) if needs_request(row) else None
        return _frame_tree(row, form, request) if form.kind == "json" else _frame(row, form, request)
    pair = _first(pairs(found, most=form.of_files, with_bodies=True))
    origin = _origin(folder, pair.head, form)
    if form.kind != "json":
        return _exchange(pair, origin, form)
    frames = {row[c.KIND]: _frame_tree(row, form, pair.request) for row in (pair.request, pair.response) if row}
    return exchange_json(pair) | ({ORIGIN: origin} if origin else {}) | frames


def _origin(folder: Place, row: Row, form: Form) -> str | None:
    """The id of the recorded exchange that this frame of a replay repeats; None in other captures."""
    if row[c.EXCHANGE] is None or row[c.CONNECTION] is None:
        return None
    place = row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]
    found = origin_of(folder, *place, most=form.of_files)
    return f"{found.session}/{found.connection}/e{found.exchange}" if found else None


def _of_one_session(found: Iterable[dict[str, Any]], asked: Id, folder: Place, what: str) -> Iterator[dict[str, Any]]:
    """The rows of the first session. They are not kept, as they may be many and large.

    The errors of `_check_one` are raised at the end.
    """
    sessions: dict[str, None] = {}
    for row in found:
        sessions[row[c.SESSION]] = None
        if len(sessions) > MAX_SESSIONS:
            break
        if len(sessions) == 1:
            yield row
    _check_one([*sessions], asked, folder, what)


def _check_one(sessions: Sequence[str], asked: Id, folder: Place, what: str) -> None:
    """Raises LookupError unless there is exactly one session."""
    if not sessions:
        raise LookupError(f"no {what} {printable(asked)} in {printable(folder)}")
    if len(sessions) > 1:
        named = ", ".join(map(printable, sessions[:MAX_SESSIONS])) + (", ..." if len(sessions) > MAX_SESSIONS else "")
        raise LookupError(f"{printable(asked)} is in several sessions: put one before it ({named})")


def _first(found: Iterable[Found]) -> Found:
    """The first item, after all others have been consumed."""
    every = iter(found)
    first = next(every)
    deque(every, maxlen=0)
    return first


def _frame(row: Row, form: Form, request: Row | None) -> Iterator[str]:
    """The lines of a frame. `request`: the row of its request, if decoding needs it."""
    if form.kind == "hex":
        if form.named:
            yield printable(frame_id(row))
        yield from hex_dump(row[c.FRAME] or b"", row[c.MASKED] or [], form.most)
    else:
        yield from as_text(row, form.body(row, request), form)


def _frame_tree(row: Row, form: Form, request: Row | None) -> Tree:
    return as_tree(row, form.body(row, request), form)


def _exchange(pair: Pair, origin: str | None, form: Form) -> Iterator[str]:
    """The lines of an exchange: the head, then both frames. `origin`: the recorded exchange that it replays, if any."""
    if form.kind == "text":
        yield printable(_exchange_head(pair))
        if origin:
            yield f"{INDENT}replays {printable(origin)}"
    for row in filter(None, (pair.request, pair.response)):
        yield from _frame(row, form._replace(named=True), pair.request)


def _exchange_head(pair: Pair) -> str:
    response = pair.response
    outcome = pair.outcome.value.replace("_", " ")
    latency = response[c.LATENCY_NS] if response else None
    told = [outcome if latency is None else f"{outcome} after {milliseconds(latency / 1e6)} ms"]
    if pair.outcome is Outcome.UNANSWERED:
        told = [f"{outcome}: no response to it is in the capture"]
    told += [errors_text(pair.reading, pair.head[c.API_KEY]) if pair.reading else "", wait_text(pair)]
    return f"{exchange_id(pair.head)}  {api_name(pair.head)} exchange: {', '.join(filter(None, told))}"


def as_text(row: Row, found: Body, form: Form) -> Iterator[str]:
    """The lines of a frame with the decoded body `found`."""
    yield from _head(row, form)
    if found.why:
        yield f"{INDENT}({printable(found.why)})"
    if found.values is not None:
        yield from as_lines(found.values, 1, form.most)
    elif row[c.FRAME]:
        yield f"{INDENT}its bytes: --hex"


def as_tree(row: Row, found: Body, form: Form) -> Tree:
    """The tree of a frame: its head, `body`, a response's errors, and `why` if the body is missing or incomplete."""
    head = {name: value for name, value in row.items() if name not in (c.FRAME, c.AT) and value is not None}
    errors = errors_json(form.reading(row)) if row[c.KIND] == c.RESPONSE else {}
    told: Tree = {"id": frame_id(row), "at": instant(row[c.AT_NS]), **head, "body": found.values}
    return told | ({"why": found.why} if found.why else {}) | errors


def hex_dump(frame: bytes, masked: Sequence[Mapping[str, int]], most: int) -> Iterator[str]:
    """The first `most` bytes in lines of 16 (offset, hex, text). Masked bytes are shown as `**`, not as zeros."""
    hidden = [range(span["start"], span["start"] + span["length"]) for span in masked]
    cut = frame[:most]
    for start in range(0, len(cut), _WIDTH):
        line = range(start, min(start + _WIDTH, len(cut)))
        covered = [any(at in span for span in hidden) for at in line]
        codes = ["**" if is_masked else f"{cut[at]:02x}" for at, is_masked in zip(line, covered, strict=True)]
        text = ["*" if is_masked else _letter(cut[at]) for at, is_masked in zip(line, covered, strict=True)]
        yield f"{start:08x}  {' '.join(codes):<{3 * _WIDTH - 1}}  {''.join(text)}"
    if len(frame) > most:
        yield f"... {in_bytes(len(frame) - most)} more"


def _letter(code: int) -> str:
    return chr(code) if 32 <= code < 127 else "."


def _head(row: Row, form: Form) -> Iterator[str]:
    version = "" if row[c.API_VERSION] is None else f" version {row[c.API_VERSION]}"
    api = row[c.API] or ("" if row[c.API_KEY] is None else f"api {row[c.API_KEY]}")
    made = " (made by the proxy)" if row[c.MADE_BY] == c.BY_PROXY else ""
    yield f"{printable(frame_id(row))}  {printable(api)} {printable(row[c.KIND])}{version}{made}"
    node = "unknown" if row[c.NODE] is None else row[c.NODE]
    yield f"{INDENT}at {moment(row[c.AT_NS])}, client {printable(row[c.CLIENT])}, node {node}"
    facts = {"correlation id": row[c.CORRELATION_ID], "client id": row[c.CLIENT_ID], "principal": row[c.PRINCIPAL]}
    told = [f"{name} {printable(value)}" for name, value in facts.items() if value is not None]
    yield INDENT + ", ".join([*told, in_bytes(row[c.SIZE])])
    if row.get(ORIGIN):
        yield f"{INDENT}replays {printable(row[ORIGIN])}"
    errors = errors_text(form.reading(row), row[c.API_KEY]) if row[c.KIND] == c.RESPONSE else ""
    if errors:
        yield f"{INDENT}errors: {errors.removeprefix('errors ')}"
    if any(batch["rule"] == HASHED for batch in row.get(c.BATCHES) or ()):
        yield f"{INDENT}records: hashes stand in place of keys, values and headers' values"
    if row[c.NOTE]:
        yield f"{INDENT}note: {printable(row[c.NOTE])}"
