"""Tests of foreign text on a terminal, in every view: no name, text, file or error can control the terminal.

All views run in one process on one pseudo-terminal; a line before each names it. Every text column of a capture, every
text field of every message, file names and settings hold the same hostile text.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.schema.toml import toml
from proxy.wire import apis, catalog, records
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.framing import framed
from proxy.wire.keys import FETCH
from recorder.capture import frames as c
from tests.hostile_text import NAME, TEXT, WORD, obeyed, sent_to_a_terminal

pytestmark = pytest.mark.real

SESSION = "20261121T120000Z-abc"
NOON_NS = 1_795_262_400 * 10**9

# argv: the folder. `view` runs a command as a user types it.
PROGRAM = r"""
import logging, os, sys, traceback
from pathlib import Path
from unittest import mock

from proxy.cli import main
from tests.faults.test_terminals import EXCHANGES, RESPONSES, SESSION, SHOWN
from tests.hostile_text import NAME, RAW_NAME, TEXT

os.umask(0o077)
folder = Path(sys.argv[1])
capture, empty = folder / NAME, folder / ("empty" + NAME)

def named(name):
    print(f"\n<<{name}>>", flush=True)

def view(*arguments):
    try:
        main(args=[str(one) for one in arguments], prog_name="kafka-wiretap")
    except SystemExit:
        sys.stdout.flush()
    except Exception:
        traceback.print_exc()

named("ready")
with mock.patch("recorder.capture.session.is_own", lambda folder, session: False):
    view("inspect", empty)
view("inspect", folder / ("other" + NAME))
for command in ("summary", "frames", "exchanges"):
    named("inspect " + command)
    view("inspect", command, capture)
    view("inspect", command, capture, "--json")
named("inspect frames of a client")
view("inspect", "frames", capture, "--client", TEXT.replace("\0", ""), "--api", TEXT.replace("\0", ""))
view("inspect", "frames", capture, "--client", TEXT.replace("\0", ""))
named("inspect nothing")
view("inspect", "frames", empty)
view("inspect", "frames", folder / ("no" + RAW_NAME))
view("inspect", "show", capture, NAME)
view("inspect", "show", capture, "7/7")
view("inspect", NAME)
named("inspect in a narrow terminal")
with mock.patch.dict(os.environ, COLUMNS="50"):
    for command in ("summary", "frames", "exchanges"):
        view("inspect", command, capture)
named("inspect damaged files")
for name in ("broken", "strange"):
    view("inspect", "frames", folder / (name + NAME))
    view("inspect", folder / (name + NAME))
SHOW_FORMS = {"text": [], "json": ["--json"], "hex": ["--hex"]}
for form, option in SHOW_FORMS.items():
    named("inspect show " + form)
    view("inspect", "show", capture, *SHOWN, *option, "--bytes", "4096")
    view("inspect", "show", capture, "1/0", "1/e0", *option)
for form, option in [*SHOW_FORMS.items()][:2]:
    named("inspect show connection as " + form)
    view("inspect", "show", capture, f"{SESSION}/2", *option)
    view("inspect", "show", capture, f"{SESSION}/5", *option)
    view("inspect", "show", capture, f"{NAME}/2", *option)
for form, option in SHOW_FORMS.items():
    named("inspect show exchange as " + form)
    view("inspect", "show", capture, *EXCHANGES, *option, "--bytes", "4096")
named("wire decode")
view("wire", "decode", "--file", folder / "requests")
view("wire", "decode", "--file", folder / NAME)
view("wire", "decode", "--hex", NAME)
named("wire decode responses")
for key, version in RESPONSES:
    view("wire", "decode", "--file", folder / f"response-{key}", "--response", key, version)
named("wire show")
view("wire", "show", NAME)
view("wire", "show", "fetch", "--source", "project", "--path", NAME)
view("wire", NAME)
named("wire errors")
view("wire", "errors", NAME)
view("wire", "errors", TEXT.replace("\0", ""), "--json")
named("config check")
for file in sorted(folder.glob("*.toml")):
    view("config", "check", file)
view("config", "check", folder / NAME)
view("proxy", "--config", folder / "names.toml")
view("proxy", "--listen", NAME, "--upstream", NAME)
named("config show")
view("config", "show", folder / "right.toml")
view("config", "show", folder / "right.toml", "--toml")
named("compact")
view("compact", empty)
view("compact", folder / ("no" + RAW_NAME))
view("inspect", empty)

