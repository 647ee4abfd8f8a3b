"""Every known message in every known version, as functions: decode, encode, project, walk.

The entry of this room. Nothing is compiled before it is asked for (0.5 to 5 ms a function, once); all of it is cached
for the process.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from struct import Struct
from typing import Any

from proxy.wire import apis as _apis
from proxy.wire.apis import API_VERSION, MessageKind, checked, versions
from proxy.wire.budget import Allowance, Budget
from proxy.wire.compile.counted import counted_decoder
from proxy.wire.compile.decoder import decoder
from proxy.wire.compile.encoder import encoder
from proxy.wire.compile.projector import projector
from proxy.wire.compile.record_finder import has_record_data, record_finder, tells_topic_ids, whole_record_finder
from proxy.wire.compile.runtime import LargeBody
from proxy.wire.compile.searcher import searcher
from proxy.wire.compile.walker import walker
from proxy.wire.error_codes import UNSUPPORTED_VERSION
from proxy.wire.errors import Malformed, OverBudget, Truncated, WireError, naming
from proxy.wire.headers import (
    RequestHead,
    ResponseHead,
    request_head,
    request_header_version,
    response_head,
    response_header_version,
    write_request_head,
    write_response_head,
)
from proxy.wire.keys import API_VERSIONS
from proxy.wire.language import MARKS, MASKED, Field, Message
from proxy.wire.pieces import Pieces
from proxy.wire.primitives import Buffer

Values = dict[str, Any]
Spans = dict[str, list[tuple[Any, int, int]]]
Spend = Callable[[int], None]
# a module's function and its arguments: all that a pickle of the codec holds
Recipe = tuple[Callable[..., "Codec"], tuple[Any, ...]]
# more than there are messages, and a bound: a peer can send 2**32 combinations of key and version
CACHE_SIZE = 4096
SECRET_MARKS = frozenset(MASKED)

# version 0 of an ApiVersions response: error code, number of elements, and so many elements up to its end
_OFFERS, _OFFER_BYTES = Struct(">hi"), 6


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A frame whose api or version the catalog lacks: a value, not an error.

    `body` is the offset of the body; the head of an unknown api is taken to have no tags. A response has no client id.
    """

    kind: MessageKind
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


class Walk:
    """Steps over a message that arrives in pieces, up to one of its fields. Keeps no bytes, whatever their size."""

    def __init__(self, pieces: Generator[int | None, Buffer, None], api: str, version: int):
        self._pieces, self._api, self._version = pieces, api, version
        self._fed = 0
        next(pieces)

    def feed(self, chunk: Buffer) -> int | None:
        """The offset in `chunk` where the field begins; None if the walk needs the next chunk.

        The offset is len(chunk) if the field begins with the next chunk's first byte.

        Errors: Malformed, its offset counted over all chunks; ValueError once the walk has answered.
        """
        try:
            found = self._pieces.send(chunk)
        except StopIteration:
            raise ValueError("this walk has answered already") from None
        except WireError as fault:
            at = self._fed + (fault.offset or 0)
            raise Malformed(fault.reason, api=self._api, version=self._version, offset=at) from None
        self._fed += len(chunk)
        return found


class Search:
    """Searches a frame that arrives in pieces, its length included, for secrets. Keeps no bytes but a setting's name.

    `base`: how many bytes came before the newest piece.
    """

    def __init__(self, find: Callable[..., Generator[None, Buffer, int]], api: str, version: int):
        self._api, self._version = api, version
        self._found: list[tuple[int, int]] = []
        self._pieces = find(self, self._found.append)
        self._fed = 0
        self._end: int | None = None
        self.base = 0
        next(self._pieces)

    def feed(self, piece: Buffer) -> None:
        """Searches the next piece.

        Errors: Malformed if the frame can't be that message, has unknown tagged fields, or goes on behind the message.
        """
        self.base, self._fed = self._fed, self._fed + len(piece)
        try:
            if self._end is None:
                self._pieces.send(piece)
        except StopIteration as stop:
            self._end = stop.value
        except WireError as fault:
            raise Malformed(fault.reason, api=self._api, version=self._version) from None
        if self._end is not None and self._end < self._fed:
            raise Malformed("bytes follow the message", api=self._api, version=self._version, offset=self._end)

    def __len__(self) -> int:
        """The number of values found so far."""
        return len(self._found)

    def found(self) -> list[tuple[int, int]]:
        """(start, stop) of each value to hide, in wire order. Errors: Truncated if the frame is not whole."""
        if self._end is None:
            raise Truncated("the bytes end before the message does", api=self._api, version=self._version)
        return self._found


