"""Tests of the frames that the settings leave out, against frames cut by hand."""

import random
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.exchange import Direction
from proxy.log import KeyFormatter
from proxy.wire import catalog, keys
from proxy.wire.apis import api_name
from recorder.capture.compactor import compact
from recorder.capture.selection import Sample
from recorder.capture.session import RecordSettings
from recorder.capture.spool import OF_STREAMS
from recorder.capture.tap import Tap, open_tap
from tests.brokers.waiting import wait_for
from tests.recorder.capture import traffic
from tests.recorder.capture.bad_disk import play_on_a_bad_disk
from tests.recorder.capture.looks import event_rows, frame_rows, log_entries, session_folder
from tests.recorder.capture.traffic import Call, Chunk, Player, Talk, framed
from tests.sweeps import mostly_long

TapOf = Callable[..., Tap]
CHOICES: list[dict[str, Any]] = [
    {"bodies": "head"},
    {"bodies": 20},
    {"bodies": 1 << 20},
    {"apis": ("Produce", "Heartbeat")},
    {"apis": ("!Metadata", "!other")},
    {"apis": ("other",)},
    {"client_ids": ("one", "ü*")},
    {"client_ids": ("!one",), "bodies": "head"},
    {"apis": ("!Produce",), "client_ids": ("t*",), "bodies": 50},
    {"principals": ("nobody",)},
    {"principals": ("*",)},
    {"apis": ("0.7/fetch", "Metadata")},
    {"apis": ("*", "!0.7/*produce"), "bodies": 50},
]
OLD_NAMES = ["0.7/produce", "0.7/fetch", "0.7/multifetch", "0.7/multiproduce", "0.7/offsets"]


def some_talks(rng: random.Random, count: int, largest: int) -> list[Talk]:
    calls = 8 if largest == 5 else 25
    return [traffic.cut(rng, traffic.talk(rng, number, calls, traffic.KINDS), largest) for number in range(count)]


def matches(patterns: tuple[str, ...], name: str) -> bool:
    wanted = [one for one in patterns if one[:1] != "!"]
    return (not wanted or any(fnmatchcase(name, one) for one in wanted)) and not any(
        fnmatchcase(name, one[1:]) for one in patterns if one[:1] == "!"
    )


def left_out_by(
    row: dict[str, Any],
    apis: tuple[str, ...] = (),
    client_ids: tuple[str, ...] = (),
    principals: tuple[str, ...] = (),
    **_: Any,
) -> str:
    """What leaves out the frame of a row; "": nothing."""
    is_old = row["dialect"] == "kafka-0.7"
    name = OLD_NAMES[row["api_key"]] if is_old else api_name(row["api_key"]) or "other"
    if not matches(apis, name):
        return "apis"
    if not matches(principals, ""):
        return "principals"
    return "" if matches(client_ids, row["client_id"] or "") else "client_ids"


def left_out_frames(tap: Tap) -> dict[str, float]:
    """The frames that a tap has left out, by cause."""
    counters, before = tap.counters(), "left_out_frames."
    return {
        name.removeprefix(before): number for name, number in counters.items() if name.startswith(before) and number
    }


def head_of(row: dict[str, Any]) -> int:
    """The number of bytes, after a frame's length, that are its head; for Produce up to its acks."""
    if row["dialect"] == "kafka-0.7":
        return 2
    if row["kind"] == "response":
        return 4
    head = 10 + len((row["client_id"] or "").encode())
    if row["api_key"] == keys.PRODUCE:
        # a null transactional id, after the tags if the version is flexible, and the acks
        head += 4
    return head


def wanted_of(talk: Talk, *, apis: Any = (), client_ids: Any = (), principals: Any = (), bodies: Any = "full") -> Any:
    """The slow, obvious twin: the rows that remain of all rows."""
    for row in traffic.expected(talk):
        if left_out_by(row, apis, client_ids, principals):
            continue
        frame = row["frame"]
        stored = len(frame) if bodies == "full" else max(head_of(row), 0 if bodies == "head" else bodies)
        stored = min(stored, len(frame))
        row["masked"] = [(at, min(size, stored - at)) for at, size in row["masked"] or () if at < stored] or None
        row["omitted"] = [(stored, len(frame) - stored)] if stored < len(frame) else None
        yield row | {"frame": frame[:stored], "stored": stored}


