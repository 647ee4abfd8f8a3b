"""Tests of which exchanges are counted together. `test_traffic.py` tests that this makes no difference."""

from proxy.metrics.runs import runs
from tests.proxy.metrics.exchanges import exchange

NOW, LATER = 10**12, 2 * 10**12


def at(last_ns: int, version: int = 4, **sizes: int):
    done = exchange(version=version, **sizes)
    done.previous_last_ns = done.request_last_ns = done.response_first_ns = NOW
    done.response_last_ns = last_ns
    return done


def test_a_burst_is_one_run_of_the_list_itself() -> None:
    burst = [at(NOW) for _ in range(64)]
    ((exchanges, *same),) = runs(burst)
    assert exchanges is burst
    assert same == [True, True]


def test_a_run_ends_where_a_time_or_the_version_changes() -> None:
    assert [len(run[0]) for run in runs([at(NOW), at(NOW), at(LATER), at(LATER, 3), at(LATER, 3), at(LATER)])] == [
        2,
        1,
        2,
        1,
    ]


def test_a_run_tells_whether_its_sizes_differ() -> None:
    exchanges = [at(NOW), at(NOW, request=31), at(LATER), at(LATER, response=13), at(NOW), at(NOW)]
    assert [tuple(same) for _, *same in runs(exchanges)] == [(False, True), (True, False), (True, True)]


def test_no_exchanges_make_no_run() -> None:
    assert runs([]) == []
