from bench.contenders import DIRECT, PROXY, RELAY
from bench.report import machine, ratios, table

ROUNDS = {DIRECT: [1000.0, 2000.0, 1000.0], RELAY: [500.0, 1000.0, 500.0], PROXY: [250.0, 400.0, 300.0]}


def test_a_ratio_is_taken_within_its_round() -> None:
    assert ratios(ROUNDS, PROXY, RELAY) == [0.5, 0.4, 0.6]


def test_the_table_shows_medians_with_ratios_and_their_range() -> None:
    title, direct, relay, proxy = table("bursts, a second", ROUNDS).splitlines()
    assert title == "bursts, a second"
    assert direct.split() == ["direct", "1,000"]
    assert relay.split("   ")[-1] == " 0.50 (0.50-0.50) of direct"
    assert "0.25 (0.20-0.30) of direct" in proxy
    assert "0.50 (0.40-0.60) of the bare relay" in proxy


def test_a_target_is_compared_with_the_ratio_to_the_bare_relay() -> None:
    assert table("", ROUNDS, targets={PROXY: 0.5}).endswith("target 0.5: reached")
    assert table("", ROUNDS, targets={PROXY: 0.51}).endswith("target 0.51: MISSED")


def test_times_are_said_as_so_many_times_those_of_the_other() -> None:
    assert "2.00 (2.00-2.00) times direct" in table("", {DIRECT: [5.0], RELAY: [10.0]}, is_time=True)


def test_the_machine_is_one_line() -> None:
    assert "cores" in machine()
    assert "\n" not in machine()
