"""Tests of the partitions of sessions, against a model without any bound."""

import random

import pytest

from recorder.capture.session_topics import SessionTopics, SessionUse, session_use


@pytest.mark.parametrize(
    ("values", "use"),
    [
        ({}, SessionUse.NONE),
        ({"session_id": 0, "session_epoch": -1}, SessionUse.NONE),
        ({"session_id": 0, "session_epoch": 0}, SessionUse.BEGINS),
        ({"session_id": 5, "session_epoch": 0}, SessionUse.BEGINS),
        ({"session_id": 5, "session_epoch": 1}, SessionUse.GOES_ON),
        ({"session_id": 5, "session_epoch": -1}, SessionUse.CLOSES),
        ({"share_session_epoch": 0}, SessionUse.BEGINS),
        ({"share_session_epoch": 9}, SessionUse.GOES_ON),
        ({"share_session_epoch": -1}, SessionUse.CLOSES),
    ],
)
def test_a_request_says_what_it_does_to_its_session(values, use):
    assert session_use(values) is use


@pytest.mark.parametrize("seed", range(20))
def test_a_session_has_the_topics_of_its_partitions(seed):
    rng = random.Random(seed)
    sessions, model = SessionTopics(), dict[int, set[tuple[str, int]]]()
    for _ in range(300):
        name = rng.randrange(4)
        added, gone = ({(rng.choice("abc"), rng.randrange(3)) for _ in range(rng.randrange(3))} for _ in range(2))
        match rng.choice(["begin", "change", "change", "close", "rename"]):
            case "begin":
                sessions.begin(name, added)
                model[name] = set(added)
            case "change":
                sessions.change(name, added, gone)
                if name in model:
                    model[name] = (model[name] - gone) | added
            case "close":
                sessions.close(name)
                model.pop(name, None)
            case "rename":
                sessions.rename(name, name + 1)
                if name in model:
                    model[name + 1] = model.pop(name)
        for number in range(5):
            topics = sessions.topics(number)
            assert (topics is None) is (number not in model)
            assert {*(topics or ())} == {topic for topic, _ in model.get(number, ())}


def test_the_sessions_that_were_used_the_longest_ago_are_forgotten_first():
    sessions = SessionTopics(most=30)
    for name in range(3):
        sessions.begin(name, [("t", number) for number in range(8)])
    sessions.change(0, [], [])
    sessions.begin(3, [("t", number) for number in range(8)])
    assert [name for name in range(4) if name in sessions] == [0, 2, 3]
    # more than there is room for
    sessions.begin(4, [("t", number) for number in range(50)])
    assert len(sessions) == 0
    sessions.begin(5, [("t", 1)])
    assert sessions.topics(5) == {"t": {1}}