def assert_is(rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert [{name: row[name] for name in want} for row, want in zip(rows, wanted, strict=False)] == wanted
    assert len(rows) == len(wanted)


@pytest.mark.real
@pytest.mark.parametrize("largest", mostly_long([60, 5, 5000], usual=1))
@pytest.mark.parametrize("chosen", CHOICES, ids=",".join)
def test_the_recorded_frames_are_the_selected_ones_for_any_cuts(
    chosen: dict[str, Any], largest: int, tap_of: TapOf, tmp_path: Path
) -> None:
    rng = random.Random(f"{chosen}{largest}")
    talks = some_talks(rng, 2, largest)
    talks.append(traffic.cut(rng, traffic.old_talk(rng, 2, 8 if largest == 5 else 25), largest))
    tap = tap_of(**chosen, segment=rng.choice([3_000, 1 << 20]))
    Player(tap).all_of(talks, rng)
    found = left_out_frames(tap)
    tap.close()
    compact(tmp_path)
    left_out = Counter[str]()
    for talk in talks:
        wanted = list(wanted_of(talk, **chosen))
        assert_is(frame_rows(tmp_path, talk.connection), wanted)
        left_out.update(filter(None, (left_out_by(row, **chosen) for row in traffic.expected(talk))))
    assert found == left_out
    assert event_rows(tmp_path, "gap") == []
    closed = event_rows(tmp_path, "closed")
    assert sum(event["frames"] for event in closed) == sum(len(traffic.expected(talk)) for talk in talks)


def call(client_id: str, body: str, version: int = 3) -> Call:
    values = {"group_id": body, "generation_id": 1, "member_id": "m"}
    asked = catalog.encode_request(keys.HEARTBEAT, version, 1, client_id, values)
    answered = catalog.encode_response(keys.HEARTBEAT, version, 1, {"error_code": 0})
    return Call(keys.HEARTBEAT, version, 1, client_id, framed(asked), framed(answered))


def written(tmp_path: Path, tap: Tap) -> bytes:
    """The peers' bytes in the log."""
    entries = log_entries(session_folder(tmp_path, tap.session))
    return b"".join(entry.data for entry in entries if entry.kind in OF_STREAMS)


@pytest.mark.parametrize("largest", [1, 9, 1000])
@pytest.mark.parametrize(
    "chosen", [{"bodies": "head"}, {"apis": ("Fetch",)}, {"client_ids": ("b",)}, {"principals": ("x",)}]
)
def test_omitted_frames_never_reach_the_disk(
    chosen: dict[str, Any], largest: int, tap_of: TapOf, tmp_path: Path
) -> None:
    # a single letter, so no part of the body occurs elsewhere
    body = "Q" * 200
    talk = traffic.cut(random.Random(1), Talk(1, [call("a", body)] * 5), largest)
    # the last request is cut off
    talk.chunks.append(Chunk(Direction.REQUEST, call("a", body).request[:100], 9_000_000_000))
    tap = tap_of(**chosen)
    Player(tap).all_of([talk])
    tap.close()
    assert b"Q" not in written(tmp_path, tap)


def test_a_client_that_never_says_its_name_whole_leaves_no_payload(tap_of: TapOf, tmp_path: Path) -> None:
    """The request gives its client id a length that is longer than the bytes that follow."""
    frame = b"\0\x0c\0\3\0\0\0\1\x7f\0" + b"Q" * 500
    talk = Talk(1, [])
    talk.chunks = [Chunk(Direction.REQUEST, framed(frame)[:300], 5)]
    tap = tap_of(client_ids=("b",))
    Player(tap).all_of([talk])
    tap.close()
    assert b"Q" not in written(tmp_path, tap)


@pytest.mark.parametrize(("pattern", "kept"), [("L*", True), ("L*L", True), ("L*R", False)])
def test_only_the_start_of_a_long_client_id_is_matched(pattern: str, kept: bool, tap_of: TapOf, tmp_path: Path) -> None:
    asked = call("L" * 256 + "R" * 4000, "group")
    tap = tap_of(client_ids=(pattern,))
    player = Player(tap)
    talk = Talk(1, [asked])
    player.open(talk)
    for at in range(2000):
        player.play(1, Chunk(Direction.REQUEST, asked.request[at : at + 1], at))
    line = tap._recorders[1]
    assert not line._backlog
    player.play(1, Chunk(Direction.REQUEST, asked.request[2000:], 2000))
    assert asked.answer is not None
    player.play(1, Chunk(Direction.RESPONSE, asked.answer, 2001))
    player.close(1)
    tap.close()
    compact(tmp_path)
    assert len(frame_rows(tmp_path)) == 2 * kept


def test_connections_of_other_clusters_and_listeners_leave_no_trace(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(3)
    talks = some_talks(rng, 3, 200)
    talks[2].listener = "127.0.0.1:29092"
    tap = tap_of(clusters=("east",), listeners=("*:19092",))
    player = Player(tap)
    for talk, cluster in zip(talks, ("east", "west", "east"), strict=True):
        player.open(talk, cluster=cluster)
        for chunk in talk.chunks:
            player.play(talk.connection, chunk)
        tap.half_closed(talk.connection, Direction.REQUEST, 1)
        player.close(talk.connection)
    counters, left_out = tap.counters(), left_out_frames(tap)
    tap.close()
    compact(tmp_path)
    assert {row["connection"] for row in frame_rows(tmp_path)} == {0}
    kinds = {event["kind"] for event in event_rows(tmp_path) if event["connection"] is None}
    assert kinds == {"session", "settings"}
    others = [traffic.expected(talk) for talk in talks[1:]]
    assert left_out == {"connections": sum(map(len, others))}
    assert counters["left_out_bytes"] == sum(len(stream) for talk in talks[1:] for stream in talk.streams())


@pytest.mark.real
@pytest.mark.parametrize("seed", mostly_long(range(6), usual=2))
def test_a_choice_that_changes_holds_from_the_next_request_on(seed: int, tap_of: TapOf, tmp_path: Path) -> None:
    """Request and response of an exchange are treated alike, even if the settings change in between."""
    rng = random.Random(seed)
    talks = some_talks(rng, 3, rng.choice([20, 200, 2000]))
    tap = tap_of(**rng.choice(CHOICES))
    player = Player(tap)
    for talk in talks:
        player.open(talk)
    chunks = [[*reversed(talk.chunks)] for talk in talks]
    while any(chunks):
        number = rng.choice([number for number, left in enumerate(chunks) if left])
        player.play(number, chunks[number].pop())
        if rng.random() < 0.1:
            take, take_back = tap.selection_change(RecordSettings(**rng.choice([*CHOICES, {"topics": ("a*",)}, {}])))
            take()
            if rng.random() < 0.2:
                take_back()
    for talk in talks:
        player.close(talk.connection)
    left_out = left_out_frames(tap)
    tap.close()
    compact(tmp_path)
    missing = 0
    for talk in talks:
        came = {(row["kind"], row["exchange"]): row for row in traffic.expected(talk)}
        rows = frame_rows(tmp_path, talk.connection)
        missing += len(came) - len(rows)
        for row in rows:
            want = came[row["kind"], row["exchange"]]
            assert want["frame"].startswith(row["frame"])
            same = ("sequence", "mono_ns", "first_mono_ns", "api_key", "correlation_id", "client_id", "size")
            # where topics are chosen, nothing but the head of a frame that nobody can read is kept
            is_hidden = row["api"] is None and row["client_id"] is None
            known = {*same} - {"client_id"} if is_hidden else {*same}
            assert {name: row[name] for name in known} == {name: want[name] for name in known}
        asked = {row["exchange"] for row in rows if row["kind"] == "request"}
        answered = {row["exchange"] for row in rows if row["kind"] == "response"}
        assert answered == {number for number in asked if ("response", number) in came}
    assert sum(left_out.values()) == missing
    assert "fault" not in left_out


def test_when_everything_is_kept_again_chunks_take_the_short_way(tap_of: TapOf) -> None:
    tap = tap_of(bodies="head")
    player = Player(tap)
    talk = traffic.cut(random.Random(1), Talk(1, [call("a", "b")] * 20), 30)
    player.open(talk)
    for chunk in talk.chunks[:4]:
        player.play(1, chunk)
    assert tap._special == {1}
    take, _ = tap.selection_change(RecordSettings())
    take()
    for chunk in talk.chunks[4:]:
        player.play(1, chunk)
    assert tap._special == set()
    player.close(1)


@pytest.mark.parametrize("seed", range(6))
def test_a_gap_between_a_request_that_is_left_out_and_its_answer_changes_nothing(
    seed: int, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    talks = some_talks(rng, 2, 300)
    tap = tap_of(queue=6_000, apis=("Produce", "Metadata"))
    play_on_a_bad_disk(tap, talks, rng, monkeypatch)
    tap.close()
    compact(tmp_path)
    for talk in talks:
        came = {(row["kind"], row["exchange"]): row for row in traffic.expected(talk)}
        for row in frame_rows(tmp_path, talk.connection):
            assert row["api_key"] in (keys.PRODUCE, keys.METADATA)
            assert row["frame"] == came[row["kind"], row["exchange"]]["frame"]


def logging_in(error: int) -> list[Call]:
    """A handshake, and alice's token with its response."""
    token = b"\0alice\0secret"
    return [
        Call(
            17,
            1,
            1,
            "a",
            framed(catalog.encode_request(17, 1, 1, "a", {"mechanism": "PLAIN"})),
            framed(catalog.encode_response(17, 1, 1, {"mechanisms": ["PLAIN"]})),
        ),
        Call(
            36,
            2,
            1,
            "a",
            framed(catalog.encode_request(36, 2, 1, "a", {"auth_bytes": token})),
            framed(catalog.encode_response(36, 2, 1, {"error_code": error, "auth_bytes": b""})),
        ),
    ]


def play_in_turn(player: Player, number: int, calls: list[Call]) -> None:
    player.open(Talk(number, calls))
    for one in calls:
        player.play(number, Chunk(Direction.REQUEST, one.request, 10))
        player.play(number, Chunk(Direction.RESPONSE, one.answer or b"", 20))
    player.close(number)


def test_a_selected_principal_is_recorded_from_the_accepted_login_on(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of(principals=("ali*",))
    player = Player(tap)
    play_in_turn(player, 0, [call("a", "b"), *logging_in(0), call("a", "c"), call("a", "d")])
    play_in_turn(player, 1, [call("a", "e")])
    player.open(Talk(2, []), principal="alice")
    player.play(2, Chunk(Direction.REQUEST, call("a", "f").request, 30))
    player.close(2)
    play_in_turn(player, 3, [*logging_in(58), call("a", "g")])
    tap.close()
    compact(tmp_path)
    kept = [(row["connection"], row["exchange"], row["kind"]) for row in frame_rows(tmp_path)]
    assert kept == [
        (0, 3, "request"),
        (0, 3, "response"),
        (0, 4, "request"),
        (0, 4, "response"),
        (2, 0, "request"),
    ]


def test_a_frame_has_the_principal_accepted_when_it_arrived(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    player = Player(tap)
    play_in_turn(player, 0, [call("a", "b"), *logging_in(0), call("a", "c")])
    play_in_turn(player, 1, [*logging_in(58), call("a", "d")])
    tap.close()
    compact(tmp_path)
    assert [row["principal"] for row in frame_rows(tmp_path, 0)] == [None] * 6 + ["alice"] * 2
    assert {row["principal"] for row in frame_rows(tmp_path, 1)} == {None}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute without a match is over at once."""
    monkeypatch.setattr("recorder.capture.selection.UNMATCHED_SECONDS", 0.0)
    monkeypatch.setattr("recorder.capture.writer.IDLE_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("only", [{"client_ids": ("nobody",)}, {"listeners": ("10.0.0.1:9092",)}])
def test_a_selection_that_matches_nothing_is_logged_while_frames_pass(
    only: dict[str, Any], tap_of: TapOf, caplog: pytest.LogCaptureFixture
) -> None:
    tap = tap_of(**only)
    Player(tap).all_of(some_talks(random.Random(7), 2, 300))
    wait_for(lambda: caplog.records, "the line about the selection")
    (record,) = caplog.records
    ((name, patterns),) = only.items()
    assert KeyFormatter().format(record).endswith(f"only.{name}={patterns[0]}")
    assert record.levelname == "WARNING"


def looks(tap: Tap, number: int) -> None:
    """Waits until the tap has looked at its selection so many times more."""
    turns, watch = list[None](), tap._writer.when_idle
    tap._writer.when_idle = lambda: turns.append(watch())
    wait_for(lambda: len(turns) >= number, "some looks at the selection")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("only", [{"client_ids": ("*",)}, {"apis": ("!Metadata",)}, {"listeners": ("*",)}])
def test_a_selection_that_matches_frames_is_not_logged(
    only: dict[str, Any], tap_of: TapOf, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = tap_of(**only)
    player = Player(tap)
    with monkeypatch.context() as patient:
        # on a busy machine the tap may look between a frame that is left out and the next one that is not
        patient.setattr("recorder.capture.selection.UNMATCHED_SECONDS", 1e9)
        player.all_of(some_talks(random.Random(7), 2, 300))
        play_in_turn(player, 2, [call("a", "b")])
    looks(tap, 5)
    assert not caplog.records


@pytest.mark.usefixtures("impatient")
def test_an_open_connection_of_which_nothing_is_left_out_is_a_match(
    tap_of: TapOf, caplog: pytest.LogCaptureFixture
) -> None:
    tap = tap_of(clusters=("east",))
    player, talks = Player(tap), some_talks(random.Random(7), 3, 300)
    player.open(talks[0], cluster="east")
    player.all_of(talks[1:])
    looks(tap, 5)
    assert not caplog.records


@pytest.mark.real
@pytest.mark.parametrize("seed", mostly_long(range(10), 2))
def test_a_sample_has_all_exchanges_of_some_clients_and_none_of_the_others(seed, tmp_path):
    rng = random.Random(seed)
    talks = some_talks(rng, 8, 700)
    for number, talk in enumerate(talks):
        talk.client = f"10.0.0.{number}:5555"
    left_out = {}
    for folder, more in ((tmp_path / "some", {"share": 0.5, "seed": seed}), (tmp_path / "all", {})):
        tap = open_tap(folder, RecordSettings(**more), "s")
        Player(tap).all_of(talks, rng)
        left_out[folder.name] = left_out_frames(tap)
        tap.close()
        compact(folder)
    every, some = frame_rows(tmp_path / "all"), frame_rows(tmp_path / "some")
    sample = Sample(RecordSettings(share=0.5, seed=seed))
    of_exchanges = [row for row in every if row["exchange"] is not None]
    wanted = [
        (row["connection"], row["sequence"], row["frame"])
        for row in of_exchanges
        if sample.takes_client(row["client"].rpartition(":")[0], row["client_id"] or "")
    ]
    assert 0 < len(wanted) < len(of_exchanges)
    assert left_out == {"some": {"share": len(of_exchanges) - len(wanted)}, "all": {}}
    assert [(row["connection"], row["sequence"], row["frame"]) for row in some if row["exchange"] is not None] == wanted
