"""Tests of a replay from its first pass over the capture: what it reads, refuses and plans."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pytest
import trio

from proxy.wire.keys import METADATA
from recorder.query.shorthand import filter_of
from recorder.replay.choice import Choice
from recorder.replay.cluster import Cluster
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.outcome import Result
from recorder.replay.player import run as module
from recorder.replay.player.dial import Target
from recorder.replay.player.guard import Guard
from recorder.replay.player.run import Job, run
from recorder.replay.prepare import Preparation, Prepared
from recorder.replay.refused import Refused
from recorder.replay.settings import FileSettings
from recorder.replay.stream import DiskRead
from recorder.replay.survey import NameUse, Survey
from tests.recorder.replay import some_results
from tests.recorder.replay.captures import AS_RECORDED, checksums, event, request, response, write


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job with a capture of two clusters, whose nodes and ids differ."""
    frames, events = [], []
    for connection, cluster in ((1, "one"), (2, "two")):
        broker = {"node_id": 10 * connection, "host": "h", "port": 1}
        answer = {"brokers": [broker], "cluster_id": f"id of {cluster}", "topics": []}
        asked = {"cluster": cluster, "node": 10 * connection}
        frames.append(request(10, connection, 0, METADATA, 12, {"topics": None}, **asked))
        frames.append(response(20, connection, 0, METADATA, 12, answer, **asked))
        dialled = json.dumps({"upstream": f"10.0.0.{connection}:9092"})
        events.append(event(5, connection, "opened", cluster=cluster, detail=dialled))
        node = json.dumps({"node_id": 10 * connection, "upstream": f"[fd00::{connection}]:9092"})
        events.append(event(15, None, "node", cluster=cluster, detail=node))
    options = Options()
    return Job(write(tmp_path, frames, events), (("127.0.0.1", 1),), options, Choice(options))


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch) -> list[Survey]:
    """Returns what would be played."""
    found: list[Survey] = []

    def play(_: Any, job: Job, survey: Survey, guard: Guard) -> int:
        found.append(survey)
        return 0

    monkeypatch.setattr(trio, "run", play)
    return found


def test_a_capture_of_several_clusters_is_refused_unless_one_is_named(job: Job, surveyed: list[Survey]) -> None:
    with pytest.raises(Refused, match="of several clusters \\(one, two\\): right would be --cluster"):
        run(job)
    assert run(replace(job, cluster="two")) == 0
    assert surveyed[0].nodes == {20}


def test_a_filtered_replay_knows_only_the_nodes_of_its_cluster(job: Job, surveyed: list[Survey]) -> None:
    run(replace(job, choice=Choice(job.options, filter_of({"connection": [1]}))))
    assert surveyed[0].nodes == {10}


@pytest.mark.parametrize("played", ["one", "two"])
def test_each_cluster_of_the_capture_is_known_again_whichever_is_played(
    job: Job, surveyed: list[Survey], played: str
) -> None:
    run(replace(job, cluster=played))
    assert {*chain(*surveyed[0].recorded.ids.values())} == {"id of one", "id of two"}
    dialled = {"10.0.0.1:9092", "10.0.0.2:9092", "[fd00::1]:9092", "[fd00::2]:9092"}
    assert {*map(str, surveyed[0].recorded.addresses)} == dialled | {"h:1"}


@pytest.mark.parametrize(
    "address",
    [("10.0.0.1", 9092), ("fd00::2", 9092), ("10.0.0.1.", 9092), ("FD00::2", 9092)],
    ids=["bootstrap", "node", "its absolute name", "in capital letters"],
)
def test_an_address_that_was_dialled_in_the_recording_is_refused_before_it_is_dialled(
    job: Job, surveyed: list[Survey], address: tuple[str, int]
) -> None:
    job = replace(job, cluster="two", bootstrap=(("elsewhere", 1), address))
    with pytest.raises(Refused, match="9092, an address of the recording"):
        run(job)
    assert not surveyed
    assert run(replace(job, options=Options(onto_recorded=True))) == 0


