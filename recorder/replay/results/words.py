"""A replay's result in words. All forms of the report use these sentences."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from proxy.terminal import printable
from proxy.wire.error_codes import is_error_code, kafka_error
from recorder import terminal
from recorder.replay.outcome import (
    Assigned,
    BeforeKind,
    Difference,
    Ending,
    FromBefore,
    Mismatch,
    Plan,
    Progress,
    ReachedTarget,
    RefusedCounts,
    Result,
    Source,
    Stream,
    Verdict,
)
from recorder.replay.prepare import listed
from recorder.terminal import count, duration, moment, percent

# so many fit on two lines of a terminal
_MOST_WAITS = 3
# topics that a sentence names
_MOST_TOPICS = 5
# a Kafka error code
_CODE = re.compile(r"-1|[1-9][0-9]{0,4}")
# an array's element in the path of a difference; its name may have brackets
_ELEMENT = re.compile(r"\[.*?\](?=\.|$)")


def milliseconds(nanoseconds: int | None) -> str:
    """Milliseconds without their unit, which the column's title has."""
    return terminal.milliseconds(None if nanoseconds is None else nanoseconds / 1e6)


def source(played: Source) -> str:
    """The capture that was played."""
    sessions = count(len(played.sessions), "session")
    return f"{played.capture} ({sessions}, {moment(played.first_at_ns)} UTC, {duration(played.span_ns) or '0 s'})"


def target(to: ReachedTarget) -> str:
    """The cluster that it was played to."""
    cluster = f", cluster {to.cluster_id}" if to.cluster_id else ""
    return f"{to.asked} ({count(len(to.nodes), 'node')}{cluster})"


def took(result: Result) -> str:
    """When the replay began, how long it took, and how far it came."""
    lasted = duration(result.ended_at_ns - result.started_at_ns) or "0 s"
    far = "" if result.ending is Ending.WHOLE else f", {reached(result)} of the recording"
    return f"{moment(result.started_at_ns)} UTC, in {lasted}{far}; {result.ending}"


def reached(result: Result) -> str:
    """The share of the recording that was played."""
    span = result.source.span_ns
    return "100 %" if span <= 0 else f"{min(100 * max(result.position_ns, 0) // span, 100)} %"


def verdict(result: Result) -> str:
    """The verdict and its figures, in a sentence."""
    differs = (
        f"{differing(result)}; --max-mismatches allows {count(result.max_mismatches)}{had_before(result)}"
        f"{not_compared(result)}{not_expected(result)}"
    )
    found = {
        Verdict.EQUAL: f"{equal(result)}{not_compared(result)}{not_expected(result)}",
        Verdict.TOLERATED: differs,
        Verdict.MISMATCHED: differs,
        Verdict.WITHHELD: f"{percent(result.withheld_percent)} of the requests were withheld; "
        f"--partial allows {percent(result.partial)}",
        Verdict.NOTHING: "no request of the recording was sent",
        Verdict.UNCOMPARED: f"{count(result.totals.sent, 'request')} sent, no answer compared{not_compared(result)}",
        Verdict.UNFINISHED: f"{_ending(result)}; {differing(result)}{had_before(result)}",
    }
    return found[result.verdict]


def _ending(result: Result) -> str:
    return f"{result.ending} ({printable(result.ended_why)})" if result.ended_why else result.ending


def equal(result: Result) -> str:
    """The numbers of answers and records that are as recorded, in a sentence."""
    number = result.totals.compared - result.totals.mismatches.total()
    if result.streams:
        return f"{count(number, 'answer')} and {streams_total(result)} are as recorded"
    return f"{count(number, 'answer')} {'is' if number == 1 else 'are'} as recorded"


def differing(result: Result) -> str:
    """The numbers of answers, streams and groups that differ, and of lost requests, in a sentence."""
    lost = result.totals.lost
    parts = _unlike(result), f"{count(lost, 'request')} {'was' if lost == 1 else 'were'} lost" if lost else ""
    found = [part for part in parts if part]
    if not found:
        return equal(result)
    has_equal = result.totals.answered and not result.totals.mismatches.total()
    return ("the answers are as recorded, but " if has_equal else "") + ", and ".join(found)


