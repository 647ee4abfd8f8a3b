"""Values become a tree for people: ids are text, what is hidden is named as such."""

from typing import Any

from hypothesis import given

from proxy.tools.tree import Masked, Tree, hide
from proxy.wire import catalog
from tests.strategies import messages, must_codec

TOPIC_ID = bytes(range(16))


def test_ids_are_printed_as_kafkas_tools_do() -> None:
    codec = must_codec("response", 3, 12)
    values, _ = codec.decode(codec.encode({"topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": []}]}))
    assert Tree(12).struct(values, codec.message.fields)["topics"][0]["topic_id"] == "AAECAwQFBgcICQoLDA0ODw"


def test_ids_in_an_array_are_printed_too() -> None:
    codec = must_codec("request", 62, 2)
    values, _ = codec.decode(codec.encode({"log_dirs": [TOPIC_ID, bytes(16)]}))
    shown = Tree(2).struct(values, codec.message.fields)
    assert shown["log_dirs"] == ["AAECAwQFBgcICQoLDA0ODw", "AAAAAAAAAAAAAAAAAAAAAA"]


def test_unknown_tags_are_kept() -> None:
    assert Tree(12).struct({"_tags": {77: b"new"}}, ()) == {"_tags": {77: b"new"}}


@given(messages())
def test_hidden_values_are_nowhere_in_the_tree(drawn: tuple[catalog.Codec, dict[str, Any]]) -> None:
    codec, values = drawn
    decoded, _ = codec.decode(codec.encode(values))
    kind, key = codec.message.kind, codec.message.key
    hidden = catalog.secrets(kind, key, codec.version)
    shown = Tree(codec.version, hidden).struct(decoded, codec.message.fields)
    assert list(shown) == list(decoded)
    for path in hidden:
        assert all(value is None or isinstance(value, Masked) or len(value) == 0 for value in _at(shown, path))


def _at(value: Any, path: str) -> list[Any]:
    if value is None or isinstance(value, Masked):
        return [value]
    if isinstance(value, list):
        return [found for one in value for found in _at(one, path)]
    name, _, rest = path.partition(".")
    return _at(value[name], rest) if rest else [value[name]]


def test_of_an_empty_value_nothing_is_hidden() -> None:
    assert [hide(b""), hide(""), hide("é"), hide(b"abc"), hide(7)] == [b"", "", Masked(2), Masked(3), Masked(None)]
