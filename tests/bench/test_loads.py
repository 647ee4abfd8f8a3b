from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.contenders import DIRECT, LISTENING, Contender, bare_relay
from bench.loads import LOADS, Load, Result, Sample, run
from bench.processes import Programs, build, running

SHORT = 0.02


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return build(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def broker(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contender]:
    log = tmp_path_factory.mktemp("broker") / "broker.log"
    with running([programs.broker], log, LISTENING) as child:
        yield Contender(DIRECT, child.said[1], int(child.said[2]))


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_the_fake_broker_answers_every_load(load: Load, programs: Programs, broker: Contender) -> None:
    result = run(programs.load, load, broker, SHORT)
    assert result.exchanges > 0
    assert 0 < result.p50_ns <= result.p99_ns


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_every_load_passes_the_bare_relay(load: Load, programs: Programs, broker: Contender, tmp_path: Path) -> None:
    with bare_relay(broker.address, tmp_path) as relay:
        result = run(programs.load, load, relay, SHORT)
    assert result.exchanges > 0
    assert result.processor_ns > 0


def test_a_load_is_valued_by_its_rate_or_by_its_p50() -> None:
    result = Result(exchanges=500, ns=250_000_000, p50_ns=70_500, p99_ns=90_000, processor_ns=1_000_000)
    assert Load("a", "", ()).value(result) == Sample(2_000, processor_us=2)
    assert Load("b", "", (), is_time=True).value(result) == Sample(70.5, processor_us=2)
