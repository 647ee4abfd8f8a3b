import re
from pathlib import Path

import pytest

from proxy import cli
from proxy.config import ClusterSettings, LiveSettings, LogSettings, ProxySettings
from proxy.schema.errors import BadSetting
from proxy.schema.flags import FLAGS
from proxy.schema.keys import keys_of
from proxy.settings.sources import (
    GivenValue,
    Source,
    SourceKind,
    environment_source,
    file_source,
    flag_source,
    variable_of,
)
from recorder.capture.session import CaptureSettings
from tests.tables import each_row


def file_of(tmp_path: Path, text: str) -> Source:
    path = tmp_path / "wiretap.toml"
    path.write_text(text)
    return file_source(path)


def raw(source: Source) -> dict[str, object]:
    return {".".join(place): given.raw for place, given in source.given.items()}


def test_a_file_says_values_and_tables(tmp_path):
    source = file_of(tmp_path, 'drain = 3\n[clusters.a.nodes]\n1 = "b:1"\n[capture]\n[log]\nlevel = "info"\n')
    assert raw(source) == {"drain": 3, "clusters.a.nodes.1": "b:1", "log.level": "info"}
    assert source.tables == {("clusters",), ("clusters", "a"), ("clusters", "a", "nodes"), ("capture",), ("log",)}
    assert source.given["drain",] == GivenValue(3, SourceKind.FILE, str(tmp_path / "wiretap.toml"))


def test_lists_are_values_whatever_is_in_them(tmp_path):
    assert raw(file_of(tmp_path, "a = [1]\n[[b]]\nc = 1\n")) == {"a": [1], "b": [{"c": 1}]}


@pytest.mark.parametrize("text", ["drain =", "a = 1\na = 2", "\xff"])
def test_a_file_that_is_no_toml_is_reported_with_the_place(tmp_path, text):
    (tmp_path / "wiretap.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadSetting, match=r"--config .*wiretap.toml is no TOML \(.*\); right would be"):
        file_source(tmp_path / "wiretap.toml")


def test_a_missing_settings_file_is_reported(tmp_path):
    with pytest.raises(BadSetting, match=r"can't be read \(No such file or directory\); right would be"):
        file_source(tmp_path / "wiretap.toml")


def test_variables_spell_places():
    source = environment_source({"KAFKA_WIRETAP_CLUSTERS__MAIN__NODE_PORTS": "19100", "HOME": "/"}, [])
    place = ("clusters", "main", "node_ports")
    assert source.given == {
        place: GivenValue("19100", SourceKind.ENVIRONMENT, "KAFKA_WIRETAP_CLUSTERS__MAIN__NODE_PORTS")
    }
    assert variable_of(place) == "KAFKA_WIRETAP_CLUSTERS__MAIN__NODE_PORTS"


def test_a_variable_means_the_files_cluster_whose_name_it_can_not_spell():
    environment = {"KAFKA_WIRETAP_CLUSTERS__EAST_1__LISTEN": "a:1", "KAFKA_WIRETAP_CLUSTERS__NEW_1__LISTEN": "a:1"}
    source = environment_source(environment, ["west", "east-1"])
    assert [*source.given] == [("clusters", "east-1", "listen"), ("clusters", "new_1", "listen")]
    assert variable_of(("clusters", "east-1", "listen")) in environment


@each_row(
    "name",
    [
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_METRICS",
        "PORT",
        "PORT_9092_TCP",
        "PORT_9092_TCP_ADDR",
        "ADMIN_SERVICE_HOST",
        "ADMIN_PORT_9464_TCP_PROTO",
        "CONFIG",
    ],
)
def test_variables_that_kubernetes_sets_are_ignored(name):
    assert environment_source({"KAFKA_WIRETAP_" + name: "x"}, []) == Source()


def test_a_source_wins_over_another_one():
    one = Source({("drain",): GivenValue(1, SourceKind.FILE, "f")}, frozenset({("log",)}))
    other = Source({("drain",): GivenValue(2, SourceKind.FLAG, "--drain")}, frozenset({("capture",)}))
    both = other.over(one)
    assert raw(both) == {"drain": 2}
    assert both.tables == {("log",), ("capture",)}


def test_flags_speak_of_main_or_of_the_only_cluster():
    flags = {"upstream": "a:1", "drain": "3", "metrics": None, "node": ()}
    alone = flag_source(flags, Source())
    assert raw(alone) == {"clusters.main.upstream": "a:1", "drain": "3"}
    assert alone.clusters == ["main"]
    beside = flag_source(flags, Source(tables=frozenset({("clusters", "east")})))
    assert raw(beside) == {"clusters.east.upstream": "a:1", "drain": "3"}


def test_without_any_flag_there_still_is_a_cluster():
    assert flag_source({}, Source()).clusters == ["main"]


def test_with_several_clusters_a_flag_can_not_say_which():
    below = Source(tables=frozenset({("clusters", "east"), ("clusters", "west")}))
    assert raw(flag_source({"drain": "3"}, below)) == {"drain": "3"}
    source = flag_source({"upstream": "a:1", "node": ("1=a:1",), "drain": "3"}, below)
    assert [line.split(" speaks")[0] for line in source.error_lines] == ["--upstream", "--node"]
    assert "KAFKA_WIRETAP_CLUSTERS__EAST__UPSTREAM" in source.error_lines[0]
    # valid entries are used
    assert raw(source) == {"drain": "3"}


def test_nodes_are_given_by_their_number():
    source = flag_source({"node": ("1=a:2", " 30 =[::1]:0")}, Source())
    assert raw(source) == {"clusters.main.nodes.1": "a:2", "clusters.main.nodes.30": "[::1]:0"}


@each_row("texts", [("a:1",), ("x=a:1",), ("=a:1",), ("-1=a:1",), ("²=a:1",), ("1=a:1", "1=b:2")])
def test_a_bad_node_is_reported(texts):
    (line,) = flag_source({"node": texts}, Source()).error_lines
    assert re.match(r"--node .*; right would be", line)


def test_every_flag_of_the_proxy_but_the_files_is_a_key():
    known: dict[tuple[str | None, ...], object] = {
        **{(*place,): field for place, field in keys_of(ProxySettings).items()},
        **{("log", *place): field for place, field in keys_of(LogSettings).items()},
        **{("live", *place): field for place, field in keys_of(LiveSettings).items()},
        **{("clusters", None, *place): field for place, field in keys_of(ClusterSettings).items()},
        **{("capture", *place): field for place, field in keys_of(CaptureSettings).items()},
    }
    assert set(FLAGS.values()) <= set(known)
    assert {param.name for param in cli.proxy.params} - {"config"} == set(FLAGS)
