"""Tests of outcomes: one word for each way in which an exchange ends."""

import json

from recorder.capture.outcome import Outcome


def test_an_outcome_is_a_string_wherever_it_is_shown() -> None:
    assert json.dumps([Outcome.ONE_WAY]) == '["one_way"]'
    assert f"{Outcome.REQUEST_LOST}" == "request_lost"


def test_every_outcome_is_called_what_it_is() -> None:
    assert [each.value for each in Outcome] == [name.lower() for name in Outcome.__members__]
