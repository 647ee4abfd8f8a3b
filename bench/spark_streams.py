"""Whether a stream keeps up with what a proxy records: frames a second of processor time, of either side, in one run.

recorded   small exchanges in bursts through a proxy that records, its compactor beside it
streamed   latency and errors by window of the segments that this made, by a stream that has run over them before: its
           classes are compiled then, as those of a stream that runs for hours are

Processor time hardly depends on what else runs, so the ratio of the two is the number to trust. Above 1, one processor
streams what one records.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.contenders import LISTENING, RECORDING, proxy
from bench.loads import LOADS, run
from bench.processes import build, running
from recorder.capture.reader import files, rows_of

_BURST = next(load for load in LOADS if load.name == "burst")
# a segment is published when it is so old; its size would make few of a short run
_SEGMENTS = {"KAFKA_WIRETAP_CAPTURE__SEGMENT_AGE": "5s"}


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


def streamed(folder: Path, cores: int) -> Work:
    """Streams `folder/capture` twice, and counts the second time."""
    from recorder.analysis import job
    from recorder.analysis.streaming import SETTINGS, Streamed
    from recorder.analysis.streaming import run as run_stream

    capture = folder / "capture"
    with job.session(f"local[{cores}]", extra=SETTINGS) as spark:
        for _ in range(2):
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