named("analyze")
from proxy.wire.error_reader import Unread
from recorder import analyze
from recorder.analysis import columns as t
from recorder.analysis.report import Report
from recorder.capture import frames as c
from recorder.missing import Gaps, LostOfApi, Missing
latency = dict.fromkeys((t.REQUESTS, t.UNANSWERED, t.ERRORS, t.REQUEST_BYTES, t.RESPONSE_BYTES), 1)
latency |= dict.fromkeys((t.P50_MS, t.P95_MS, t.P99_MS), 1.0) | {c.API: TEXT}
error = {c.API: TEXT, t.ERROR: TEXT, t.ERROR_CODE: 1, t.RETRIABLE: True, t.FLOW: False, t.COUNT: 1, t.EXCHANGES: 1}
latency |= {t.WAIT: None}
unread = {c.API: TEXT, t.RESPONSES: 2, t.READ: 1} | dict.fromkeys(map(str, Unread), 1)
missing = Missing([Gaps(TEXT, 1, 1, 1, 1)], [LostOfApi(TEXT, TEXT, 1, 1)], 1, 1, 1, [TEXT])
try:
    analyze._show(Report(missing, [unread], [latency], [error]), [TEXT], analyze.Chosen(None, None, False, 50))
except Exception:
    traceback.print_exc()
with mock.patch("recorder.analysis.java.missing", lambda: None):
    view("analyze", folder / ("no" + RAW_NAME))
    view("analyze", capture, "--window", NAME)
    view("analyze", capture, "--conf", NAME)
    view("analyze", capture, "--by", NAME)
    view("analyze", capture, "--table", NAME)
    view("sql", capture, "describe", NAME)
    view("sql", folder / ("no" + RAW_NAME), "select 1")

for form in ("text", "json"):
    named("log as " + form)
    from proxy.log import log, log_to_stderr
    log_to_stderr("info", form)
    log(logging.INFO, "event", client=TEXT, one=TEXT[:5] + "\x7f", two="\ufe0f", reason=OSError(2, TEXT, NAME))
    logging.getLogger("some.library").warning(TEXT)
    try:
        raise ValueError(TEXT)
    except ValueError:
        log(logging.ERROR, "fault", trace=True)
