import json
from pathlib import Path

import pytest

from bench.__main__ import interleaved, main
from bench.contenders import ALL_KROXYLICIOUS, NAMES, PROXY, Contender
from bench.loads import Sample

pytestmark = pytest.mark.real


@pytest.mark.long
def test_a_tiny_run_measures_a_load_through_every_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--folder", str(tmp_path), "--json", str(tmp_path / "numbers.json")]
    main(
        [
            "--rounds",
            "1",
            # on a busy machine, no exchange may pass within hundredths of a second
            "--seconds",
            "0.5",
            "--only",
            "burst",
            "--no-kafka",
            "--no-java",
            "--no-workers",
            "--sustained",
            "0.02",
            *where,
        ]
    )

    printed = capsys.readouterr().out
    assert printed.startswith("machine: ")
    assert "target 1.0 of Kroxylicious: not compared" in printed
    assert "dd, fdatasync" in printed
    assert "compactor at the end" in printed
    assert printed.splitlines()[-1].startswith("it took ")
    measured = json.loads((tmp_path / "numbers.json").read_text())["rounds"]["burst"]
    assert measured.keys() == set(NAMES) - set(ALL_KROXYLICIOUS)
    assert all(values[0][0] > 0 for values in measured.values())


def test_rounds_are_interleaved_and_each_begins_with_another_way() -> None:
    order: list[str] = []
    ways = [Contender(name, "127.0.0.1", 1) for name in ("a", "b", "c")]

    values = interleaved(ways, 3, lambda way: Sample(float(order.append(way.name) or len(order))))

    assert "".join(order) == "abcbcacab"
    taken = {name: [sample.value for sample in samples] for name, samples in values.items()}
    assert taken == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}


def test_a_way_without_an_admin_page_has_no_metrics_and_is_settled_at_once() -> None:
    way = Contender(PROXY, "127.0.0.1", 1)
    assert way.metrics() == {}
    assert way.settle() == 0
