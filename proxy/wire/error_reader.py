"""What a response says of errors and of throttling, read without decoding the rest: one reader for all who ask.

An `ErrorReader` serves the responses of one API and version:

    codes        every error code of a whole frame, however many there are (`inspect`, Spark)
    find         the codes of frames as they pass, in bounded time: of at most `MAX_ELEMENTS` elements (metrics)
    begin        the same for a frame that arrives in pieces; no piece is kept, and the cuts don't change what is found
    throttle_ms  how long the response makes its client wait for a quota
    throttled    the same of frames as they pass, once for many in a row (metrics)
    is_quiet     whether a passing frame is seen at once to have no error and to throttle nobody: by one look at a fixed
                 offset, or because it is alike one of which that is known, `note_quiet` (metrics)
    places       the fixed offsets of these, for readers without Python

If the only code has a fixed offset, as in Heartbeat, that offset alone is read, and once for many equal frames in a
row. Generated functions step from code to code in all other responses (`compile.prober`). They serve `codes` too; a
projection reads what is beyond their bound. Records and other values are stepped over. `proxy.wire.places` finds the
codes in decoded values, each with what it is about.

Masked bytes are zeros, and a zero also means "no error" and "no elements". If only values are masked, the codes can
still be read; a response that is masked from its body's start has none. Kafka 0.7's responses hold their codes
elsewhere; the codes have the same meaning as in later versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple, Protocol

from proxy.wire import apis, catalog, kafka07
from proxy.wire.alike import LARGEST, AlikeResponses
from proxy.wire.budget import Budget
from proxy.wire.catalog import CACHE_SIZE, Codec
from proxy.wire.compile import costs
from proxy.wire.compile.layout import layout
from proxy.wire.compile.prober import prober, prober_in_pieces
from proxy.wire.dialects import Dialect
from proxy.wire.error_codes import is_error_code
from proxy.wire.errors import OverBudget, Truncated, WireError
from proxy.wire.framing import LENGTH, RESPONSE_HEAD
from proxy.wire.headers import response_head, response_header_version
from proxy.wire.kafka07 import RequestHead, RequestType
from proxy.wire.kafka07.probes import code_pieces
from proxy.wire.keys import API_VERSIONS
from proxy.wire.language import Field
from proxy.wire.primitives import Buffer

# reading so many takes some 20 microseconds, less than the proxy's other work for such a response
MAX_ELEMENTS = 64
_THROTTLE = "throttle_time_ms"
_CODE, _INT32 = Struct(">h"), Struct(">i")
_read_code = _CODE.unpack_from
# the longest frame, its length included, that `is_quiet` may know
LONGEST_KNOWN = LENGTH.size + LARGEST
# a frame without its length begins with the correlation id, and the header's tags where it has them
_HEAD = RESPONSE_HEAD.size - LENGTH.size

# the codes other than 0; True if these are all of the frame's codes
Answer = tuple[list[int], bool]
Whole = Callable[[Buffer, int, int], Answer]
Pieces = Generator[Answer | None, Buffer, None]


class Unread(StrEnum):
    """Why the error codes of a response are unknown. The value is that of columns and of JSON."""

    MASKED = "masked"  # as a whole, because it may hold a secret
    UNKNOWN_VERSION = "unknown_version"  # or an unknown api
    MALFORMED = "malformed"
    OVER_BUDGET = "over_budget"  # the codes take more memory than the budget
    # the capture lacks the frame, or a part of it
    OMITTED = "omitted"  # left out by a setting
    CUT = "cut"  # the connection ended within the frame
    TOO_LARGE = "too_large"  # larger than the reader's limit


class FoundErrors(NamedTuple):
    """The error codes of some responses: code other than 0 -> number of occurrences.

    beyond: the number of responses with more elements than a reader of passing frames reads. malformed: that of
    unreadable responses.
    """

    codes: Mapping[int, int] = MappingProxyType({})
    beyond: int = 0
    malformed: int = 0


# every code is 0: nearly every response
NOTHING = FoundErrors()
MALFORMED = FoundErrors(malformed=1)


class Throttled(NamedTuple):
    """How long some responses make their clients wait, in milliseconds in all, and how many of them do."""

    milliseconds: int = 0
    responses: int = 0


# no client is made to wait: nearly every response
UNTHROTTLED = Throttled()


class QuietThrottle(NamedTuple):
    """Bytes that are zeros in a frame that makes no client wait, and in hardly any other.

    start: from the frame's length on, or, if negative, from the frame's end. zeros: as many as there are.
    """

    start: int
    zeros: bytes


class Places(NamedTuple):
    """Fixed offsets in a response, from behind its length, if its header has no tags (Kafka defines none).

    code: of its only error code; None: it has several or none, or the code's offset varies. tags: of the header's tag
    buffer; None if it has none. throttle: of the throttle time; None: it has none, or its offset varies.
    """

    code: int | None
    tags: int | None
    throttle: int | None


class Functions(Protocol):
    """What knows where the responses of one API and version have their codes."""

    @property
    def places(self) -> Places:
        """The fixed offsets."""

    @property
    def whole(self) -> Whole:
        """Reads the bytes behind the length, `data[start:end]`, in bounded time. Errors: WireError."""

    @property
    def pieces(self) -> Callable[[], Pieces]:
        """Makes a generator that is sent a frame's pieces, from its length on, and yields None for the next one.

        It raises WireError.
        """

    def codes(self, frame: Buffer, masked_from: int | None, budget: Budget) -> list[int] | Unread:
        """As `error_codes`."""

    def throttle_ms(self, frame: Buffer) -> int | None:
        """As `throttle_ms`."""

    @property
    def quiet_throttle(self) -> QuietThrottle | None:
        """Where a frame that makes no client wait has zeros; None: no frame does, or the field has no such place."""

    def alike(self) -> AlikeResponses | None:
        """What remembers responses whose codes and throttle times are equal; None: nothing does."""


class ErrorReader:
    """Reads the responses of one API and version, by its functions."""

    def __init__(self, functions: Functions):
        self._functions = functions
        self.codes, self.throttle_ms = functions.codes, functions.throttle_ms
        self._quiet_throttle = functions.quiet_throttle

    @cached_property
    def _quiet_ones(self) -> AlikeResponses | None:
        """Remembers responses that have no error and make no client wait."""
        return self._functions.alike()

    @property
    def places(self) -> Places:
        """The fixed offsets."""
        return self._functions.places

    def find(self, data: bytes, at: int, size: int, count: int = 1) -> FoundErrors:
        """The errors of `count` adjacent frames from `data[at]` on, each of `size` bytes, its length included."""
        codes: dict[int, int] = {}
        beyond = malformed = 0
        for start in range(at, at + size * count, size):
            try:
                found, is_all = self._functions.whole(data, start + LENGTH.size, start + size)
            except WireError:
                malformed += 1
            else:
                beyond += not is_all
                for code in found:
                    codes[code] = codes.get(code, 0) + 1
        return FoundErrors(codes, beyond, malformed) if codes or beyond or malformed else NOTHING

    def is_quiet(self, data: bytes, at: int, size: int, count: int = 1) -> bool:
        """True if `count` adjacent frames are seen at once to have no error and to make no client wait."""
        quiet = self._quiet_ones
        if quiet is None or size > LONGEST_KNOWN:
            return False
        starts = range(at + LENGTH.size, at + size * count, size)
        return all(quiet.knows(data[start : start + size - LENGTH.size]) for start in starts)

    def note_quiet(self, data: bytes, at: int, size: int) -> None:
        """Remembers a frame in which neither `find` nor `throttled` has found anything, for `is_quiet`."""
        if self._quiet_ones is not None and size <= LONGEST_KNOWN:
            self._quiet_ones.note(data[at + LENGTH.size : at + size])

    def throttled(self, data: bytes, at: int, size: int, count: int = 1) -> Throttled:
        """How long `count` adjacent frames make their clients wait. For the arguments see `find`."""
        if self._quiet_throttle is None:
            return UNTHROTTLED
        start, zeros = self._quiet_throttle
        place, end = at + start + (size if start < 0 else 0), at + size * count
        if count == 1:
            if data.startswith(zeros, place):
                return UNTHROTTLED
        elif _are_zeros(data, place, len(zeros), size, end):
            return UNTHROTTLED
        frames = (memoryview(data)[one + LENGTH.size : one + size] for one in range(at, end, size))
        waits = [wait for wait in map(self.throttle_ms, frames) if wait is not None and wait > 0]
        return Throttled(sum(waits), len(waits)) if waits else UNTHROTTLED

    def begin(self) -> ArrivingErrors:
        """Begins a frame that arrives in pieces."""
        return ArrivingErrors(self._functions.pieces())


def _are_zeros(data: bytes, start: int, width: int, size: int, end: int) -> bool:
    """True if adjacent frames of one size, up to `end`, all have zeros in the `width` bytes from `start` on."""
    for place in range(start, start + width):
        column = data[place:end:size]
        if column.count(0) != len(column):
            return False
    return True


class FixedReader(ErrorReader):
    """Reads the only code at its fixed offset in passing frames, if the header has no tags."""

    def __init__(self, functions: Functions, code: int, tags: int | None):
        """`code`, `tags`: as in `Places`."""
        super().__init__(functions)
        place = self._place = LENGTH.size + code
        tags = self._tags = None if tags is None else LENGTH.size + tags
        self._start = place if tags is None else tags
        # no tags, no error, and whatever stands between them
        self._quiet = bytes(place + _CODE.size - self._start)
        throttle = functions.quiet_throttle
        self._tells_throttle = throttle is None or self._start <= throttle.start < place

    def is_quiet(self, data: bytes, at: int, size: int, count: int = 1) -> bool:
        """As `ErrorReader.is_quiet`; one frame alone: `find` reads many at once."""
        # a frame that ends before its code has the next one's bytes there
        is_whole = self._tells_throttle and size >= self._place + _CODE.size
        return count == 1 and is_whole and data.startswith(self._quiet, at + self._start)

    def find(self, data: bytes, at: int, size: int, count: int = 1) -> FoundErrors:
        """As `ErrorReader.find`."""
        if size < self._place + _CODE.size:
            return super().find(data, at, size, count)
        if not self._is_common(data, at, size, count):
            return super().find(data, at, size, count)
        (code,) = _read_code(data, at + self._place)
        return FoundErrors({code: count}) if code else NOTHING

    def _is_common(self, data: bytes, at: int, size: int, count: int) -> bool:
        """True if no header has tags, and all these frames have the same code."""
        place, end = at + self._place, at + size * count
        if self._tags is not None and not _are_zeros(data, at + self._tags, 1, size, end):
            return False
        if count == 1:
            return True
        high, low = data[place:end:size], data[place + 1 : end : size]
        return high.count(high[0]) == low.count(low[0]) == count


class ArrivingErrors:
    """The error codes of one response that arrives in pieces. `found` is final at the frame's end."""

    def __init__(self, pieces: Pieces):
        self._pieces: Pieces | None = pieces
        # until the generator answers
        self.found = MALFORMED
        next(pieces)

    def feed(self, piece: Buffer) -> None:
        """Reads the next piece; keeps none of its bytes."""
        if self._pieces is None:
            return
        try:
            answer = self._pieces.send(piece)
        except WireError:
            self._pieces = None
            return
        if answer is not None:
            codes, is_all = answer
            self._pieces, self.found = None, FoundErrors(Counter(codes), not is_all)


