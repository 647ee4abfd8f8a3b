"""Makes the report of a capture with the program."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from recorder.analysis.summary.whole import Summary, of_json
from tests.clients.harness import PROGRAM


def report_of(capture: Path, thresholds: Mapping[str, float]) -> Summary:
    """Returns the output of `kafka-wiretap report`."""
    own = capture.with_name("own.toml")
    own.write_text("".join(f"{name} = {value}\n" for name, value in thresholds.items()))
    command = [*PROGRAM, "report", str(capture), "--format", "json", "--thresholds", str(own)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return of_json(done.stdout)
