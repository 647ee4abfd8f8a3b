from __future__ import annotations

from pathlib import Path

import pytest

from recorder.export import traces
from tests.recorder.running import run
from tests.recorder.small_capture import everything, write
from tests.recorder.tracing.receiver import attributes, receiver

# exchanges of the small capture
EXCHANGES = 7


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "frames", everything())
    return tmp_path


def test_every_exchange_is_sent_once_in_the_order_of_the_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.tracing.sender.BATCH", 3)
    with receiver() as got:
        done = run("export", folder, "--otlp", got.url)
    assert (done.exit_code, done.stdout) == (0, f"sent {EXCHANGES} spans to {got.url}\n"), done.output
    assert len(got.requests) == 3
    found = [attributes(span)["kafka_wiretap.exchange"].partition("/")[2] for span in got.spans]
    assert len({*found}) == EXCHANGES
    assert found[:3] == ["1/e0", "2/e0", "1/e1"]
    assert b"hunter2" not in b"".join(body for _, _, body in got.requests)


def test_a_filter_and_a_share_choose_exchanges(folder: Path) -> None:
    with receiver() as got:
        run("export", folder, "--otlp", got.url, "--every", 3)
        assert len(got.spans) == 3
        got.requests.clear()
        run("export", folder, "--otlp", got.url, "--where", "api == Fetch and error")
        assert [span.name for span in got.spans] == ["poll t"]
        got.requests.clear()
        done = run("export", folder, "--otlp", got.url, "--where", "api == Heartbeat")
    assert (done.exit_code, done.stdout, got.requests) == (0, "nothing sent: no exchange passes\n", [])


def test_a_collector_that_refuses_is_told_in_a_line_and_by_the_exit_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.tracing.sender.BATCH", 3)
    with receiver() as got:
        got.status = 400
        done = run("export", folder, "--otlp", got.url)
        assert (done.exit_code, len(got.requests)) == (2, 1)
        assert done.stderr.splitlines()[-1].startswith(f"Error: no spans were sent: {got.url} did not take them: ")
        got.status = 200

        def errs_later(*_: object) -> str:
            got.status = 400
            return "sending ..."

        monkeypatch.setattr(traces, "count", lambda number, *of: errs_later() if not of else f"{number} {of[0]}s")
        done = run("export", folder, "--otlp", got.url)
    assert done.exit_code == 1
    assert "3 spans were sent; of further ones" in done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--otlp", "collector"],
            "'collector' is no URL of a collector; right would be --otlp http://collector:4318",
        ),
        (["--otlp", "http://a", "--otlp-headers", "/no/such"], "--otlp-headers /no/such "),
        (["--every", "2"], "--every and --otlp-headers are for spans; right would be --otlp URL as well"),
        (["--otlp", "http://a", "--pcapng"], "are three exports: right would be one of them"),
        (["--where", "error"], "--where is for packet dumps and spans; right would be --pcapng or --otlp URL as well"),
        (["--otlp", "http://a", "--where", "api = Fetch"], "'=' is no operator"),
    ],
)
def test_wrong_options_are_refused_in_a_line(folder: Path, options: list[str], told: str) -> None:
    done = run("export", folder, *options)
    assert done.exit_code == 2
    assert told in done.stderr