class Codec:
    """The functions of one message in one version. Get it from `codec()`; `message` is the schema.

    A pickle holds only how to get the codec; its functions are compiled again in the process that loads it.
    """

    def __init__(self, message: Message, version: int, recipe: Recipe | None = None):
        """`recipe`: the call that gets this codec in another process."""
        self.message, self.version = message, version
        self._recipe: Recipe = recipe or (Codec, (message, version))
        self._projections: dict[tuple[str, ...], Callable[[Buffer, int], Spans]] = {}
        self._counted_projections: dict[tuple[str, ...], Callable[[Buffer, int, Spend], Spans]] = {}
        self._walks: dict[tuple[str, int | None], Callable[[], Generator[int | None, Buffer, None]]] = {}

    def __repr__(self) -> str:
        return f"<Codec {self.message.name} v{self.version}>"

    def __reduce__(self) -> Recipe:
        return self._recipe

    @cached_property
    def _decode(self) -> Callable[[bytes, int], tuple[Values, int]]:
        return decoder(self.message, self.version)

    @cached_property
    def _decode_viewing(self) -> Callable[[bytes, int], tuple[Values, int]]:
        return decoder(self.message, self.version, views=True) if self._has_records else self._decode

    @cached_property
    def _decode_counted(self) -> Callable[..., int]:
        return counted_decoder(self.message, self.version)

    @cached_property
    def _decode_counted_viewing(self) -> Callable[..., int]:
        return counted_decoder(self.message, self.version, views=True) if self._has_records else self._decode_counted

    @cached_property
    def _has_records(self) -> bool:
        return _has_records(self.message.fields)

    @cached_property
    def encode(self) -> Callable[[Mapping[str, Any]], bytes]:
        """The body's bytes. A missing field is written with its default, a field of other versions is left out.

        Errors: Malformed for values that don't fit and for unknown names.
        """
        return encoder(self.message, self.version)

    @cached_property
    def encode_pieces(self) -> Callable[[Mapping[str, Any]], Pieces | bytes]:
        """As `encode`, for values whose records may be `Pieces`: large ones are not copied."""
        return encoder(self.message, self.version, pieces=True) if self._has_records else self.encode

    def decode(
        self, buf: Buffer, at: int = 0, budget: Budget | None = None, *, views: bool = False
    ) -> tuple[Values, int]:
        """The body at `at` as plain values by Kafka's field names in snake_case, and the offset behind it.

        A uuid is 16 bytes, records are bytes. Tagged fields that the catalog doesn't know stand in their struct under
        "_tags": {tag: bytes}. All messages share one read-only dict for an absent tagged struct; its copies are plain.

        Args: budget: pays for the values; by default a new one of DEFAULT_BUDGET for this call. views: records are
        memoryviews of the buffer.
        Errors: Truncated, Malformed, OverBudget.
        """
        data = buf if type(buf) is bytes else bytes(buf)
        if budget is None:
            try:
                return self._decode_viewing(data, at) if views else self._decode(data, at)
            except LargeBody:
                budget = Budget()
        return self._decode_within(data, at, budget.values, views)

    def _decode_within(self, data: bytes, at: int, allowance: Allowance, views: bool) -> tuple[Values, int]:
        values: Values = {}
        decode = self._decode_counted_viewing if views else self._decode_counted
        try:
            with naming(self.message.api, self.version, at):
                # the values hold the bytes themselves
                allowance.take(max(0, len(data) - at))
            return values, decode(data, at, allowance.take, values)
        except OverBudget as error:
            error.values = values
            raise

    def project(self, paths: Sequence[str]) -> Callable[[Buffer, int], Spans]:
        """The function `find(buf, at)` -> {path: [(value, start, end), ...]}, in wire order.

        Paths are names joined by dots ("brokers.host"), flattened over arrays. `start` and `end` are offsets in `buf`
        of the encoded value, its length included. "tags" is the body's own tag buffer (list of TagSpan). Reading
        stops behind the last of the fields.

        Errors: ValueError for a path that no version has; TypeError if `paths` is a string. The function raises
        Truncated and Malformed.
        """
        if isinstance(paths, str):
            raise TypeError(f"paths stand in a tuple: ({paths!r},)")
        paths = tuple(paths)
        find = self._projections.get(paths)
        if find is None:
            find = self._projections[paths] = projector(self.message, self.version, paths)
        return find

    def project_within(self, paths: tuple[str, ...]) -> Callable[[Buffer, int, Spend], Spans]:
        """`project` as `find(buf, at, spend)`: calls `spend` with each value's price; `spend` may raise."""
        find = self._counted_projections.get(paths)
        if find is None:
            find = projector(self.message, self.version, paths, counted=True)
            self._counted_projections[paths] = find
        return find

    def walk(self, stop: str) -> Walk:
        """A walk over a body up to `stop`: a field of the body outside its tag buffer, or "tags".

        Errors: ValueError where this version has no such field.
        """
        return self.walk_behind(None, stop)

    @cached_property
    def _search(self) -> Callable[..., Generator[None, Buffer, int]]:
        key = self.message.key or 0
        header_of = request_header_version if self.message.kind == "request" else response_header_version
        return searcher(self.message, self.version, header_of(key, self.version))

    @cached_property
    def find_records(self) -> Callable[[Any], Generator[None, Buffer, int]]:
        """A generator of `compile.record_finder`, for `records.walk`."""
        key = self.message.key or 0
        header_of = request_header_version if self.message.kind == "request" else response_header_version
        return record_finder(self.message, self.version, header_of(key, self.version))

    @cached_property
    def find_whole_records(self) -> Callable[..., int]:
        """A function of `compile.record_finder`, for `records.walk.found_in_whole`."""
        return self._whole_finder(tells_judged=False)

    @cached_property
    def find_judged_records(self) -> Callable[..., int]:
        """Its twin, for `records.walk.alike`."""
        return self._whole_finder(tells_judged=True)

    def _whole_finder(self, *, tells_judged: bool) -> Callable[..., int]:
        header_of = request_header_version if self.message.kind == "request" else response_header_version
        header = header_of(self.message.key or 0, self.version)
        return whole_record_finder(self.message, self.version, header, tells_judged=tells_judged)

    def search(self) -> Search:
        """A search for the secrets in one frame of this request or response."""
        return Search(self._search, self.message.api, self.version)

    def walk_behind(self, header: int | None, stop: str) -> Walk:
        """A walk over a response frame, whose head has this header version (0 or 1), up to `stop`. None: body only."""
        begin = self._walks.get((stop, header))
        if begin is None:
            begin = self._walks[stop, header] = walker(self.message, self.version, stop, header)
        return Walk(begin(), self.message.api, self.version)


