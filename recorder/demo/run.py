"""The steps of the demo: cluster, proxy, clients, capture, analysis, replay, report; and their output at the terminal.

Each step is the command that a user would run, and shows it. Nothing is shown before it has happened.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from proxy.schema.flags import ENGINE_VARIABLE
from proxy.terminal import harmless, harmless_lines
from recorder import extras
from recorder.analysis.embedded_server import can_leave_network
from recorder.analysis.java import missing
from recorder.capture.frames import FRAMES_FOLDER
from recorder.demo.children import Child, ChildFailed, Children, children
from recorder.demo.steady import PAYMENTS
from recorder.demo.workload import HEALTHY, STEPS_ONLY
from recorder.spark_options import Engine
from recorder.terminal import cell, console, count, typed

# Seconds that a part may take on a busy machine before the demo gives up on it.
_START = 120
_DRAIN = 5
_COMPACT = 300
# The exit code of a program that was interrupted.
_INTERRUPTED = 130
# Lines of a failed child's log that are shown.
_LAST_LINES = 12
# Explanations of unexpected numbers; the mock causes both.
_REMARKS = (
    "\nWhat librdkafka's mock cluster does differently from a broker:",
    "ApiVersions with error 35 is normal: clients offer their newest version first, the mock knows older ones.",
    "Records with acks=0 may be lost: the mock answers acks=0, which no broker does. The proxy ends such a "
    "connection, and requests that the client has sent behind are lost. The report finds these ends. "
    "--healthy leaves acks=0 out.",
)


def run(folder: Path | None, *, healthy: bool = False) -> int:
    """Runs the demo and returns its exit code. `folder`: where the capture goes; None: a new folder in this one.

    `healthy`: without the clients that do something wrong. Errors: MissingPackages.
    """
    screen = console()
    extras.check("demo")
    folder = folder or Path(f"capture-demo-{time.strftime('%Y%m%d-%H%M%S')}")
    if (folder / FRAMES_FOLDER).is_dir():
        _line(
            screen, f"note: {folder} holds a capture already: this session is added to it, the tables count all of it"
        )
    try:
        with tempfile.TemporaryDirectory(prefix="kafka-wiretap-demo-") as logs, children(Path(logs)) as started:
            return _steps(screen, started, folder, [HEALTHY] if healthy else [])
    except KeyboardInterrupt:
        screen.print("\ninterrupted: everything that was started has ended")
        return _INTERRUPTED


def _steps(screen: Console, started: Children, folder: Path, options: list[str]) -> int:
    lack = _lack()
    try:
        # the clients beside the steps are only for the report
        _record(screen, started, folder, [STEPS_ONLY] if lack else options)
    except ChildFailed as failure:
        _explain(screen, failure)
        return 1
    if not lack:
        # two questions that need no engine
        _run(screen, started, "inspect", "topics", str(folder), "--topic", PAYMENTS)
        _run(screen, started, "inspect", "exchanges", str(folder), "--api", "Produce", "--slowest", "3")
    code = _run(screen, started, "inspect" if lack else "analyze", str(folder))
    for remark in () if code else _REMARKS:
        screen.print(Text(remark, style="dim"))
    code = _replay(screen, started, folder) or code
    if lack:
        screen.print(Text("\nThe analysis and the report are missing: ", style="yellow"), cell(lack), sep="")
    else:
        code = _report(screen, started, folder) or code
    _next_steps(screen, folder)
    return 1 if lack else code


def _replay(screen: Console, started: Children, folder: Path) -> int:
    """Replays the capture to a second cluster at full speed; returns the command's exit code."""
    screen.print()
    with _step(screen, "a second cluster, fresh") as done:
        cluster = started.start("second cluster", [sys.executable, "-P", "-m", "recorder.demo.cluster"])
        brokers = cluster.announced(r"listening on (\S+)\n", within=_START)
        done.append(brokers)
    options = ["--to", brokers.split(",")[0], "--speed", "max", "--create-topics", "--yes"]
    code = _run(screen, started, "replay", str(folder), *options)
    cluster.end()
    return code


def _report(screen: Console, started: Children, folder: Path) -> int:
    """Writes the report, which names the clients' faults, beside the capture; returns the command's exit code."""
    return _run(screen, started, "report", str(folder), "-o", str(_page(folder)))


def _page(folder: Path) -> Path:
    """The file of the report: beside the capture."""
    return folder.with_name(f"{folder.name}-report.html")


