"""Tests of which responses are rewritten, which bytes change, and which stay."""

import re
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.mapping.nodes import Node
from proxy.rewrite import addresses
from proxy.rewrite.addresses import (
    ADDRESSES,
    LISTING,
    NOT_DIALLED,
    NotDialled,
    carries,
    is_walked,
    newest,
    nodes_in,
    splice,
)
from proxy.rewrite.api_versions import CONTROLLERS_ONLY
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.errors import WireError
from proxy.wire.keys import DESCRIBE_CLUSTER, METADATA
from proxy.wire.language import Field, Message
from proxy.wire.primitives import uvarint
from tests.java.kafka_json import KafkaJson
from tests.proxy.rewrite.responses import (
    CARRYING,
    advertised_hosts,
    holds_one,
    labelled,
    node_lists,
    racks,
    read,
    replaced_slowly,
    response,
    unknown_tags,
    values,
)
from tests.sweeps import examples
from tests.tables import each_row

# Runs for every api and version, which differ little.
few_each = examples(30)

ONE = Node(1, "upstream-1.invalid", 9092)
TWO = Node(2, "upstream-2.invalid", 9093)
PROXY = {1: Address("proxy", 19001), 2: Address("proxy", 19002)}


def told(node_id: int) -> Address:
    return PROXY[node_id]


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


# --- the table -------------------------------------------------------------------------------------------------------


@each_row(
    ("api", "carrying", "newest_version"),
    [
        ("Metadata", range(14), 13),
        ("FindCoordinator", range(7), 6),
        ("DescribeCluster", range(3), 2),
        ("Produce", range(10, 14), 13),
        ("Fetch", range(16, 19), 18),
        ("ShareFetch", range(3), 2),
        ("ShareAcknowledge", range(3), 2),
    ],
)
def test_these_responses_carry_addresses(api: str, carrying: range, newest_version: int) -> None:
    key = apis.api_key(api)
    assert key is not None
    assert [version for version in range(newest_version + 1) if carries(key, version)] == list(carrying)
    assert newest(key) == newest_version


def test_a_version_newer_than_the_rewrite_counts_as_carrying_one() -> None:
    assert carries(3, 99)
    assert carries(10, 99)


def test_every_row_is_rewritten_from_its_first_version_on() -> None:
    assert all(apis.known(row.api_key, row.versions[0]) for row in ADDRESSES)


def test_all_other_apis_carry_no_addresses() -> None:
    others = set(apis.api_keys()) - {row.api_key for row in ADDRESSES}
    assert len(others) > 80
    assert all(newest(key) is None and not carries(key, 0) for key in [*others, 10_000, -1])


def test_only_responses_with_records_in_front_are_walked() -> None:
    assert [case for case in CARRYING if is_walked(*case)] == [
        (1, 16), (1, 17), (1, 18), (78, 0), (78, 1), (78, 2), (79, 0), (79, 1), (79, 2),
    ]  # fmt: skip
    assert not is_walked(1, 15)


# names of fields that hold an address, or a part of one
LOOKS_LIKE_ONE = re.compile(r"(.*_)?(host|hostname|port|endpoint|address|addresse|listener|url)s?(_name|_filter)?")


def test_every_field_that_looks_like_an_address_is_rewritten_or_listed_with_its_reason() -> None:
    exempt = [(row.message, row.path) for row in NOT_DIALLED if row.reason]
    found = [(*case, path) for case in versions_of_messages() for path in address_like(*case)]
    assert len(found) > 200
    missing = [one for one in found if not is_rewritten(*one) and not is_below(one[0].name, one[2], exempt)]
    assert [(message.name, version, path) for message, version, path in missing] == []


def test_a_struct_with_a_host_and_a_port_is_found_whatever_it_is_called_and_however_deep() -> None:
    field = partial(Field, versions=range(2, 4))
    where = field("where", "{}", fields=(field("a_host", "string"), field("port", "int32")), tag=0)
    message = Message("Made", "response", 0, range(5), range(2, 5), (field("deep", "[]", fields=(where,)),))
    assert list(address_like(message, 2)) == ["deep.where.a_host", "deep.where.port"]
    assert list(address_like(message, 4)) == []


@each_row("row", NOT_DIALLED, ids=lambda row: f"{row.message}-{row.path}")
def test_each_field_that_is_left_alone_exists(row: NotDialled) -> None:
    found = [(message.name, path) for message in messages() for path in paths(message.fields)]
    assert any(row.message in ("", name) and path.endswith(row.path) for name, path in found)


