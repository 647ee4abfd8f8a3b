"""Tests of what a filter that nothing passes probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from recorder.inspect.commands import inspect
from tests.recorder.inspect.test_groups import counted

__all__ = ["counted"]


def note(*arguments: object) -> str:
    result = CliRunner().invoke(inspect, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stderr.splitlines()[-1]


@pytest.mark.real
@pytest.mark.parametrize("command", ["frames", "exchanges", "topics", "errors", "latency"])
@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (["--topic", "order"], "; did you mean the topic orders?"),
        (["--topic", "Payments"], "; did you mean the topic payments?"),
        (["--client", "wirter"], "; did you mean the client writer?"),
        (["--principal", "alicia"], "; did you mean the principal alice?"),
        (["software == 'old-clients'"], "; did you mean the software old-client?"),
        (["topic == orderz and client == raeder"], "; did you mean the topic orders and the client reader?"),
    ],
)
def test_a_name_that_the_capture_lacks_is_answered_by_the_one_most_like_it(
    counted: Path, command: str, asked: list[str], meant: str
) -> None:
    assert note(command, counted, *asked).endswith(meant)


def test_records_of_a_topic_that_the_capture_lacks_are_answered_by_the_one_most_like_it(counted: Path) -> None:
    assert note("records", counted, "--topic", "order", "--key", "k").endswith("; did you mean the topic orders?")


def test_a_group_is_meant_by_a_name_like_it(counted: Path) -> None:
    assert note("exchanges", counted, "--group", "gg").endswith("; did you mean the group g?")


@pytest.mark.parametrize(
    "asked", [["--topic", "quite another one"], ["topic == orders and client == reader"], ["--topic", "ordrs*"]]
)
def test_nothing_is_meant_by_names_that_are_there_or_like_no_other_and_by_patterns(
    counted: Path, asked: list[str]
) -> None:
    assert "did you mean" not in note("exchanges", counted, *asked)