def _record(screen: Console, started: Children, folder: Path, options: list[str]) -> None:
    """Starts cluster, proxy and clients; when it returns, the capture is compacted. Raises ChildFailed."""
    with _step(screen, "a cluster of three brokers (librdkafka's mock)") as done:
        cluster = started.start("cluster", [sys.executable, "-P", "-m", "recorder.demo.cluster"])
        brokers = cluster.announced(r"listening on (\S+)\n", within=_START)
        done.append(brokers)
    upstream = brokers.split(",")[0]
    with _step(screen, "the proxy before it") as done:
        where = ["--upstream", brokers, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        recording = ["--record", str(folder), "--drain", str(_DRAIN)]
        proxy = started.start("proxy", _wiretap("proxy", *where, *recording))
        listening = proxy.announced(r"listening on (\S+)\n", within=_START)
        done.append(f"{listening}, which clients take for {upstream}")
    _work(screen, started, [listening, *options])
    with _step(screen, "the proxy ends, its log becomes Parquet") as done:
        proxy.end(within=2 * _DRAIN)
        started.orphans_gone(within=_COMPACT)
        files = sorted((folder / "frames").glob("*/*/*.parquet"))
        done.append(f"{count(len(files), 'file')} of frames in {folder}")
    cluster.end()


def _work(screen: Console, started: Children, arguments: list[str]) -> None:
    workload = started.start("clients", [sys.executable, "-P", "-m", "recorder.demo.workload", *arguments], piped=True)
    while begun := _message(workload):
        with _step(screen, str(begun["step"])) as done:
            done.append(str((_message(workload) or _raise_failed(workload))["done"]))
    if workload.process.wait(_START):
        _raise_failed(workload)


def _message(workload: Child) -> dict[str, object] | None:
    line = workload.output.readline()
    return json.loads(line) if line else None


def _raise_failed(workload: Child) -> dict[str, object]:
    raise ChildFailed(workload.name, "did not get through", workload.log)


@contextmanager
def _step(screen: Console, name: str) -> Iterator[list[str]]:
    """Prints a step: a spinner while it lasts, then a tick, and the lines that the block put into the list."""
    began = time.monotonic()
    done: list[str] = []
    with screen.status(f"{name} ..."):
        yield done
    took = time.monotonic() - began
    screen.print(f"[green]✓[/] {name} [dim]{took:.1f} s[/]")
    for fact in done:
        screen.print(Text(f"  {fact}", style="dim"))


def _wiretap(*arguments: str) -> list[str]:
    """The command line that runs this installation's `kafka-wiretap`, not the one on the PATH."""
    start = "import sys; from proxy.cli import main; sys.argv[0] = 'kafka-wiretap'; main()"
    return [sys.executable, "-c", start, *arguments]


def _run(screen: Console, started: Children, *arguments: str) -> int:
    """Shows a command as people type it, and runs it; returns its exit code."""
    _line(screen, f"\n$ {typed()} {shlex.join(arguments)}", "bold")
    return started.start(arguments[0], _wiretap(*arguments), shown=True).process.wait()


def _lack() -> str | None:
    """Why no engine can answer questions about the capture; None if one can."""
    is_spark = os.environ.get(ENGINE_VARIABLE) == Engine.SPARK
    return None if can_leave_network() and not is_spark else missing()


def _next_steps(screen: Console, folder: Path) -> None:
    """Prints commands to copy: unframed and never wrapped."""
    start, where = typed(), shlex.quote(str(folder))
    _line(screen, f"\nWhat to try next (the capture lies in {folder}: Parquet, one row a frame):\n", "bold")
    if _page(folder).exists():
        _line(screen, f"Open {_page(folder)} in a browser: the findings, with advice and evidence.")
        if start != "kafka-wiretap":
            _line(screen, f"Where the page says kafka-wiretap, type {start}.")
        _line(screen, "")
    _line(screen, f"{start} inspect {where}")
    _line(screen, f"{start} inspect exchanges {where} --api Fetch --errors")
    _line(screen, f"{start} inspect frames {where} --json | head")
    _line(screen, f'{start} analyze {where} --window "5 seconds" --out tables --format csv')
    _line(screen, f"{start} replay {where} --to ANOTHER-CLUSTER:9092 --dry-run")
    _line(screen, "\nBefore a cluster of your own:\n", "bold")
    _line(screen, f"{start} proxy --upstream BROKER:9092 --listen 127.0.0.1:19092 --record capture")


def _line(screen: Console, text: str, style: str = "") -> None:
    screen.print(Text(harmless_lines(text), style=style), soft_wrap=True)


def _explain(screen: Console, failure: ChildFailed) -> None:
    lines = failure.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    more = "; the end of what it said:" if lines else ", and said nothing"
    screen.print(cell(failure, "red"), Text(more), sep="")
    for line in lines:
        screen.print(Text(f"  {harmless(line)}", style="dim"))
