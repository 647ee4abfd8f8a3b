"""Tests of masking secrets, frame by frame."""

import pytest

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import FrameKind
from proxy.conversation.routes import Routes
from proxy.conversation.step import Mark
from proxy.wire import apis, catalog
from proxy.wire.keys import CREATE_DELEGATION_TOKEN, DESCRIBE_CONFIGS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from proxy.wire.language import Field
from recorder.capture import redaction
from recorder.capture.redaction import Rule
from tests.recorder.capture.traffic import framed, recording_routes
from tests.strategies import must_codec


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


def opaque_mark(*, may_hold_secret: bool, key: int = 10_001) -> Mark:
    talk = Conversation(Routes.everything())
    if not may_hold_secret:
        talk.requests(framed(catalog.encode_request(12, 0, 1, "c", {})), 1)
    head = catalog.encode_request(12, 0, 9, "c", {})
    step = talk.requests(framed(key.to_bytes(2, "big") + b"\x7f\x00" + head[4:]), 2)
    return step.marks[-1]


def hidden(mark: Mark, frame: bytes) -> list[bytes]:
    rule = redaction.rule(mark)
    assert rule is not None
    assert rule.searched
    assert mark.exchange is not None
    search = redaction.search(mark.kind, mark.exchange)
    search.feed(framed(frame))
    return [framed(frame)[a:b] for a, b in search.found()]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_only_the_value_of_a_token_is_hidden_not_its_length(version: int) -> None:
    mark, frame = request_mark(SASL_AUTHENTICATE, version, auth_bytes=b"\0me\0secret")
    assert hidden(mark, frame) == [b"\0me\0secret"]
    mark, frame = response_mark(SASL_AUTHENTICATE, version, {"auth_bytes": b"v=proof"})
    assert hidden(mark, frame) == [b"v=proof"]


@pytest.mark.parametrize("version", apis.versions(CREATE_DELEGATION_TOKEN))
def test_every_secret_of_a_message_is_hidden(version: int) -> None:
    mark, frame = response_mark(CREATE_DELEGATION_TOKEN, version, {"token_id": "tökén", "hmac": b"hhhh"})
    assert b"hhhh" in hidden(mark, frame)


def test_a_null_value_hides_nothing() -> None:
    result = {"error_code": 0, "resource_type": 2, "resource_name": "t", "configs": [{"name": "a", "value": None}]}
    mark, frame = response_mark(DESCRIBE_CONFIGS, 4, {"results": [result]})
    assert hidden(mark, frame) == []


def test_a_frame_without_secrets_is_kept_as_it_is() -> None:
    assert redaction.rule(request_mark(3, 9)[0]) is None


def test_marks_of_a_frame_that_the_relay_rewrites_need_nothing_of_the_recorder() -> None:
    metadata, token = response_mark(METADATA, 9, {})[0], Mark(FrameKind.TOKEN, None, 0, 20, 0, 20, False)
    assert redaction.mask_nothing([metadata])
    assert redaction.mask_nothing([metadata, opaque_mark(may_hold_secret=False)])
    for other in (
        token,
        opaque_mark(may_hold_secret=True),
        request_mark(SASL_AUTHENTICATE, 2)[0],
        # its mechanism tells how to read the tokens behind it
        request_mark(SASL_HANDSHAKE, 1)[0],
    ):
        assert not redaction.mask_nothing([metadata, other])


def test_a_token_is_hidden_behind_its_length() -> None:
    mark = Mark(FrameKind.TOKEN, None, 0, 20, 0, 20, False)
    assert redaction.rule(mark) == Rule(4)


@pytest.mark.parametrize("may_hold_secret", [True, False])
def test_bytes_without_frames_are_masked_but_for_their_length(may_hold_secret: bool) -> None:
    mark = Mark(FrameKind.BYTES, None, 0, 20, 0, 20, may_hold_secret)
    assert redaction.rule(mark) == Rule(4)


def test_a_frame_with_a_bad_request_head_and_its_answer_are_always_masked() -> None:
    talk = Conversation(recording_routes())
    talk.requests(framed(catalog.encode_request(12, 0, 1, "c", {})), 1)
    # the client id is longer than the frame
    (asked,) = talk.requests(framed(b"\x27\x11\0\0\0\0\0\2\x7f\xffsecret"), 2).marks
    assert redaction.rule(asked) == Rule(12)
    (answered,) = talk.responses(framed(b"\0\0\0\1\0\0") + framed(b"\0\0\0\2secret"), 3).marks
    assert redaction.rule(answered) == Rule(8)


def test_an_opaque_frame_is_hidden_behind_its_correlation_id_until_a_login_has_ended() -> None:
    assert redaction.rule(opaque_mark(may_hold_secret=True)) == Rule(12)
    assert redaction.rule(opaque_mark(may_hold_secret=False)) is None


def test_an_opaque_frame_of_an_api_with_secrets_is_always_hidden() -> None:
    assert redaction.rule(opaque_mark(may_hold_secret=False, key=SASL_AUTHENTICATE)) == Rule(12)


@pytest.mark.parametrize("version", apis.versions(SASL_AUTHENTICATE))
def test_a_message_that_may_quote_a_secret_is_hidden(version: int) -> None:
    values: dict[str, object] = {"error_message": "not 'secret'", "auth_bytes": b"proof"}
    assert hidden(*response_mark(SASL_AUTHENTICATE, version, values)) == [b"not 'secret'", b"proof"]


# names in a response about a request with secrets; the request may have them too, but they are no secrets
NAMES = {
    ("CreateTopics", "topics.name"),
    ("CreateTopics", "topics.configs.name"),
    ("AlterConfigs", "responses.resource_name"),
    ("IncrementalAlterConfigs", "responses.resource_name"),
    ("AlterUserScramCredentials", "results.user"),
}


def texts(fields: tuple[Field, ...], version: int, above: str = "") -> set[str]:
    """Returns the paths of all fields that can hold a text."""
    found: set[str] = set()
    for field in fields:
        if version in field.versions:
            found |= {above + field.name} if field.element_at(version) in ("string", "bytes", "records") else set()
            found |= texts(field.fields, version, f"{above}{field.name}.")
    return found


def test_texts_of_an_answer_that_may_quote_a_requests_secrets_are_masked() -> None:
    kept = set()
    for key in apis.api_keys():
        for version in apis.versions(key):
            if catalog.secrets("request", key, version):
                answer = must_codec("response", key, version).message
                told = texts(answer.fields, version) - set(catalog.secrets("response", key, version))
                kept |= {(answer.api, path) for path in told}
    assert kept == NAMES