@lru_cache(CACHE_SIZE, typed=True)
def codec(kind: MessageKind, key: int, version: int) -> Codec | None:
    """The codec of that message; None if the catalog lacks the api or the version.

    Errors: TypeError for a key or version that is no integer, Malformed beyond an int16, ValueError for a wrong kind.
    """
    message = _apis.message(kind, key)
    checked(version, API_VERSION)
    if message is None or version not in message.versions:
        return None
    return Codec(message, version, (must, (kind, key, version)))


def codec_of_response(frame: Buffer, key: int, version: int) -> Codec | None:
    """The codec that reads `frame`, a response to a request of that version; None as for `codec`.

    A broker refuses an ApiVersions request of a version that it doesn't know with error 35 and version 0's body
    (KIP-511). Every other response has its request's version.
    """
    return codec("response", key, 0 if key == API_VERSIONS and _is_refusal(frame) else version)


def _is_refusal(frame: Buffer) -> bool:
    if len(frame) < 4 + _OFFERS.size:
        return False
    error, count = _OFFERS.unpack_from(frame, 4)
    return bool(error == UNSUPPORTED_VERSION and len(frame) == 4 + _OFFERS.size + max(count, 0) * _OFFER_BYTES)


def walk_response(key: int, version: int, stop: str) -> Walk:
    """A walk over a response frame from its correlation id on.

    Errors: ValueError for a message the catalog lacks, or one without that field.
    """
    return must("response", key, version).walk_behind(response_header_version(key, version), stop)