def test_no_row_of_the_table_lacks_its_message() -> None:
    there = {(message.name, path) for message in messages() for path in paths(message.fields)}
    rows = {(f"{apis.api_name(row.api_key)}Response", path) for row in ADDRESSES for path in row.paths}
    assert rows <= there


def versions_of_messages() -> Iterator[tuple[Message, int]]:
    return ((message, version) for message in messages() for version in apis.versions(message.key or 0))


def is_rewritten(message: Message, version: int, path: str) -> bool:
    rows = [row for row in ADDRESSES if row.api_key == message.key and version in row.versions]
    return message.kind == "response" and any(path in (row.nodes, *row.paths) for row in rows)


def is_below(message: str, path: str, listed: list[tuple[str, str]]) -> bool:
    return any(message == name and f"{path}.".startswith(f"{above}.") for name, above in listed)


def address_like(message: Message, version: int) -> Iterator[str]:
    return (path for path in paths(message.fields, version) if LOOKS_LIKE_ONE.fullmatch(path.split(".")[-1]))


def paths(fields: tuple[Field, ...], version: int | None = None, above: str = "") -> Iterator[str]:
    """Yields the paths of all fields, tagged ones too, in one version or in any."""
    for field in fields:
        if version is None or version in field.versions:
            yield above + field.name
            yield from paths(field.fields, version, f"{above}{field.name}.")


def test_every_field_that_the_catalog_marks_as_an_address_is_rewritten() -> None:
    rewritten = {(f"{apis.api_name(row.api_key)}Response", path) for row in ADDRESSES for path in row.paths[1:]}
    assert {(message.name, path) for message in messages() for path in marked(message.fields)} == rewritten


def test_addresses_that_only_controllers_send_are_kept_from_clients_by_version() -> None:
    quorum = {row.message for row in NOT_DIALLED if "only controllers" in row.reason and "Response" in row.message}
    assert quorum == {f"{apis.api_name(key)}Response" for key in CONTROLLERS_ONLY}


def messages() -> Iterator[Message]:
    for key in apis.api_keys():
        for kind in ("request", "response"):
            codec = catalog.codec(kind, key, apis.versions(key)[-1])
            assert codec
            yield codec.message


def marked(fields: tuple[Field, ...], path: str = "") -> Iterator[str]:
    for field in fields:
        if "address" in field.marks:
            yield f"{path}.{field.name}".strip(".")
        yield from marked(field.fields, f"{path}.{field.name}".strip("."))


# --- the splice ------------------------------------------------------------------------------------------------------


@each_row("case", CARRYING, ids=labelled)
def test_every_address_becomes_the_advertised_one(case: tuple[int, int]) -> None:
    nodes = [ONE] if holds_one(*case) else [ONE, TWO]
    body = values(*case, nodes, rack="upstream-rack")
    frame = response(*case, body)
    assert nodes_in(*case, frame) == tuple(nodes)
    assert splice(*case, frame, told) == framed(response(*case, replaced_slowly(body, PROXY)))


@each_row("case", CARRYING, ids=labelled)
@few_each
@given(nodes=node_lists)
def test_node_ids_never_change(case: tuple[int, int], nodes: list[Node]) -> None:
    nodes = nodes[: 1 if holds_one(*case) else None]
    spliced = splice(*case, response(*case, values(*case, nodes)), lambda node_id: Address("proxy", node_id % 1000))
    assert [node.node_id for node in nodes_in(*case, spliced[4:])] == [node.node_id for node in nodes]


@each_row("case", CARRYING, ids=labelled)
def test_a_response_without_nodes_stays_as_it_is(case: tuple[int, int]) -> None:
    frame = response(*case, values(*case, []))
    assert nodes_in(*case, frame) == ()
    assert splice(*case, frame, told) == framed(frame)


