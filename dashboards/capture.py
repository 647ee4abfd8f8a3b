"""Is what passes recorded, compacted and shipped, and how much room is left?"""

from __future__ import annotations

from dashboards.board import board
from dashboards.panels import (
    ANY_IS_RED,
    GREEN,
    HALF,
    QUARTER,
    RED,
    Query,
    graph,
    number,
    over,
    runbook,
    states,
)
from dashboards.promql import RANGE, now, or_zero, per_second, series, steadily_per_minute
from proxy.metrics import table

_BEHIND = [
    runbook("compactor-behind", "the compactor is behind"),
    runbook("compactor-restarts", "it ends again and again"),
]
_SHIPPING = [runbook("shipping-late", "the capture is shipped late")]
_DROPPING = [runbook("dropping", "traffic is not recorded")]
_ROOM = [runbook("disk-floor-near", "the disk floor is near"), runbook("volume-full", "the volume is too full")]
_FINE = {0: ("fine", GREEN)}


def _in_range(metric: table.Metric) -> str:
    return or_zero(f"sum(increase({series(metric)}[{RANGE}]))")


LOST = (
    number(
        "Recorder",
        "FAILED: the disk is full, not writable, or hangs. Empty while nothing is to be recorded. Next: the "
        "proxy's log says why.",
        now(table.FAILED, how="max"),
        words={**_FINE, 1: ("FAILED", RED)},
        levels=ANY_IS_RED,
        links=[runbook("not-recording", "nothing is recorded")],
    ),
    number(
        "Volume",
        "STOPPED: less is free than `capture.keep.free`, so nothing is recorded. Next: make room, or keep less.",
        now(table.STOPPED, how="max"),
        words={**_FINE, 1: ("STOPPED", RED)},
        levels=ANY_IS_RED,
        links=_ROOM,
    ),
    number(
        "Bytes lost",
        "In the time shown: traffic that passed and is missing in the capture. Gaps in the capture say from when "
        "to when. Next: `kafka-wiretap inspect gaps FOLDER`.",
        _in_range(table.DROPPED_BYTES),
        unit="bytes",
        levels=ANY_IS_RED,
        links=_DROPPING,
    ),
    number(
        "Gaps",
        "In the time shown: stretches of traffic that were not recorded. Next: `kafka-wiretap inspect gaps FOLDER`.",
        _in_range(table.GAPS),
        decimals=0,
        levels=ANY_IS_RED,
        links=_DROPPING,
    ),
    number(
        "Compactor behind",
        "The age of the oldest traffic that the compactor has not read. It grows while no compactor works. Next: "
        "is the process there, and has it a processor?",
        now(table.LAG_SECONDS, how="max"),
        unit="s",
        levels=over(orange=60, red=300),
        links=_BEHIND,
    ),
    number(
        "Files without facts",
        "In the time shown: files of frames whose facts could not be made. Questions are then answered from "
        "frames, which takes longer. Next: `kafka-wiretap facts FOLDER`.",
        _in_range(table.FACTS_FAILED),
        decimals=0,
        levels=over(orange=1),
    ),
    number(
        "Shipping behind",
        "Age of the oldest published file that the bucket lacks: lost with this host. Empty if `capture.ship` is "
        "not set. Next: the shipper's state below.",
        now(table.SHIP_LAG_SECONDS, how="max"),
        unit="s",
        levels=over(orange=300, red=900),
        links=_SHIPPING,
    ),
    number(
        "Bucket",
        'FAILING: nothing can be copied to the bucket. Empty if `capture.ship` is not set. Next: "Shipping that '
        'failed" by cause.',
        now(table.SHIP_FAILING, how="max"),
        words={**_FINE, 1: ("FAILING", RED)},
        levels=ANY_IS_RED,
        links=_SHIPPING,
    ),
)

KEPT = (
    graph(
        "Recorded and lost",
        "Look: anything lost at all. Made into Parquet is what can be asked about. Left out is what settings "
        "leave out: 0 where rules are set means that they match nothing.",
        Query(per_second(table.RECORDED_BYTES), "written to the log"),
        Query(per_second(table.COMPACTED_BYTES), "made into Parquet"),
        Query(per_second(table.DROPPED_BYTES), "LOST"),
        Query(per_second(table.LEFT_OUT_BYTES), "left out by settings"),
        unit="Bps",
        links=_DROPPING,
    ),
    graph(
        "Behind",
        "How far the compactor is behind, in time, by proxy. Look: a line that climbs at the clock's pace is a "
        "compactor that is dead or hangs.",
        Query(now(table.LAG_SECONDS, "instance", how="max"), "{{instance}}"),
        unit="s",
        levels=over(orange=60, red=300),
        links=_BEHIND,
    ),
    graph(
        "Waiting",
        "Queue: in memory, for the disk (`capture.queue`). Log: on disk, for the compactor (`capture.spool`). "
        "Look: at its limit, traffic is lost, or waits. Next: a faster disk; less traffic recorded.",
        Query(now(table.QUEUE), "queue (memory)"),
        Query(now(table.SPOOL), "log (disk)"),
        Query(now(table.LAG_BYTES), "of it not compacted"),
        unit="bytes",
        links=_BEHIND,
    ),
    graph(
        "Gaps and restarts, a minute",
        "Gaps that began, and compactors that ended and were restarted: 0 if all is well. Next: the proxy's "
        "standard error says why.",
        Query(steadily_per_minute(table.GAPS, "instance"), "gaps {{instance}}"),
        Query(steadily_per_minute(table.COMPACTOR_RESTARTS, "instance"), "restarts {{instance}}"),
        unit="cpm",
        size=HALF,
        links=[*_DROPPING, *_BEHIND],
    ),
    graph(
        "Frames and chunks",
        "A second. Chunks are what the disk gets, frames what Parquet gets. Look: frames far below the exchanges' "
        "rate twice over is a compactor that does not keep up.",
        Query(per_second(table.COMPACTED_FRAMES), "frames made into Parquet"),
        Query(per_second(table.RECORDED_CHUNKS), "chunks logged"),
        Query(per_second(table.LEFT_OUT_FRAMES, "cause"), "frames left out by {{cause}}"),
        unit="wps",
        size=HALF,
        links=_BEHIND,
    ),
)

