import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import ClusterSettings
from proxy.schema.addresses import ADDRESS, BROKERS, Address
from proxy.schema.errors import BadSetting
from proxy.schema.keys import Key
from proxy.schema.kinds import INTEGER
from proxy.settings import wording
from proxy.settings.sources import From, Given

LISTEN = Key(ADDRESS, "listen", "Where.", "127.0.0.1:19092")
NODES = Key(ADDRESS, "nodes", "Nodes.", "127.0.0.1:9094", each=INTEGER)
UPSTREAM = Key(BROKERS, "upstream", "Brokers.", ["b1:1", "b2:2"])
PLACE = ("clusters", "east", "listen")


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.lists(st.text(st.characters(exclude_categories=["Cs"])))
)
def test_toml_reads_what_is_written_as_toml(value):
    assert tomllib.loads(f"x = {wording.toml(value)}")["x"] == value


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3))
def test_toml_reads_a_place_as_it_is_shown(names):
    found = tomllib.loads(f"{wording.dotted(tuple(names))} = 1")
    for name in names:
        found = found[name]
    assert found == 1


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            Given("x", From.FILE, "wiretap.toml"),
            'clusters.east.listen = "x" is wrong; right would be listen = "127.0.0.1:19092"',
        ),
        (
            Given("x", From.ENVIRONMENT, "KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN"),
            "KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN='x' is wrong; "
            "right would be KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN=127.0.0.1:19092",
        ),
        (Given("x", From.FLAG, "--listen"), "--listen 'x' is wrong; right would be --listen 127.0.0.1:19092"),
    ],
)
def test_a_wrong_value_is_said_in_the_words_of_where_it_was_given(given, line):
    assert wording.wrong_value(PLACE, LISTEN, given, "is wrong") == line


def test_a_wrong_node_is_said_with_its_number():
    place = ("clusters", "east", "nodes", "7")
    by_flag = wording.wrong_value(place, NODES, Given("x", From.FLAG, "--node"), "is wrong")
    assert by_flag == "--node 7=x is wrong; right would be --node 7=127.0.0.1:9094"
    by_file = wording.wrong_value(place, NODES, Given("x", From.FILE, "f"), "is wrong")
    assert by_file == 'clusters.east.nodes.7 = "x" is wrong; right would be nodes.7 = "127.0.0.1:9094"'


def test_lists_are_shown_as_each_place_has_them():
    assert wording.missing(("clusters", "east", "upstream"), UPSTREAM, in_file=True) == (
        'clusters.east.upstream is missing; right would be upstream = ["b1:1", "b2:2"]'
    )
    assert wording.missing(("clusters", "east", "upstream"), UPSTREAM, in_file=False) == (
        "--upstream is missing; right would be --upstream b1:1,b2:2"
    )


def test_a_secret_is_never_said():
    secret = Key(ADDRESS, "listen", "Secret.", "a:1", secret=True)
    for by in (From.FILE, From.ENVIRONMENT, From.FLAG):
        assert "hunter2" not in wording.wrong_value(PLACE, secret, Given("hunter2", by, "there"), "is wrong")


def test_a_long_value_is_cut():
    assert len(wording.wrong_value(PLACE, LISTEN, Given("x" * 1000, From.FILE, "f"), "is wrong")) < 200


def test_a_name_that_is_none_is_said_with_the_nearest_key_or_table():
    given = Given("x", From.FILE, "f")
    assert wording.unknown(("clusters", "east", "lisen"), given, PLACE, LISTEN) == (
        'clusters.east.lisen is no setting; right would be clusters.east.listen = "127.0.0.1:19092"'
    )
    assert wording.unknown(("cluster",), None, ("clusters",), None) == (
        "cluster is no setting; right would be [clusters]"
    )
    variable = Given("x", From.ENVIRONMENT, "KAFKA_WIRETAP_CLUSTERS__EAST__LISEN")
    assert wording.unknown(("clusters", "east", "lisen"), variable, PLACE, LISTEN) == (
        "KAFKA_WIRETAP_CLUSTERS__EAST__LISEN is no setting; "
        "right would be KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN=127.0.0.1:19092"
    )


def test_a_name_like_none_is_said_with_all_that_there_are():
    assert wording.nothing_like(("foo",), None, ["a", "b"]) == "foo is no setting; right would be one of a, b"


MAIN = Address("127.0.0.1", 19092)
EVERYWHERE = Address("0.0.0.0", 19092)
NEXT = Address("127.0.0.1", 19093)
BAD = [
    ((MAIN,), MAIN, {}),
    ((NEXT,), EVERYWHERE, {}),
    ((NEXT,), MAIN, {"advertise": "a:1"}),
    ((NEXT,), MAIN, {"nodes": {1: EVERYWHERE}}),
    ((NEXT,), MAIN, {"nodes": {1: MAIN}}),
    ((NEXT,), MAIN, {"nodes": {-1: NEXT}}),
    ((NEXT,), MAIN, {"nodes": {1: NEXT, 2: NEXT}}),
    ((NEXT,), MAIN, {"nodes": {1: NEXT}, "node_ports": 19093}),
    ((NEXT,), MAIN, {"node_ports": 65_000}),
    ((NEXT,), MAIN, {"node_ports": 19_000}),
    ((NEXT,), MAIN, {"node_count": -1}),
]


@pytest.mark.parametrize(("upstream", "listen", "others"), BAD)
def test_what_constructors_say_of_flags_is_told_in_a_files_words(upstream, listen, others):
    with pytest.raises(BadSetting) as error:
        ClusterSettings(upstream, listen, **others)
    for line in error.value.lines:
        told = wording.retold(line, "east", in_file=True)
        assert "--" not in told
        assert told.startswith("clusters.east.")
        assert wording.retold(line, "east", in_file=False) == line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "--listen 0.0.0.0:1 can't be had; right would be adding --advertise proxy.example.org",
            'clusters.e.listen = "0.0.0.0:1" can\'t be had; right would be adding advertise = "proxy.example.org"',
        ),
        (
            "--metrics a:1 can't be had; right would be --metrics a:2.",
            'metrics = "a:1" can\'t be had; right would be metrics = "a:2".',
        ),
        ("--node 1=a:1 is bad", 'clusters.e.nodes.1 = "a:1" is bad'),
        ("--node-ports 5 is bad", "clusters.e.node_ports = 5 is bad"),
        ("--record cap: why", 'capture.folder = "cap": why'),
        ("--upstream a:1 is bad", 'clusters.e.upstream = ["a:1"] is bad'),
        ("--config a.toml is bad", "--config a.toml is bad"),
    ],
)
def test_flags_become_keys(line, told):
    assert wording.retold(line, "e", in_file=True) == told
