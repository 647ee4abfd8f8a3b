"""The parts of a request that the recorded cluster refused for a while: its client has asked again.

Such a part is not sent if its request writes: it is played as it was recorded, by changing nothing. The client's next
try is a request like any other. So records stand on the target in the order in which the recorded log took them.

    the recorded error                                  the part
    ----------------------------------------------------------------------------------------------------------------
    retriable, as Kafka's table says (`error_codes`)    refused
    2 (wrong checksum)                                  sent: the target should refuse the bytes, too
    7, 20                                               sent: the records may be in the recorded log
    45, 59 of batches with a sequence                   refused: the replay counts sequences of its own, so that the
                                                        target would take these batches before those that they followed
    113 (stale member epoch)                            refused: the target counts epochs of its own, so that it would
                                                        take what the recorded cluster took from the client's next try
    55 beside a refused part                            refused: the cluster has not tried this part
    others, or no answer that can be read               sent

A part is a partition, or a topic, group or transactional id that the answer names with an error of its own; else it is
the whole request.
"""

from __future__ import annotations

from collections.abc import Collection

from proxy.wire.error_codes import ERRORS, STALE_MEMBER_EPOCH
from proxy.wire.keys import PRODUCE
from proxy.wire.places import KEYED, ElementKey, body
from recorder.replay import partitions
from recorder.replay.plan import Dropped, Exchange, Reason, Values
from recorder.replay.requests.layout import errors, without
from recorder.replay.requests.order import producers

CORRUPT_MESSAGE, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND = 2, 7, 20
# errors after which the records of a Produce may be in the log all the same
MAYBE_WRITTEN = frozenset({REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND})
# errors of recorded answers whose parts are withheld
_RETRIABLE = frozenset(error.code for error in ERRORS.values() if error.retriable)
WITHHELD_ERRORS = (_RETRIABLE - {CORRUPT_MESSAGE, *MAYBE_WRITTEN}) | {STALE_MEMBER_EPOCH}
# a gap before the batch, and a producer whose batches the broker no longer has
_OF_SEQUENCES = frozenset({45, 59})
_OPERATION_NOT_ATTEMPTED = 55

# the key of the whole request
ALL = None
Parts = frozenset[ElementKey | None]
NOTHING: Parts = frozenset()


def refused_parts(exchange: Exchange) -> Parts:
    """The refused parts of a request that writes, by their names in the recorded answer. Errors: WireError."""
    answer = exchange.answer
    codes = {} if answer is None else errors(exchange.api_key, answer)
    if answer is None or not codes:
        return NOTHING
    if _is_refused_whole(exchange.api_key, answer):
        return frozenset({ALL})
    found = {where for where, code in codes.items() if where is not None and code in WITHHELD_ERRORS}
    if found:
        found |= {where for where, code in codes.items() if where is not None and code == _OPERATION_NOT_ATTEMPTED}
    if exchange.api_key == PRODUCE and _OF_SEQUENCES & {*codes.values()}:
        found |= {
            (each.topic, each.partition)
            for each in partitions.in_request(PRODUCE, exchange.request)
            if codes.get((each.topic, each.partition)) in _OF_SEQUENCES and producers(each.values["records"])
        }
    return frozenset(found)


def _is_refused_whole(api_key: int, answer: Values) -> bool:
    """True if the answer has a refusal of its own, or nothing but refused elements without a key, such as settings."""
    elements = body("response", api_key)
    if elements.code(answer) in WITHHELD_ERRORS:
        return True
    codes = [
        inner.code(element)
        for name, inner in elements.arrays.items()
        if inner.codes and inner.level not in KEYED
        for element in answer.get(name) or ()
    ]
    return bool(codes) and WITHHELD_ERRORS.issuperset(codes)


def remaining(exchange: Exchange, values: Values, refused: Collection[ElementKey | None]) -> Values | None:
    """What is left of a recorded request's values without its refused parts; None if nothing is.

    The exchange notes the parts that are left out.
    """
    if ALL in refused:
        return None

    def drops(where: ElementKey) -> bool:
        if where in refused:
            exchange.dropped.append(Dropped(*where, Reason.REFUSED))
        return where in refused

    return without(exchange.api_key, values, drops)
