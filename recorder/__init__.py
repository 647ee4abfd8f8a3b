"""The recorder of the traffic, and the readers of its captures.

    capture     the tap, the log that it writes, the compactor that turns the log into Parquet, the reader
    hashing     records by their keyed hashes
    query       the filter language
    reading     a capture as Python values: `recorder.open`
    live        the traffic as it passes, for those who look
    top         a running proxy in the terminal
    inspect     the contents of a capture, without Spark
    analysis    Spark: DataFrame -> DataFrame, one question in each module
    report      reports as one HTML file or as Markdown
    replay      a capture played against another cluster
    encodings   the size of integers in other encodings
    export      findings as CloudEvents, in a topic
    mcp         captures for agents, by the Model Context Protocol
    tracing     exchanges as OpenTelemetry spans
    demo        a cluster, clients, the proxy, a capture and its analysis on one machine

The words (frame, exchange, gap, session, ...) are those of the glossary in `proxy/__init__.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recorder.reading.capture import Capture


def open(folder: str | Path, *, budget: int | None = None) -> Capture:
    """Opens a capture to read it: a folder, or `s3://bucket/folder`. Finished sessions of a folder are compacted first.

    `budget`: the limit in bytes of memory for what is read at a time. Errors: NoCapture, in a sentence.
    """
    from recorder.reading import capture

    return capture.open(folder) if budget is None else capture.open(folder, budget=budget)
