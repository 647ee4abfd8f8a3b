from hypothesis import given
from hypothesis import strategies as st

from proxy.metrics.nodes import NEVER_DIALLED, Reach, node_label
from tests.tables import each_row


@each_row(
    ("node_id", "label"), [(None, "bootstrap"), (1, "1"), (2, "other"), (-1, "other")], ids=lambda node: str(node)
)
def test_a_node_is_named_only_if_the_proxy_stands_for_it(node_id, label):
    assert node_label(node_id, {1}.__contains__) == label


def test_a_broker_is_down_since_the_first_dial_that_failed():
    reach = NEVER_DIALLED
    assert not reach.is_known
    for at, success in ((10, True), (20, True), (30, False), (40, False)):
        reach = reach.after(at, success=success)
    assert (reach.is_known, reach.is_up, reach.since) == (True, False, 30)
    assert reach.after(50, success=True).since == 50


DIALS = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=12)


@given(DIALS)
def test_processes_know_together_whether_the_last_dial_of_all_succeeded(dials):
    """And since when, unless a process that has dialled both before and after the change hides its beginning."""
    parts, whole = [NEVER_DIALLED] * 3, NEVER_DIALLED
    for at, (process, success) in enumerate(dials, 1):
        parts[process] = parts[process].after(at, success=success)
        whole = whole.after(at, success=success)
    joined = parts[0].joined(parts[1]).joined(parts[2])
    assert (joined.is_up, joined.succeeded, joined.failed) == (whole.is_up, whole.succeeded, whole.failed)
    assert whole.since <= joined.since <= max(whole.succeeded, whole.failed)


def test_what_one_process_has_seen_fail_long_ago_does_not_count_from_then():
    failed_long_ago, failed_now = Reach(0, 9, 9), Reach(11, 13, 12)
    assert failed_long_ago.joined(failed_now) == failed_now.joined(failed_long_ago) == Reach(11, 13, 12)
