"""Tests of the checks: each passes correct results, and notices wrong ones."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from proxy.wire import catalog
from proxy.wire.keys import DESCRIBE_CONFIGS, LIST_GROUPS, METADATA, SASL_AUTHENTICATE
from tests.brokers.kafka import DIRECT_HOST, TAPPED_HOST
from tests.clients.checks import Ending, check_capture, check_no_leak, check_transparent
from tests.clients.streams import Conversation
from tests.clients.tap import Recorded
from tests.tables import each_row

UPSTREAM, PORT = TAPPED_HOST.format(1), 9092
ADVERTISED = {f"{UPSTREAM}:{PORT}": "127.0.0.1:19093"}

Exchange = tuple[int, int, bytes]


def exchange(key: int, version: int, **values: Any) -> Exchange:
    return key, version, catalog.encode_response(key, version, 7, values)


def metadata(host: str = UPSTREAM, port: int = PORT, cluster: str = "c") -> Exchange:
    node = {"node_id": 1, "host": host, "port": port, "rack": "r"}
    return exchange(METADATA, 9, brokers=[node], cluster_id=cluster, controller_id=1)


def groups(error: int = 0) -> Exchange:
    return exchange(LIST_GROUPS, 3, error_code=error)


def talk(*exchanges: Exchange, answered: int | None = None, dialled: str = "127.0.0.1:1") -> Conversation:
    """All requests were sent, and the first ones answered."""
    requests = [catalog.encode_request(key, version, 7, "client", {}) for key, version, _ in exchanges]
    responses = [response for _, _, response in exchanges[:answered]]
    return Conversation(Recorded(1, dialled, _stream(requests), _stream(responses)))


def _stream(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def test_a_rewritten_address_is_no_difference() -> None:
    check_transparent([talk(metadata("127.0.0.1", 19093), groups())], [talk(metadata(), groups())], ADVERTISED)


@each_row(
    ("got", "sent"),
    [
        pytest.param([metadata("127.0.0.1", 19094)], [metadata()], id="the wrong port"),
        pytest.param([metadata("127.0.0.1", 19093, "d")], [metadata()], id="more than the address"),
        pytest.param([groups(15)], [groups()], id="a response that has no address"),
        pytest.param([groups(), groups()], [groups()], id="a request that never reached a broker"),
        pytest.param([groups()], [groups(), groups()], id="a request that no client sent"),
    ],
)
def test_any_other_difference_between_the_two_sides_is_noticed(got: list[Exchange], sent: list[Exchange]) -> None:
    with pytest.raises(AssertionError):
        check_transparent([talk(*got)], [talk(*sent)], ADVERTISED)


def test_a_connection_that_only_the_brokers_saw_is_noticed() -> None:
    with pytest.raises(AssertionError, match="what no client asked"):
        check_transparent([talk(groups())], [talk(groups()), talk(metadata())], ADVERTISED)


def test_a_client_that_left_without_a_request_need_not_have_reached_a_broker() -> None:
    check_transparent([talk()], [], ADVERTISED)


# --- what ended in the middle ---------------------------------------------------------------------------

NEAR, FAR = "127.0.0.1:19093", f"{UPSTREAM}:{PORT}"


@pytest.mark.parametrize(
    ("near", "far"),
    [
        pytest.param([talk(groups(), metadata(), answered=0, dialled=NEAR)], [], id="never reached a broker"),
        pytest.param(
            [talk(groups(), metadata(), answered=1, dialled=NEAR)],
            [talk(groups(), dialled=FAR)],
            id="the last request did not reach the broker",
        ),
        pytest.param(
            [talk(groups(), metadata(), answered=1, dialled=NEAR)],
            [talk(groups(), metadata(), dialled=FAR)],
            id="the last answer did not reach the client",
        ),
        pytest.param(
            [talk(groups(), metadata(), answered=0, dialled=NEAR), talk(groups(), dialled=NEAR)],
            [talk(groups(), dialled=FAR)],
            id="the one that was answered is the one that reached a broker",
        ),
    ],
)
def test_each_side_of_a_cut_connection_may_have_a_prefix_of_the_bytes(
    near: list[Conversation], far: list[Conversation]
) -> None:
    check_transparent(near, far, ADVERTISED, Ending.CUT)


@each_row(
    ("near", "far"),
    [
        pytest.param([talk(groups(15), dialled=NEAR)], [], id="an answer that no broker gave"),
        pytest.param(
            [talk(groups(), dialled=NEAR)], [talk(groups(), metadata(), dialled=FAR)], id="more than the client sent"
        ),
        pytest.param([talk(groups(), dialled=NEAR)], [talk(groups(15), dialled=FAR)], id="another answer"),
        pytest.param(
            [talk(groups(), metadata(), dialled=NEAR)], [talk(metadata(), dialled=FAR)], id="not from the beginning"
        ),
        pytest.param([talk(groups(), dialled="127.0.0.1:19094")], [talk(groups(), dialled=FAR)], id="another broker"),
        pytest.param(
            [talk(groups(), dialled=NEAR)], [talk(groups(), dialled=FAR), talk(groups(), dialled=FAR)], id="twice"
        ),
    ],
)
def test_any_other_difference_is_noticed_though_connections_were_cut(
    near: list[Conversation], far: list[Conversation]
) -> None:
    both = ADVERTISED | {f"{TAPPED_HOST.format(2)}:{PORT}": "127.0.0.1:19094"}
    with pytest.raises(AssertionError):
        check_transparent(near, far, both, Ending.CUT)


# --- no leak --------------------------------------------------------------------------------------------


def describe_configs(value: str) -> Exchange:
    config = {"name": "advertised.listeners", "value": value}
    return exchange(DESCRIBE_CONFIGS, 4, results=[{"resource_type": 4, "resource_name": "1", "configs": [config]}])


@pytest.mark.parametrize("host", [UPSTREAM, DIRECT_HOST.format(3)])
def test_a_brokers_host_where_a_client_would_dial_it_is_a_leak(host: str) -> None:
    with pytest.raises(AssertionError, match=r"brokers\.host"):
        check_no_leak([talk(metadata(host))])


def test_a_brokers_host_in_the_text_of_a_setting_is_no_leak() -> None:
    check_no_leak([talk(describe_configs(f"TAPPED://{UPSTREAM}:9092"), metadata("127.0.0.1"))])


def test_a_brokers_host_in_an_unknown_tagged_field_is_a_leak() -> None:
    node = {"node_id": 1, "host": "127.0.0.1", "port": 1, "_tags": {9: UPSTREAM.encode()}}
    with pytest.raises(AssertionError, match="_tags"):
        check_no_leak([talk(exchange(METADATA, 9, brokers=[node]))])


# --- the capture ----------------------------------------------------------------------------------------


def rows_of(conversation: Conversation) -> list[dict[str, Any]]:
    """Returns the rows of a correct capture, as in `docs/capture.md`: requests and responses in turn."""
    turns = zip(conversation.requests, conversation.responses, strict=True)
    rows = []
    for number, (request, response) in enumerate(turns):
        key, version, correlation_id = request.head
        shared = {"session": "s", "connection": 1, "exchange": number, "api_key": key, "api_version": version}
        shared |= {
            "client_id": "client",
            "correlation_id": correlation_id,
            "masked": None,
            "omitted": None,
            "records": None,
            "dropped": None,
            "note": None,
            "api": "?",
        }
        sizes = {"size": len(request.frame), "stored": len(request.frame), "request_size": None}
        rows.append(shared | sizes | {"kind": "request", "made_by": "client", "frame": request.frame})
        sizes = {"size": len(response.frame), "stored": len(response.frame), "request_size": len(request.frame)}
        rows.append(shared | sizes | {"kind": "response", "made_by": "broker", "frame": response.frame})
    return [row | {"sequence": sequence} for sequence, row in enumerate(rows)]


def capture(folder: Path, rows: list[dict[str, Any]], gaps: int = 0) -> Path:
    for name, table in (("frames", rows), ("events", [{"kind": "gap"}] * gaps or [{"kind": "session"}])):
        (folder / name).mkdir()
        parquet.write_table(pa.Table.from_pylist(table), folder / name / "1.parquet")
    return folder


def test_a_capture_of_every_frame_is_right(tmp_path: Path) -> None:
    far = talk(metadata(), groups())
    check_capture(capture(tmp_path, rows_of(far)), [], [far])


def _lose(rows: list[dict[str, Any]]) -> None:
    del rows[-2:]


def _double(rows: list[dict[str, Any]]) -> None:
    rows.extend(row | {"sequence": row["sequence"] + 2, "exchange": 2} for row in rows[-2:])


def _change(rows: list[dict[str, Any]]) -> None:
    rows[1]["frame"] = rows[1]["frame"][:-1] + b"?"


def _cross(rows: list[dict[str, Any]]) -> None:
    rows[1]["exchange"], rows[3]["exchange"] = rows[3]["exchange"], rows[1]["exchange"]


def _mask(rows: list[dict[str, Any]]) -> None:
    rows[1]["masked"] = [{"start": 3, "length": 2}]


@pytest.mark.parametrize("damage", [_lose, _double, _change, _cross, _mask])
def test_a_capture_that_is_not_what_arrived_is_noticed(
    tmp_path: Path, damage: Callable[[list[dict[str, Any]]], None]
) -> None:
    far = talk(metadata(), groups(15))
    rows = rows_of(far)
    damage(rows)
    with pytest.raises(AssertionError):
        check_capture(capture(tmp_path, rows), [], [far])


def mask(row: dict[str, Any], start: int, length: int) -> None:
    end = start + length
    row |= {"masked": [{"start": start, "length": length}]}
    row["frame"] = row["frame"][:start] + bytes(length) + row["frame"][end:]


def test_a_masked_span_is_compared_as_blanks(tmp_path: Path) -> None:
    far = talk(exchange(SASL_AUTHENTICATE, 0, auth_bytes=b"secret"))
    rows = rows_of(far)
    mask(rows[1], 12, 6)
    check_capture(capture(tmp_path, rows), [], [far])


def test_a_mask_where_nothing_is_secret_is_noticed(tmp_path: Path) -> None:
    far = talk(groups(15))
    rows = rows_of(far)
    mask(rows[1], 4, 6)
    with pytest.raises(AssertionError):
        check_capture(capture(tmp_path, rows), [], [far])


def test_a_gap_is_noticed(tmp_path: Path) -> None:
    far = talk(groups())
    with pytest.raises(AssertionError, match="gaps"):
        check_capture(capture(tmp_path, rows_of(far), gaps=1), [], [far])


def test_a_capture_has_what_arrived_before_a_connection_was_cut(tmp_path: Path) -> None:
    arrived, passed = talk(groups(), metadata()), talk(groups())
    rows = rows_of(arrived)[:3]  # the second request's answer never came, and the broker never got it
    check_capture(capture(tmp_path, rows), [], [passed], Ending.CUT)


def _forget(rows: list[dict[str, Any]]) -> None:
    """Removes the last request, which a broker got."""
    del rows[2:]


def _invent(rows: list[dict[str, Any]]) -> None:
    """Adds a connection that did not exist."""
    rows.extend([row | {"connection": 2} for row in rows])


@pytest.mark.parametrize("damage", [_forget, _invent, _change, _cross])
def test_a_capture_of_cut_connections_is_not_anything(
    tmp_path: Path, damage: Callable[[list[dict[str, Any]]], None]
) -> None:
    far = talk(metadata(), groups(15))
    rows = rows_of(far)
    damage(rows)
    with pytest.raises(AssertionError):
        check_capture(capture(tmp_path, rows), [], [far], Ending.CUT)


def test_a_killed_proxys_capture_may_lack_the_last_frames(tmp_path: Path) -> None:
    far = talk(metadata(), groups(15))
    rows = rows_of(far)
    _forget(rows)
    check_capture(capture(tmp_path, rows), [], [far, talk(groups())], Ending.KILLED)
