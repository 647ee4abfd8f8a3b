from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.files import StrangeFileError
from proxy.mapping.nodes import PORTS
from proxy.net.state import file as states
from proxy.net.state.file import (
    Damaged,
    KnownNode,
    NotAState,
    Owner,
    SavedState,
    decoded,
    encoded,
    read_state,
    unreadable,
    write_state,
)
from proxy.schema.addresses import Address
from tests.proxy.net.relays import settings
from tests.tables import each_row

ADDRESSES = st.builds(
    Address, st.sampled_from(["broker-1", "10.0.0.1", "::1", "xn--bcher-kva.example"]), st.integers(0, 65535)
)
OWNERS = st.builds(Owner, ADDRESSES, st.lists(ADDRESSES, min_size=1, max_size=3).map(tuple))
OWNER = Owner(Address("127.0.0.1", 19092), (Address("b1", 9092), Address("b2", 9092)))
KNOWN = SavedState({1: KnownNode(Address("b", 9092)), 2: KnownNode(None, 40123)}, "an-id", OWNER)


@st.composite
def some_states(draw: st.DrawFn) -> SavedState:
    nodes = draw(st.dictionaries(st.integers(0, 2**31 - 1), st.none() | ADDRESSES, max_size=8))
    ports = draw(st.lists(st.sampled_from(PORTS), unique=True, max_size=len(nodes)))
    others = st.sampled_from(PORTS).filter(lambda port: port not in ports)
    gone = draw(st.lists(st.integers(0, 2**31 - 1).filter(lambda number: number not in nodes), unique=True, max_size=4))
    given_back = draw(st.lists(others, unique=True, min_size=len(gone), max_size=len(gone)))
    known = {
        number: KnownNode(upstream, port)
        for (number, upstream), port in zip(nodes.items(), [*ports, *[None] * len(nodes)], strict=False)
    }
    by_age = dict(zip(gone, given_back, strict=True))
    return SavedState(known, draw(st.none() | st.text()), draw(st.none() | OWNERS), by_age)


@given(state=some_states())
def test_a_written_state_is_read_back(state: SavedState):
    assert [*decoded(encoded(state)).given_back] == [*state.given_back]
    assert decoded(encoded(state)) == state


@given(state=some_states(), data=st.data())
def test_a_file_that_was_cut_off_anywhere_is_damaged_and_nothing_else(state: SavedState, data: st.DataObject):
    content = encoded(state)
    length = data.draw(st.integers(0, len(content) - 3))
    # the file as file systems leave it after a crash, with or without the missing bytes
    for cut in (content[:length], content[:length].ljust(len(content), b"\0")):
        with pytest.raises(Damaged):
            decoded(cut)


@given(state=some_states(), data=st.data())
def test_a_byte_that_has_changed_makes_it_no_other_kind_of_file(state: SavedState, data: st.DataObject):
    content = bytearray(encoded(state))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Damaged):
        decoded(bytes(content))


def test_without_a_file_no_node_is_known(tmp_path: Path):
    assert read_state(tmp_path / "none.json") == SavedState()
    (tmp_path / "file").touch()
    assert read_state(tmp_path / "file" / "none.json") == SavedState()


def test_the_folder_is_made_and_nothing_else_left_in_it(tmp_path: Path):
    path = tmp_path / "state" / "nodes.json"
    write_state(path, SavedState({1: KnownNode(Address("b", 9092))}))
    write_state(path, KNOWN)
    assert read_state(path) == KNOWN
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch):
    path = tmp_path / "nodes.json"
    write_state(path, KNOWN)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_state(path, SavedState())
    assert read_state(path) == KNOWN
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_on_the_disk_before_it_takes_the_old_ones_place(tmp_path: Path, monkeypatch):
    steps: list[str] = []

    def note(name: str) -> None:
        real = getattr(os, name)

        def noted(*of: Any, **more: Any) -> Any:
            steps.append(name)
            return real(*of, **more)

        monkeypatch.setattr(os, name, noted)

    note("fsync")
    note("rename")
    write_state(tmp_path / "nodes.json", KNOWN)
    assert steps == ["fsync", "rename", "fsync"]


@pytest.mark.parametrize("name", [".nodes.json", "nodes.json.new"])
def test_nothing_is_written_through_a_link_that_waits_under_another_name(tmp_path: Path, name: str):
    (tmp_path / "outside").mkdir()
    precious = tmp_path / "outside" / "file"
    precious.write_text("precious")
    (tmp_path / name).symlink_to(precious)
    with suppress(StrangeFileError):
        write_state(tmp_path / "nodes.json", KNOWN)
    assert precious.read_text() == "precious"


