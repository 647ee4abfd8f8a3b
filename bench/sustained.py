"""Recording for longer than the spool's memory lasts: the rate, what was lost, and how far the compactor is behind."""

from dataclasses import dataclass
from pathlib import Path

from bench.contenders import RECORDING, SETTLE_SECONDS, Contender, proxy
from bench.loads import Load, run


@dataclass(frozen=True, slots=True)
class Sustained:
    """What happened: exchanges a second while the compactor ran beside, and its state when the load ended."""

    title: str
    per_second: float
    recorded_bytes: float
    dropped_bytes: float
    lag_bytes: float
    lag_seconds: float
    frames: float
    catch_up_seconds: float | None

    def line(self) -> str:
        behind = f"{self.lag_bytes / 1e6:,.0f} MB and {self.lag_seconds:.1f} s behind"
        end = "" if self.catch_up_seconds is None else f", caught up {self.catch_up_seconds:.1f} s later"
        return (
            f"  {self.title}: {self.per_second:,.0f}; logged {self.recorded_bytes / 1e6:,.0f} MB, "
            f"dropped {self.dropped_bytes / 1e6:,.0f} MB;\n"
            f"    compactor at the end: {self.frames:,.0f} frames compacted, {behind}"
            f"{end or f'; did not catch up within {SETTLE_SECONDS:.0f} s'}"
        )


def measure(program: Path, load: Load, upstream: str, folder: Path, seconds: float) -> Sustained:
    """One load through a recording proxy of its own."""
    folder.mkdir()
    with proxy(upstream, folder, RECORDING, folder / "capture") as contender:
        result = run(program, load, contender, seconds)
        now = contender.metrics()
        return Sustained(
            title=load.title,
            per_second=result.per_second,
            recorded_bytes=now["recorder_bytes_total"],
            dropped_bytes=now["recorder_dropped_bytes_total"],
            lag_bytes=now["recorder_lag_bytes"],
            lag_seconds=now["recorder_lag_seconds"],
            frames=now["recorder_compacted_frames_total"],
            catch_up_seconds=_catch_up(contender),
        )


def _catch_up(contender: Contender) -> float | None:
    try:
        return contender.settle()
    except TimeoutError:
        return None
