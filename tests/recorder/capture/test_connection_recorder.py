"""Tests of one connection's recording: which bytes it keeps back, masks and releases."""

import json
import random
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Cause, Direction
from proxy.wire import catalog
from proxy.wire.dialects import Dialect
from proxy.wire.keys import CREATE_TOPICS, HEARTBEAT, SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.capture import backlog
from recorder.capture import connection_recorder as lines
from recorder.capture.connection_recorder import ConnectionRecorder
from recorder.capture.spool import DATA, DIRECTION, KIND, MONO_NS, OF_STREAMS, OFFSET, SPANS, EntryKind, Item
from tests.recorder.capture import traffic
from tests.recorder.capture.traffic import framed
from tests.sweeps import examples
from tests.tables import each_row

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


class Recording:
    """A connection recorder fed as by the tap, except that every chunk takes the slow way."""

    def __init__(self, dialect: Dialect = Dialect.KAFKA) -> None:
        self.talk = Conversation(traffic.recording_routes(dialect))
        self.line = ConnectionRecorder(1, self.talk, (int(EntryKind.OPENED), 0, 1, 0, 0, b"{}", ()))
        self.line.unwritten_opened = None
        self.items: list[Item] = []
        self.cause: Cause | None = None
        self.now = 0

    def feed(self, direction: Direction, data: bytes) -> list[Item]:
        self.now += 1
        step = (self.talk.responses if direction else self.talk.requests)(data, self.now)
        self.cause = step.cause
        offset = step.offset + len(step.data) - len(data)
        items = self.line.take(direction, offset, data, self.now, step)
        self.items += items
        return items

    def finish(self) -> None:
        self.items += self.line.finish()

    def stream(self, direction: Direction) -> bytes:
        """The written bytes of a direction, at their offsets."""
        found = b""
        for kind, side, _, offset, _, data, _ in self.items:
            if kind in OF_STREAMS and side == direction:
                assert offset == len(found)
                found += data
        return found

    def play(self, script: list[tuple[Direction, bytes]], size: int) -> None:
        """Feeds the connection in chunks of that size."""
        for direction, data in script:
            for at in range(0, len(data), size):
                self.feed(direction, data[at : at + size])

    def logins(self) -> list[Item]:
        return [item for item in self.items if item[KIND] == EntryKind.LOGIN]

    def principals(self) -> list[str]:
        """The principals whose logins were noted."""
        told = (json.loads(entry[DATA]) for entry in self.logins())
        return [facts["principal"] for facts in told if "principal" in facts]

    def written_before_principal(self, direction: Direction) -> int:
        """The stream offset after the bytes that were written before the first principal."""
        first = next(
            n for n, item in enumerate(self.items) if item[KIND] == EntryKind.LOGIN and b"principal" in item[DATA]
        )
        of_bytes = [
            item for item in self.items[:first] if item[KIND] == EntryKind.BYTES and item[DIRECTION] == direction
        ]
        return of_bytes[-1][OFFSET] + len(of_bytes[-1][DATA])


def request(key: int, version: int, **values: object) -> bytes:
    return framed(catalog.encode_request(key, version, 7, "c", values))


def response(key: int, version: int, **values: object) -> bytes:
    return framed(catalog.encode_response(key, version, 7, values))


def blank(data: bytes, *secrets: bytes) -> bytes:
    for secret in secrets:
        data = data.replace(secret, bytes(len(secret)))
    return data


SECRET = b"\0alice\0correct-horse"
CLIENT = [
    request(SASL_HANDSHAKE, 1, mechanism="PLAIN"),
    request(SASL_AUTHENTICATE, 2, auth_bytes=SECRET),
    request(HEARTBEAT, 4),
]
BROKER = [
    response(SASL_HANDSHAKE, 1, error_code=0),
    response(SASL_AUTHENTICATE, 2, auth_bytes=b"server-proof"),
    response(HEARTBEAT, 4),
]


def log_in(recording: Recording, size: int) -> None:
    for asked, answered in zip(CLIENT, BROKER, strict=True):
        recording.play([(REQUEST, asked), (RESPONSE, answered)], size)


