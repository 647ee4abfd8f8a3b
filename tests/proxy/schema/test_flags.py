from proxy.schema.flags import FLAGS, flag_at, flag_of
from tests.tables import each_row


def test_every_flag_is_found_at_its_place() -> None:
    for name, place in FLAGS.items():
        assert flag_at(tuple(part or "east" for part in place)) == flag_of(name)


@each_row(
    ("place", "flag"),
    [
        (("clusters", "east", "nodes", "7"), "--node"),
        (("clusters", "east", "limits", "hold"), None),
        (("clusters", "east", "metrics"), None),
        (("clusters",), None),
        (("stalled",), None),
    ],
    ids=["an entry of a table", "a key without a flag", "a key of another section", "a table", "a key at the top"],
)
def test_an_entry_of_a_table_has_a_flag_and_what_has_none_has_none(place: tuple[str, ...], flag: str | None) -> None:
    assert flag_at(place) == flag
