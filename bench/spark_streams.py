"""What a stream takes, and whether it keeps up with what a proxy records: all that is measured of streams.

recorded   small exchanges in bursts through a proxy that records, its compactor beside it
streamed   latency and errors by window of segments that are there, some times in one session:
           first   the first of these streams, by the wall clock: Java is compiled while it runs
           work    the last one, less what a stream over a tiny capture takes then: a stream that
                   runs for hours starts once

Frames a second of processor time are counted on both sides, because processor time hardly depends on what else runs.
So their ratio is the number to trust. Above 1, one processor streams what one records.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench import loads, timing
from bench.contenders import RECORDING, fake_cluster, proxy
from bench.spark_memory import resident
from recorder.capture.reader import files, row_count

_BURST = next(load for load in loads.LOADS if load.name == "burst")
# a segment is published when it is so old; its size would make few of a short run
_SEGMENTS = {"KAFKA_WIRETAP_CAPTURE__SEGMENT_AGE": "5s"}
_PASSES = 4


class Work(NamedTuple):
    """Frames, and the processor seconds that they took."""

    frames: int
    seconds: float

    @property
    def rate(self) -> float:
        """Frames a second of processor time."""
        return self.frames / self.seconds


class Stream(NamedTuple):
    """What streams of one session took.

    Attributes:
        first: seconds of the first one, by the wall clock.
        work: frames and processor seconds of the last one, without its start.
        resident: the most bytes that all processes had.
    """

    first: float
    work: Work
    resident: int


def recorded(folder: Path, seconds: float) -> Work:
    """Records for so long into `folder/capture`, until all is compacted."""
    with (
        fake_cluster(folder) as (programs, upstream),
        proxy(upstream, folder, RECORDING, folder / "capture", env=_SEGMENTS) as way,
    ):
        assert way.pid is not None
        before = processor_seconds(way.pid)
        loads.run(programs.load, _BURST, way, seconds)
        way.settle()
        spent = processor_seconds(way.pid) - before
    return Work(sum(map(row_count, files(folder / "capture"))), spent)


def streamed(capture: Path, tiny: Path, cores: int) -> Stream:
    """Streams both captures some times in one session, and counts what the larger one takes more the last time."""
    from recorder.analysis import job
    from recorder.analysis.streaming import SETTINGS

    with job.session(f"local[{cores}]", extra=SETTINGS) as spark, resident() as most:
        first = timing.seconds(lambda: _of_stream(spark, capture))
        for _ in range(_PASSES - 1):
            start, whole = _of_stream(spark, tiny), _of_stream(spark, capture)
    return Stream(first, Work(whole.frames - start.frames, whole.seconds - start.seconds), max(most))


def _of_stream(spark: Any, capture: Path) -> Work:
    from recorder.analysis.streaming import Streamed, run

    with tempfile.TemporaryDirectory() as place:
        before = processor_seconds()
        list(run(spark, Streamed(str(capture), f"{place}/out", f"{place}/checkpoint", every=None)))
        spent = processor_seconds() - before
    return Work(sum(map(row_count, files(capture))), spent)


def processor_seconds(pid: int | None = None) -> float:
    """What a process (by default this one) and all below it have had of processors."""
    top = psutil.Process(pid)
    return sum(map(_of_process, [top, *top.children(recursive=True)]))


def _of_process(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    # of children that have ended, too
    return float(times.user + times.system + times.children_user + times.children_system)
