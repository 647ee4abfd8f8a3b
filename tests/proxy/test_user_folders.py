"""Tests of this program's folders among a user's own: the rows are the XDG Base Directory Specification's."""

from pathlib import Path

from proxy.user_folders import cache_folder, state_folder
from tests.tables import each_row


@each_row(
    "environment, state, cache",
    [
        ({"HOME": "/home/me"}, "/home/me/.local/state/kafka-wiretap", "/home/me/.cache/kafka-wiretap"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "/s"}, "/s/kafka-wiretap", "/home/me/.cache/kafka-wiretap"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/c"}, "/home/me/.local/state/kafka-wiretap", "/c/kafka-wiretap"),
        # "If an implementation encounters a relative path ... it should ... ignore it."
        ({"HOME": "/h", "XDG_STATE_HOME": "s"}, "/h/.local/state/kafka-wiretap", "/h/.cache/kafka-wiretap"),
        ({"HOME": "/h", "XDG_CACHE_HOME": ""}, "/h/.local/state/kafka-wiretap", "/h/.cache/kafka-wiretap"),
        ({}, "/.local/state/kafka-wiretap", "/.cache/kafka-wiretap"),
    ],
)
def test_variables_and_the_home_say_where_they_are(environment: dict[str, str], state: str, cache: str) -> None:
    assert (state_folder(environment), cache_folder(environment)) == (Path(state), Path(cache))