@each_row("case", CARRYING, ids=labelled)
@few_each
@given(data=st.data())
def test_all_bytes_but_host_and_port_are_the_brokers_own(case: tuple[int, int], data: st.DataObject) -> None:
    nodes = data.draw(node_lists)[: 1 if holds_one(*case) else None]
    body = values(*case, nodes, data.draw(racks), data.draw(unknown_tags))
    frame = response(*case, body)
    there = {node.node_id: Address(data.draw(advertised_hosts), data.draw(st.integers(0, 65535))) for node in nodes}
    spliced = splice(*case, frame, there.__getitem__)
    size, rest = spliced[:4], spliced[4:]
    assert int.from_bytes(size, "big") == len(rest)
    assert read(*case, rest) == replaced_slowly(read(*case, frame), there)
    assert not any(node.host.encode() in rest for node in nodes)
    back = {node.node_id: node.address for node in nodes}
    assert splice(*case, rest, back.__getitem__) == framed(frame)


@pytest.mark.parametrize("case", [(0, 10), (1, 16), (78, 1)], ids=labelled)
def test_varints_longer_than_needed_and_tags_out_of_order_stay_as_the_broker_wrote_them(case: tuple[int, int]) -> None:
    element = bytes.fromhex("00000001") + uvarint(4, 3) + b"abc" + bytes.fromhex("00002384") + b"\x00" + b"\x80\x00"
    new = bytes.fromhex("00000001") + b"\x06proxy" + (19001).to_bytes(4, "big") + b"\x00" + b"\x80\x00"
    empty = response(*case, {})
    if case[0] == 78:
        before, after = empty[:-2], uvarint(1, 2) + b"\x09\x81\x00z"
        frame, expected = before + uvarint(2, 2) + element + after, before + uvarint(2, 2) + new + after
    else:
        before, size = empty[:-1] + uvarint(2, 4) + b"\x09\x81\x00z", len(uvarint(2, 3) + element)
        frame = before + uvarint(0, 2) + uvarint(size, 4) + uvarint(2, 3) + element
        expected = before + uvarint(0, 2) + uvarint(len(new) + 3) + uvarint(2, 3) + new
    assert splice(*case, frame, told) == framed(expected)


@pytest.mark.real
@pytest.mark.parametrize("case", [case for case in CARRYING if case not in [(78, 0), (79, 0)]], ids=labelled)
def test_kafkas_own_classes_read_the_advertised_addresses(kafka_json: KafkaJson, case: tuple[int, int]) -> None:
    body = values(*case, [ONE] if holds_one(*case) else [ONE, TWO], rack="rack", tags={20: b"kept"})
    spliced = splice(*case, response(*case, body), told)[4:]
    header = 5 if apis.is_flexible(*case) else 4
    found = kafka_json.decode("response", *case, spliced[header:])
    text = str(found.body)
    assert found.read == len(spliced) - header
    assert "upstream" not in text
    assert text.count("'host': 'proxy', 'port': 1900") == (1 if holds_one(*case) else 2)


def test_a_payload_that_grows_past_a_size_of_one_byte_gets_a_longer_size() -> None:
    body = values(1, 16, [ONE])
    longer = {1: Address("x" * 200, 1)}
    assert splice(1, 16, response(1, 16, body), longer.__getitem__) == framed(
        response(1, 16, replaced_slowly(body, longer))
    )


@each_row("version", apis.versions(10))
def test_a_coordinator_without_a_node_is_left_alone(version: int) -> None:
    nobody = Node(-1, "", -1)
    nodes = [nobody] if version < 4 else [ONE, nobody, TWO]
    body = values(10, version, nodes)
    frame = response(10, version, body)
    assert nodes_in(10, version, frame) == (() if version < 4 else (ONE, TWO))
    assert splice(10, version, frame, told) == framed(response(10, version, replaced_slowly(body, PROXY)))


@each_row("version", apis.versions(10))
def test_a_coordinator_without_a_number_that_could_be_dialled_is_a_node_like_others(version: int) -> None:
    unnumbered = Node(-1, "upstream-1.invalid", 9092)
    frame = response(10, version, values(10, version, [unnumbered]))
    assert nodes_in(10, version, frame) == (unnumbered,)
    assert b"upstream" not in splice(10, version, frame, lambda node_id: Address("proxy.test", 7000))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("endpoint_type", "is_controller"), [(1, False), (2, True)], ids=["brokers", "controllers"])
def test_the_endpoint_type_says_which_nodes_are_named(version: int, endpoint_type: int, is_controller: bool) -> None:
    body = values(60, version, [ONE, TWO]) | {"endpoint_type": endpoint_type}
    frame = response(60, version, body)
    assert nodes_in(60, version, frame) == (ONE, TWO)
    assert [node.is_controller for node in nodes_in(60, version, frame)] == [is_controller] * 2
    assert splice(60, version, frame, told) == framed(response(60, version, replaced_slowly(body, PROXY)))