@each_row("size", range(1, 70))
def test_a_login_is_written_whole_but_for_its_secrets_however_it_is_cut(size: int) -> None:
    recording = Recording()
    log_in(recording, size)
    assert recording.stream(REQUEST) == blank(b"".join(CLIENT), SECRET)
    assert recording.stream(RESPONSE) == blank(b"".join(BROKER), b"server-proof")
    assert recording.line.frame_filter is None
    assert recording.line.is_settled


def test_spans_are_those_of_the_blanked_bytes() -> None:
    recording = Recording()
    log_in(recording, 9)
    for kind, _, _, _, _, data, spans in recording.items:
        if kind == EntryKind.BYTES:
            for start, length in spans:
                assert data[start : start + length] == bytes(length)
    assert sum(length for item in recording.items for _, length in item[SPANS]) == len(SECRET) + len(b"server-proof")


@each_row("size", [*range(1, 50), 1000])
def test_the_principal_is_recorded_after_the_answer_that_accepts_it_for_any_cuts(size: int) -> None:
    recording = Recording()
    log_in(recording, size)
    assert recording.principals() == ["alice"]
    assert recording.written_before_principal(RESPONSE) == len(BROKER[0] + BROKER[1])
    assert recording.line.principal == "alice"


def test_bytes_after_an_acceptance_in_one_chunk_come_after_the_principal() -> None:
    recording = Recording()
    recording.feed(REQUEST, b"".join(CLIENT))
    recording.feed(RESPONSE, b"".join(BROKER))
    assert recording.principals() == ["alice"]
    assert recording.written_before_principal(RESPONSE) == len(BROKER[0] + BROKER[1])
    assert recording.stream(RESPONSE) == blank(b"".join(BROKER), b"server-proof")


def refusal(**values: object) -> bytes:
    return response(SASL_AUTHENTICATE, 2, error_code=58, error_message="no", **values)


@pytest.mark.parametrize("size", [1, 20, 1000])
def test_a_failed_login_names_no_principal(size: int) -> None:
    recording = Recording()
    recording.play([*zip((REQUEST, RESPONSE) * 2, (CLIENT[0], BROKER[0], CLIENT[1], refusal()), strict=True)], size)
    assert recording.principals() == []
    assert recording.line.principal is None


