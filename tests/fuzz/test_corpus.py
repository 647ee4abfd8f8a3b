"""Tests of the corpus: small files, named for their content, without secrets."""

from fuzz import corpus
from proxy import wire
from proxy.wire import apis, catalog

MAX_BYTES = 100_000


def test_the_corpus_is_small() -> None:
    files = [file for folder in ("corpus", "found") for file in (corpus.FOLDER / folder).rglob("*") if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in files) < MAX_BYTES


def test_requests_are_named_for_what_their_heads_say() -> None:
    for name, key, version, frame in corpus.frames("request"):
        head = wire.request_head(frame)
        assert (head.api_key, head.api_version) == (key, version), name
        assert name.startswith(f"{key:02}-{apis.api_name(key)}-v{version}")


def test_every_frame_is_a_whole_message_of_its_name() -> None:
    for _, key, version, frame in corpus.frames("response"):
        codec = wire.codec("response", key, version)
        assert codec is not None
        assert codec.decode(frame, wire.response_head(frame, key, version).body)[1] == len(frame)
    for _, _, _, frame in corpus.frames("request"):
        assert not isinstance(wire.decode_request(frame), wire.UnknownMessage)


def test_no_frame_is_of_a_kind_that_may_hold_secrets() -> None:
    assert not [name for name, key, _, _ in corpus.frames("request") if catalog.may_hold_secrets("request", key)]
    assert not [name for name, key, _, _ in corpus.frames("response") if catalog.may_hold_secrets("response", key)]


def test_the_clients_that_matter_are_in_it() -> None:
    """Old and new versions of the messages that every client sends."""
    asked = {(key, version) for _, key, version, _ in corpus.frames("request")}
    assert len(asked) >= 60
    for key in (0, 1, 3, 8, 9, 11, 14, 18, 22, 68):
        assert any(key == one for one, _ in asked), key


def test_inputs_have_names_of_their_own() -> None:
    names = [(one.check, one.name) for one in corpus.inputs()]
    assert len(set(names)) == len(names)
