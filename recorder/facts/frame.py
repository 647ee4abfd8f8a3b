"""Opens a recorded frame, or gives the reason why it can't be opened.

The reason is a value of the column `unread`. A bad frame costs only its own rows and never fails the job. Masked bytes
are zeros, which would read as "no error" and "no elements". So a frame is not opened if it is masked from its body's
start or earlier; later masks cover only values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, Final, NamedTuple, TypeVar

from proxy.wire import catalog, records
from proxy.wire.apis import MessageKind, known
from proxy.wire.budget import Budget
from proxy.wire.compile.costs import MAX_PER_BYTE
from proxy.wire.dialects import Dialect
from proxy.wire.error_reader import Unread
from proxy.wire.errors import OverBudget, WireError
from proxy.wire.headers import request_head, response_head
from recorder.hashing.batches import Told

REQUEST: Final = "request"
RESPONSE: Final = "response"
# reasons that only records have
BAD_CRC, NO_CODEC, NOT_KEPT = "bad_crc", "no_codec", "not_kept"
REASONS = (
    Unread.MASKED.value,
    Unread.OMITTED.value,
    Unread.CUT.value,
    Unread.TOO_LARGE.value,
    Unread.UNKNOWN_VERSION.value,
    Unread.MALFORMED.value,
    BAD_CRC,
    NO_CODEC,
    NOT_KEPT,
)

# Frames of so many bytes take 26 MB of values at most: their values are not counted one by one.
_SMALL = 64 << 10

Values = dict[str, Any]
Result = TypeVar("Result")


@dataclass(slots=True)
class Frame:
    """A frame, and facts from its row in the capture.

    `masked_from`: where its first masked span starts. `is_cut`: the frame never arrived whole. `lacks_records`: a rule
    has left out the records of some topics. `told`: where a rule has hashed records, what each batch was as it arrived;
    None: all are as they were. `shared_results`: by `shared` function.
    """

    side: MessageKind
    dialect: str
    api_key: int
    api_version: int | None
    data: bytes
    masked_from: int | None = None
    is_cut: bool = False
    lacks_records: bool = False
    told: tuple[Told, ...] | None = None
    shared_results: dict[object, _Made] = field(default_factory=dict, compare=False, repr=False)


def is_not_kept(frame: Frame, data: bytes, batch: records.Batch) -> bool:
    """True if a rule has left out the batch's records. `data`: the bytes in which the batch was found."""
    return frame.lacks_records and records.is_blank(data, batch)


class Unreadable(Exception):
    """The frame can't be opened. `reason`: a value of the column `unread`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Opened(NamedTuple):
    """A frame's values, the codec that read them, and where the body begins."""

    values: Values
    codec: catalog.Codec
    body: int


# the constructor of a named tuple is a Python function, which takes three times as long
_as_opened: Callable[[type[Opened], tuple[object, ...]], Opened] = tuple.__new__


class _Made(NamedTuple):
    """The result of a shared function, or why it failed. `price`: bytes of values, which `payer` has paid."""

    result: Any
    reason: str | None
    price: int
    payer: Budget


_as_made: Callable[[type[_Made], tuple[object, ...]], _Made] = tuple.__new__


def shared(make: Callable[[Frame, Budget], Result]) -> Callable[[Frame, Budget], Result]:
    """Makes a function run once for each frame: all decoders of the frame share the result.

    Every decoder's budget pays the price, so that none reads more than it could alone. Errors: Unreadable.
    """

    @wraps(make)
    def made(frame: Frame, budget: Budget) -> Result:
        before = frame.shared_results.get(make)
        if before is None:
            return _make(make, frame, budget)
        found, reason, price, payer = before
        if payer is not budget and not budget.values.try_take(price):
            raise Unreadable(Unread.TOO_LARGE)
        if reason is not None:
            raise Unreadable(reason)
        result: Result = found
        return result

    return made


def _make(make: Callable[[Frame, Budget], Result], frame: Frame, budget: Budget) -> Result:
    values = budget.values
    left = values.left
    try:
        result = make(frame, budget)
    except Unreadable as error:
        frame.shared_results[make] = _Made(None, error.reason, 0, budget)
        raise
    frame.shared_results[make] = _as_made(_Made, (result, None, left - values.left, budget))
    return result


def opened(frame: Frame, budget: Budget) -> Values:
    """The values of the frame's body. Errors: Unreadable."""
    return opened_with_codec(frame, budget).values


@shared
def opened_with_codec(frame: Frame, budget: Budget) -> Opened:
    """As `opened`, with the codec and the body's offset. Errors: Unreadable."""
    if frame.api_version is None or frame.dialect != Dialect.KAFKA:
        raise Unreadable(Unread.UNKNOWN_VERSION)
    try:
        return _opened(frame, frame.api_version, budget)
    except WireError as error:
        raise Unreadable(why(error, frame)) from None


def _opened(frame: Frame, version: int, budget: Budget) -> Opened:
    key, data = frame.api_key, frame.data
    is_response = frame.side == RESPONSE
    codec = catalog.codec_of_response(data, key, version) if is_response else _codec_of_request(key, version)
    if codec is None:
        raise Unreadable(Unread.UNKNOWN_VERSION)
    body = response_head(data, key, version).body if is_response else request_head(data).body
    if frame.masked_from is not None and frame.masked_from <= body:
        raise Unreadable(Unread.MASKED)
    most, allowance = len(data) * MAX_PER_BYTE, budget.values
    if len(data) <= _SMALL and most <= allowance.left:
        # the most that its values can take: to count them would take longer than to read them
        allowance.take(most)
        return _as_opened(Opened, (codec.decode(data, body)[0], codec, body))
    return Opened(codec.decode(data, body, budget=budget)[0], codec, body)


@lru_cache(catalog.CACHE_SIZE)
def _codec_of_request(key: int, version: int) -> catalog.Codec | None:
    return catalog.codec(REQUEST, key, version) if known(key, version) else None


def none_if_negative(value: int | None) -> int | None:
    """Returns null for the wire's -1, and for a field that the version lacks."""
    return None if value is None or value < 0 else value


def why(error: WireError, frame: Frame) -> str:
    """Returns the reason for an error of the wire format, a value of `unread`."""
    if isinstance(error, OverBudget):
        return Unread.TOO_LARGE.value
    return Unread.CUT.value if frame.is_cut else Unread.MALFORMED.value