def test_fetch_names_nodes_of_the_senders_own_kind() -> None:
    """A controller is asked for the log of the cluster's metadata, and names the controller that leads it."""
    (node,) = nodes_in(1, 17, response(1, 17, values(1, 17, [ONE])))
    assert node.is_controller is None


@pytest.mark.parametrize("version", apis.versions(60))
def test_describe_cluster_has_the_cluster_id(version: int) -> None:
    body = values(60, version, [ONE])
    assert addresses.cluster_id_in(60, version, response(60, version, body | {"cluster_id": "A" * 22})) == "A" * 22
    assert addresses.cluster_id_in(60, version, response(60, version, body | {"cluster_id": ""})) is None


@each_row("version", apis.versions(3))
def test_metadata_has_the_cluster_id_from_version_2_on(version: int) -> None:
    body = values(3, version, [ONE, TWO], "rack")
    named = response(3, version, body | ({"cluster_id": "A" * 22} if version >= 2 else {}))
    assert addresses.cluster_id_in(3, version, named) == ("A" * 22 if version >= 2 else None)
    assert addresses.cluster_id_in(3, version, response(3, version, body)) is None


def test_other_responses_say_no_cluster() -> None:
    assert addresses.cluster_id_in(10, 4, response(10, 4, values(10, 4, [ONE]))) is None


def test_metadata_newer_than_the_rewrite_says_nothing_that_could_be_read() -> None:
    with pytest.raises(WireError, match="no rewrite"):
        addresses.cluster_id_in(3, 14, bytes(100))


def test_a_node_named_by_many_entries_is_reported_once() -> None:
    frame = response(10, 4, values(10, 4, [TWO, ONE, TWO]))
    assert nodes_in(10, 4, frame) == (TWO, ONE)


def test_a_new_node_is_requested_and_a_refusal_reaches_the_caller() -> None:
    with pytest.raises(KeyError, match="7"):
        splice(3, 0, response(3, 0, values(3, 0, [Node(7, "new.invalid", 1)])), told)


def test_frames_may_be_any_buffer() -> None:
    frame = response(3, 12, values(3, 12, [ONE, TWO]))
    expected = splice(3, 12, frame, told)
    assert splice(3, 12, memoryview(frame), told) == splice(3, 12, bytearray(frame), told) == expected


# --- what can't be read ----------------------------------------------------------------------------------------------


@each_row("case", CARRYING, ids=labelled)
def test_a_frame_that_ends_before_its_addresses_do_is_an_error(case: tuple[int, int]) -> None:
    nodes = [ONE] if holds_one(*case) else [ONE, TWO]
    frame = response(*case, values(*case, nodes))
    complete = max(
        end for _, _, end in addresses.address_spans(*case, frame, 5 if apis.is_flexible(*case) else 4).nodes
    )
    for size in range(complete):
        with pytest.raises(WireError):
            splice(*case, frame[:size], told)


@pytest.mark.parametrize("case", [(3, 14), (1, 15), (2, 0), (9999, 0)])
def test_a_response_without_a_rewrite_is_an_error(case: tuple[int, int]) -> None:
    with pytest.raises(WireError, match="no rewrite"):
        splice(*case, bytes(100), told)
    with pytest.raises(WireError, match="no rewrite"):
        nodes_in(*case, bytes(100))


def test_addresses_that_stand_twice_are_an_error_as_one_might_stay() -> None:
    once = response(1, 16, values(1, 16, [ONE]))
    empty = response(1, 16, {})
    entry = once[len(empty) :]
    with pytest.raises(WireError, match="stands 2 times"):
        splice(1, 16, empty[:-1] + b"\x02" + entry + entry, told)


@given(st.sampled_from(CARRYING), st.binary(max_size=200))
def test_any_bytes_are_rewritten_or_an_error(case: tuple[int, int], frame: bytes) -> None:
    try:
        spliced = splice(*case, frame, lambda _: Address("proxy", 1))
    except WireError:
        return
    assert int.from_bytes(spliced[:4], "big") == len(spliced) - 4


def test_metadata_and_describe_cluster_list_all_nodes_of_a_cluster_and_no_other_api_does():
    assert {METADATA, DESCRIBE_CLUSTER} == LISTING
