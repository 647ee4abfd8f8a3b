"""Error codes of responses while they pass, found in bounded time, for counting them without decoding anything.

A probe serves one API and version. If the only code has a fixed offset, as in Heartbeat, a probe reads that offset
alone, and once for many equal frames in a row. Other probes are generated functions that step from code to code
(`compile.prober`), over at most `MAX_ELEMENTS` elements. A frame that arrives in pieces is probed piece by piece;
no piece is kept, and the cuts don't change what is found.

`error_paths` finds all codes of a whole frame, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from functools import cached_property, lru_cache, partial
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple, Protocol

from proxy.wire import apis, catalog
from proxy.wire.catalog import CACHE_SIZE, Codec
from proxy.wire.compile.layout import layout
from proxy.wire.compile.prober import prober, prober_in_pieces
from proxy.wire.error_codes import is_error_code
from proxy.wire.error_paths import error_paths
from proxy.wire.errors import Truncated, WireError
from proxy.wire.framing import LENGTH, RESPONSE_HEAD
from proxy.wire.headers import response_header_version
from proxy.wire.kafka07 import RequestHead, RequestType
from proxy.wire.kafka07.probes import code_pieces
from proxy.wire.keys import API_VERSIONS
from proxy.wire.primitives import Buffer

# reading so many takes some 20 microseconds, less than the proxy's other work for such a response
MAX_ELEMENTS = 64
_CODE = Struct(">h")
_read_code = _CODE.unpack_from

# the codes other than 0; True if these are all of the frame's codes
Answer = tuple[list[int], bool]
Whole = Callable[[bytes, int, int], Answer]
Pieces = Generator[Answer | None, Buffer, None]


class FoundErrors(NamedTuple):
    """The error codes of some responses: code other than 0 -> number of occurrences.

    beyond: the number of responses with more elements than a probe reads. malformed: that of unreadable responses.
    """

    codes: Mapping[int, int] = MappingProxyType({})
    beyond: int = 0
    malformed: int = 0


# every code is 0: nearly every response
NOTHING = FoundErrors()
MALFORMED = FoundErrors(malformed=1)


class Functions(Protocol):
    """The two readers of one API and version. A frame begins with its length."""

    @property
    def whole(self) -> Whole:
        """The function that reads the frame at `data[start:end]`. It raises WireError."""

    @property
    def pieces(self) -> Callable[[], Pieces]:
        """Makes a generator that is sent a frame's pieces and yields None for the next one. It raises WireError."""


class ErrorProbe:
    """Finds the error codes in the responses of one API and version, by its functions."""

    def __init__(self, functions: Functions):
        self._functions = functions

    def find(self, data: bytes, at: int, size: int, count: int = 1) -> FoundErrors:
        """The errors of `count` adjacent frames from `data[at]` on, each of `size` bytes, its length included."""
        codes: dict[int, int] = {}
        beyond = malformed = 0
        for start in range(at, at + size * count, size):
            try:
                found, is_all = self._functions.whole(data, start, start + size)
            except WireError:
                malformed += 1
            else:
                beyond += not is_all
                for code in found:
                    codes[code] = codes.get(code, 0) + 1
        return FoundErrors(codes, beyond, malformed) if codes or beyond or malformed else NOTHING

    def begin(self) -> ArrivingErrors:
        """Begins a frame that arrives in pieces."""
        return ArrivingErrors(self._functions.pieces())


