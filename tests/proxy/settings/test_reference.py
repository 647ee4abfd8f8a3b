from pathlib import Path

from proxy.settings.load import load
from proxy.settings.reference import reference
from proxy.settings.risks import risks

ROOT = Path(__file__).parents[3]


def test_the_settings_page_is_up_to_date():
    """`kafka-wiretap config reference > docs/settings.md` updates the page."""
    assert (ROOT / "docs" / "settings.md").read_text() == reference()


def test_every_key_of_an_example_is_on_the_page_and_every_flag():
    page = reference()
    for text in ("| `limits.hold` |", "| `nodes.N` |", "| `segment_age` |", "`--record-when-full`", "`--node`"):
        assert text in page


def test_a_row_has_a_cell_for_each_column():
    rows = [line for line in reference().splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1


def test_the_example_is_right_and_takes_no_risk():
    found = load(ROOT / "examples" / "wiretap.toml", None, {"HOME": "/home/me"})
    assert [cluster.name for cluster in found.proxy.clusters] == ["orders", "billing"]
    assert list(risks(found)) == []


def test_the_sidecars_example_differs_between_pods_by_one_variable():
    for node_id in (0, 2):
        pod = {"HOME": "/home/me", "KAFKA_WIRETAP_CLUSTERS__MAIN__OWN_NODE": str(node_id)}
        (cluster,) = load(ROOT / "examples" / "sidecar.toml", None, pod).proxy.clusters
        assert cluster.node_map.own_node == node_id
        assert str(cluster.node_map.advertised(1, None)) == "broker-1.kafka.svc:9092"