class _Generated:
    """Readers of a message of the catalog, generated when first called."""

    def __init__(self, codec: Codec, api_key: int):
        self._codec, self._api_key = codec, api_key
        self._header = response_header_version(api_key, codec.version)
        self._arguments = codec.message, codec.version, self._header, MAX_ELEMENTS
        self._paths = error_paths(api_key, codec.version)

    @cached_property
    def places(self) -> Places:
        body = _HEAD + self._header
        code = self._offset(is_error_code) if len(self._paths) == 1 else None
        throttle = self._offset(lambda name: name == _THROTTLE)
        return Places(
            None if code is None else body + code,
            _HEAD if self._header else None,
            None if throttle is None else body + throttle,
        )

    def _offset(self, is_wanted: Callable[[str], bool]) -> int | None:
        """The offset of a field in the body; None if it is not in the body itself, or a field before varies in size."""
        place = 0
        for slot in layout(self._codec.message, self._codec.version).slots:
            if is_wanted(slot.name):
                return place
            if slot.code is None:
                return None
            place += slot.size
        return None

    @cached_property
    def whole(self) -> Whole:
        return prober(*self._arguments)

    @cached_property
    def _whole_elements(self) -> Whole:
        """As `whole`, for a capture's response: it is unreadable if it ends within an element with codes."""
        return prober(*self._arguments, whole_elements=True)

    @cached_property
    def pieces(self) -> Callable[[], Pieces]:
        return prober_in_pieces(*self._arguments)

    def codes(self, frame: Buffer, masked_from: int | None, budget: Budget) -> list[int] | Unread:
        if not self._paths:
            return Unread.UNKNOWN_VERSION
        try:
            if masked_from is not None and masked_from <= self._body(frame):
                return Unread.MASKED
            found, is_all = self._whole_elements(frame, 0, len(frame))
            # several codes of several paths come path by path
            if is_all and (len(found) < 2 or len(self._paths) == 1):
                budget.values.take(costs.SPAN * len(found))
                return found
            spans = self._codec.project_within(self._paths)(frame, self._body(frame), budget.values.take)
        except OverBudget:
            return Unread.OVER_BUDGET
        except WireError:
            return Unread.MALFORMED
        return [value for path in spans.values() for value, _, _ in path if value]

    def throttle_ms(self, frame: Buffer) -> int | None:
        place = self.places.throttle
        has_tags = self._header and frame[_HEAD : _HEAD + 1] != b"\0"
        if place is None or has_tags:
            return self._projected_throttle(frame)
        if len(frame) < place + _INT32.size:
            return None
        found: int = _INT32.unpack_from(frame, place)[0]
        return found

    def _projected_throttle(self, frame: Buffer) -> int | None:
        """By a projection that steps over everything before the field."""
        if not self._has_throttle or not self._has_its_version(frame):
            return None
        try:
            spans = self._codec.project((_THROTTLE,))(frame, self._body(frame))
        except WireError:
            return None
        return next((value for value, _, _ in spans[_THROTTLE]), None)

    def _has_its_version(self, frame: Buffer) -> bool:
        """False for a broker's refusal of an ApiVersions request, which has version 0's body."""
        found = catalog.codec_of_response(frame, self._api_key, self._codec.version)
        return found is not None and found.version == self._codec.version

    @cached_property
    def quiet_throttle(self) -> QuietThrottle | None:
        place, width = self.places.throttle, _INT32.size
        if place is not None:
            if place == _HEAD + self._header:
                # with the header's tags before it, if there are any
                return QuietThrottle(LENGTH.size + _HEAD, bytes(self._header + width))
            return QuietThrottle(LENGTH.size + place, bytes(width))
        struct = layout(self._codec.message, self._codec.version)
        if not self._has_throttle or struct.slots[-1].name != _THROTTLE:
            return None
        # the body's tags come last
        width += struct.flexible
        return QuietThrottle(-width, bytes(width))

    def alike(self) -> AlikeResponses:
        return AlikeResponses(self._codec, lambda name: name == _THROTTLE or is_error_code(name))

    @cached_property
    def _has_throttle(self) -> bool:
        return any(slot.name == _THROTTLE for slot in layout(self._codec.message, self._codec.version).slots)

    def _body(self, frame: Buffer) -> int:
        return response_head(frame, self._api_key, self._codec.version).body