def test_the_first_answer_to_a_two_step_login_accepts_no_principal() -> None:
    recording = Recording()
    steps = [request(SASL_AUTHENTICATE, 2, auth_bytes=token) for token in TOKENS]
    recording.feed(REQUEST, request(SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-512"))
    recording.feed(RESPONSE, BROKER[0])
    recording.feed(REQUEST, steps[0])
    recording.feed(RESPONSE, response(SASL_AUTHENTICATE, 2, auth_bytes=SERVER_TOKENS[0]))
    assert recording.principals() == []
    recording.feed(REQUEST, steps[1])
    recording.feed(RESPONSE, response(SASL_AUTHENTICATE, 2, auth_bytes=SERVER_TOKENS[1]))
    assert recording.principals() == ["bob"]


def test_a_refused_bearer_token_names_no_principal() -> None:
    """RFC 7628: the broker's reason comes without an error code, and the error after the client has read it."""
    claims = urlsafe_b64encode(b'{"sub":"carol"}').decode().rstrip("=")
    token = f"n,,\x01auth=Bearer h.{claims}.s\x01\x01".encode()
    reason = b'{"status":"invalid_token"}'
    for answers in (b"",), (reason, refusal()):
        recording = Recording()
        recording.feed(REQUEST, request(SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER"))
        recording.feed(RESPONSE, BROKER[0])
        recording.feed(REQUEST, request(SASL_AUTHENTICATE, 2, auth_bytes=token))
        recording.feed(RESPONSE, response(SASL_AUTHENTICATE, 2, auth_bytes=answers[0]))
        if len(answers) > 1:
            recording.feed(REQUEST, request(SASL_AUTHENTICATE, 2, auth_bytes=b"\x01"))
            recording.feed(RESPONSE, answers[1])
        assert recording.principals() == (["carol"] if answers == (b"",) else [])


def test_a_name_that_is_claimed_after_a_login_under_way_is_not_taken_for_the_accepted_one() -> None:
    recording = Recording()
    recording.feed(REQUEST, CLIENT[0] + CLIENT[1] + request(SASL_AUTHENTICATE, 2, auth_bytes=b"\0mallory\0guess"))
    recording.feed(RESPONSE, BROKER[0] + BROKER[1])
    assert recording.principals() == ["alice"]
    recording.feed(RESPONSE, refusal())
    assert recording.principals() == ["alice"]


def test_a_login_cut_by_a_gap_names_no_principal_until_the_next_handshake() -> None:
    recording = Recording()
    recording.feed(REQUEST, CLIENT[0])
    recording.feed(RESPONSE, BROKER[0])
    recording.feed(REQUEST, CLIENT[1])
    recording.line.drop_kept_back()
    recording.feed(RESPONSE, BROKER[1])
    assert recording.principals() == []
    log_in(recording, 1000)
    assert recording.principals() == ["alice"]


@pytest.mark.parametrize("size", [1, 20, 1000])
def test_a_second_login_records_its_principal_and_no_secret(size: int) -> None:
    """KIP-368. Brokers refuse another principal, but that is up to them."""
    recording = Recording()
    log_in(recording, size)
    other = b"\0bob\0battery-staple"
    again = [request(SASL_HANDSHAKE, 1, mechanism="PLAIN"), request(SASL_AUTHENTICATE, 2, auth_bytes=other)]
    refused = [(REQUEST, again[0]), (RESPONSE, BROKER[0]), (REQUEST, again[1]), (RESPONSE, refusal())]
    recording.play(refused, size)
    assert recording.principals() == ["alice"]
    recording.play([*refused[:3], (RESPONSE, BROKER[1])], size)
    assert recording.principals() == ["alice", "bob"]
    assert recording.stream(REQUEST) == blank(b"".join(CLIENT) + b"".join(again) * 2, SECRET, other)


def test_no_bytes_of_a_connection_are_written_after_an_incomplete_secret() -> None:
    recording = Recording()
    recording.feed(REQUEST, CLIENT[0])
    recording.feed(REQUEST, CLIENT[1][:30])
    assert recording.stream(REQUEST) == CLIENT[0]
    assert recording.feed(RESPONSE, BROKER[0]) == []
    written = recording.feed(REQUEST, CLIENT[1][30:])
    arrivals = [(item[DIRECTION], item[MONO_NS]) for item in written if item[KIND] == EntryKind.BYTES]
    assert arrivals == [(REQUEST, 2), (RESPONSE, 3), (REQUEST, 4)]


def test_a_second_secret_holds_back_only_the_bytes_after_it() -> None:
    recording = Recording()
    recording.feed(REQUEST, CLIENT[1][:30])
    recording.feed(REQUEST, CLIENT[1][30:] + CLIENT[1][:30])
    assert recording.stream(REQUEST) == blank(CLIENT[1], SECRET)


def test_bytes_whose_frame_is_not_known_hold_up_only_their_own_direction() -> None:
    recording = Recording()
    recording.feed(REQUEST, CLIENT[2] + CLIENT[2][:3])
    assert recording.stream(REQUEST) == CLIENT[2]
    assert len(recording.feed(RESPONSE, BROKER[2])) == 1
    recording.feed(REQUEST, CLIENT[2][3:])
    assert recording.stream(REQUEST) == CLIENT[2] * 2


def test_too_much_kept_back_masks_the_rest_of_the_secret_frame_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_KEPT", 100)
    recording = Recording()
    large = request(SASL_AUTHENTICATE, 2, auth_bytes=b"s" * 300)
    monkeypatch.setattr(backlog, "PENDING_COST", 0)
    recording.feed(REQUEST, large[:90])
    assert recording.items == []
    recording.feed(REQUEST, large[90:110])
    assert recording.stream(REQUEST) == large[:12] + bytes(98)
    for at in range(110, len(large), 50):
        recording.feed(REQUEST, large[at : at + 50])
    recording.feed(REQUEST, CLIENT[2])
    assert recording.stream(REQUEST) == large[:12] + bytes(len(large) - 12) + CLIENT[2]
    assert recording.line.frame_filter is None
    assert recording.line.is_settled


def test_a_secret_that_never_came_whole_is_masked_whole() -> None:
    recording = Recording()
    recording.feed(REQUEST, CLIENT[1][:-1])
    recording.finish()
    assert recording.stream(REQUEST) == CLIENT[1][:12] + bytes(len(CLIENT[1]) - 13)


def test_a_secret_frame_that_cannot_be_read_is_masked_whole() -> None:
    recording = Recording()
    broken = bytearray(CLIENT[1])
    broken[-len(SECRET) - 2] = 0x7F
    recording.feed(REQUEST, bytes(broken))
    assert recording.stream(REQUEST) == CLIENT[1][:12] + bytes(len(CLIENT[1]) - 12)


@pytest.mark.parametrize("before", [b"", CLIENT[2]], ids=["before a login", "behind a login"])
def test_bytes_that_stay_ambiguous_at_a_connections_end_are_masked(before: bytes) -> None:
    recording = Recording()
    recording.feed(REQUEST, before + b"GET /secret HTTP/1.1")
    recording.feed(RESPONSE, b"\x7fsecret too")
    recording.finish()
    assert recording.stream(REQUEST) == before + bytes(20)
    assert recording.stream(RESPONSE) == bytes(11)
    assert [item[KIND] for item in recording.items[-2:]] == [EntryKind.BAD_LENGTH, EntryKind.BAD_LENGTH]


@each_row("size", [1, 3, 1000])
@each_row("said", range(11, 34))
def test_a_length_that_lies_shows_nothing_of_the_secret_after_it(said: int, size: int) -> None:
    """A frame gives a length that is shorter than its secret; the bytes after its end belong to no frame."""
    recording = Recording()
    whole = request(SASL_AUTHENTICATE, 2, auth_bytes=SECRET)
    assert said < len(whole) - 4
    lying = said.to_bytes(4, "big") + whole[4:]
    at = 0
    while at < len(lying) and recording.cause is None:
        recording.feed(REQUEST, lying[at : at + size])
        at += size
    recording.finish()
    came = min(at, len(lying))
    assert recording.stream(REQUEST) == lying[:12] + bytes(came - 12)


def test_in_the_dialect_of_0_7_what_no_frame_can_be_made_of_keeps_its_head() -> None:
    recording = Recording(Dialect.KAFKA_07)
    recording.feed(REQUEST, b"GET /no-secret HTTP/1.1")
    recording.finish()
    assert recording.stream(REQUEST) == b"GET /no-secr" + bytes(11)


TOKENS = [b"n,,n=bob,r=client-nonce", b"c=biws,r=nonce,p=proof"]
SERVER_TOKENS = [b"r=nonce,s=salt,i=4096", b"v=verifier"]


def scram(recording: Recording, size: int) -> tuple[bytes, bytes]:
    """A SCRAM login in bare tokens, then a heartbeat."""
    script = [
        (REQUEST, request(SASL_HANDSHAKE, 0, mechanism="SCRAM-SHA-256")),
        (RESPONSE, response(SASL_HANDSHAKE, 0, error_code=0)),
        (REQUEST, framed(TOKENS[0])),
        (RESPONSE, framed(SERVER_TOKENS[0])),
        (REQUEST, framed(TOKENS[1])),
        (RESPONSE, framed(SERVER_TOKENS[1])),
        (REQUEST, CLIENT[2]),
        (RESPONSE, BROKER[2]),
    ]
    recording.play(script, size)
    return tuple(b"".join(data for side, data in script if side == one) for one in Direction)  # type: ignore[return-value]


@each_row("size", range(1, 50))
def test_bare_tokens_show_only_their_length_however_they_are_cut(size: int) -> None:
    recording = Recording()
    asked, answered = scram(recording, size)
    assert recording.stream(REQUEST) == blank(asked, *TOKENS)
    assert recording.stream(RESPONSE) == blank(answered, *SERVER_TOKENS)


@each_row("size", [*range(1, 50), 1000])
def test_the_principal_is_recorded_after_the_last_bare_token_for_any_cuts(size: int) -> None:
    recording = Recording()
    scram(recording, size)
    assert recording.principals() == ["bob"]
    expected = response(SASL_HANDSHAKE, 0, error_code=0) + framed(SERVER_TOKENS[0]) + framed(SERVER_TOKENS[1])
    assert recording.written_before_principal(RESPONSE) == len(expected)


def test_unaccepted_bare_tokens_name_no_principal() -> None:
    recording = Recording()
    recording.feed(REQUEST, request(SASL_HANDSHAKE, 0, mechanism="SCRAM-SHA-256"))
    recording.feed(RESPONSE, response(SASL_HANDSHAKE, 0, error_code=0))
    for asked, answered in zip(TOKENS, (SERVER_TOKENS[0], b"e=invalid-proof"), strict=True):
        recording.feed(REQUEST, framed(asked))
        recording.feed(RESPONSE, framed(answered))
    assert recording.principals() == []


def test_the_request_that_ends_a_kerberos_login_stands_behind_the_verdict_however_it_is_cut() -> None:
    for size in range(1, len(CLIENT[2])):
        recording = Recording()
        for direction, data in (
            (REQUEST, request(SASL_HANDSHAKE, 0, mechanism="GSSAPI")),
            (RESPONSE, response(SASL_HANDSHAKE, 0, error_code=0)),
            (REQUEST, framed(b"a ticket")),
            (RESPONSE, framed(b"a proof")),
            (REQUEST, CLIENT[2][:size]),
            (REQUEST, CLIENT[2][size:]),
        ):
            recording.feed(direction, data)
        ended = [
            n
            for n, item in enumerate(recording.items)
            if item[KIND] == EntryKind.LOGIN and b'"ended": true' in item[DATA]
        ]
        behind = [
            item[OFFSET] + len(item[DATA])
            for item in recording.items[: ended[0]]
            if (item[KIND], item[DIRECTION]) == (EntryKind.BYTES, REQUEST)
        ]
        assert len(ended) == 2
        assert max(behind) <= recording.items[ended[0]][OFFSET]
        assert recording.stream(REQUEST).endswith(CLIENT[2])


@pytest.mark.parametrize("size", [1, 3, 5, 1000])
def test_a_verdict_on_a_login_stands_before_the_bytes_that_it_is_about(size: int) -> None:
    recording = Recording()
    scram(recording, size)
    behind = [0, 0]
    verdicts = 0
    for kind, direction, _, offset, _, data, _ in recording.items:
        if kind == EntryKind.BYTES:
            behind[direction] = offset + len(data)
        elif b"principal" not in data:
            verdicts += 1
            assert behind[direction] <= offset
    assert verdicts == 4


@pytest.mark.real
@examples(30)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 3, 20, 200, 5000]))
def test_no_byte_of_a_secret_is_ever_written(seed: int, largest: int) -> None:
    rng = random.Random(seed)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 12, (SASL_AUTHENTICATE, HEARTBEAT, 3)), largest)
    recording = Recording()
    for chunk in talk.chunks:
        recording.feed(chunk.direction, chunk.data)
    secrets = {call.secret for call in talk.calls if call.secret}
    for direction, stream in zip(Direction, talk.streams(), strict=True):
        assert recording.stream(direction) == blank(stream, *sorted(secrets, key=len, reverse=True))


