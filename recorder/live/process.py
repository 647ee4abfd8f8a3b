"""The process that reads a proxy's traffic for those who look. The proxy starts it and keeps it running.

    python -m recorder.live.process CAPTURE --folder FOLDER --proxy PID [--beat] [--feed]

It reads the log of the capture (or of the feed, which it removes as it reads), and answers over a socket in FOLDER. It
is niced, and its memory is bounded: what that costs is missed, and counted. It ends after its proxy.
"""

from __future__ import annotations

import argparse
import errno
import gc
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client.metrics_core import Metric as Family

from proxy.limited_server import by_first_name, serve
from proxy.niceness import yield_to_others
from proxy.schema.addresses import Address
from proxy.standard_error import queue_standard_error
from proxy.terminal import harmless
from proxy.units import GIB
from proxy.wire.errors import OverBudget
from recorder.capture.frames import DamagedFileError
from recorder.capture.memory import bound_memory
from recorder.live import folder
from recorder.live.consumer import Missed, Part
from recorder.live.metrics import Metrics, Page
from recorder.live.stream import LOOK_SECONDS, BoundedTold, Due, Stream
from recorder.reading.elements import Told
from recorder.tracing.headers import WrongHeaders, headers_in

# the traffic is more urgent, and so is the compaction
NICENESS = 15
# the most memory that the process may take: rows that wait, and what a consumer keeps
MEMORY = GIB
# from one sign of life to the next
BEAT_SECONDS = 1.0
# once the proxy has gone: how long what is left is read
REST_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The process that the proxy starts. Exit code 0: its proxy has gone; 1: it could not go on."""
    parser = argparse.ArgumentParser(prog="recorder.live.process", description=__doc__.split("\n")[0])
    parser.add_argument("capture", type=Path, help="whose log is read")
    parser.add_argument("--folder", type=Path, required=True, help="where the socket lies")
    parser.add_argument("--proxy", type=int, required=True, help="the process that started this one")
    parser.add_argument("--beat", action="store_true", help="a byte on standard output each second, while it works")
    parser.add_argument("--feed", action="store_true", help="the log is a feed")
    parser.add_argument("--top", action="store_true", help="`top` may ask")
    for name in ("topics", "clients", "groups"):
        parser.add_argument(f"--{name}", type=int, help=f"metrics by {name}: the most values of the label")
    parser.add_argument("--page", type=Address.parse, help="where the page is served")
    parser.add_argument("--name", help="by which browsers ask for the page")
    for name in ("token-file", "certificate", "key"):
        parser.add_argument(f"--{name}", type=Path, help="of the page")
    parser.add_argument("--otlp", help="the collector that gets spans")
    parser.add_argument("--otlp-every", type=int, help="each n-th exchange is a span")
    parser.add_argument("--otlp-headers", type=Path, help="a file with the collector's headers")
    parser.add_argument("--metrics", help="the proxy's page of metrics, which the collector gets, too")
    options = parser.parse_args(arguments)
    # Ctrl-C and SIGHUP are for the proxy
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    yield_to_others(NICENESS)
    bound_memory(MEMORY)
    # frames and exchanges make many objects and no circles
    gc.set_threshold(50_000, 20, 20)
    told = BoundedTold()
    try:
        return _run(options, _parts(options, told), told, lambda: os.getppid() != options.proxy)
    except WrongHeaders as error:
        _say(f"{options.otlp_headers} {error}; right would be {error.right}")
        return 1
    except OSError as error:
        named = "" if error.filename is None else f"{error.filename}: "
        _say(f"{named}{error.strerror or error}")
        return 1
    except DamagedFileError as error:
        _say(str(error))
        return 1
    finally:
        if not folder.is_held(options.folder):
            folder.remove(options.folder)


def _parts(options: argparse.Namespace, told: Told) -> list[Part]:
    """What the options ask for, besides metrics of frames. Errors: OSError, WrongHeaders."""
    asked = {_top_part: options.top, _page_part: options.page is not None, _otlp_part: options.otlp is not None}
    return [part(options, told) for part, is_asked in asked.items() if is_asked]


def _top_part(_: argparse.Namespace, told: Told) -> Part:
    # what it imports takes time
    from recorder.live.top import top_part

    return top_part(told)


def _page_part(options: argparse.Namespace, told: Told) -> Part:
    # its packages are an extra's
    from recorder.live.page import page_part

    capture = None if options.feed else options.capture
    files = options.token_file, options.certificate, options.key
    return page_part(options.page, *files, () if options.name is None else (options.name,), told, capture, _say)


def _otlp_part(options: argparse.Namespace, told: Told) -> Part:
    # the SDK takes memory, and half a second
    from recorder.live.otlp import otlp_part

    headers = {} if options.otlp_headers is None else headers_in(options.otlp_headers)
    return otlp_part(told, options.otlp, headers, options.otlp_every, options.metrics, _say)


def _say(sentence: str) -> None:
    print(f"live: {harmless(sentence)}", file=sys.stderr, flush=True)


class Heartbeat:
    """Signs of life for the proxy, which kills a process that gives none (`proxy.net.children`).

    `to`: the descriptor that they are written to; None: nobody reads them.
    """

    def __init__(self, to: int | None) -> None:
        self._to, self._next = to, -math.inf
        if to is not None:
            # a proxy that reads nothing must not block this process
            os.set_blocking(to, False)

    def beat(self) -> None:
        """Gives a sign, unless it has given one within BEAT_SECONDS."""
        now = time.monotonic()
        if self._to is not None and now >= self._next:
            self._next = now + BEAT_SECONDS
            # the proxy has gone, or reads nothing
            with suppress(OSError):
                os.write(self._to, b".")


class _Rest:
    """How long the process goes on after its proxy: REST_SECONDS. `is_over`: the proxy has gone."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over
        self._end = math.inf

    @property
    def has_begun(self) -> bool:
        """True once the proxy has gone."""
        if self._end == math.inf and self._is_over():
            self._end = time.monotonic() + REST_SECONDS
        return self._end < math.inf

    def is_due(self) -> bool:
        """True once the process has to end."""
        return self.has_begun and time.monotonic() > self._end


