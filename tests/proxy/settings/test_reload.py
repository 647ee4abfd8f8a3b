from pathlib import Path

import pytest

from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.settings.load import LoadedSettings, load
from proxy.settings.reload import reloaded, why_it_waits
from tests.certificates import Authority

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
    def settings(text: str) -> LoadedSettings:
        (tmp_path / "wiretap.toml").write_text(text)
        return load(tmp_path / "wiretap.toml", {}, {"HOME": "/home/me"})

    return settings


def test_nothing_changes_where_nothing_has_changed(settings):
    now = settings(BASIC)
    assert reloaded(now, settings(BASIC)) == (now, ())


def test_a_reload_changes_log_and_drain_at_once(settings):
    new = settings("drain = 3\n" + BASIC.replace('"info"', '"debug"\nformat = "json"'))
    found, waiting = reloaded(settings(BASIC), new)
    assert (found.proxy, waiting) == (new.proxy, ())
    assert {one.place: one.value for one in found.effective} == {one.place: one.value for one in new.effective}


def test_a_reload_sets_changes_and_lifts_the_age_of_connections(settings):
    now = settings(BASIC)
    for limit in ('timeouts.age = "9m"\n', 'timeouts.age = "1h"\n', ""):
        new = settings(BASIC.replace("node_count", f"{limit}node_count"))
        now, waiting = reloaded(now, new)
        assert (now.proxy, waiting) == (new.proxy, ())
        assert {one.place: one.value for one in now.effective} == {one.place: one.value for one in new.effective}


def test_the_age_of_a_cluster_that_is_new_waits_with_it(settings):
    west = '[clusters.west]\nupstream = "a:1"\nlisten = "127.0.0.2:1"\ntimeouts.age = "9m"\n'
    found, waiting = reloaded(settings(BASIC), settings(BASIC + west))
    assert len(found.proxy.clusters) == 1
    assert ("clusters", "west", "timeouts", "age") in waiting


def test_a_reload_takes_a_new_node(settings):
    new = settings(BASIC + '51 = "127.0.0.1:9051"\n')
    found, waiting = reloaded(settings(BASIC), new)
    assert waiting == ()
    assert found.proxy.clusters[0].nodes == {50: Address("127.0.0.1", 9050), 51: Address("127.0.0.1", 9051)}
    assert reloaded(found, new) == (found, ())


def test_new_keys_take_effect_in_the_order_of_the_file(settings):
    new = settings(BASIC + "".join(f'{node} = "127.0.0.1:{9000 + node}"\n' for node in range(51, 60)))
    found, _ = reloaded(settings(BASIC), new)
    nodes = [entry.place[-1] for entry in found.effective if entry.place[2:3] == ("nodes",)]
    assert nodes == [str(node) for node in range(50, 60)]


def test_a_reload_takes_a_new_nodes_advertised_address_with_its_listener(settings):
    new = settings(BASIC + '51 = "127.0.0.1:9051"\n[clusters.main.advertised]\n51 = "kafka-51.example:443"\n')
    found, waiting = reloaded(settings(BASIC), new)
    assert waiting == ()
    assert found.proxy.clusters[0].node_map.advertised(51, 9051) == Address("kafka-51.example", 443)
    assert reloaded(found, new) == (found, ())
    found, waiting = reloaded(found, settings(BASIC + '51 = "127.0.0.1:9051"\n'))
    assert waiting == (("clusters", "main", "advertised", "51"),)


def test_a_reload_gives_a_new_node_to_its_own_cluster(settings):
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


def test_a_new_cluster_waits_with_all_its_keys(settings):
    now = settings(BASIC)
    west = '[clusters.west]\nupstream = "a:1"\nlisten = "127.0.0.2:1"\nnodes.1 = "127.0.0.2:9"\n'
    found, waiting = reloaded(now, settings(BASIC + west))
    assert found == now
    assert {place[:2] for place in waiting} == {("clusters", "west")}
    assert ("clusters", "west", "nodes", "1") in waiting


def test_a_reload_that_clashes_with_unchanged_settings_is_refused(settings):
    """The new node has the address of the old listener, which stays."""
    new = settings(BASIC.replace("19092", "29092") + '51 = "127.0.0.1:19092"\n')
    with pytest.raises(BadSetting, match="--node 51"):
        reloaded(settings(BASIC), new)


def secured(ca: Authority, **files: str) -> str:
    """Settings with TLS on both sides, and files of these names."""
    said = {"certificate": "one", "upstream.ca": "ca", "upstream.server_name": "kafka"} | files
    for name in said.values():
        if name != "ca":
            ca.signs(name)
    lines = [
        f'{key} = "{name if key.endswith("server_name") else ca.path.with_name(name + ".pem")}"'
        for key, name in said.items()
    ]
    return BASIC + "[clusters.main.tls]\n" + "\n".join(lines) + "\n"


def test_a_reload_takes_the_settings_of_tls(settings, tmp_path):
    ca = Authority(tmp_path)
    now = settings(secured(ca))
    new = settings(secured(ca, certificate="two", client_ca="ca", **{"upstream.server_name": "other"}))
    found, waiting = reloaded(now, new)
    assert (found.proxy, waiting) == (new.proxy, ())
    assert reloaded(found, new) == (found, ())