def _unlike(result: Result) -> str:
    """The answers, streams and groups that differ; empty if none do."""
    answers, streams = result.totals.mismatches.total(), sum(1 for _ in result.differing_streams())
    groups = len(result.assigned)
    parts = [f"{count(answers)} of {count(result.totals.answered, 'answer')}"] if answers else []
    parts += [f"{count(streams)} of {count(len(result.streams), 'stream')} of records"] if streams else []
    parts += [f"the assignments of {count(groups, 'group')}"] if groups else []
    if not parts:
        return ""
    *others, last = parts
    subject = f"{', '.join(others)} and {last}" if others else last
    return f"{subject} {'differs' if answers + streams == 1 and not groups else 'differ'}"


def not_compared(result: Result) -> str:
    """The answers that could not be compared; empty if there are none."""
    number = result.totals.uncompared
    return (
        f"; the capture lacks the recorded {'answer' if number == 1 else 'answers'} to {count(number)}"
        if number
        else ""
    )


def not_expected(result: Result) -> str:
    """The records from before the recording that the target lacks; empty if there are none."""
    number = sum(each.count for each in result.before if each.kind is BeforeKind.RECORDS)
    topics = {each.name for each in result.before if each.kind is BeforeKind.RECORDS}
    if not number:
        return ""
    is_one = "is" if number == 1 else "are"
    return f"; {count(number, 'record')} of {listed('topic', topics)} {is_one} from before the recording"


def had_before(result: Result) -> str:
    """The target's records and offsets of before the replay that may explain differences; empty if there are none."""
    topics = {one.topic for one in result.differing_streams()} & {*result.had_records}
    answers = result.apis.get("OffsetFetch")
    groups = result.had_offsets if answers and answers.mismatches else ()
    parts = [f"records in {listed('topic', topics)} of those that differ"] if topics else []
    parts += [f"offsets of {listed('group', groups)}"] if groups else []
    return f"; before the replay, the target had {' and '.join(parts)}" if parts else ""


def from_before(found: Iterable[FromBefore]) -> str:
    """How much is from before the recording, by kind."""
    numbers = Counter[str]()
    for each in found:
        numbers[each.kind.value] += each.count
    return ", ".join(f"{count(number)} {kind}" for kind, number in numbers.items())


def records_read(result: Result) -> str:
    """The number of equal records, and of streams that differ or were not read to their end."""
    differing = sum(1 for _ in result.differing_streams())
    unread = sum(1 for one in result.streams if one.unread and not one.differs)
    if not differing and not unread:
        return f"{streams_total(result)} are equal"
    of = f"of {count(len(result.streams), 'stream')}"
    parts = [f"{count(sum(one.equal for one in result.streams), 'record')} are equal"]
    parts += [f"{count(differing)} {of} {'differs' if differing == 1 else 'differ'}"] if differing else []
    parts += [f"{count(unread)} {of} {'was' if unread == 1 else 'were'} not read to the end"] if unread else []
    return "; ".join(parts)


def by_api(requests: Counter[str]) -> str:
    """Numbers of requests by API, the highest first."""
    return ", ".join(f"{api} {count(number)}" for api, number in requests.most_common())


def streams_total(result: Result) -> str:
    """The number of equal records, and of streams."""
    return f"{count(sum(one.equal for one in result.streams), 'record')} in {count(len(result.streams), 'stream')}"


def stream(found: Stream) -> str:
    """The numbers of a stream's records that differ."""
    parts = [
        (found.missing, "missing"),
        (found.extra, "extra"),
        (found.reordered, "reordered"),
        (found.unread, "unread"),
    ]
    return ", ".join(f"{count(number)} {what}" for number, what in parts if number)


def left_open(result: Result) -> str:
    """A title for transactions and members that stay open on the target."""
    return f"Left open on the target: {count(len(result.left_open))}; brokers end them by their timeouts"


def refused(found: RefusedCounts) -> str:
    """How much the recording refused for a while."""
    parts = [count(found.requests, "request")] if found.requests else []
    parts += [f"{count(found.parts, 'part')} of others"] if found.parts else []
    return f"Refused in the recording, so not sent: {' and '.join(parts)}. What their clients tried next counts."


def maybe_twice(result: Result) -> str:
    """How many records the target may have twice, and why."""
    topics = [f"{printable(topic)} {count(each)}" for topic, each in result.maybe_twice.most_common(_MOST_TOPICS)]
    more = len(result.maybe_twice) - len(topics)
    topics += [f"{count(more)} more"] if more else []
    return (
        f"May be there twice: {count(result.maybe_twice.total(), 'record')}, by topic: {', '.join(topics)}. "
        "No answer tells whether the recorded log has them, and their clients may have sent them again."
    )