def test_a_link_in_the_files_own_place_is_not_followed(tmp_path: Path):
    (tmp_path / "outside.json").write_bytes(encoded(KNOWN))
    (tmp_path / "nodes.json").symlink_to("outside.json")
    with pytest.raises(OSError, match="is a symbolic link"):
        read_state(tmp_path / "nodes.json")


def test_a_fifo_in_place_of_the_file_blocks_nothing(tmp_path: Path):
    os.mkfifo(tmp_path / "nodes.json")
    with pytest.raises(OSError, match="is a FIFO"):
        read_state(tmp_path / "nodes.json")


@each_row(
    "text",
    [
        "",
        "\0" * 4096,
        '{\n "form',
        "{" + '"nodes":' + "[" * 100_000,
        json.dumps({"format": 3, "nodes": {}}),
        json.dumps({"format": 1}),
        json.dumps({"nodes": {}}),
        json.dumps({"format": 1, "nodes": []}),
        json.dumps({"format": 1, "nodes": {"x": {"upstream": "b:1"}}}),
        json.dumps({"format": 1, "nodes": {"1": "b:1"}}),
        json.dumps({"format": 1, "nodes": {"1": {"upstream": "no port"}}}),
        json.dumps({"format": 1, "nodes": {"1": {"upstream": "b:1", "port": "x"}}}),
        json.dumps({"format": 1, "nodes": {"1": {"port": 0}}}),
        json.dumps({"format": 1, "nodes": {"1": {"port": 65536}}}),
        json.dumps({"format": 1, "nodes": {"-1": {"port": 5}}}),
        json.dumps({"format": 1, "nodes": {"1": {"port": 5}, "2": {"port": 5}}}),
        json.dumps({"format": 2, "listener": 7, "upstream": ["b:1"], "nodes": {}}),
        json.dumps({"format": 2, "listener": "a:1", "upstream": "b:1", "nodes": {}}),
        json.dumps({"format": 2, "listener": "a:1", "nodes": {}}),
    ],
    ids=range(19),
)
def test_a_file_that_was_one_of_these_is_damaged(text: str):
    with pytest.raises(Damaged):
        decoded(text.encode())


@each_row(
    "content",
    [b"no json", b"[]", b"{}", b"null", b'"format"', b"[" * 100_000, b"\xff\xfe\x00x", b'{"name": "wiretap"}'],
    ids=["text", "list", "empty", "null", "string", "deep", "no text", "another kind"],
)
def test_a_file_of_something_else_is_not_a_damaged_state(content: bytes):
    with pytest.raises(NotAState) as wrong:
        decoded(content)
    assert not isinstance(wrong.value, Damaged)


def test_a_file_that_is_far_too_large_is_something_else(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(states, "MAX_BYTES", 100)
    write_state(tmp_path / "nodes.json", KNOWN)
    with pytest.raises(NotAState, match="larger than 100 bytes"):
        read_state(tmp_path / "nodes.json")


def test_a_state_file_without_an_owner_is_read():
    nodes = {"1": {"upstream": "b:1"}, "2": {"upstream": "b:2", "port": 40123}}
    known = {1: KnownNode(Address("b", 1)), 2: KnownNode(Address("b", 2), 40123)}
    # later formats have the cluster's id
    assert decoded(json.dumps({"format": 1, "nodes": nodes}).encode()) == SavedState(known)
    assert decoded(json.dumps({"format": 1, "cluster_id": "x", "nodes": nodes}).encode()) == SavedState(known, "x")


def test_an_unreadable_state_file_is_reported_with_a_correction(tmp_path: Path):
    path = tmp_path / "nodes.json"
    path.mkdir()
    with pytest.raises(OSError, match="a folder") as error:
        read_state(path)
    wrong = str(unreadable(path, error.value))
    assert wrong.startswith(f"--state {path} can't be read ({path} is a folder, not a file); ")
    wrong = str(unreadable(path, NotAState("it is JSON of another kind")))
    assert wrong.endswith("(it is JSON of another kind); right would be a file that this proxy wrote, or none yet")


@each_row(
    ("other", "is_same"),
    [
        ({}, True),
        ({"upstream": (Address("b2", 9092),)}, True),
        ({"upstream": (Address("b3", 9092), Address("b1", 9092))}, True),
        ({"upstream": (Address("B1.", 9092),)}, True),
        ({"upstream": (Address("b3", 9092),)}, False),
        ({"listen": Address("127.0.0.1", 19093)}, False),
        ({"listen": Address("127.0.0.2", 19092)}, False),
    ],
    ids=["the same", "one less", "another one too", "its absolute name", "others", "another port", "another host"],
)
def test_a_file_is_its_listeners_and_one_of_its_bootstrap_servers(other, is_same):
    chosen = {"upstream": OWNER.upstream, "listen": OWNER.listener} | other
    assert Owner.of(settings(*chosen.pop("upstream"), **chosen)).is_same(OWNER) is is_same
