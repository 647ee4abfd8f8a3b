"""Tests of settings that are read again."""

from __future__ import annotations

import json
import logging
import os
import threading
from unittest import mock

import pytest

from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.cli_runs import cluster_told, proxy


def test_sighup_forgets_neither_the_state_file_nor_its_ports(run, tmp_path):
    """Clients remember the port, so no other node may get it."""
    state = tmp_path / "nodes.json"
    state.write_text(json.dumps({"format": 1, "nodes": {"5000": {"upstream": "b1:9092", "port": 40123}}}))
    before = cluster_told(run, "--state", state)
    for _ in range(2):
        (after,) = run.reload().settings.clusters
        assert after == before
        assert after.node_map.wanted_listener(5000) == before.node_map.wanted_listener(5000)
        assert after.node_map.is_set_aside(40123, 7777)


def test_sighup_keeps_the_state_file_that_the_proxy_has_picked_itself(run, tmp_path):
    others = {"format": 2, "listener": "127.0.0.1:1", "upstream": ["b1:9092"], "nodes": {}}
    (tmp_path / "_nodes.json").write_text(json.dumps(others))
    assert cluster_told(run, "--record", tmp_path).state == tmp_path / "_nodes.2.json"
    (after,) = run.reload().settings.clusters
    assert after.state == tmp_path / "_nodes.2.json"


def test_a_hangup_has_the_same_file_read_again(run, file, capsys):
    assert proxy("--config", file, "--upstream", "b2:9092").exit_code == 0
    file.write_text(file.read_text().replace('"3s"', '"4s"').replace(":0", ":1") + '[log]\nlevel = "debug"\n')
    read = run.reload()
    again = read.settings
    # a cluster may still refuse it
    assert logging.getLogger("kafka-wiretap").level == logging.INFO
    assert capsys.readouterr().err == ""
    assert run.reload() == read._replace(change=mock.ANY)
    read.change.apply()
    assert again.drain_seconds == 4
    assert again.clusters[0].upstream == (Address("b2", 9092),)
    assert again.clusters[0].listen == Address("127.0.0.1", 0)
    assert logging.getLogger("kafka-wiretap").level == logging.DEBUG
    *at_once, line = capsys.readouterr().err.splitlines()
    assert [one.partition(" info ")[2] for one in at_once] == [
        "a setting changes at once  key=drain",
        "a setting changes at once  key=log.level",
    ]
    assert "a setting changes with the next start only  key=clusters.east.listen " in line
    assert line.endswith('reason="a listener and its connections go on as they began"')


def test_an_undone_reload_is_found_as_a_change_again(run, file, capsys):
    assert proxy("--config", file, "--upstream", "b2:9092").exit_code == 0
    file.write_text(file.read_text() + '[log]\nlevel = "debug"\n')
    read = run.reload()
    read.change.apply()
    read.change.undo()
    assert logging.getLogger("kafka-wiretap").level == logging.INFO
    capsys.readouterr()
    run.reload().change.apply()
    assert "a setting changes at once  key=log.level" in capsys.readouterr().err


def test_a_pipe_is_not_read_again(run, file, tmp_path):
    """A shell passes a pipe (`<(...)`), whose writer has ended."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=[file.read_text()])
    writer.start()
    assert proxy("--config", tmp_path / "pipe").exit_code == 0
    writer.join()
    with pytest.raises(BadSetting, match=r"--config .*pipe is no regular file, so it can be read at the start only"):
        run.reload()


def test_a_settings_file_that_became_wrong_is_reported_at_the_reload(run, file):
    assert proxy("--config", file).exit_code == 0
    file.write_text("drian = 3\n" + file.read_text())
    with pytest.raises(BadSetting, match="drian is no setting"):
        run.reload()