def decode_request(
    frame: Buffer, *, budget: Budget | None = None, views: bool = False
) -> tuple[RequestHead, Values] | UnknownMessage:
    """Head and body of a request (the frame without its 4-byte length), the body as `Codec.decode` returns it.

    Bytes behind the body are not looked at. Errors: Truncated, Malformed, OverBudget.
    """
    head = request_head(frame)
    found = codec("request", head.api_key, head.api_version)
    if found is None:
        return UnknownMessage("request", *head)
    return head, found.decode(frame, head.body, budget=budget, views=views)[0]


def decode_response(
    frame: Buffer, key: int, version: int, *, budget: Budget | None = None
) -> tuple[ResponseHead, Values] | UnknownMessage:
    """Head and body of the response to a request of that api and version, otherwise as `decode_request`.

    Errors: Truncated, Malformed, OverBudget.
    """
    found = codec_of_response(frame, key, version)
    head = response_head(frame, key, version)
    if found is None:
        return UnknownMessage("response", key, version, head.correlation_id, None, head.body)
    return head, found.decode(frame, head.body, budget=budget)[0]


def encode_request(
    key: int, version: int, correlation_id: int, client_id: str | None, values: Mapping[str, Any]
) -> bytes:
    """A request frame without its 4-byte length. Errors: Malformed; ValueError for a message the catalog lacks."""
    return write_request_head(key, version, correlation_id, client_id) + must("request", key, version).encode(values)


def encode_response(key: int, version: int, correlation_id: int, values: Mapping[str, Any]) -> bytes:
    """A response frame without its 4-byte length. Errors: Malformed; ValueError for a message the catalog lacks."""
    return write_response_head(key, version, correlation_id) + must("response", key, version).encode(values)


def must(kind: MessageKind, key: int, version: int) -> Codec:
    """The codec of that message. Errors: as for `codec`; ValueError for a message the catalog lacks."""
    found = codec(kind, key, version)
    if found is None:
        raise ValueError(f"no {kind} of api {key} version {version} in the catalog")
    return found


@lru_cache(CACHE_SIZE, typed=True)
def marked(kind: MessageKind, key: int, version: int, *marks: str) -> tuple[str, ...]:
    """The paths of this version's fields that carry one of the marks, in declared order; () for an unknown message.

    Marks are those of `messages/README.md`: "node_id", "topic_name", "topic_id", "group_id", "address", "secret", ...

    Errors: ValueError for an unknown mark.
    """
    if not MARKS.issuperset(marks):
        raise ValueError(f"{', '.join(set(marks) - MARKS)}: marks are {', '.join(sorted(MARKS))}")
    message = _apis.message(kind, key)
    return tuple(_marked(message.fields, version, frozenset(marks), "")) if message else ()


def _has_records(fields: tuple[Field, ...]) -> bool:
    return any(field.type == "records" or _has_records(field.fields) for field in fields)


def _marked(fields: tuple[Field, ...], version: int, marks: frozenset[str], above: str) -> list[str]:
    found = []
    for field in fields:
        if version in field.versions:
            found += [above + field.name] if field.marks & marks else []
            found += _marked(field.fields, version, marks, f"{above}{field.name}.")
    return found


def secrets(kind: MessageKind, key: int, version: int) -> tuple[str, ...]:
    """The paths that no capture may keep: credentials, and config values, which may be credentials. Mostly ()."""
    return marked(kind, key, version, *MASKED)


@lru_cache(CACHE_SIZE)
def holds_record_data(kind: MessageKind, key: int, version: int) -> bool:
    """True if the message has batches of records, or may quote records. False for a message the catalog lacks."""
    found = codec(kind, key, version)
    return found is not None and has_record_data(found.message, version)


@lru_cache(CACHE_SIZE)
def tells_topics(kind: MessageKind, key: int, version: int) -> bool:
    """True if the message tells topics' ids with their names. False for a message the catalog lacks."""
    found = codec(kind, key, version)
    return found is not None and tells_topic_ids(found.message, version)


@lru_cache(CACHE_SIZE)
def may_hold_secrets(kind: MessageKind, key: int) -> bool:
    """True if any version of the message has secrets; the answer for a frame that can't be read."""
    return any(secrets(kind, key, version) for version in versions(key))
