import pytest

from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import layout
from proxy.wire.compile.skipper import Skipper
from proxy.wire.compile.source import Source
from tests.strategies import EVERY_MESSAGE, must_codec, values_of


@pytest.mark.parametrize("kind", ["request", "response"])
def test_stepping_over_a_whole_message_ends_at_its_end(kind: str) -> None:
    for message in EVERY_MESSAGE[::5]:
        if message[0] == kind:
            codec = must_codec(*message)
            data = codec.encode(values_of(codec, "skip"))
            source = Source("skip", "def skip(buf, at, size):")
            cursor = Cursor(source)
            Skipper(source, cursor).struct(layout(codec.message, codec.version))
            cursor.flush()
            source.line("return at")
            assert source.function()(b"__" + data, 2, 0) == 2 + len(data), codec
