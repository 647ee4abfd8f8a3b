"""Makes mismatches for the report: short frames and texts without secrets.

The capture has masked its own frames, but the target's answers were never masked. Fields that a capture may not keep
are overwritten with zeros here too, and shown as masked by programs that decode them. An answer that can't be searched
for secrets is not kept if its API may have some.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.wire import catalog
from proxy.wire.apis import MessageKind, name_or_key
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH
from recorder.replay.outcome import Difference, Frame, Mismatch
from recorder.replay.plan import Exchange

# Bytes that are kept of each frame: most answers are shorter, and a hundred mismatches with three frames each take less
# than 10 MB.
MOST_BYTES = 32 << 10
# differences that are kept of one exchange, and characters of a value
MOST_DIFFERENCES, MOST_LETTERS = 20, 200
HIDDEN = "masked"


def of_exchange(
    exchange: Exchange,
    kind: str,
    differences: Sequence[Difference],
    answer: bytes | None,
    *,
    at_ns: int = 0,
    target_version: int | None = None,
) -> Mismatch:
    """The mismatch of an exchange.

    `answer`: the target's, in `target_version` (None: the recorded version), or None.
    """
    key, version = exchange.api_key, exchange.version
    replayed_in = version if target_version is None else target_version
    secrets = {*catalog.secrets("response", key, version), *catalog.secrets("response", key, replayed_in)}
    return Mismatch(
        *exchange.origin,
        api=name_or_key(key),
        api_key=key,
        version=version,
        kind=kind,
        at_ns=at_ns,
        client=str(exchange.peer),
        target_version=replayed_in,
        differences=tuple(_short(one, secrets) for one in differences[:MOST_DIFFERENCES]),
        more=max(len(differences) - MOST_DIFFERENCES, 0),
        request=_frame(exchange.frame, "request", key, version),
        recorded=_frame(exchange.answer_frame, "response", key, version),
        replayed=_frame(answer, "response", key, replayed_in),
    )


def _short(found: Difference, secrets: set[str]) -> Difference:
    # elements have foreign names, so dots and brackets may stand anywhere in a path except in its last name
    if _last_name(found.path) in map(_last_name, secrets):
        return Difference(found.path, found.recorded and HIDDEN, found.replayed and HIDDEN)
    return Difference(found.path, _cut(found.recorded), _cut(found.replayed))


def _last_name(path: str) -> str:
    return path.rpartition(".")[2]


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} ..."


def _frame(frame: bytes | None, kind: MessageKind, key: int, version: int) -> Frame | None:
    if frame is None:
        return None
    return Frame(_without_secrets(frame, kind, key, version)[:MOST_BYTES], len(frame))


def _without_secrets(frame: bytes, kind: MessageKind, key: int, version: int) -> bytes:
    """The frame with zeros in place of secrets. Empty if it may hold secrets and can't be read."""
    if not catalog.may_hold_secrets(kind, key):
        return frame
    codec = catalog.codec(kind, key, version) if kind == "request" else catalog.codec_of_response(frame, key, version)
    if codec is None:
        return b""
    search = codec.search()
    try:
        search.feed(LENGTH.pack(len(frame)) + frame)
        spans = search.found()
    except WireError:
        return b""
    clean = bytearray(frame)
    for start, stop in spans:
        clean[start - LENGTH.size : stop - LENGTH.size] = bytes(stop - start)
    return bytes(clean)
