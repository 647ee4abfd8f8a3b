import pytest

from proxy.schema.addresses import ADDRESS, BROKERS
from proxy.schema.keys import Key
from proxy.schema.kinds import INTEGER
from proxy.settings import wording
from proxy.settings.sources import GivenValue, SourceKind

LISTEN = Key(ADDRESS, "listen", "Where.", "127.0.0.1:19092")
NODES = Key(ADDRESS, "nodes", "Nodes.", "127.0.0.1:9094", name_kind=INTEGER)
UPSTREAM = Key(BROKERS, "upstream", "Brokers.", ["b1:1", "b2:2"])
PLACE = ("clusters", "east", "listen")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            GivenValue("x", SourceKind.FILE, "wiretap.toml"),
            'clusters.east.listen = "x" is wrong; right would be listen = "127.0.0.1:19092"',
        ),
        (
            GivenValue("x", SourceKind.ENVIRONMENT, "KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN"),
            "KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN='x' is wrong; "
            "right would be KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN=127.0.0.1:19092",
        ),
        (
            GivenValue("x", SourceKind.FLAG, "--listen"),
            "--listen 'x' is wrong; right would be --listen 127.0.0.1:19092",
        ),
    ],
)
def test_a_wrong_value_is_reported_in_the_terms_of_its_source(given, line):
    assert wording.wrong_value(PLACE, LISTEN, given, "is wrong") == line


def test_a_wrong_node_is_reported_with_its_number():
    place = ("clusters", "east", "nodes", "7")
    by_flag = wording.wrong_value(place, NODES, GivenValue("x", SourceKind.FLAG, "--node"), "is wrong")
    assert by_flag == "--node 7=x is wrong; right would be --node 7=127.0.0.1:9094"
    by_file = wording.wrong_value(place, NODES, GivenValue("x", SourceKind.FILE, "f"), "is wrong")
    assert by_file == 'clusters.east.nodes.7 = "x" is wrong; right would be nodes.7 = "127.0.0.1:9094"'


def test_lists_are_shown_as_each_place_has_them():
    assert wording.missing(("clusters", "east", "upstream"), UPSTREAM, in_file=True) == (
        'clusters.east.upstream is missing; right would be upstream = ["b1:1", "b2:2"]'
    )
    assert wording.missing(("clusters", "east", "upstream"), UPSTREAM, in_file=False) == (
        "--upstream is missing; right would be --upstream b1:1,b2:2"
    )


def test_a_secret_is_never_printed():
    secret = Key(ADDRESS, "listen", "Secret.", "a:1", secret=True)
    for kind in (SourceKind.FILE, SourceKind.ENVIRONMENT, SourceKind.FLAG):
        assert "hunter2" not in wording.wrong_value(PLACE, secret, GivenValue("hunter2", kind, "there"), "is wrong")


def test_a_long_value_is_cut():
    assert len(wording.wrong_value(PLACE, LISTEN, GivenValue("x" * 1000, SourceKind.FILE, "f"), "is wrong")) < 200


def test_an_unknown_name_is_reported_with_the_nearest_key_or_table():
    given = GivenValue("x", SourceKind.FILE, "f")
    assert wording.unknown(("clusters", "east", "lisen"), given, PLACE, LISTEN) == (
        'clusters.east.lisen is no setting; right would be clusters.east.listen = "127.0.0.1:19092"'
    )
    assert wording.unknown(("cluster",), None, ("clusters",), None) == (
        "cluster is no setting; right would be [clusters]"
    )
    variable = GivenValue("x", SourceKind.ENVIRONMENT, "KAFKA_WIRETAP_CLUSTERS__EAST__LISEN")
    assert wording.unknown(("clusters", "east", "lisen"), variable, PLACE, LISTEN) == (
        "KAFKA_WIRETAP_CLUSTERS__EAST__LISEN is no setting; "
        "right would be KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN=127.0.0.1:19092"
    )


def test_an_unknown_name_is_reported_with_all_known_names():
    assert (
        wording.unknown_without_suggestion(("foo",), None, ["a", "b"])
        == "foo is no setting; right would be one of a, b"
    )
