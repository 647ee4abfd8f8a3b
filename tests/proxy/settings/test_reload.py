from pathlib import Path

import pytest

from proxy.config import BadSetting
from proxy.rewrite.nodes import Address
from proxy.settings.load import Loaded, load
from proxy.settings.reload import reloaded

BASIC = """\
[log]
level = "info"
[clusters.main]
upstream = "a:1"
listen = "127.0.0.1:19092"
node_count = 10
[clusters.main.nodes]
50 = "127.0.0.1:9050"
"""


@pytest.fixture
def settings(tmp_path: Path):
    def settings(text: str) -> Loaded:
        (tmp_path / "wiretap.toml").write_text(text)
        return load(tmp_path / "wiretap.toml", {}, {"HOME": "/home/me"})

    return settings


def test_nothing_changes_where_nothing_has_changed(settings):
    now = settings(BASIC)
    assert reloaded(now, settings(BASIC)) == (now, ())


def test_how_is_logged_and_drained_changes_at_once(settings):
    new = settings("drain = 3\n" + BASIC.replace('"info"', '"debug"\nformat = "json"'))
    found, waiting = reloaded(settings(BASIC), new)
    assert (found.proxy, waiting) == (new.proxy, ())
    assert {one.place: one.value for one in found.effective} == {one.place: one.value for one in new.effective}


def test_a_node_that_is_new_is_taken_in(settings):
    new = settings(BASIC + '51 = "127.0.0.1:9051"\n')
    found, waiting = reloaded(settings(BASIC), new)
    assert waiting == ()
    assert found.proxy.clusters[0].nodes == {50: Address("127.0.0.1", 9050), 51: Address("127.0.0.1", 9051)}
    assert reloaded(found, new) == (found, ())


def test_what_clients_are_told_of_a_new_node_is_taken_in_with_its_listener(settings):
    new = settings(BASIC + '51 = "127.0.0.1:9051"\n[clusters.main.advertised]\n51 = "kafka-51.example:443"\n')
    found, waiting = reloaded(settings(BASIC), new)
    assert waiting == ()
    assert found.proxy.clusters[0].node_map.advertised(51, 9051) == Address("kafka-51.example", 443)
    assert reloaded(found, new) == (found, ())
    found, waiting = reloaded(found, settings(BASIC + '51 = "127.0.0.1:9051"\n'))
    assert waiting == (("clusters", "main", "advertised", "51"),)


def test_a_node_is_taken_in_by_its_own_cluster(settings):
    two = BASIC + '[clusters.west]\nupstream = "a:1"\nlisten = "127.0.0.2:1"\n'
    found, _ = reloaded(settings(two), settings(two + 'nodes.51 = "127.0.0.2:9051"\n'))
    assert [[*cluster.nodes] for cluster in found.proxy.clusters] == [[50], [51]]


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ("9050", "9051", {"clusters.main.nodes.50"}),
        ('50 = "127.0.0.1:9050"', "", {"clusters.main.nodes.50"}),
        ('"a:1"', '"b:1"', {"clusters.main.upstream"}),
        ("19092", "29092", {"clusters.main.listen"}),
        ("node_count = 10", "node_count = 11", {"clusters.main.node_count"}),
        ("node_count = 10", "limits.hold = 1\nnode_count = 10", {"clusters.main.limits.hold"}),
    ],
)
def test_every_other_change_waits_for_the_next_start(settings, old, new, places):
    now = settings(BASIC)
    found, waiting = reloaded(now, settings(BASIC.replace(old, new)))
    assert found.proxy == now.proxy
    assert {".".join(place) for place in waiting} == places


def test_a_cluster_that_is_new_waits_with_all_its_keys(settings):
    now = settings(BASIC)
    west = '[clusters.west]\nupstream = "a:1"\nlisten = "127.0.0.2:1"\nnodes.1 = "127.0.0.2:9"\n'
    found, waiting = reloaded(now, settings(BASIC + west))
    assert found == now
    assert {place[:2] for place in waiting} == {("clusters", "west")}
    assert ("clusters", "west", "nodes", "1") in waiting


def test_what_does_not_fit_to_what_stays_is_said(settings):
    """The new node stands where the old listener still is."""
    new = settings(BASIC.replace("19092", "29092") + '51 = "127.0.0.1:19092"\n')
    with pytest.raises(BadSetting, match="--node 51"):
        reloaded(settings(BASIC), new)
