"""A replay's result as JSON, and back: stable keys, their units in their names, nothing that a capture may not keep.

    key                   contents
    format, version       "kafka-wiretap replay report", 1; a later version keeps these keys and adds others
    verdict, exit_code    the verdict (`outcome.Verdict`), and the command's exit code
    differences           answers, streams of records and groups that differ, as --max-mismatches counts them
    max_mismatches        --max-mismatches; partial: --partial, in percent
    withheld_percent      of the requests that were recorded
    totals                sums of `apis`
    refused               what the recording refused, so that it was withheld: requests, and parts of others
    source, target        the capture and the cluster it was played to; options: in words
    started_at_ns,        times since 1970; position_ns: how far in the recording; ending: why it ended there,
    ended_at_ns           and ended_why: in a sentence, if there is more to say
    apis                  by name: recorded, sent, answered, uncompared (the capture lacks the recorded answer), lost,
                          silent (acks=0), retried; by reason: withheld, partitions, mismatches
    made                  the replay's own requests by purpose
    late, lateness        how late requests left, and each cause's part of that: durations
    stood_still_ns        how long nothing moved, by what the replay waited for
    latency               by API: durations recorded and replayed
    streams               records by consumer, topic, partition: equal, missing, extra, reordered, unread, before
    before                what is from before the recording, and so not expected: kind, name (of a topic, group,
                          transactional id, client), count
    assigned              groups whose assignments differ: only_recorded, only_target
    had_records           topics that the replay produced to and that had records on the target before
    had_offsets           groups that had offsets on the target before
    left_open             transactions and members that could not be ended on the target, and why
    maybe_twice           records of which the target may have two, by topic: no answer tells whether the recorded log
                          has them, so that their client may have sent them again
    mismatches            the first ones: the exchange, the differences, the request and both answers as base64

Durations are count, p50_ns, p95_ns, p99_ns, most_ns and bins: pairs of least nanoseconds and count. A reader of later
versions ignores keys that it doesn't know. An HTML report holds the same JSON, so both are read alike.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from recorder.replay.durations import PERCENTILES, Durations
from recorder.replay.outcome import Result

FORMAT, VERSION = "kafka-wiretap replay report", 1
# the HTML around the JSON of an HTML report
OPENING, CLOSING = '<script type="application/json" id="report">', "</script>"
# ten times the size of a hundred mismatches with the longest frames
MOST_READ = 128 << 20


class NoReport(ValueError):
    """A file is no report of a replay. The text says which file, and why."""


def as_json(result: Result) -> str:
    """The report, indented, with a line feed at its end: ASCII, since a folder's name need not be UTF-8."""
    return json.dumps(_tree(result), indent=1) + "\n"


def as_script(result: Result) -> str:
    """The report as one line that may stand in HTML between `OPENING` and `CLOSING`: it can't end a script."""
    line = json.dumps(_tree(result), separators=(",", ":"))
    return line.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _tree(result: Result) -> dict[str, Any]:
    """`result`, preceded by values derived from it."""
    found: dict[str, Any] = msgspec.to_builtins(result, str_keys=True, enc_hook=_encoded)
    return {
        "format": FORMAT,
        "version": VERSION,
        "verdict": result.verdict.value,
        "exit_code": result.exit_code,
        "differences": result.differences,
        "withheld_percent": result.withheld_percent,
        "refused": result.refused._asdict(),
        "totals": msgspec.to_builtins(result.totals),
        **found,
    }


def read(path: Path) -> Result:
    """The result in a report, JSON or HTML. Errors: NoReport; OSError."""
    with path.open("rb") as file:
        data = file.read(MOST_READ + 1)
    if len(data) > MOST_READ:
        raise NoReport(f"{path}: longer than any report of a replay ({MOST_READ >> 20} MiB)")
    try:
        return of_json(_inside(data))
    except NoReport as error:
        raise NoReport(f"{path}: {error}") from None


def _inside(data: bytes) -> bytes:
    """The JSON in an HTML report; a JSON report as it is."""
    if data.lstrip()[:1] != b"<":
        return data
    _, opening, behind = data.partition(OPENING.encode())
    told, closing, _ = behind.partition(CLOSING.encode())
    if not opening or not closing:
        raise NoReport("a page without the report of a replay")
    return told


def of_json(data: bytes | str) -> Result:
    """The result that `as_json` wrote. Errors: NoReport."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NoReport(f"no JSON: {error}") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise NoReport("no report of `kafka-wiretap replay`")
    if tree.get("version") != VERSION:
        raise NoReport(f"version {str(tree.get('version'))[:20]} of the report; known is {VERSION}")
    try:
        return msgspec.convert(tree, Result, str_keys=True, dec_hook=_decoded)
    except (ValueError, RecursionError) as error:
        raise NoReport(f"no whole report of `kafka-wiretap replay`: {error}") from None


def _encoded(found: object) -> Any:
    if not isinstance(found, Durations):
        raise NotImplementedError(f"{type(found).__name__} has no form in JSON")
    percentiles = {f"{name}_ns": found.quantile(share) for name, share in PERCENTILES}
    return {"count": found.count, **percentiles, "most_ns": found.most_ns, "bins": [*found.in_order()]}


class _Durations(msgspec.Struct):
    most_ns: int
    bins: list[tuple[int, int]]


def _decoded(wanted: Any, found: Any) -> Any:
    if wanted is Durations:
        read = msgspec.convert(found, _Durations)
        return Durations(dict(read.bins), read.most_ns)
    # the only other type that msgspec doesn't know
    return Counter(msgspec.convert(found, dict[str, int]))