class _Readers07:
    """Readers of the responses to a request type of 0.7."""

    def __init__(self, request_type: RequestType):
        self._type = request_type
        self.pieces = partial(code_pieces, request_type, MAX_ELEMENTS)
        self.places = Places(None if request_type is RequestType.MULTIFETCH else 0, None, None)
        self.quiet_throttle = None

    def whole(self, data: Buffer, start: int, end: int) -> Answer:
        """Reads the whole frame as a single piece, with its length. Errors: WireError."""
        pieces = self.pieces()
        next(pieces)
        answer = pieces.send(memoryview(data)[start - LENGTH.size : end])
        if answer is None:
            raise Truncated("the bytes end before the response does", offset=end)
        return answer

    def codes(self, frame: Buffer, masked_from: int | None, budget: Budget) -> list[int] | Unread:
        try:
            codes = kafka07.error_codes(frame, self._type, budget=budget)
        except OverBudget:
            return Unread.OVER_BUDGET
        return Unread.MALFORMED if codes is None else codes

    def throttle_ms(self, frame: Buffer) -> int | None:
        """None: 0.7 has no quotas."""
        return None

    def alike(self) -> None:
        """None: one look at each is enough for so few old clients."""


@lru_cache(CACHE_SIZE)
def error_reader(api_key: int, api_version: int | None) -> ErrorReader | None:
    """The reader of the responses to such requests. `api_version` None: a request of Kafka 0.7.

    None if the request is unknown, or if 0.7 has no response to it.
    """
    functions = _functions(api_key, api_version)
    if functions is None:
        return None
    places = functions.places
    return ErrorReader(functions) if places.code is None else FixedReader(functions, places.code, places.tags)


