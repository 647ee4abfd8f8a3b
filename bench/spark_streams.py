"""Whether a stream keeps up with what a proxy records: frames a second of processor time, of either side, in one run.

recorded   small exchanges in bursts through a proxy that records, its compactor beside it
streamed   latency and errors by window of the segments that this made, less what a stream over a tiny capture takes: a
           stream that runs for hours starts once. The last of some such streams in one session counts, because Java is
           compiled meanwhile

Processor time hardly depends on what else runs, so the ratio of the two is the number to trust. Above 1, one processor
streams what one records.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.contenders import LISTENING, RECORDING, proxy
from bench.loads import LOADS, run
from bench.processes import build, running
from recorder.capture.reader import files, rows_of

_BURST = next(load for load in LOADS if load.name == "burst")
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


def recorded(folder: Path, seconds: float) -> Work:
    """Records for so long into `folder/capture`, until all is compacted."""
    programs = build(folder)
    with running([programs.broker], folder / "broker.log", LISTENING) as broker:
        upstream = f"{broker.said[1]}:{broker.said[2]}"
        with proxy(upstream, folder, RECORDING, folder / "capture", env=_SEGMENTS) as way:
            assert way.pid is not None
            before = processor_seconds(way.pid)
            run(programs.load, _BURST, way, seconds)
            way.settle()
            spent = processor_seconds(way.pid) - before
    return Work(sum(map(rows_of, files(folder / "capture"))), spent)


def streamed(capture: Path, tiny: Path, cores: int) -> Work:
    """Streams both captures some times in one session, and counts what the larger one takes more the last time."""
    from recorder.analysis import job
    from recorder.analysis.streaming import SETTINGS

    with job.session(f"local[{cores}]", extra=SETTINGS) as spark:
        for _ in range(_PASSES):
            whole, start = _of_stream(spark, capture), _of_stream(spark, tiny)
    return Work(whole.frames - start.frames, whole.seconds - start.seconds)


def _of_stream(spark: Any, capture: Path) -> Work:
    from recorder.analysis.streaming import Streamed
    from recorder.analysis.streaming import run as run_stream

    with tempfile.TemporaryDirectory() as place:
        before = processor_seconds()
        list(run_stream(spark, Streamed(str(capture), f"{place}/out", f"{place}/checkpoint", every=None)))
        spent = processor_seconds() - before
    return Work(sum(map(rows_of, files(capture))), spent)


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
