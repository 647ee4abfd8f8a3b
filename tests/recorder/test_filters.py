"""Tests of filters in words, and of the answer if nothing passes them."""

from __future__ import annotations

from recorder.filters import Held, as_options, nothing_passes

NOON_NS = 1_795_262_400_000_000_000


def test_filters_are_said_as_they_are_typed() -> None:
    said = as_options(apis=[(1, "kafka"), (1, "kafka-0.7"), (2000, None)], client=["my app"], connection=[4])
    assert said == "--api Fetch --api 0.7/fetch --api 'api 2000' --client 'my app' --connection 4"
    assert as_options(until_ns=NOON_NS) == "--until 2026-11-21T12:00:00"
    assert as_options(since_ns=NOON_NS + 900_000_000) == "--since 2026-11-21T12:00:00.900000"


def test_names_from_outside_are_made_printable() -> None:
    assert "\x1b" not in as_options(client=["\x1b[2J"])
    assert "\x1b" not in nothing_passes("row", "", Held(0, 0, ("\x1b[2J",)))


def test_of_many_apis_some_are_named_and_the_others_counted() -> None:
    said = nothing_passes("frame", "--api Fetch", Held(NOON_NS, NOON_NS, tuple(f"api {2000 + at}" for at in range(23))))
    assert said.endswith("api 2018, api 2019 and 3 more")


def test_an_empty_capture_has_no_times() -> None:
    assert nothing_passes("row", "", Held(None, None)) == "no row: the capture holds no frame"