def _functions(api_key: int, api_version: int | None) -> Functions | None:
    if api_version is None:
        request_type = RequestHead(0, api_key).type
        return _Readers07(request_type) if request_type and request_type.awaits_response else None
    if api_key == API_VERSIONS and not apis.known(api_key, api_version):
        # a broker that lacks the version answers in version 0 (KIP-511)
        api_version = 0
    codec = catalog.codec("response", api_key, api_version)
    return None if codec is None else _Generated(codec, api_key)


def error_codes(
    frame: Buffer,
    api_key: int,
    api_version: int | None,
    *,
    masked_from: int | None = None,
    dialect: str = Dialect.KAFKA,
    budget: Budget | None = None,
) -> list[int] | Unread:
    """The codes other than 0 in a response, with repetitions, path by path, in wire order within each path.

    `frame`: the whole response behind its length. `masked_from`: the start of its first masked span. `budget`: pays for
    the codes; by default a new one.
    """
    reader = _reader(api_key, api_version, dialect)
    return Unread.UNKNOWN_VERSION if reader is None else reader.codes(frame, masked_from, budget or Budget())


@lru_cache(CACHE_SIZE)
def _reader(api_key: int, api_version: int | None, dialect: str) -> ErrorReader | None:
    if dialect == Dialect.KAFKA_07:
        return error_reader(api_key, None)
    return error_reader(api_key, api_version) if api_version is not None and apis.known(api_key, api_version) else None


