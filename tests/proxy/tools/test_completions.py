"""Tests of shell completion for `kafka-wiretap wire`."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from proxy.cli import main
from proxy.wire import apis
from tests.tables import each_row


def completed(*words: str) -> list[str]:
    asked = ShellComplete(main, {}, "kafka-wiretap", "_KAFKA_WIRETAP_COMPLETE")
    return [str(one.value) for one in asked.get_completions(["wire", *words[:-1]], words[-1])]


@each_row(
    ("words", "found"),
    [
        (["show", "fetch"], ["Fetch", "FetchSnapshot"]),
        (["show", "0.7/o"], ["0.7/offsets"]),
        (["show", "fetch", "1"], [str(one) for one in reversed(apis.versions(1)) if str(one)[0] == "1"]),
        (["show", "ConsumerProtocolAssignment", ""], ["3", "2", "1", "0"]),
        (["show", "nothing", ""], []),
        (["show", "metadata", "12", "--source", "project", "--path", "brokers.h"], ["brokers.host"]),
        (["show", "nothing", "--path", ""], []),
        (["show", "metadata", "--source", "w"], ["walk"]),
        (["errors", "not_leader"], ["NOT_LEADER_OR_FOLLOWER"]),
        (["decode", "--as", "ConsumerProtocolS"], ["ConsumerProtocolSubscription"]),
        (["decode", "--response", "Metad"], ["Metadata"]),
        (["decode", "--topic", "__t"], ["__transaction_state"]),
    ],
    ids=range(12),
)
def test_words_of_a_known_set_complete(words: list[str], found: list[str]) -> None:
    assert completed(*words) == found


def test_completion_prints_no_note_about_a_former_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert completed("show", "GroupCoordinator", "4") == ["4"]
    assert capsys.readouterr() == ("", "")