"""


def _values(struct: Struct) -> dict[str, Any]:
    """Returns values with hostile text in every text field, and one element in every array."""
    return {slot.name: _value(slot) for slot in struct}


def _value(slot: Slot) -> Any:
    if slot.array:
        return [_value(slot.element)]
    if slot.struct:
        return _values(slot.struct)
    return {"string": TEXT, "bytes": TEXT.encode(), "records": _records(), "uuid": bytes(16)}.get(slot.type, 1)


def _records() -> bytes:
    return records.write_batch([records.Record(0, key=TEXT.encode(), value=b"\xff", headers=((TEXT, TEXT.encode()),))])


def _telemetry() -> dict[str, Any]:
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    pushed = metrics_pb2.MetricsData()
    resource = pushed.resource_metrics.add()
    attribute = resource.resource.attributes.add()
    attribute.key = attribute.value.string_value = TEXT
    resource.scope_metrics.add().metrics.add().name = TEXT
    return {"compression_type": 0, "metrics": pushed.SerializeToString()}


def _frame(kind: apis.MessageKind, key: int) -> bytes:
    version = apis.versions(key)[-1]
    message = apis.message(kind, key)
    assert message is not None
    values = _values(layout(message, version)) | (_telemetry() if message.name == "PushTelemetryRequest" else {})
    if kind == "request":
        return catalog.encode_request(key, version, 7, TEXT, values)
    return catalog.encode_response(key, version, 7, values)


KEYS = [key for key in apis.api_keys() if apis.versions(key)]
RESPONSES = [(key, apis.versions(key)[-1]) for key in KEYS if apis.message("response", key)]
SHOWN = [f"{connection}/{key}" for connection in (2, 3) for key in KEYS]
SHOWN += ["4/0"]
# Fetches: answered, unanswered, and an answer whose request is lost.
EXCHANGES = [f"6/e{FETCH}", f"{SESSION}/2/e{FETCH}", f"3/e{FETCH}"]


PAIR: tuple[apis.MessageKind, apis.MessageKind] = ("request", "response")


def _row(connection: int, sequence: int, frame: bytes, **other: Any) -> dict[str, Any]:
    """Returns a row with hostile text in every text column except those that select its decoder."""
    texts = {name: TEXT for name, kind in c.FRAME_COLUMNS if kind == "string"}
    words = {"kind": "request", "dialect": "kafka", "made_by": "client", "session": SESSION}
    numbers = {"connection": connection, "sequence": sequence, "exchange": sequence, "awaits": True}
    numbers |= {"at_ns": NOON_NS + sequence, "size": len(frame), "stored": len(frame), "latency_ns": 1}
    return texts | words | numbers | {"frame": frame} | other


def _rows() -> list[dict[str, Any]]:
    rows = [
        _row(2 + at, key, _frame(kind, key), kind=kind, api_key=key, api_version=apis.versions(key)[-1])
        for at, kind in enumerate(PAIR)
        for key in KEYS
        if apis.message(kind, key)
    ]
    strange = [_row(4, 0, b"\0", kind=TEXT, dialect=TEXT, made_by=TEXT), _row(4, 1, b"\7\7\0\0", api_key=2000)]
    asked, told = ([row for row in rows if row["kind"] == kind and row["api_key"] == FETCH] for kind in PAIR)
    answered = [row | {"connection": 6, "sequence": at} for at, row in enumerate([*asked, *told])]
    return [*rows, *answered, *strange, _row(1, 0, b"\0\3\0\1", session=NAME, api_key=3, api_version=1)]


def _write(folder: Path, kind: str, rows: list[dict[str, Any]], session: str) -> None:
    place = folder / kind / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True, exist_ok=True)
    schema = c.frames_schema() if kind == c.FRAMES_FOLDER else c.events_schema()
    pq.write_table(pa.Table.from_pylist(rows, schema), place / f"{session}-1-1.parquet")


SETTINGS = f"""
metrics = "127.0.0.1:0"
{toml(TEXT)} = {toml(TEXT)}
[clusters.{toml(TEXT)}]
upstream = [{toml(TEXT)}]
listen = {toml(TEXT)}
[{toml(NAME)}.{toml(TEXT)}]
x = 1
"""
TLS = f"""
[clusters.main]
upstream = ["127.0.0.1:1"]
listen = "127.0.0.1:0"
[clusters.main.tls]
certificate = {toml(NAME)}
[capture]
folder = "c"
only.apis = [{toml(TEXT)}]
only.clusters = [{toml(TEXT)}]
"""
RIGHT = """
[clusters.main]
upstream = ["127.0.0.1:1"]
listen = "127.0.0.1:0"
state = "\\u0301\\ufe0f\\u3164owned\\\\u001b"
"""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the bytes that each view sent to the terminal."""
    folder = tmp_path_factory.mktemp("views")
    capture, empty = folder / NAME, folder / f"empty{NAME}"
    _write(capture, "frames", _rows(), SESSION)
    gap = {name: TEXT for name, kind in c.EVENT_COLUMNS if kind == "string"} | {"kind": "gap", "at_ns": NOON_NS}
    told = json.dumps(dict.fromkeys(("client", "upstream", "principal", "mechanism", "by"), TEXT))
    kinds = ("opened", "login", "half_closed", "closed", TEXT)
    events = [gap | {"connection": 5, "session": SESSION, "kind": kind, "detail": told} for kind in kinds]
    lost = json.dumps({"lost": {TEXT: {"requests": 1}}})
    _write(capture, "events", [gap, gap | {"detail": lost}, *events], SESSION)
    for name, file in (("broken", f"{NAME}-1-1"), ("strange", NAME)):
        place = folder / f"{name}{NAME}" / "frames" / "date=2026-11-21" / "hour=12"
        place.mkdir(parents=True)
        (place / f"{file}.parquet").write_bytes(b"no parquet")
    place = folder / f"other{NAME}" / "frames" / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), place / "s-1-1.parquet")
    spool = empty / "_spool" / SESSION
    spool.mkdir(parents=True)
    (spool / "00000001.log").write_bytes(b"no log")
    (folder / "requests").write_bytes(b"".join(framed(_frame("request", key)) for key in KEYS))
    for key, _ in RESPONSES:
        (folder / f"response-{key}").write_bytes(_frame("response", key))
    for name, text in (("names", SETTINGS), ("tls", TLS), ("right", RIGHT), (f"broken{NAME}", TEXT)):
        (folder / f"{name}.toml").write_text(text)
    root = Path(__file__).parents[2]
    return _parted(sent_to_a_terminal(PROGRAM, str(folder), folder=root))


def _parted(written: str) -> dict[str, str]:
    _, *parts = re.split(r"\r?\n<<(.+?)>>\r?\n", written)
    return dict(zip(parts[::2], parts[1::2], strict=True))


NAMES = re.findall(r'named\("([\w ]+)"\)', PROGRAM)
NAMES += [f"inspect {one}" for one in ("summary", "frames", "exchanges", "show text", "show json", "show hex")]
NAMES += [f"inspect show connection as {form}" for form in ("text", "json")]
NAMES += [f"inspect show exchange as {form}" for form in ("text", "json", "hex")]
NAMES += ["log as text", "log as json"]


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_is_sent_nothing_to_obey(views: dict[str, str], name: str) -> None:
    assert WORD in views[name], "the view shows none of it"
    assert obeyed(views[name]) == []
    assert "Traceback" not in views[name] or name.startswith("log")


def test_every_view_was_looked_at(views: dict[str, str]) -> None:
    assert set(views) == set(NAMES)
