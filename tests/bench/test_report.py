from bench.contenders import DIRECT, PROXY, RELAY
from bench.loads import Sample
from bench.report import machine, ratios, table


def rounds(*values: float, processor_us: float = 0.0) -> list[Sample]:
    return [Sample(value, processor_us) for value in values]


ROUNDS = {DIRECT: rounds(1000, 2000, 1000), RELAY: rounds(500, 1000, 500), PROXY: rounds(250, 400, 300)}


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
    assert "2.00 (2.00-2.00) times direct" in table("", {DIRECT: rounds(5), RELAY: rounds(10)}, is_time=True)


def test_processor_time_is_compared_where_it_was_taken() -> None:
    both = {RELAY: rounds(1, processor_us=2), PROXY: rounds(1, processor_us=5)}
    *_, relay, _, proxy = table("", {DIRECT: rounds(1), **both}).splitlines()
    assert relay.strip() == "2.0 us of a processor for each"
    assert proxy.strip() == "5.0 us of a processor for each: by processor time 0.40 of the bare relay"
    assert "processor" not in table("", ROUNDS)


def test_the_machine_is_one_line() -> None:
    assert "cores" in machine()
    assert "\n" not in machine()
