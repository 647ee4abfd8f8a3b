"""Tests of secrets in every API through the programs as users run them: nothing that they write or print shows one."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from proxy.conversation.exchange import Direction
from proxy.wire import apis, catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, METADATA
from recorder.capture import session as sessions
from recorder.capture.compactor import compact
from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import LiveProxy, Where, answer, broker, read_frame
from tests.recorder.capture.looks import everything
from tests.recorder.capture.test_planted_secrets import (
    KEPT,
    PIECES,
    SECRET,
    a_raw_token,
    before,
    columns,
    every_login,
    every_message,
)
from tests.recorder.running import run

pytestmark = [pytest.mark.real, pytest.mark.long]

# what each request of the dialogues gets; without their correlation ids, those of messages
DIALOGUES = [
    *(dialogue._replace(frames=(*before(), *dialogue.frames)) for dialogue in (*every_message(), *every_login())),
    a_raw_token(),
]
TOLD: dict[bytes, bytes] = {
    request[4:]: response
    for dialogue in DIALOGUES
    for (_, request), (_, response) in zip(dialogue.frames[::2], dialogue.frames[1::2], strict=False)
}
BY_API: dict[bytes, bytes] = {frame[:4]: response for frame, response in TOLD.items()}
OFFERED = {key: apis.versions(key) for key in apis.api_keys() if apis.versions(key)}


def told(frame: bytes, sock: socket.socket) -> bytes:
    """Returns a broker's response, with secrets wherever there may be some."""
    key, version, correlation_id = (int(number) for number in struct.unpack_from(">hhi", frame))
    if frame in TOLD:
        return TOLD[frame]
    if frame[:4] in BY_API:
        response: bytes = BY_API[frame[:4]]
        return response[:4] + correlation_id.to_bytes(4, "big") + response[8:]
    if key == API_VERSIONS:
        ranges = [{"api_key": key, "min_version": of[0], "max_version": of[-1]} for key, of in OFFERED.items()]
        return framed(catalog.encode_response(key, version, correlation_id, {"api_keys": ranges}))
    if key == METADATA:
        return answer(frame, sock.getsockname())
    return framed(catalog.encode_response(key, version, correlation_id, {}))


def play(listening: Where) -> bytes:
    """Plays all dialogues, each on a connection of its own. Returns all that brokers have told."""
    heard = b""
    for dialogue in DIALOGUES:
        with socket.create_connection(listening, PATIENCE) as sock, sock.makefile("rb") as stream:
            for at, (direction, frame) in enumerate(dialogue.frames):
                if direction is Direction.REQUEST:
                    sock.sendall(frame)
                    if at + 1 < len(dialogue.frames):
                        heard += read_frame(stream)
    return heard


def shown(command: str, *arguments: object) -> bytes:
    result = run(command, *arguments)
    assert result.exit_code in (0, 1), result.output
    assert not isinstance(result.exception, Exception), result.exception
    return result.output.encode()


def test_nothing_that_the_programs_write_or_print_shows_a_secret(tmp_path: Path) -> None:
    capture, output, replayed = tmp_path / "capture", tmp_path / "proxy.log", tmp_path / "replayed"
    with broker(told) as upstream, LiveProxy(upstream, capture, output, "--log-level", "debug") as proxy:
        assert SECRET.encode() in play(proxy.listening)
        metrics = proxy.page()
        assert proxy.stop() == 0
    wait_for(lambda: not sessions.sessions(capture), "the capture to be compacted")
    assert KEPT.encode() in columns(capture)
    printed = [
        shown("inspect", capture),
        shown("inspect", capture, "--json"),
        shown("inspect", "exchanges", capture, "--json"),
        *(shown("inspect", "show", capture, str(number)) for number in range(1, len(DIALOGUES) + 1)),
        *(shown("inspect", "show", capture, f"{number}/e1") for number in range(1, len(DIALOGUES))),
        shown("facts", capture),
        shown("report", capture, "-o", tmp_path / "report.html"),
        shown("report", capture, "--format", "json"),
    ]
    told_again: list[bytes] = []

    def noted(frame: bytes, sock: socket.socket) -> bytes:
        told_again.append(told(frame, sock))
        return told_again[-1]

    with broker(noted) as target:
        asked = ["--to", "{}:{}".format(*target), "--speed", "max", "--admin", "--fence", "--partial", "100", "--yes"]
        asked += ["--target-is-another", "--wait", "1s", "--record", str(replayed)]
        asked += ["--report", str(tmp_path / "replay.json"), "--report", str(tmp_path / "replay.html")]
        printed.append(shown("replay", capture, *asked))
    assert SECRET.encode() in b"".join(told_again)
    compact(replayed)
    written = [content for content in everything(tmp_path).values() if isinstance(content, bytes)]
    found = b"\n".join([metrics.encode(), *printed, *written, *columns(capture), *columns(replayed)])
    assert [piece for piece in PIECES if piece in found] == []
    assert (tmp_path / "replay.html").exists()
    assert (tmp_path / "report.html").exists()
