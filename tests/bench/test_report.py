from bench.contenders import DIRECT, KROXYLICIOUS, KROXYLICIOUS_UNMEASURED, PROXY, RELAY
from bench.loads import Sample, Target
from bench.report import added, machine, ratios, table


def rounds(*values: float, processor_us: float = 0.0) -> list[Sample]:
    return [Sample(value, processor_us) for value in values]


ROUNDS = {DIRECT: rounds(1000, 2000, 1000), RELAY: rounds(500, 1000, 500), PROXY: rounds(250, 400, 300)}
TIMES = {DIRECT: rounds(5, 6), KROXYLICIOUS: rounds(15, 26), PROXY: rounds(20, 36)}


def test_a_ratio_is_taken_within_its_round() -> None:
    assert ratios(ROUNDS, PROXY, RELAY) == [0.5, 0.4, 0.6]


def test_the_time_added_to_direct_is_computed_within_its_round() -> None:
    assert added(TIMES, PROXY) == [15, 30]


def test_the_table_shows_medians_with_ratios_and_their_range() -> None:
    title, head, direct, relay, proxy = table("bursts, a second", ROUNDS).splitlines()
    assert title == "bursts, a second"
    assert head.split("   ")[-1].strip() == "us of a processor"
    assert direct.split() == ["direct", "1,000"]
    assert relay.split() == ["bare", "relay", "500", "0.50", "(0.50-0.50)"]
    assert proxy.split() == ["proxy", "300", "0.25", "(0.20-0.30)", "0.50", "(0.40-0.60)"]


def test_a_target_is_compared_with_the_median_of_the_ratios() -> None:
    assert table("", ROUNDS, targets=[Target(PROXY, RELAY, 0.5)]).endswith("target 0.5 of bare relay: reached")
    assert table("", ROUNDS, targets=[Target(PROXY, RELAY, 0.51)]).endswith("target 0.51 of bare relay: MISSED")
    assert table("", ROUNDS, targets=[Target(PROXY, RELAY, 0.5, is_aim=True)]).endswith(
        "aim 0.5 of bare relay: reached"
    )


def test_a_target_of_times_is_compared_with_what_the_other_adds() -> None:
    """Medians: 22.5 against 15."""
    said = table("", TIMES, is_time=True, targets=[Target(PROXY, KROXYLICIOUS, 1.5)])
    assert "proxy: adds 22.5 to direct, Kroxylicious 15.0; target 1.5 of Kroxylicious: reached" in said
    assert table("", TIMES, is_time=True, targets=[Target(PROXY, KROXYLICIOUS, 1.4)]).endswith("MISSED")


def test_kroxylicious_is_the_faster_one_with_or_without_its_metrics() -> None:
    both = {KROXYLICIOUS: rounds(500, 600, 100), KROXYLICIOUS_UNMEASURED: rounds(250, 800, 600), PROXY: ROUNDS[PROXY]}
    assert ratios(both, PROXY, KROXYLICIOUS) == [1.0, 0.5, 0.5]
    times = TIMES | {KROXYLICIOUS_UNMEASURED: rounds(10, 16)}
    said = table("", times, is_time=True, targets=[Target(PROXY, KROXYLICIOUS, 3.0)])
    assert "adds 22.5 to direct, Kroxylicious, no metrics 7.5; target 3.0 of Kroxylicious: reached" in said


def test_a_table_without_the_contender_to_compare_names_no_target() -> None:
    assert table("", ROUNDS, targets=[Target(PROXY, KROXYLICIOUS, 0.1)]).endswith("not compared")
    assert "target" not in table("", {DIRECT: rounds(1)}, targets=[Target(PROXY, KROXYLICIOUS, 0.1)])


def test_a_table_of_times_shows_the_time_added_to_direct() -> None:
    *_, proxy = table("", TIMES, is_time=True).splitlines()
    assert proxy.split() == ["proxy", "28.0", "+22.5", "(15.0-30.0)"]


def test_processor_time_is_shown_where_it_was_taken() -> None:
    both = {RELAY: rounds(1, processor_us=2), PROXY: rounds(1, processor_us=5)}
    *_, relay, proxy = table("", {DIRECT: rounds(1), **both}).splitlines()
    assert relay.split()[-1] == "2.0"
    assert proxy.split()[-1] == "5.0"


def test_the_machine_is_one_line() -> None:
    assert "cores" in machine()
    assert "\n" not in machine()