def _run(options: argparse.Namespace, parts: Sequence[Part], told: BoundedTold, is_over: Callable[[], bool]) -> int:
    _check_folder(options.folder)
    consumers = [consumer for part in parts for consumer in part.consumers]
    pages = {name: page for part in parts for name, page in part.pages.items()}
    metrics = Metrics(told, topics=options.topics, clients=options.clients, groups=options.groups)
    rest, heartbeat = _Rest(is_over), Heartbeat(sys.stdout.fileno() if options.beat else None)

    def is_due() -> bool:
        heartbeat.beat()
        return rest.is_due()

    stream = Stream(options.capture, consumers, [metrics], is_feed=options.feed, told=told, is_due=is_due)
    families = [part.families for part in parts]

    def all_families() -> list[Family]:
        shown = metrics.families(stream.behind, stream.passed_over, told.forgotten)
        return [*shown, *(one for each in families for one in each())]

    pages["metrics"] = Page(all_families)
    server = serve(by_first_name(pages), options.folder / folder.SOCKET, "live server")
    try:
        while not is_due() and not (rest.has_begun and stream.is_at_end):
            _look(stream)
            if not rest.has_begun:
                _check_folder(options.folder)
                time.sleep(LOOK_SECONDS)
    except Due:
        # what is left is in the log
        pass
    finally:
        server.close()
        stream.close()
    return 0


def _check_folder(place: Path) -> None:
    """Errors: OSError if the folder is gone, as systemd removes it when its user logs out (`RemoveIPC`)."""
    if not place.is_dir():
        sentence = "the folder was removed, so nobody can ask: right would be to start the proxy again"
        raise FileNotFoundError(errno.ENOENT, sentence, str(place))


def _look(stream: Stream) -> None:
    try:
        stream.look()
    except OverBudget as error:
        stream.forget()
        stream.miss(Missed(None, str(error)))


if __name__ == "__main__":
    queue_standard_error()
    sys.exit(main())