class FixedProbe(ErrorProbe):
    """Reads the only code at its fixed offset `place` in the frame, if the header has no tags (Kafka defines none).

    Args:
        tags: the offset of the header's tag buffer; None if the header has none.
    """

    def __init__(self, functions: Functions, place: int, tags: int | None = None):
        super().__init__(functions)
        self._place, self._tags = place, tags
        self._start = place if tags is None else tags
        # no tags, no throttling, no error
        self._quiet = bytes(place + _CODE.size - self._start)

    def find(self, data: bytes, at: int, size: int, count: int = 1) -> FoundErrors:
        """As `ErrorProbe.find`."""
        if size < self._place + _CODE.size:
            return super().find(data, at, size, count)
        if count == 1 and data.startswith(self._quiet, at + self._start):
            return NOTHING
        if not self._is_common(data, at, size, count):
            return super().find(data, at, size, count)
        (code,) = _read_code(data, at + self._place)
        return FoundErrors({code: count}) if code else NOTHING

    def _is_common(self, data: bytes, at: int, size: int, count: int) -> bool:
        """True if no header has tags, and all these frames have the same code."""
        place, end = at + self._place, at + size * count
        if self._tags is not None and any(data[at + self._tags : end : size]):
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
        """Probes the next piece; keeps none of its bytes."""
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

    def __init__(self, codec: Codec, header: int):
        self._arguments = codec.message, codec.version, header, MAX_ELEMENTS

    @cached_property
    def whole(self) -> Whole:
        return prober(*self._arguments)

    @cached_property
    def pieces(self) -> Callable[[], Pieces]:
        return prober_in_pieces(*self._arguments)


class _Readers07:
    """Readers of the responses to a request type of 0.7."""

    def __init__(self, request_type: RequestType):
        self.pieces = partial(code_pieces, request_type, MAX_ELEMENTS)

    def whole(self, data: bytes, start: int, end: int) -> Answer:
        """Reads the whole frame as a single piece. Errors: WireError."""
        pieces = self.pieces()
        next(pieces)
        answer = pieces.send(memoryview(data)[start:end])
        if answer is None:
            raise Truncated("the bytes end before the response does", offset=end)
        return answer


@lru_cache(CACHE_SIZE)
def error_probe(api_key: int, api_version: int | None) -> ErrorProbe | None:
    """The probe of the responses to such requests. `api_version` None: a request of Kafka 0.7.

    None if the request is unknown, or if 0.7 has no response to it.
    """
    if api_version is None:
        return _probe_07(RequestHead(0, api_key).type)
    if api_key == API_VERSIONS and not apis.known(api_key, api_version):
        # a broker that lacks the version answers in version 0 (KIP-511)
        api_version = 0
    codec = catalog.codec("response", api_key, api_version)
    return None if codec is None else _probe(codec, response_header_version(api_key, api_version))


def _probe_07(request_type: RequestType | None) -> ErrorProbe | None:
    if request_type is None or not request_type.awaits_response:
        return None
    functions = _Readers07(request_type)
    return ErrorProbe(functions) if request_type is RequestType.MULTIFETCH else FixedProbe(functions, 4)


def _probe(codec: Codec, header: int) -> ErrorProbe:
    functions = _Generated(codec, header)
    place = _place_in_body(codec)
    if place is None:
        return ErrorProbe(functions)
    start = RESPONSE_HEAD.size
    return FixedProbe(functions, start + header + place, start if header else None)


def fixed_place(api_key: int, api_version: int) -> tuple[int, int | None] | None:
    """The fixed offset of such a response's only error code, and the offset of the header's tag buffer.

    Both offsets count from behind the frame's length. The second is None if the header has no tag buffer; the first is
    right only if that buffer is empty. None if the response has several codes or none, or if the code's offset varies.
    """
    codec = catalog.codec("response", api_key, api_version)
    place = None if codec is None else _place_in_body(codec)
    if place is None:
        return None
    header, start = response_header_version(api_key, api_version), RESPONSE_HEAD.size - LENGTH.size
    return start + header + place, start if header else None


def _place_in_body(codec: Codec) -> int | None:
    """The offset of the body's only code; None if there are several or none, or a field before it varies in size."""
    place = 0
    for slot in layout(codec.message, codec.version).slots:
        if is_error_code(slot.name):
            return place if len(error_paths(codec.message.key or 0, codec.version)) == 1 else None
        if slot.code is None:
            return None
        place += slot.size
    return None