def throttle_ms(frame: Buffer, api_key: int, api_version: int | None, *, dialect: str = Dialect.KAFKA) -> int | None:
    """How long a response makes its client wait for a quota, in milliseconds; None if it lacks the field or is damaged.

    `frame`: the whole response behind its length. In most bodies the field comes first, at a fixed offset; in those of
    Produce and ApiVersions, arrays come before it.
    """
    reader = _reader(api_key, api_version, dialect)
    return None if reader is None else reader.throttle_ms(frame)


def apis_with_errors(dialect: Dialect = Dialect.KAFKA) -> list[int]:
    """Keys of the APIs whose responses hold an error code in any version."""
    if dialect is Dialect.KAFKA_07:
        return [int(asked) for asked in RequestType if asked.awaits_response]
    return [key for key in apis.api_keys() if any(error_paths(key, version) for version in apis.versions(key))]


@lru_cache(CACHE_SIZE)
def error_paths(api_key: int, api_version: int) -> tuple[str, ...]:
    """Paths of the error codes in this response; empty if it has none or is not in the catalog."""
    codec = catalog.codec("response", api_key, api_version)
    return tuple(_paths(codec.message.fields, api_version)) if codec else ()


def _paths(fields: Sequence[Field], version: int, prefix: str = "") -> Iterator[str]:
    for field in fields:
        if version not in field.versions:
            continue
        path = prefix + field.name
        if is_error_code(field.name):
            yield path
        yield from _paths(field.fields, version, path + ".")
