import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import BadSetting
from proxy.net.state import KnownNode, State, read_state, remembering, write_state
from proxy.rewrite.nodes import Address
from tests.proxy.net.relays import settings

hosts = st.one_of(st.just("broker-1.example.org"), st.just("::1"), st.just("10.0.0.1"))
known = st.builds(
    KnownNode,
    st.one_of(st.none(), st.builds(Address, hosts, st.integers(1, 65535))),
    st.none(),
)


@given(
    nodes=st.dictionaries(st.integers(0, 2**31 - 1), known),
    ports=st.lists(st.integers(1, 65535), unique=True),
    cluster_id=st.none() | st.text(),
)
def test_what_is_written_is_read_back(tmp_path_factory, nodes, ports, cluster_id):
    path = tmp_path_factory.getbasetemp() / "written.json"
    nodes = {
        number: KnownNode(node.upstream, port)
        for (number, node), port in zip(nodes.items(), [*ports, *[None] * len(nodes)], strict=False)
    }
    write_state(path, State(nodes, cluster_id))
    assert read_state(path) == State(nodes, cluster_id)


def test_without_a_file_no_node_is_known(tmp_path: Path):
    assert read_state(None) == State()
    assert read_state(tmp_path / "none.json") == State()
    (tmp_path / "file").touch()
    assert read_state(tmp_path / "file" / "none.json") == State()


def test_the_folder_is_made_and_nothing_else_left_in_it(tmp_path: Path):
    path = tmp_path / "state" / "nodes.json"
    write_state(path, State({1: KnownNode(Address("b", 9092))}))
    write_state(path, State({2: KnownNode(Address("b", 9092), 40123)}))
    assert read_state(path) == State({2: KnownNode(Address("b", 9092), 40123)})
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch):
    path = tmp_path / "nodes.json"
    write_state(path, State({1: KnownNode(Address("b", 9092))}))

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_state(path, State({2: KnownNode(Address("b", 9092))}))
    assert read_state(path) == State({1: KnownNode(Address("b", 9092))})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "{}",
        "null",
        pytest.param("[" * 100_000, id="deep"),
        json.dumps({"format": 2, "nodes": {}}),
        json.dumps({"format": 1}),
        json.dumps({"format": 1, "nodes": []}),
        json.dumps({"format": 1, "nodes": {"x": {"upstream": "b:1"}}}),
        json.dumps({"format": 1, "nodes": {"1": "b:1"}}),
        json.dumps({"format": 1, "nodes": {"1": {"upstream": "no port"}}}),
        json.dumps({"format": 1, "nodes": {"1": {"upstream": "b:1", "port": "x"}}}),
        json.dumps({"format": 1, "nodes": {"1": {"port": 0}}}),
        json.dumps({"format": 1, "nodes": {"1": {"port": 65536}}}),
        json.dumps({"format": 1, "nodes": {"-1": {"port": 5}}}),
        json.dumps({"format": 1, "nodes": {"1": {"port": 5}, "2": {"port": 5}}}),
    ],
)
def test_a_file_that_is_something_else_is_named_with_what_is_right(tmp_path: Path, text: str):
    path = tmp_path / "nodes.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"--state .*nodes.json can't be read .*; right would be a file that") as wrong:
        read_state(path)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x80"])
def test_a_file_that_is_no_text_is_something_else_too(tmp_path: Path, content: bytes):
    path = tmp_path / "nodes.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="can't be read"):
        read_state(path)


def test_a_file_from_before_clusters_said_their_id_is_read(tmp_path: Path):
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"format": 1, "nodes": {"1": {"upstream": "b:1"}}}))
    assert read_state(path) == State({1: KnownNode(Address("b", 1))})


def test_a_folder_in_the_files_place_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="Is a directory"):
        read_state(tmp_path)


def test_settings_remember_the_ports_that_were_picked(tmp_path: Path):
    path = tmp_path / "nodes.json"
    write_state(path, State({1: KnownNode(Address("b1", 9092), 40123), 2: KnownNode(Address("b2", 9092))}))
    assert remembering(settings(state=path)).node_map.remembered == {1: 40123}
    assert remembering(settings(state=tmp_path / "none.json")).remembered == {}


def test_settings_with_another_kind_of_file_say_whose_they_are(tmp_path: Path):
    (tmp_path / "nodes.json").write_text("not json")
    with pytest.raises(BadSetting, match=r"--state .* can't be read") as error:
        remembering(settings(state=tmp_path / "nodes.json", name="east"))
    assert error.value.cluster == "east"
