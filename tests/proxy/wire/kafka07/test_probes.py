"""Tests of probes of 0.7's responses against a full decode, for any cuts of the frame."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import kafka07
from proxy.wire.error_reader import MAX_ELEMENTS, FoundErrors
from proxy.wire.framing import framed
from tests.proxy.wire.probing import cut, found_whole, in_pieces, probe_of, randoms

parts = st.lists(
    st.builds(kafka07.FetchResponse, st.sampled_from([0, 0, 1, -1]), st.binary(max_size=30)), max_size=MAX_ELEMENTS + 5
)
responses_07 = st.one_of(
    st.builds(kafka07.FetchResponse, st.integers(-1, 4), st.binary(max_size=50)),
    st.builds(kafka07.OffsetsResponse, st.integers(-1, 4), st.tuples(st.integers(0, 2**40))),
    st.builds(kafka07.MultiFetchResponse, st.just(0), parts.map(tuple)),
)
TYPES_07 = {
    kafka07.FetchResponse: kafka07.RequestType.FETCH,
    kafka07.OffsetsResponse: kafka07.RequestType.OFFSETS,
    kafka07.MultiFetchResponse: kafka07.RequestType.MULTIFETCH,
}


@given(responses_07, randoms)
def test_responses_of_0_7_say_what_a_full_decode_holds(response: kafka07.Response, random: Random) -> None:
    asked, frame = TYPES_07[type(response)], framed(kafka07.encode_response(response))
    found = found_whole(probe_of(asked, None), frame)
    many = isinstance(response, kafka07.MultiFetchResponse) and len(response.parts) > MAX_ELEMENTS
    looked_at = response.parts[:MAX_ELEMENTS] if isinstance(response, kafka07.MultiFetchResponse) else [response]
    assert found == FoundErrors(Counter(part.error_code for part in looked_at if part.error_code), beyond=many)
    assert in_pieces(probe_of(asked, None), cut(frame, random)) == found


@given(st.sampled_from(sorted(TYPES_07.values())), st.binary(min_size=2, max_size=60), randoms)
def test_any_bytes_in_0_7_say_the_same_however_they_are_cut(asked: int, body: bytes, random: Random) -> None:
    frame = framed(body)
    assert in_pieces(probe_of(asked, None), cut(frame, random)) == found_whole(probe_of(asked, None), frame)
