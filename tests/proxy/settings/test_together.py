"""Tests of several errors from all phases together: each is reported once, and no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.settings.load import read
from tests.tables import each_row

RIGHT = {
    "drain": "3",
    "log.level": '"info"',
    "clusters.east.upstream": '"east-1:9092"',
    "clusters.east.listen": '"127.0.0.1:1100"',
    "clusters.east.node_count": "50",
    "clusters.west.upstream": '"west-1:9092"',
    "clusters.west.listen": '"127.0.0.1:1200"',
    "clusters.west.node_count": "50",
    "clusters.west.tls.certificate": '"proxy.pem"',
    "clusters.west.tls.upstream.ca": '"ca.pem"',
    "capture.folder": '"capture"',
}


class Mistake(NamedTuple):
    """A mistake: the wrong text (None: a line is missing), and the beginning of its error line."""

    instead: Mapping[str, str | None]
    line: str
    environment: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}


MISTAKES = {
    "a value at the top": Mistake({"drain": '"soon"'}, 'drain = "soon" is no duration'),
    "a table at the top": Mistake({"lgo.format": '"json"'}, "lgo is no setting"),
    "a table's value": Mistake({"log.level": '"loud"'}, 'log.level = "loud" is none of'),
    "a value for a table": Mistake(
        {"clusters.west.limits": "3"}, "clusters.west.limits = 3 stands where a table belongs"
    ),
    "a table for a value": Mistake({"metrics.port": "3"}, "[metrics] is a table where a value should stand"),
    "a name of a key": Mistake({"clusters.east.lisen": '"a:1"'}, "clusters.east.lisen is no setting"),
    "a name of a cluster": Mistake(
        {'clusters."No!".upstream': '"a:1"', 'clusters."No!".listen': '"127.0.0.1:0"'},
        "clusters.No! is no name for a cluster",
    ),
    "a key that is missing": Mistake({"clusters.west.upstream": None}, "clusters.west.upstream is missing"),
    "a size": Mistake({"clusters.east.limits.hold": '"64MB"'}, 'clusters.east.limits.hold = "64MB" is no size'),
    "a broker": Mistake({"clusters.east.upstream": '["b:x"]'}, 'clusters.east.upstream = ["b:x"] has'),
    "a number": Mistake({"clusters.east.node_count": '"few"'}, 'clusters.east.node_count = "few" is no whole number'),
    "a node's id": Mistake({"clusters.east.nodes.x": '"127.0.0.1:7"'}, "clusters.east.nodes.x: 'x' is no whole"),
    "a node's address": Mistake(
        {"clusters.east.nodes.5": '"nowhere"'}, 'clusters.east.nodes.5 = "nowhere" has no port'
    ),
    "a node twice": Mistake(
        {"clusters.east.nodes.7": '"127.0.0.1:8"', "clusters.east.nodes.07": '"127.0.0.1:9"'},
        "clusters.east.nodes.07 is clusters.east.nodes.7 once more",
    ),
    "ports to be told": Mistake(
        {"clusters.east.advertise_ports": "65500"},
        "clusters.east.advertise_ports = 65500 for 50 nodes, clusters.east.node_count = 50, goes beyond port 65535",
    ),
    "a wildcard": Mistake(
        {"clusters.east.listen": '"0.0.0.0:1100"'}, 'clusters.east.listen = "0.0.0.0:1100" listens on every interface'
    ),
    "a port of another cluster's": Mistake(
        {"clusters.west.listen": '"127.0.0.1:1100"'}, "clusters.west and clusters.east both want port"
    ),
    "a port twice": Mistake(
        {"clusters.west.nodes.1": '"127.0.0.1:7"', "clusters.west.nodes.2": '"127.0.0.1:7"'},
        'clusters.west.nodes.1 = "127.0.0.1:7" and clusters.west.nodes.2 = "127.0.0.1:7" are the same listener',
    ),
    "a file twice": Mistake(
        {"clusters.east.state": '"nodes.json"', "clusters.west.state": '"nodes.json"'},
        "clusters.west.state nodes.json is the file of clusters.east too",
    ),
    "a mapping": Mistake({"clusters.east.mapping": '"prots"'}, 'clusters.east.mapping = "prots" is none of'),
    "a key of another mapping": Mistake(
        {"clusters.west.own_node": "3"}, 'clusters.west.own_node means nothing with mapping = "ports"'
    ),
    "a header that nobody sends": Mistake(
        {"clusters.west.proxy_protocol.trusted": '"10.0.0.0/8"'}, "clusters.west.proxy_protocol.trusted means nothing"
    ),
    "a version of TLS": Mistake({"clusters.west.tls.minimum": '"1.0"'}, 'clusters.west.tls.minimum = "1.0" is none of'),
    "a certificate that nobody asks for": Mistake(
        {"clusters.west.tls.clients": '"optional"'}, "clusters.west.tls.clients is optional, but nobody is asked"
    ),
    "a certificate for everybody": Mistake(
        {"clusters.west.tls.upstream.certificate": '"up.pem"'}, "clusters.west.tls.upstream.certificate makes brokers"
    ),
    "a value of the capture": Mistake({"capture.queue": '"much"'}, 'capture.queue = "much" is no size'),
    "a cluster that is recorded": Mistake({"capture.only.clusters": '["nroth"]'}, "capture.only.clusters has 'nroth'"),
    "a variable": Mistake({}, "KAFKA_WIRETAP_DRIAN is no setting", environment={"KAFKA_WIRETAP_DRIAN": "3"}),
    "a flag": Mistake({}, "--advertise speaks of one cluster", flags={"advertise": "a"}),
}
# mistakes at the same place, which exclude each other
APART = ({"a broker", "a key that is missing"}, {"a number", "ports to be told"})


def lines(names: Iterable[str]) -> list[str]:
    said: dict[str, str | None] = dict(RIGHT)
    environment: dict[str, str] = {"HOME": "/home/me"}
    flags: dict[str, Any] = {}
    for name in names:
        mistake = MISTAKES[name]
        said |= mistake.instead
        environment |= mistake.environment
        flags |= mistake.flags
    with TemporaryDirectory() as folder:
        file = Path(folder) / "wiretap.toml"
        file.write_text("".join(f"{place} = {raw}\n" for place, raw in said.items() if raw is not None))
        return [*read(file, flags, environment).error_lines]


def test_without_a_mistake_nothing_is_wrong():
    assert lines([]) == []


@each_row("name", MISTAKES)
def test_a_mistake_is_found(name):
    (line,) = lines([name])
    assert line.startswith(MISTAKES[name].line)


@given(st.sets(st.sampled_from([*MISTAKES])).filter(lambda names: not any(pair <= names for pair in APART)))
def test_each_of_several_mistakes_is_found_once_and_no_other(names):
    wanted = [MISTAKES[name].line for name in names]
    found = [next((begin for begin in wanted if line.startswith(begin)), line) for line in lines(sorted(names))]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("listen", ["x", "127.0.0.1:1100"])
@pytest.mark.parametrize("mapping", ["template", "sni"])
def test_names_that_clients_are_to_dial_are_missed_whatever_the_listener_is(mapping, listen, tmp_path):
    (tmp_path / "wiretap.toml").write_text(
        f'[clusters.main]\nupstream = "b:1"\nlisten = "{listen}"\nmapping = "{mapping}"\n'
        'tls.certificate = "proxy.pem"\n'
    )
    found = read(tmp_path / "wiretap.toml", None, {}).error_lines
    assert [line for line in found if line.startswith("clusters.main.advertise is missing")]
    assert len(found) == 1 + (listen == "x")


def test_three_rounds_of_one_file_are_one(tmp_path):
    """Two clusters use one port, one of them by a wildcard, and a key is misspelt."""
    wrong = lines(["a wildcard", "a port of another cluster's", "a name of a key"])
    assert len(wrong) == 3