def settings_of(*values: str) -> bytes:
    configs = [{"name": "a.vendors", "value": value} for value in values]
    return request(CREATE_TOPICS, 5, topics=[{"name": "t", "configs": configs}])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_frame_of_more_secrets_than_can_be_blanked_one_by_one_is_masked_whole(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_SECRETS", 3)
    recording = Recording()
    few, many = settings_of("one", "two", "three"), settings_of("one", "two", "three", "four")
    data = few + many + CLIENT[2]
    for at in range(0, len(data), size):
        recording.feed(REQUEST, data[at : at + size])
    masked = many[:12] + bytes(len(many) - 12)
    assert recording.stream(REQUEST) == blank(few, b"one", b"two", b"three") + masked + CLIENT[2]
    assert recording.line.frame_filter is None
    assert recording.line.is_settled


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_plain_settings_are_recorded(size: int) -> None:
    recording = Recording()
    plain = {"name": "cleanup.policy", "value": "compact"}
    told = [plain | {"is_sensitive": False}, plain | {"is_sensitive": True, "value": "hunter2"}]
    asked = request(
        CREATE_TOPICS, 5, topics=[{"name": "t", "configs": [plain, {"name": "b.vendors", "value": "hunter"}]}]
    )
    answered = response(CREATE_TOPICS, 5, topics=[{"name": "t", "error_message": "no hunter", "configs": told}])
    for direction, data in ((REQUEST, asked), (RESPONSE, answered)):
        for at in range(0, len(data), size):
            recording.feed(direction, data[at : at + size])
    assert recording.stream(REQUEST) == blank(asked, b"hunter")
    assert recording.stream(RESPONSE) == blank(answered, b"no hunter", b"hunter2")