ROOM = (
    graph(
        "Room on the volume",
        "Bytes that may be recorded until only `capture.keep.free` is left, by proxy. Look: at 0 recording stops.",
        Query(now(table.ROOM, "instance", how="min"), "{{instance}}"),
        unit="bytes",
        size=QUARTER,
        links=_ROOM,
    ),
    graph(
        "The capture's size",
        "The whole folder: frames, events, facts and log. Look: flat at `capture.keep.size` is a retention that works.",
        Query(now(table.FOLDER, "instance", how="max"), "{{instance}}"),
        unit="bytes",
        size=QUARTER,
        links=_ROOM,
    ),
    graph(
        "Bytes removed by the retention",
        "Removed because `capture.keep` keeps no more. Look: 0 with a full volume. Then nothing may be removed: "
        "nothing is shipped, or no bound is set.",
        Query(per_second(table.REMOVED_BYTES, "instance"), "{{instance}}"),
        unit="Bps",
        size=QUARTER,
        links=_ROOM,
    ),
    graph(
        "Files removed a minute",
        "Removed because `capture.keep` keeps no more. Look: many at once are hours that have become too old.",
        Query(steadily_per_minute(table.REMOVED_FILES, "instance"), "{{instance}}"),
        unit="cpm",
        size=QUARTER,
        links=_ROOM,
    ),
)

SHIPPED = (
    states(
        "Shipper",
        "Whether a process ships, and whether the bucket takes files. Empty if `capture.ship` is not set. Next: "
        "`shipper:` in the proxy's standard error.",
        Query(f"1 - {now(table.SHIPPER_RUNS, 'instance', how='min')}", "{{instance}}: process"),
        Query(now(table.SHIP_FAILING, "instance", how="max"), "{{instance}}: bucket"),
        words={**_FINE, 1: ("FAILING", RED)},
        links=_SHIPPING,
    ),
    graph(
        "Not shipped yet",
        'Bytes that would be lost with this host. Look: a line that only rises. Next: "Shipping that failed".',
        Query(now(table.SHIP_LAG_BYTES, "instance", how="max"), "{{instance}}"),
        unit="bytes",
        links=_SHIPPING,
    ),
    graph(
        "Shipping that failed, a minute",
        "By cause: 0 while all succeeds. Next: the proxy's standard error (`shipper:`) has the store's own words.",
        Query(or_zero(steadily_per_minute(table.SHIP_FAILURES)), "all"),
        Query(steadily_per_minute(table.SHIP_FAILURES, "cause"), "{{cause}}"),
        Query(steadily_per_minute(table.SHIPPER_RESTARTS, "instance"), "restarts {{instance}}"),
        unit="cpm",
        links=_SHIPPING,
    ),
    graph(
        "Files",
        "Published files that the bucket lacks, and those that went there, a minute. Look: some wait between two "
        "rounds; a line that only rises is trouble.",
        Query(now(table.SHIP_LAG_FILES, "instance", how="max"), "{{instance}} not shipped yet"),
        Query(steadily_per_minute(table.SHIPPED_FILES, "instance"), "{{instance}} shipped a minute"),
        size=HALF,
        links=_SHIPPING,
    ),
    graph(
        "Shipped",
        "Copied to the bucket, and checked there. Look: 0 with files that wait.",
        Query(per_second(table.SHIPPED_BYTES, "instance"), "{{instance}}"),
        unit="Bps",
        size=HALF,
        links=_SHIPPING,
    ),
)

BOARD = board(
    "capture",
    "capture",
    "Is what passes recorded, compacted and shipped, and how much room is left? Empty while nothing is recorded.",
    {
        "Is anything lost?": LOST,
        "Does the recorder keep up?": KEPT,
        "How much room is left?": ROOM,
        "Is it shipped?": SHIPPED,
    },
)
