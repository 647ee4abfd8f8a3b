"""Tests of a single broker, whose clients are told of no other."""

import pytest

from proxy.mapping.alone import AloneMap
from proxy.mapping.nodes import NodeMap
from proxy.schema.addresses import Address

BOOTSTRAP = Address("*", 9092)


def test_a_single_broker_has_no_listeners_for_nodes():
    alone: NodeMap = AloneMap()
    assert (alone.named, alone.own_node, alone.usual_ports, alone.warnings) == ({}, None, range(0), ())
    for node_id in (0, 1, 2**31 - 1):
        assert alone.wanted_listener(node_id) is None
        answers = (
            alone.is_served_by_bootstrap(node_id),
            alone.is_set_aside(9093, node_id),
            alone.is_kept(9093, node_id),
        )
        assert not any(answers)
        with pytest.raises(ValueError, match=f"node {node_id} has no listener"):
            alone.advertised(node_id, 9093)


def test_any_requested_name_means_the_single_broker():
    alone = AloneMap()
    assert [alone.requested_node(None, name) for name in (None, "broker-1.example.org", "")] == [None] * 3
    assert alone.advertised_bootstrap(BOOTSTRAP) == BOOTSTRAP
