"""The timeline of the sections' tests: a minute in six bins."""

from __future__ import annotations

from recorder.analysis.summary.bounds import Timeline
from tests.recorder.analysis.by_hand import NOON

LINE = Timeline(round(NOON.timestamp()) * 10**9, 10 * 10**9, 6)
MS = 1_000_000