def assigned(found: Assigned) -> str:
    """Assignments of a group on one side alone."""
    sides = (("recorded", found.only_recorded), ("replayed", found.only_target))
    return "; ".join(f"only {side}: {', '.join(given)}" for side, given in sides if given)


def exchange_id(found: Mismatch) -> str:
    """The exchange as `inspect show` takes it."""
    return f"{found.session}/{found.connection}/e{found.exchange}"


def command(result: Result, number: int, report: str | None, start: str = "kafka-wiretap") -> str:
    """The command that shows both answers of mismatch `number`; without a report's file, the recorded answer only.

    `start`: the program, as the shell takes it.
    """
    if report is not None:
        return f"{start} {shlex.join(['replay', 'show', report, str(number)])}"
    found = result.mismatches[number - 1]
    return f"{start} {shlex.join(['inspect', 'show', result.source.capture, exchange_id(found)])}"


class Alike(NamedTuple):
    """Mismatches of one API and kind with the same first difference. `number`: of the first mismatch."""

    number: int
    found: Mismatch
    times: int


def alike(mismatches: Iterable[Mismatch]) -> list[Alike]:
    """Mismatches in groups, in the order of their first ones: one odd setting of a target causes many alike."""
    groups: dict[Hashable, Alike] = {}
    for number, found in enumerate(mismatches, 1):
        first = found.differences[0] if found.differences else None
        key = found.api, found.kind, first and (field_of(first.path), first.recorded, first.replayed)
        group = groups.get(key, Alike(number, found, 0))
        groups[key] = group._replace(times=group.times + 1)
    return list(groups.values())


def kinds(result: Result) -> str:
    """The numbers of answers that differ, by kind."""
    return ", ".join(f"{kind} {count(number)}" for kind, number in result.totals.mismatches.most_common())


def kept(result: Result) -> str:
    """How many of the mismatches are kept."""
    kept, of = len(result.mismatches), result.totals.mismatches.total()
    return f"the first {count(kept)} of {count(of)}" if kept < of else f"all {count(of)}"


def field_of(path: str) -> str:
    """The field of a difference, without the elements of arrays: `topics.partitions.error_code`."""
    return _ELEMENT.sub("", path)


def first_difference(found: Mismatch) -> str:
    """The field of the first difference, both values, and the number of further ones."""
    if not found.differences:
        return ""
    first, *others = found.differences
    more = len(others) + found.more
    return difference(replace(first, path=field_of(first.path))) + (f" (and {count(more)} more)" if more else "")


def difference(found: Difference) -> str:
    """The path of a difference, and both values."""
    where = f"{found.path}: " if found.path else ""
    return f"{where}{_side(found.path, found.recorded)} → {_side(found.path, found.replayed)}"


def _side(path: str, value: str) -> str:
    """A value. An error code comes with its name."""
    is_code = is_error_code(path.rpartition(".")[2]) and _CODE.fullmatch(value)
    return f"{value} {kafka_error(int(value)).name}" if is_code else value or "nothing"


def planned(plan: Plan) -> str:
    """The numbers of requests that would be sent and withheld."""
    sent, refused_too = plan.requests.total(), plan.refused.requests
    withheld = plan.withheld.total() - refused_too
    share = percent(plan.withheld_percent) if plan.withheld_percent else "by design"
    kept = f"; {count(withheld)} ({share}) would be withheld" if withheld else ""
    played = f"; the recording refused {count(refused_too)}" if refused_too else ""
    return f"Nothing was sent. {count(sent, 'request')} would be{kept}{played}."


def progress(now: Progress) -> str:
    """The progress of a replay in one line."""
    late = f"{count(now.late)} late" + (f" (now {duration(now.behind_ns)})" if now.behind_ns > 0 else "")
    return (
        f"{count(now.sent)} sent, {count(now.answered)} answered, {late}, {count(now.withheld)} withheld, "
        f"{count(now.mismatches)} {'differs' if now.mismatches == 1 else 'differ'}"
    )


def waits(what: Mapping[str, int]) -> str:
    """What a replay waits for while it stands still, the most frequent first."""
    every = sorted(what.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{each} ({count(times)})" if times > 1 else each for each, times in every[:_MOST_WAITS]]
    more = f" and {count(len(every) - _MOST_WAITS)} more" if len(every) > _MOST_WAITS else ""
    return f"waits for {'; '.join(told)}{more}"


def position(now: Progress) -> str:
    """The replay's position in the recording."""
    return f"{duration(now.position_ns) or '0 s'} of {duration(now.span_ns) or '0 s'}"
