from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.config import ClusterSettings
from proxy.net.state import claims as rules
from proxy.net.state.claims import StateClaims
from proxy.net.state.file import KnownNode, Owner, SavedState, read_state, write_state
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.brokers.children import spawn
from tests.faults.live import ROOT
from tests.proxy.net.peers import HOST
from tests.proxy.net.relays import settings, whole

EAST, WEST = Address("east.invalid", 9092), Address("west.invalid", 9092)
ONE, TWO = Address(HOST, 19092), Address(HOST, 29092)
Start = Callable[..., ClusterSettings]


def cluster(path: Path, listen: Address = ONE, upstream: Address = EAST, default: bool = True) -> ClusterSettings:
    return settings(upstream, listen=listen, state=path, state_is_default=default)


def keep(claimed: ClusterSettings, node_id: int = 1, port: int | None = None) -> None:
    """Does what a proxy with this file does."""
    assert claimed.state is not None
    write_state(claimed.state, SavedState({node_id: KnownNode(None, port)}, None, Owner.of(claimed)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "capture" / "_nodes.json"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a proxy whose file stays its own until `stop`."""
    started: list[StateClaims] = []

    def start(chosen: ClusterSettings) -> ClusterSettings:
        started.append(StateClaims(whole(chosen)))
        return started[-1].settings.clusters[0]

    start.claims = started  # type: ignore[attr-defined]
    yield start
    stop(start)


def stop(start: Start) -> None:
    """Stops all of them."""
    while start.claims:  # type: ignore[attr-defined]
        start.claims.pop().release()  # type: ignore[attr-defined]


def test_without_a_file_nothing_is_claimed():
    plain = whole(settings())
    assert StateClaims(plain).settings == plain


def test_the_first_proxy_in_a_folder_has_the_usual_file_and_the_next_one_of_its_own(start, path):
    east = start(cluster(path, ONE, EAST))
    west = start(cluster(path, TWO, WEST))
    third = start(cluster(path, TWO, WEST))
    assert [one.state.name for one in (east, west, third)] == ["_nodes.json", "_nodes.2.json", "_nodes.3.json"]


def test_a_restarted_proxy_finds_its_own_file_whichever_proxies_run(start, path):
    for listen, upstream in ((ONE, EAST), (TWO, WEST)):
        keep(start(cluster(path, listen, upstream)), port=listen.port + 5000)
    stop(start)
    # the other proxy has not started yet, has started first, or is gone for good
    assert start(cluster(path, TWO, WEST)).node_map.remembered == {1: TWO.port + 5000}
    assert start(cluster(path, ONE, EAST)).node_map.remembered == {1: ONE.port + 5000}
    stop(start)
    path.unlink()
    assert start(cluster(path, TWO, WEST)).state.name == "_nodes.2.json"
    assert start(cluster(path, ONE, EAST)).state.name == "_nodes.json"


def test_the_same_listener_for_another_cluster_has_another_file(start, path):
    keep(start(cluster(path, ONE, EAST)))
    stop(start)
    west = start(cluster(path, ONE, WEST))
    assert west.state.name == "_nodes.2.json"
    keep(west)
    stop(start)
    assert start(cluster(path, ONE, EAST)).state.name == "_nodes.json"


def test_the_same_proxy_with_other_bootstrap_servers_keeps_its_file_while_one_is_among_them(start, path):
    servers = (Address("a.invalid", 1), Address("b.invalid", 1), Address("c.invalid", 1))
    for upstream in (servers[:2], servers[1:], servers[2:]):
        claimed = start(replace(cluster(path), upstream=upstream))
        assert claimed.state.name == "_nodes.json"
        keep(claimed)
        stop(start)


def test_clusters_of_one_process_have_files_of_their_own(path):
    east, west = (replace(cluster(path, listen), name=name) for name, listen in (("east", ONE), ("west", TWO)))
    claims = StateClaims(whole(east, replace(west, state=path.with_name("_nodes-west.json"))))
    assert [one.state and one.state.name for one in claims.settings.clusters] == ["_nodes.json", "_nodes-west.json"]
    claims.release()


@pytest.mark.parametrize("content", [None, "{}", "old", ""], ids=["free", "foreign", "format 1", "damaged"])
def test_other_files_beside_the_state_files_are_not_claimed(start, path, content):
    path.parent.mkdir()
    beside = [path.with_name(name) for name in ("_nodes-2.json", "_nodes.x.json", "_nodes.02.json", "_nodes.json.2")]
    for one in beside:
        one.write_text("something else")
    if content is not None:
        old = json.dumps({"format": 1, "nodes": {"1": {"port": 40123}}})
        path.write_text(old if content == "old" else content)
    claimed = start(cluster(path))
    assert claimed.state.name == ("_nodes.2.json" if content == "{}" else "_nodes.json")
    assert claimed.remembered == ({1: 40123} if content == "old" else {})
    assert {one.read_text() for one in beside} == {"something else"}


def test_a_proxys_own_state_file_is_preferred_to_one_without_an_owner(start, path):
    keep(start(cluster(path)), node_id=5)
    stop(start)
    path.rename(path.with_name("_nodes.7.json"))
    path.write_text(json.dumps({"format": 1, "nodes": {}}))
    assert start(cluster(path)).state.name == "_nodes.7.json"


def test_a_file_that_was_named_is_the_one(start, path):
    keep(start(cluster(path, default=False)), port=40123)
    stop(start)
    again = start(cluster(path, default=False))
    assert (again.state, again.remembered) == (path, {1: 40123})


def test_a_named_state_file_that_another_proxy_has_open_is_reported(start, path):
    start(cluster(path, default=False))
    with pytest.raises(BadSetting) as error:
        start(cluster(path, default=False))
    right = path.with_name("_nodes-19092.json")
    assert error.value.lines == (
        f"--state {path} is another proxy's (it has it open now); right would be a file of its own, --state {right}",
    )
    assert error.value.cluster == "main"


@pytest.mark.parametrize(("listen", "upstream"), [(TWO, EAST), (ONE, WEST)], ids=["listener", "cluster"])
def test_a_named_state_file_of_another_listener_or_cluster_is_reported(start, path, listen, upstream):
    keep(start(cluster(path, default=False)))
    stop(start)
    with pytest.raises(BadSetting, match=rf"is another proxy's \(it is kept by the proxy on {ONE} for {EAST}\); right"):
        start(cluster(path, listen, upstream, default=False))
    # that keeps no other proxy from the file
    assert start(cluster(path, default=False)).state == path


def test_a_failed_claim_releases_the_other_clusters_files(start, path, tmp_path):
    (tmp_path / "notes.txt").write_text("notes")
    wrong = replace(cluster(tmp_path / "notes.txt", TWO, default=False), name="west")
    with pytest.raises(BadSetting, match=r"--state .*notes.txt can't be read \(.*\); right would be") as error:
        StateClaims(whole(cluster(path, default=False), wrong))
    assert error.value.cluster == "west"
    assert (tmp_path / "notes.txt").read_text() == "notes"
    assert start(cluster(path, default=False)).state == path


@pytest.mark.parametrize("default", [True, False], ids=["default", "named"])
def test_a_damaged_file_is_set_aside_with_a_warning_and_the_proxy_starts(start, path, default, caplog):
    path.parent.mkdir()
    for content in ('{\n "format": 2, "nodes": {"1": {"upst', ""):
        path.write_text(content)
        claimed = start(cluster(path, default=default))
        assert (claimed.state, claimed.remembered) == (path, {})
        assert not path.exists()
        assert path.with_name("_nodes.json.damaged").read_text() == content
        stop(start)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.message.partition(":")[0] for record in warnings] == ["state file is damaged"] * 2


def test_the_proxy_starts_though_a_damaged_state_file_can_not_be_set_aside(start, path):
    path.parent.mkdir()
    path.write_text("")
    path.with_name("_nodes.json.damaged").symlink_to("elsewhere")
    claimed = start(cluster(path))
    keep(claimed)
    assert read_state(path).owner == Owner.of(claimed)


@pytest.mark.parametrize(
    "make",
    [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("elsewhere")],
    ids=["folder", "FIFO", "link"],
)
def test_something_other_than_a_file_is_left_as_it_is(start, path, make):
    path.parent.mkdir()
    make(path)
    assert start(cluster(path)).state.name == "_nodes.2.json"
    with pytest.raises(BadSetting, match="not a file"):
        start(cluster(path, default=False))


def test_the_lock_is_no_file_that_stays(start, path):
    claimed = start(cluster(path))
    keep(claimed)
    assert sorted(one.name for one in path.parent.iterdir()) == ["_nodes.json", "_nodes.json.lock"]
    stop(start)
    assert [one.name for one in path.parent.iterdir()] == ["_nodes.json"]


def test_a_lock_on_a_removed_file_does_not_count(start, path, monkeypatch):
    """Between the two calls of a taker, the holder releases the lock and another process takes it."""
    start(cluster(path, default=False))
    real, between = fcntl.flock, [True]

    def flock(descriptor: int, how: int) -> None:
        if between.pop():
            between.append(False)
            stop(start)
            start(cluster(path, default=False))
        real(descriptor, how)

    between.insert(0, False)
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(BadSetting, match="open now"):
        StateClaims(whole(cluster(path, default=False)))


def test_a_link_in_the_locks_place_is_not_followed(start, path, caplog):
    path.parent.mkdir()
    (path.parent / "outside").write_text("precious")
    (path.parent / "_nodes.json.lock").symlink_to("outside")
    assert start(cluster(path)).state == path
    assert "can't be locked" in caplog.text
    assert (path.parent / "outside").read_text() == "precious"


def test_a_file_system_without_locks_is_logged_and_the_file_is_used(start, path, caplog, monkeypatch):
    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert start(cluster(path)).state == path
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.message == "state file can't be locked: no other proxy may be given the same one"
    assert warning.keys == {"lock": path.with_name("_nodes.json.lock"), "reason": "No locks available"}


def test_the_proxy_starts_though_its_state_folder_can_not_be_made(start, path, tmp_path, caplog):
    (tmp_path / "capture").touch()
    assert start(cluster(path)).state == path
    # the message comes when there is something to save
    assert caplog.records == []


def test_no_state_is_kept_where_no_file_can_be_read(start, path, caplog, monkeypatch):
    def denied(path: Path) -> SavedState:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(rules, "read_state", denied)
    assert start(cluster(path)).state is None
    (warning,) = caplog.records
    assert warning.message == "no state file can be had: nodes are not kept"
    assert warning.keys == {"cluster": "main", "path": path, "reason": "Permission denied"}


@pytest.mark.real
def test_a_lock_ends_with_its_process_however_it_ends(start, path):
    holds = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.proxy.net.state.test_claims import StateClaims, cluster, whole\n"
        "held = StateClaims(whole(cluster(Path(sys.argv[1]), default=False)))\n"
        "print('held', flush=True)\n"
        "time.sleep(3600)\n"
    )
    process = spawn([sys.executable, "-c", holds, str(path)], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(BadSetting, match="open now"):
            start(cluster(path, default=False))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert start(cluster(path, default=False)).state == path
