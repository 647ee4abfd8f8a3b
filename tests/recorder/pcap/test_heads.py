"""Tests of what may be a head."""

from __future__ import annotations

import random

from proxy.wire import catalog
from proxy.wire.apis import api_keys, versions
from proxy.wire.framing import FrameLimits
from recorder.pcap.heads import request_at, request_places, response_at, response_places
from tests.recorder.capture.traffic import framed

LIMITS = FrameLimits()


def test_every_request_of_the_catalog_is_found() -> None:
    for key in api_keys():
        for version in versions(key):
            request = framed(catalog.encode_request(key, version, -7, "müller", {}))
            if (key, version) == (7, 0):
                # ControlledShutdown v0 has no client id
                continue
            data = b"\xff\xff\xff" + request
            assert 3 in request_places(data, 0), (key, version)
            assert request_at(data, 3, LIMITS) == (len(request) - 4, -7, key)


def test_text_numbers_and_noise_are_hardly_ever_a_request() -> None:
    rng = random.Random(1)
    for data in (rng.randbytes(1 << 18), bytes(1 << 18), b"GET / HTTP/1.1\r\n" * 10_000, bytes(range(256)) * 1000):
        found = [at for at in request_places(data, 0) if len(data) - at >= 14 and request_at(data, at, LIMITS)]
        assert len(found) < 3


def test_a_version_that_the_catalog_lacks_is_a_request_where_one_is_expected() -> None:
    request = framed(b"\0\x03\0\x7f\0\0\0\x05\0\x03app")
    assert request_at(request, 0, LIMITS) is None
    assert request_at(request, 0, LIMITS, is_expected=True) == (13, 5, 3)


def test_a_response_is_told_by_its_correlation_id() -> None:
    data = b"junk" + framed((77).to_bytes(4, "big") + b"\0\0") + framed((78).to_bytes(4, "big"))
    assert response_places(data, 0, {77, 78}) == [4, 14]
    assert response_at(data, 4, LIMITS) == (6, 77)
    assert response_at(b"\0\0\0\3\0\0\0\1", 0, LIMITS) is None
