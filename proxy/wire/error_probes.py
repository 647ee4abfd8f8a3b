"""Error codes of responses while they pass: the first of them, in bounded time, for who counts and decodes nothing.

A probe is that of one API and version. Where the only code stands at a fixed place, as in Heartbeat, a look there is
all that it takes, and one for many equal frames in a row. Elsewhere a written function steps over what stands between
the codes (`compile.prober`), `MOST_ELEMENTS` elements far. A frame that arrives in pieces is read as they come, and
nothing of it is kept; how it is cut makes no difference to what is found.

All codes of a frame that is there, however many they are, are found by `error_paths`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from functools import cached_property, lru_cache, partial
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple, Protocol

from proxy.wire import catalog
from proxy.wire.catalog import MOST_CACHED, Codec
from proxy.wire.compile.layout import layout
from proxy.wire.compile.prober import prober, prober_in_pieces
from proxy.wire.error_codes import is_error_code
from proxy.wire.error_paths import error_paths
from proxy.wire.errors import Truncated, WireError
from proxy.wire.framing import RESPONSE_HEAD
from proxy.wire.headers import response_header_version
from proxy.wire.kafka07 import RequestHead, RequestType
from proxy.wire.kafka07.probes import code_pieces
from proxy.wire.keys import API_VERSIONS
from proxy.wire.primitives import Buffer

# so many take some 20 microseconds, less than all else that the proxy does with such a response
MOST_ELEMENTS = 64
_CODE = Struct(">h")
_read_code = _CODE.unpack_from

# codes other than 0, and whether these are all of the frame
Answer = tuple[list[int], bool]
Whole = Callable[[bytes, int, int], Answer]
Pieces = Generator[Answer | None, Buffer, None]


class FoundErrors(NamedTuple):
    """What responses say: each of their codes other than 0, and how often it stands there.

    beyond: how many responses have more elements than are looked at. malformed: how many can't be read.
    """

    codes: Mapping[int, int] = MappingProxyType({})
    beyond: int = 0
    malformed: int = 0


# every code is 0, as it nearly always is
NOTHING = FoundErrors()
MALFORMED = FoundErrors(malformed=1)


class Functions(Protocol):
    """What reads one frame, from its length on."""

    @property
    def whole(self) -> Whole:
        """Reads the frame at `data[start:end]`. It raises WireError."""

    @property
    def pieces(self) -> Callable[[], Pieces]:
        """Makes a generator that is sent the frame's pieces; None from it asks for the next. It raises WireError."""


class ErrorProbe:
    """Finds the error codes in the responses of one API and version, by its functions."""

    def __init__(self, functions: Functions):
        self._functions = functions

    def find(self, data: bytes, at: int, size: int, count: int = 1) -> FoundErrors:
        """What `count` frames of `size` bytes say, their lengths included, that stand in a row from `data[at]` on."""
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
        """For a frame that comes in pieces."""
        return ArrivingErrors(self._functions.pieces())


class FixedProbe(ErrorProbe):
    """The only code stands `place` bytes behind the frame's start, where the header has no tags: Kafka knows none.

    Args:
        tags: where the header's tag buffer stands; None where it has none.
    """

    def __init__(self, functions: Functions, place: int, tags: int | None = None):
        super().__init__(functions)
        self._place, self._tags = place, tags
        self._start = place if tags is None else tags
        # no tags, nobody throttled, no error
        self._quiet = bytes(place + _CODE.size - self._start)

    def find(self, data: bytes, at: int, size: int, count: int = 1) -> FoundErrors:
        """See `ErrorProbe`."""
        if size < self._place + _CODE.size:
            return super().find(data, at, size, count)
        if count == 1 and data.startswith(self._quiet, at + self._start):
            return NOTHING
        if not self._is_common(data, at, size, count):
            return super().find(data, at, size, count)
        (code,) = _read_code(data, at + self._place)
        return FoundErrors({code: count}) if code else NOTHING

    def _is_common(self, data: bytes, at: int, size: int, count: int) -> bool:
        """Whether no header has tags, and all these frames have one code."""
        place, end = at + self._place, at + size * count
        if self._tags is not None and any(data[at + self._tags : end : size]):
            return False
        if count == 1:
            return True
        high, low = data[place:end:size], data[place + 1 : end : size]
        return high.count(high[0]) == low.count(low[0]) == count


class ArrivingErrors:
    """The error codes of one response, of which pieces come. `found`: what it says; settled at the frame's end."""

    def __init__(self, pieces: Pieces):
        self._pieces: Pieces | None = pieces
        # until the answer comes
        self.found = MALFORMED
        next(pieces)

    def feed(self, piece: Buffer) -> None:
        """The next piece; nothing of it is kept."""
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


class _Written:
    """Functions written from a message of the catalog when they are first called."""

    def __init__(self, codec: Codec, header: int):
        self._asked = codec.message, codec.version, header, MOST_ELEMENTS

    @cached_property
    def whole(self) -> Whole:
        return prober(*self._asked)

    @cached_property
    def pieces(self) -> Callable[[], Pieces]:
        return prober_in_pieces(*self._asked)


class _Written07:
    """Those of a request's type of 0.7."""

    def __init__(self, asked: RequestType):
        self.pieces = partial(code_pieces, asked, MOST_ELEMENTS)

    def whole(self, data: bytes, start: int, end: int) -> Answer:
        """The whole frame is its only piece."""
        pieces = self.pieces()
        next(pieces)
        answer = pieces.send(memoryview(data)[start:end])
        if answer is None:
            raise Truncated("the bytes end before the response does", offset=end)
        return answer


@lru_cache(MOST_CACHED)
def error_probe(api_key: int, api_version: int | None) -> ErrorProbe | None:
    """The probe of the responses to such requests, without a version to those of 0.7; None for an unknown one."""
    if api_version is None:
        return _probe_07(RequestHead(0, api_key).type)
    if api_key == API_VERSIONS and not catalog.known(api_key, api_version):
        # whoever does not know the version answers with that of version 0 (KIP-511)
        api_version = 0
    codec = catalog.codec("response", api_key, api_version)
    return None if codec is None else _probe(codec, response_header_version(api_key, api_version))


def _probe_07(asked: RequestType | None) -> ErrorProbe | None:
    if asked is None or not asked.awaits_response:
        return None
    functions = _Written07(asked)
    return ErrorProbe(functions) if asked is RequestType.MULTIFETCH else FixedProbe(functions, 4)


def _probe(codec: Codec, header: int) -> ErrorProbe:
    functions = _Written(codec, header)
    place = _fixed_place(codec)
    if place is None:
        return ErrorProbe(functions)
    start = RESPONSE_HEAD.size
    return FixedProbe(functions, start + header + place, start if header else None)


def _fixed_place(codec: Codec) -> int | None:
    """Where in the body its only code stands; None if there are others, or what stands before it varies in size."""
    place = 0
    for slot in layout(codec.message, codec.version).slots:
        if is_error_code(slot.name):
            return place if len(error_paths(codec.message.key or 0, codec.version)) == 1 else None
        if slot.code is None:
            return None
        place += slot.size
    return None
