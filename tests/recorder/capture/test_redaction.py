"""What may not be kept, frame by frame."""

import pytest

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import FrameKind
from proxy.conversation.routes import Routes
from proxy.conversation.step import Mark
from proxy.wire import catalog
from proxy.wire.errors import WireError
from recorder.capture import redaction
from recorder.capture.redaction import Rule
from tests.recorder.capture.traffic import framed

SASL_AUTHENTICATE, CREATE_TOKEN, DESCRIBE_CONFIGS = 36, 38, 32


def request_mark(key: int, version: int, **values: object) -> tuple[Mark, bytes]:
    frame = catalog.encode_request(key, version, 7, "c", values)
    (mark,) = Conversation(Routes.everything()).requests(framed(frame), 1).marks
    return mark, frame


def response_mark(key: int, version: int, values: dict[str, object]) -> tuple[Mark, bytes]:
    talk = Conversation(Routes.everything())
    talk.requests(framed(catalog.encode_request(key, version, 7, "c", {})), 1)
    frame = catalog.encode_response(key, version, 7, values)
    (mark,) = talk.responses(framed(frame), 2).marks
    return mark, frame


def opaque_mark(*, before_login: bool, key: int = 10_001) -> Mark:
    talk = Conversation(Routes.everything())
    if not before_login:
        talk.requests(framed(catalog.encode_request(12, 0, 1, "c", {})), 1)
    head = catalog.encode_request(12, 0, 9, "c", {})
    step = talk.requests(framed(key.to_bytes(2, "big") + b"\x7f\x00" + head[4:]), 2)
    return step.marks[-1]


def hidden(mark: Mark, frame: bytes) -> list[bytes]:
    rule = redaction.rule(mark)
    assert rule is not None
    assert mark.exchange is not None
    return [frame[a:b] for a, b in redaction.secret_spans(mark.kind, mark.exchange, frame, rule.paths)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_only_the_value_of_a_token_is_hidden_not_its_length(version: int) -> None:
    mark, frame = request_mark(SASL_AUTHENTICATE, version, auth_bytes=b"\0me\0secret")
    assert hidden(mark, frame) == [b"\0me\0secret"]
    mark, frame = response_mark(SASL_AUTHENTICATE, version, {"auth_bytes": b"v=proof"})
    assert hidden(mark, frame) == [b"v=proof"]


@pytest.mark.parametrize("version", catalog.versions(CREATE_TOKEN))
def test_every_secret_of_a_message_is_hidden(version: int) -> None:
    mark, frame = response_mark(CREATE_TOKEN, version, {"token_id": "tökén", "hmac": b"hhhh"})
    assert b"hhhh" in hidden(mark, frame)


def test_a_null_value_hides_nothing() -> None:
    result = {"error_code": 0, "resource_type": 2, "resource_name": "t", "configs": [{"name": "a", "value": None}]}
    mark, frame = response_mark(DESCRIBE_CONFIGS, 4, {"results": [result]})
    assert hidden(mark, frame) == []


def test_a_frame_without_secrets_is_kept_as_it_is() -> None:
    assert redaction.rule(request_mark(3, 9)[0]) is None


def test_a_token_is_hidden_behind_its_length() -> None:
    mark = Mark(FrameKind.TOKEN, None, 0, 20, 0, 20, False)
    assert redaction.rule(mark) == Rule(4)


@pytest.mark.parametrize("before_login", [True, False])
def test_what_no_frame_can_be_made_of_is_hidden_while_a_login_may_be_under_way(before_login: bool) -> None:
    mark = Mark(FrameKind.BYTES, None, 0, 20, 0, 20, before_login)
    assert redaction.rule(mark) == (Rule(4) if before_login else None)


def test_an_opaque_frame_is_hidden_behind_its_correlation_id_until_a_login_has_ended() -> None:
    assert redaction.rule(opaque_mark(before_login=True)) == Rule(12)
    assert redaction.rule(opaque_mark(before_login=False)) is None


def test_an_opaque_frame_of_an_api_with_secrets_is_always_hidden() -> None:
    assert redaction.rule(opaque_mark(before_login=False, key=SASL_AUTHENTICATE)) == Rule(12)


def test_a_frame_that_is_not_what_it_says_is_an_error_to_the_caller() -> None:
    mark, frame = request_mark(SASL_AUTHENTICATE, 0, auth_bytes=b"secret")
    assert mark.exchange is not None
    with pytest.raises(WireError):
        redaction.secret_spans(mark.kind, mark.exchange, frame[:-3], ("auth_bytes",))


@pytest.mark.parametrize(
    ("values", "behind"), [({}, b"secret"), ({"_tags": {7: b"secret"}}, b"")], ids=["behind", "tagged"]
)
def test_a_frame_with_more_in_it_than_its_message_has_is_an_error_to_the_caller(
    values: dict[str, object], behind: bytes
) -> None:
    frame = catalog.encode_request(SASL_AUTHENTICATE, 2, 7, "c", {"auth_bytes": b""} | values) + behind
    (mark,) = Conversation(Routes.everything()).requests(framed(frame), 1).marks
    assert mark.exchange is not None
    with pytest.raises(WireError):
        redaction.secret_spans(mark.kind, mark.exchange, frame, ("auth_bytes",))
