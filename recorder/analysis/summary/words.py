"""Puts a measure into words, for the sentence of a finding and for its threshold."""

from __future__ import annotations

from recorder.analysis.summary.sections.findings import Unit
from recorder.terminal import count, duration, percent, size


def measure(value: float, unit: Unit) -> str:
    """Returns a value with its unit."""
    match unit:
        case Unit.MS:
            return duration(round(value * 1e6))
        case Unit.BYTES:
            return size(value)
        case Unit.SHARE:
            return percent(100 * value)
        case Unit.RATIO:
            return f"{value:.1f} \N{MULTIPLICATION SIGN}"
        case Unit.PER_SECOND:
            return f"{value:.3g}/s"
    return count(round(value))