@pytest.mark.parametrize("added", [True, False])
def test_turning_tls_on_or_off_waits_for_the_next_start(settings, tmp_path, added):
    ca = Authority(tmp_path)
    before, after = (settings(BASIC), settings(secured(ca)))[:: 1 if added else -1]
    found, waiting = reloaded(before, after)
    assert found.proxy == before.proxy
    assert {".".join(place) for place in waiting} == {
        "clusters.main.tls.certificate",
        "clusters.main.tls.upstream.ca",
        "clusters.main.tls.upstream.server_name",
    }
    assert {why_it_waits(place) for place in waiting} == {
        "whether TLS is spoken can't change while the proxy runs; every other key of TLS can"
    }


def test_each_key_that_waits_says_what_is_true_of_it():
    waiting = {
        ("clusters", "main", "listen"): "a listener and its connections go on as they began",
        ("capture", "queue"): "a session is recorded to its end as it began",
        ("workers",): "it is read once, at the start",
    }
    assert {place: why_it_waits(place) for place in waiting} == waiting


def test_one_side_of_tls_changes_while_turning_on_the_other_waits(settings, tmp_path):
    ca = Authority(tmp_path)
    now = settings(BASIC + f'[clusters.main.tls]\ncertificate = "{ca.signs("one").path}"\n')
    found, waiting = reloaded(now, settings(secured(ca, certificate="two")))
    (cluster,) = found.proxy.clusters
    assert cluster.tls is not None
    assert cluster.tls.certificate.name == "two.pem"
    assert cluster.upstream_tls is None
    assert {place[3] for place in waiting} == {"upstream"}


def test_a_reload_changes_the_recorded_selection_at_once(settings):
    capture = '[capture]\nfolder = "capture"\nqueue = 1000\n'
    only = 'bodies = "head"\nonly.apis = ["Produce"]\nonly.client_ids = ["a*"]\nonly.topics = ["t"]\n'
    now, new = settings(BASIC + capture), settings(BASIC + capture.replace("1000", "2000") + only)
    found, waiting = reloaded(now, new)
    assert waiting == (("capture", "queue"),)
    assert found.capture is not None
    assert (found.capture.bodies, found.capture.apis, found.capture.client_ids) == ("head", ("Produce",), ("a*",))
    assert found.capture.topics == ("t",)
    assert found.capture.queue == 1000
    back, waiting = reloaded(found, now)
    assert (back.capture, waiting) == (now.capture, ())


def test_a_reload_changes_at_once_how_long_a_capture_is_kept(settings):
    capture = BASIC + '[capture]\nfolder = "capture"\n'
    found, waiting = reloaded(
        settings(capture + 'keep.age = "7d"\n'), settings(capture + 'keep.age = "3d"\nkeep.size = "1GiB"\n')
    )
    assert waiting == ()
    assert found.capture is not None
    assert (found.capture.keep_age, found.capture.keep_size) == (3 * 24 * 3600, 1 << 30)


def test_a_new_capture_setting_waits_as_a_whole(settings):
    now = settings(BASIC)
    found, waiting = reloaded(now, settings(BASIC + '[capture]\nfolder = "capture"\nbodies = "head"\n'))
    assert found == now
    assert waiting == (("capture", "folder"), ("capture", "bodies"))


@pytest.mark.parametrize("chosen", ['only.apis = ["Produce"]\n', 'bodies = "head"\n'])
def test_a_reload_without_the_capture_keeps_recording(settings, chosen):
    now, new = settings(BASIC + '[capture]\nfolder = "capture"\n' + chosen), settings(BASIC)
    found, waiting = reloaded(now, new)
    assert found == now
    assert ("capture", "folder") in waiting
    assert len(waiting) == 2


def test_rules_for_records_change_at_once_and_may_go_again(settings):
    first = BASIC + '[capture]\nfolder = "capture"\ntopics.a.records = "drop"\ntopics.b.records = "drop"\n'
    now, waiting = reloaded(settings(first), settings(first.replace("topics.a", "records = 'drop'\ntopics.c")))
    assert not waiting
    assert now.capture is not None
    assert (now.capture.records, {*now.capture.topic_records}) == ("drop", {"b", "c"})
    again, waiting = reloaded(now, settings(BASIC + '[capture]\nfolder = "capture"\n'))
    assert not waiting
    assert again.capture is not None
    assert (again.capture.records, again.capture.topic_records) == ("keep", {})


def test_the_recorder_is_told_the_settings_in_effect_not_those_that_wait(settings):
    capture = '[capture]\nfolder = "c"\n'
    before = settings(BASIC + capture)
    new = BASIC.replace('"info"', '"debug"').replace("node_count = 10", "node_count = 20")
    found, waiting = reloaded(before, settings(new + capture))
    assert waiting == (("clusters", "main", "node_count"),)
    assert before.capture is not None
    assert found.capture is not None
    assert before.capture.in_force is not None
    changed = {("log", "level"): '"debug"'}
    assert found.capture.in_force == {**before.capture.in_force, **changed}
    assert before.capture.in_force["log", "level"] == '"info"'
    assert before.capture.in_force["clusters", "main", "node_count"] == "10"


@pytest.mark.parametrize("is_hashed_now", [False, True])
def test_rules_that_hash_or_hashed_wait_for_the_next_start(settings, tmp_path, is_hashed_now):
    key = tmp_path / "hash.key"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    plain = BASIC + f'[capture]\nfolder = "capture"\nhash_key = "{key}"\ntopics.a.records = "drop"\n'
    hashed = plain.replace('"drop"', '"hash"')
    first, second = (hashed, plain) if is_hashed_now else (plain, hashed)
    now = settings(first)
    found, waiting = reloaded(now, settings(second))
    assert waiting == (("capture", "topics", "a", "records"),)
    assert found.capture == now.capture