def test_what_the_survey_has_checked_is_not_checked_again_when_it_is_played(
    tmp_path: Path, surveyed: list[Survey], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, computed = Options(), checksums(monkeypatch)
    frames = [request(10, 1, 0, METADATA, 12, {"topics": None}), response(20, 1, 0, METADATA, 12, {})]
    job = Job(write(tmp_path, frames, **AS_RECORDED), (("127.0.0.1", 1),), options, Choice(options))
    assert run(job) == 0
    assert computed
    computed.clear()
    assert sum(not isinstance(step, DiskRead) for step in job.steps()) == 2
    assert not computed


def test_a_capture_with_a_damaged_frame_is_refused_before_the_target_is_asked(
    tmp_path: Path, surveyed: list[Survey]
) -> None:
    options, stored = Options(), AS_RECORDED | {"compression": "none", "write_statistics": ["mono_ns"]}
    frames = [request(ns, 1, ns, METADATA, 12, {"topics": [{"name": "a-topic"}]}) for ns in range(2)]
    job = Job(write(tmp_path, frames, **stored), (("127.0.0.1", 1),), options, Choice(options))
    (file,) = (tmp_path / "frames").rglob("*.parquet")
    file.write_bytes(file.read_bytes().replace(b"a-topic", b"b-topic"))
    with pytest.raises(Refused, match="a page whose checksum is wrong"):
        run(job)
    assert not surveyed


def test_filters_that_leave_nothing_are_refused(job: Job, surveyed: list[Survey]) -> None:
    with pytest.raises(Refused, match="has no request that the filters let through"):
        run(replace(job, choice=Choice(job.options, filter_of({"client": ["nobody"]}))))
    assert not surveyed


def test_a_prefix_that_makes_a_name_longer_than_kafka_takes_is_refused(
    job: Job, monkeypatch: pytest.MonkeyPatch, surveyed: list[Survey]
) -> None:
    names: dict[str | bytes, NameUse] = {"a" * 240: NameUse(1), "b": NameUse(1)}
    monkeypatch.setattr(module, "survey", lambda *_: Survey(used=names, sent=Counter({"Produce": 1})))
    job = replace(job, options=Options(prefix="p" * 10))
    with pytest.raises(Refused, match=r"the name of topic a+ too long: right would be 9 letters at most"):
        run(job)
    assert run(replace(job, options=Options(prefix="p" * 9))) == 0


def test_each_report_is_written(job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written: list[Path] = []
    paths = tmp_path / "r.html", tmp_path / "r.json"
    module._told(replace(job, reports=paths, write=lambda result, path: written.append(path)), some_results.different())
    assert written == [*paths]
    assert "replay show" in capsys.readouterr().out


@pytest.fixture
def writing() -> Survey:
    return Survey(
        used={"orders": NameUse(2, True), "catalog": NameUse(1), "new": NameUse(1, True)},
        groups={"app": NameUse(1, True)},
        transactions={"billing": NameUse(1, True)},
    )


def asking(monkeypatch: pytest.MonkeyPatch, *, at_a_terminal: bool) -> list[str]:
    """Lists the questions to the user; the answer to each is yes."""
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: at_a_terminal, raising=False)
    monkeypatch.setattr(click, "confirm", lambda text, **_: asked.append(text))
    return asked


def test_before_anything_is_written_the_names_of_all_that_is_are_asked_about(
    job: Job, writing: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, cluster = asking(monkeypatch, at_a_terminal=True), Cluster(id="staging")
    writing.sent.update({"DeleteTopics": 2, "Fetch": 7})
    module._ask(job, writing, Prepared(lacking={"p-new": 3}), cluster, Names("p-", {}, cluster))
    assert asked == [
        "The replay writes to cluster staging: 1 topic (p-orders), 1 group (p-app), 1 transactional id (p-billing), "
        "new: 1 topic (p-new), 2 DeleteTopics. Go on?"
    ]


@pytest.mark.parametrize("creates", [True, False])
def test_a_dry_run_names_the_topics_that_the_replay_would_make(
    job: Job, writing: Survey, creates: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    job, cluster = replace(job, options=Options(create_topics=creates)), Cluster()
    module._show_plan(job, writing, Prepared(lacking={"new": 3}), cluster, Names("", {}, cluster))
    told = capsys.readouterr().out
    assert ("note: would create 1 topic (new)" in told, "topics created" in told) == (creates, creates)


def test_a_replay_that_writes_needs_yes_without_a_terminal(
    job: Job, writing: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, at_a_terminal=False)
    cluster = Cluster(id="staging")
    with pytest.raises(Refused, match="writes to staging, and nobody is there to ask: right would be --yes"):
        module._ask(job, writing, Prepared(), cluster, Names("", {}, cluster))


def test_a_replay_that_only_reads_does_not_ask(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, cluster = asking(monkeypatch, at_a_terminal=False), Cluster()
    module._ask(job, Survey(used={"catalog": NameUse(1)}), Prepared(), cluster, Names("", {}, cluster))
    assert not asked


NOTE = "note: overwrites the offsets of 1 group (app)"


@pytest.fixture
def overwriting(job: Job, writing: Survey, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Plays a capture whose group has offsets on the target. `refusals`: why the replay may not begin."""

    def replayed(*refusals: str, yes: bool) -> None:
        async def prepare(_: Job, preparation: Preparation, *__: object) -> None:
            preparation.findings.overwritten.append("app")
            preparation.findings.refusals += refusals

        monkeypatch.setattr(module, "_look_where_it_leads", play)
        monkeypatch.setattr(module, "_prepare", prepare)
        trio.run(module._replay, replace(job, yes=yes), writing, Target(()))

    async def play(*_: object) -> None:
        """Nothing."""

    monkeypatch.setattr(module, "_play", play)
    monkeypatch.setattr(module, "_told", lambda *_: 0)
    return replayed


def test_the_groups_with_overwritten_offsets_are_named_before_the_question(
    overwriting: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: told.append(capsys.readouterr().err))
    overwriting(yes=False)
    assert [text.count(NOTE) for text in (*told, capsys.readouterr().err)] == [1, 0]


def test_the_groups_with_overwritten_offsets_are_named_once_with_yes(
    overwriting: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    overwriting(yes=True)
    assert capsys.readouterr().err.count(NOTE) == 1


def test_the_result_has_recorded_names_of_topics_and_groups_that_had_data_before(
    job: Job, writing: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Result] = []

    async def prepare(_: Job, preparation: Preparation, *__: object) -> None:
        preparation.findings.filled, preparation.findings.overwritten = ["p-orders"], ["p-app"]

    async def play(*_: object) -> None:
        """Nothing."""

    monkeypatch.setattr(module, "_look_where_it_leads", play)
    monkeypatch.setattr(module, "_prepare", prepare)
    monkeypatch.setattr(module, "_play", play)
    monkeypatch.setattr(module, "_told", lambda _, result: told.append(result))
    trio.run(module._replay, replace(job, yes=True, options=Options(prefix="p-")), writing, Target(()))
    assert (told[0].had_records, told[0].had_offsets) == (("orders",), ("app",))


@pytest.mark.parametrize(
    ("refusals", "yes"), [(["the target is odd"], True), (["the target is odd"], False), ([], False)]
)
def test_a_replay_that_is_refused_does_not_say_what_it_overwrites(
    refusals: list[str],
    yes: bool,
    overwriting: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asking(monkeypatch, at_a_terminal=False)
    with pytest.raises(Refused):
        overwriting(*refusals, yes=yes)
    assert "overwrites" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (FileSettings(logins={"a": {"mechanism": "X"}}), 'login."a": mechanism is none of'),
        (FileSettings(tls={"foo": 1}), "tls.foo is no setting"),
    ],
    ids=["a login", "tls"],
)
def test_wrong_settings_are_refused_in_a_sentence(job: Job, file: FileSettings, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        run(replace(job, choice=Choice(job.options, filter_of({"connection": [1]})), file=file))
