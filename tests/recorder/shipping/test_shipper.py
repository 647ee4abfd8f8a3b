"""Tests of shipping: the bucket holds what the folder holds, each file once, whatever the store does."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pyarrow.fs as fs
import pytest

from proxy.files import Folder
from recorder.capture import unshipped
from recorder.capture.fact_files import open_facts, read_marker
from recorder.capture.fact_maker import make_missing
from recorder.capture.frames import HOUR_NS
from recorder.capture.keep import Floor, declare
from recorder.capture.retention import Remover
from recorder.capture.session import RecordSettings
from recorder.capture.shipped import read_status
from recorder.shipping.shipper import FIRST_PAUSE, LONGEST_PAUSE, MOST_AT_A_TIME, pause_after
from recorder.shipping.store import SILENT_SECONDS
from tests.brokers.waiting import PATIENCE
from tests.faulty_s3 import Fault, Front
from tests.recorder.shipping.shipped import BUCKET, PREFIX, URL, local, puts, remote, shipper, told
from tests.s3 import Store
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real
NOT_HELD = "nothing is shipped (wrong_content), and tried again: the bucket does not hold what was put"
# what takes seconds: a store answers some hundred requests
slow = pytest.mark.long


class Crash(BaseException):
    """A kill -9 at a step."""


def ship(folder: Path, fault: Fault | None = None) -> list[str]:
    """Ships all, though requests meet this fault; returns the lines that were said."""
    said: list[str] = []
    with shipper(folder, said.append, silent_seconds=patience(fault)) as opened:
        assert opened.ship_all(500)
    return said


def patience(fault: Fault | None) -> float:
    """Seconds that the store may say nothing: few only where it hangs, so that a busy machine is no fault."""
    return 1 if fault in (Fault.HANG, Fault.STUCK) else SILENT_SECONDS


def test_the_bucket_holds_what_the_folder_holds_each_file_put_once(s3: Store, store_front: Front, folder: Path) -> None:
    with shipper(folder) as opened:
        assert opened.ship_all(1)
        assert remote(s3) == local(folder)
        assert puts(store_front) == dict.fromkeys(local(folder), 1)
        assert (opened.files, opened.there) == (len(local(folder)), 0)
        # a second look finds nothing to do
        before = sum(store_front.asked.values())
        assert opened.is_shipped()
        assert sum(store_front.asked.values()) == before
    status = read_status(folder)
    assert status is not None
    assert status.files == len(local(folder))
    assert status.bytes == sum((folder / path).stat().st_size for path in local(folder))
    assert (status.waiting_files, status.waiting_bytes, status.oldest_ns, status.failing) == (0, 0, 0, "")
    assert unshipped.waiting(folder) == []


@pytest.mark.parametrize("at_a_time", [1, MOST_AT_A_TIME])
def test_a_marker_is_put_once_its_facts_are_checked_and_older_hours_go_before_newer_ones(
    store_front: Front, folder: Path, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr("recorder.shipping.shipper.MOST_AT_A_TIME", at_a_time)
    steps: list[str] = []
    with shipper(folder, before_step=steps.append) as opened:
        assert opened.ship_all(1)
    markers = [step for step in steps if step.startswith("put facts/_done/")]
    assert markers
    for marker in markers:
        stem = Path(marker).name
        facts = {path for path in local(folder) if path.startswith("facts/") and Path(path).stem == stem}
        facts.discard(marker.removeprefix("put "))
        assert {f"check {path}" for path in facts} <= {*steps[: steps.index(marker)]}
    put = [step.removeprefix("put ") for step in steps if step.startswith("put ")]
    of_rows = [path for path in put if path.startswith(("frames", "events"))]
    times = [(*Path(path).parts[1:3], (folder / path).stat().st_mtime_ns) for path in of_rows]
    # several threads may be overtaken between their beginning and the step
    assert times == sorted(times) or at_a_time > 1


def test_several_files_are_on_their_way_at_a_time_and_no_more(
    store_front: Front, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 3
    monkeypatch.setattr("recorder.shipping.shipper.MOST_AT_A_TIME", limit)
    lock, together = threading.Lock(), threading.Barrier(limit)
    begun, on_their_way, most = 0, 0, 0

    def step(name: str) -> None:
        nonlocal begun, on_their_way, most
        with lock:
            begun += name.startswith("put")
            on_their_way += name.startswith("put") - name.startswith("check")
            most = max(most, on_their_way)
            waits = name.startswith("put") and limit <= begun < 2 * limit
        if waits:
            # each file that has arrived made room for one more
            together.wait(PATIENCE)

    with shipper(folder, before_step=step) as opened:
        assert opened.ship_all(1)
    assert begun >= 2 * limit
    assert most == limit


@slow
@pytest.mark.parametrize("fault", list(Fault))
def test_nothing_is_lost_and_nothing_twice_if_each_request_fails_once(
    s3: Store, store_front: Front, folder: Path, fault: Fault
) -> None:
    for path in [*folder.glob("facts/*/date=*"), folder / "facts" / "_done"]:
        # a few files do: a store that hangs takes a second for each request
        shutil.rmtree(path)
    tried = Counter[tuple[str, str]]()

    def once(method: str, key: str) -> Fault | None:
        tried[method, key] += 1
        # before a file is put, the store tells nothing of it that could be wrong
        of_head = method == "HEAD" and fault in (Fault.WRONG_DIGEST, Fault.WRONG_SIZE)
        return fault if tried[method, key] == 1 + of_head else None

    store_front.fault = once
    said = ship(folder, fault)
    assert remote(s3) == local(folder)
    # half a file, and digests that are not those of the bytes, are put again; a put is not tried before it is asked for
    again = (Fault.HALF, Fault.OTHER, Fault.ECHO, Fault.UNCHECKED, Fault.WRONG_SIZE, Fault.WRONG_DIGEST)
    assert max(puts(store_front).values()) <= (2 if fault in again else 1)
    status = read_status(folder)
    assert status is not None
    harmless = fault in (Fault.SLOW, Fault.NO_DIGEST, Fault.OLD, Fault.ODD, Fault.UNCHECKED)
    assert bool(sum(status.failures.values())) is not harmless
    # one line for a cause, one when the store is back; not one per try
    assert len(said) <= 2 * len(local(folder)) * 3
    assert all("test" not in line.split() for line in said)


@pytest.mark.parametrize("fault", [Fault.OLD, Fault.ODD])
def test_a_store_that_knows_no_digests_is_read(s3: Store, store_front: Front, folder: Path, fault: Fault) -> None:
    store_front.fault = lambda method, key: fault
    assert ship(folder) == []
    assert remote(s3) == local(folder)
    assert {*puts(store_front).values()} == {1}


def test_a_store_that_records_digests_unchecked_is_left_with_the_right_ones(
    s3: Store, store_front: Front, folder: Path
) -> None:
    """The shipper tries such a store with a wrong one."""
    store_front.fault = lambda method, key: Fault.UNCHECKED
    assert ship(folder) == []
    assert told(s3) == local(folder)
    # the next one finds all of it there
    shutil.rmtree(folder / "_ship")
    store_front.puts.clear()
    assert ship(folder) == []
    assert not store_front.puts
    assert told(s3) == local(folder)


def test_a_wrong_digest_that_a_killed_shipper_has_left_is_put_right(
    s3: Store, store_front: Front, folder: Path
) -> None:
    asked = Counter[str]()

    def killed_behind_the_first(method: str, key: str) -> Fault:
        asked[method] += 1
        return Fault.UNCHECKED if asked["PUT"] < 2 else Fault.CUT

    store_front.fault = killed_behind_the_first
    with shipper(folder) as opened:
        assert not opened.is_shipped()
    (left,) = remote(s3)
    assert remote(s3)[left] == local(folder)[left] != told(s3)[left]
    store_front.fault = lambda method, key: Fault.UNCHECKED
    assert ship(folder) == []
    assert told(s3) == remote(s3) == local(folder)


CAUSES = {
    Fault.HANG: "timeout",
    Fault.STUCK: "timeout",
    Fault.CUT: "unreachable",
    Fault.ERROR: "store",
    Fault.SLOW_DOWN: "busy",
    Fault.FORBIDDEN: "refused",
    Fault.FULL: "quota",
    Fault.HALF: "wrong_content",
}


@slow
@pytest.mark.parametrize("fault", CAUSES)
def test_a_store_that_fails_is_named_once_and_so_is_its_coming_back(
    s3: Store, store_front: Front, folder: Path, fault: Fault
) -> None:
    store_front.fault = lambda method, key: fault if method == "PUT" else None
    said: list[str] = []
    with shipper(folder, said.append, silent_seconds=patience(fault)) as opened:
        assert [opened.is_shipped() for _ in range(3)] == [False] * 3
        status = read_status(folder)
        assert status is not None
        assert status.failing == CAUSES[fault]
        assert status.failures[CAUSES[fault]] == 3
        assert status.waiting_files == len(local(folder))
        assert status.oldest_ns == min((folder / path).stat().st_mtime_ns for path in local(folder))
        (line,) = said
        assert line.startswith(f"nothing is shipped ({CAUSES[fault]}), and tried again: ")
        store_front.fault = lambda method, key: None
        assert opened.is_shipped()
    assert said[1:] == ["shipping goes on"]
    assert remote(s3) == local(folder)


LIES = (Fault.ECHO, Fault.NOTHING, Fault.WRONG_SIZE, Fault.OTHER, Fault.HALF, Fault.WRONG_DIGEST)


@pytest.mark.parametrize("lie", mostly_long(LIES, 3))
def test_nothing_counts_as_shipped_of_a_store_that_lies_and_so_nothing_is_removed(
    s3: Store, store_front: Front, folder: Path, lie: Fault
) -> None:
    store_front.fault = lambda method, key: lie
    said: list[str] = []
    with shipper(folder, said.append) as opened:
        assert not opened.ship_all(3)
        assert (opened.files, opened.there) == (0, 0)
        status = read_status(folder)
        assert status is not None
        assert (status.files, status.failing, status.failures["wrong_content"]) == (0, "wrong_content", 3)
        (line,) = said
        assert line == NOT_HELD
        made = local(folder)
        keep_for_an_hour(folder)
        assert local(folder) == made
        # it lies no more
        store_front.fault = lambda method, key: None
        assert opened.ship_all(1)
    assert said[1:] == ["shipping goes on"]
    assert remote(s3) == made
    keep_for_an_hour(folder)
    assert local(folder) == {}


def test_a_store_that_lies_of_one_file_alone_gets_all_others(s3: Store, store_front: Front, folder: Path) -> None:
    first, *_ = sorted(path for path in local(folder) if path.startswith("events/"))
    store_front.fault = lambda method, key: Fault.OTHER if key.endswith(first) else None
    said: list[str] = []
    with shipper(folder, said.append) as opened:
        assert not opened.ship_all(8)
        assert opened.files == len(local(folder)) - 1
    assert said == [NOT_HELD]
    assert [file.path for file in unshipped.waiting(folder)] == [first]
    wrong = {path for path, digest in remote(s3).items() if local(folder)[path] != digest}
    assert wrong == {first}


def test_keys_that_the_store_does_not_know_are_told_and_new_ones_in_the_file_are_used(
    s3: Store, store_front: Front, folder: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"

    def write(key: str) -> None:
        keys.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")

    write("AKIAOLD")
    store_front.known_key = "AKIAWANTED"
    said: list[str] = []
    wrong = "nothing is shipped (credentials), and tried again: "
    with shipper(folder, said.append, credentials=keys) as opened:
        # wrong from the start
        assert not opened.ship_all(3)
        assert [line.startswith(wrong) for line in said] == [True]
        assert remote(s3) == {}
        write("AKIAWANTED")
        assert opened.is_shipped()
        assert said[1:] == ["shipping goes on"]
        assert remote(s3) == local(folder)
        # taken back while it runs
        store_front.known_key = "AKIANEXT"
        again = folder / min(local(folder))
        content = again.read_bytes()
        again.unlink()
        again.write_bytes(content)
        assert not opened.ship_all(3)
        assert [line.startswith(wrong) for line in said[2:]] == [True]
        write("AKIANEXT")
        assert opened.ship_all(2)
        assert said[3:] == ["shipping goes on"]
    status = read_status(folder)
    assert status is not None
    assert (status.failing, status.failures["credentials"]) == ("", 6)


def keep_for_an_hour(folder: Path) -> None:
    """Removes what may be removed of a capture that is kept for an hour, nine hours from now."""
    declare(folder, "s", RecordSettings(keep_free=Floor(), keep_age=3600.0, ship=URL))
    assert Remover(folder, now_ns=lambda: time.time_ns() + 9 * HOUR_NS).round() is not None


def test_a_bucket_that_is_not_there_is_named(s3: Store, store_front: Front, folder: Path) -> None:
    urllib.request.urlopen(f"{s3.endpoint}/moto-api/reset", data=b"").close()
    said: list[str] = []
    with shipper(folder, said.append) as opened:
        assert not opened.ship_all(2)
    assert [line.partition(",")[0] for line in said] == ["nothing is shipped (no_bucket)"]


@slow
def test_one_key_that_the_store_refuses_keeps_no_other_file_back(s3: Store, store_front: Front, folder: Path) -> None:
    (refused, *_) = sorted(local(folder))
    store_front.fault = lambda method, key: Fault.FORBIDDEN if method == "PUT" and key.endswith(refused) else None
    with shipper(folder) as opened:
        assert not opened.ship_all(8)
    # a marker waits for its facts
    missing = local(folder).keys() - remote(s3).keys()
    assert refused in missing
    assert len(missing) <= 2


@slow
def test_a_kill_at_any_step_loses_nothing_and_puts_nothing_twice(s3: Store, store_front: Front, folder: Path) -> None:
    rng, kills = random.Random(1), 0
    while True:
        left = rng.randrange(12)

        def step(name: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash(name)

        try:
            with shipper(folder, before_step=step) as opened:
                assert opened.ship_all(1)
            break
        except Crash:
            kills += 1
            assert remote(s3).items() <= local(folder).items()
    assert kills > 5
    assert remote(s3) == local(folder)
    assert puts(store_front) == dict.fromkeys(local(folder), 1)


@slow
def test_files_that_the_bucket_has_already_are_not_put_again(s3: Store, store_front: Front, folder: Path) -> None:
    ship(folder)
    shutil.rmtree(folder / "_ship")
    store_front.puts.clear()
    with shipper(folder) as opened:
        assert opened.ship_all(1)
        assert (opened.files, opened.there) == (0, len(local(folder)))
    assert not store_front.puts


@slow
def test_a_file_made_again_is_put_again_if_its_bytes_differ(s3: Store, store_front: Front, folder: Path) -> None:
    ship(folder)
    same, other = sorted(folder.glob("events/*/*/*.parquet"))[:2]
    os.utime(same)
    other.write_bytes(other.read_bytes() + b"x")
    store_front.puts.clear()
    ship(folder)
    assert puts(store_front) == {str(other.relative_to(folder)): 1}
    assert remote(s3) == local(folder)


@slow
def test_facts_made_anew_are_shipped_again_and_half_made_ones_are_not(
    s3: Store, store_front: Front, folder: Path
) -> None:
    ship(folder)
    before = remote(s3)
    (marker, *_) = sorted((folder / "facts" / "_done").iterdir())
    kept = marker.read_bytes()
    # the marker counts for nothing while its facts are made
    with open_facts(folder) as done:
        found = read_marker(done, marker.name)
        assert found is not None
    marker.write_bytes(kept.replace(f'"number":{found.number}'.encode(), b'"number":-1'))
    assert marker.read_bytes() != kept
    ship(folder)
    assert remote(s3) == before
    assert make_missing(folder) == []
    ship(folder)
    assert remote(s3) == local(folder)


def test_a_file_of_facts_that_is_not_as_made_is_named_and_keeps_its_marker_back(
    s3: Store, store_front: Front, folder: Path
) -> None:
    (marker, *_) = sorted((folder / "facts" / "_done").iterdir())
    (damaged, *_) = sorted(folder.glob(f"facts/*/date=*/hour=*/{marker.name}.parquet"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    said: list[str] = []
    with shipper(folder, said.append) as opened:
        assert [opened.is_shipped(), opened.is_shipped()] == [False, False]
    path = str(damaged.relative_to(folder))
    assert said == [f"{path} is not shipped: it is not as it was made: `kafka-wiretap facts` makes facts anew"]
    assert local(folder).keys() - remote(s3).keys() == {path, f"facts/_done/{marker.name}"}


def test_hidden_files_logs_and_links_are_not_shipped(s3: Store, store_front: Front, folder: Path) -> None:
    (file, *_) = sorted(folder.glob("frames/*/*/*.parquet"))
    before = local(folder)
    file.with_name("." + file.name).write_bytes(b"half")
    (folder / "_spool" / "y").mkdir(parents=True)
    (folder / "_spool" / "y" / "00000001.log").write_bytes(b"log")
    file.with_name("x-00000001-00000001.parquet").symlink_to("/etc/passwd")
    said: list[str] = []
    with shipper(folder, said.append) as opened:
        assert not opened.is_shipped()
    assert remote(s3) == before
    (line,) = said
    assert line.endswith("is a symbolic link, not a file")


@slow
def test_another_target_gets_all_of_it(
    s3: Store, store_front: Front, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(folder)
    monkeypatch.setattr("tests.recorder.shipping.shipped.URL", f"s3://{BUCKET}/second")
    ship(folder)
    both = s3.system().get_file_info(fs.FileSelector(f"{BUCKET}/second", recursive=True))
    assert len([one for one in both if one.is_file]) == len(local(folder))


def test_records_of_hours_that_have_gone_are_removed(store_front: Front, folder: Path) -> None:
    ship(folder)
    assert list((folder / "_ship").glob("*/*.json"))
    for table in ("frames", "events", "facts"):
        shutil.rmtree(folder / table)
    ship(folder)
    assert not list((folder / "_ship").glob("*/*.json"))


@slow
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"x": 1}', b'{"frames": [1]}', b"\xff"])
def test_records_that_say_nothing_are_made_anew_from_the_bucket(
    s3: Store, store_front: Front, folder: Path, content: bytes
) -> None:
    ship(folder)
    for record in (folder / "_ship").glob("*/*.json"):
        record.write_bytes(content)
    store_front.puts.clear()
    ship(folder)
    assert not store_front.puts
    assert unshipped.waiting(folder) == []


def test_pauses_double_to_a_longest_and_differ_by_chance() -> None:
    for failures in range(1, 40):
        most = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
        found = {pause_after(failures) for _ in range(50)}
        assert len(found) > 1
        assert all(most / 2 <= pause <= most for pause in found)


def test_the_prefix_and_the_paths_are_the_keys(store_front: Front, folder: Path) -> None:
    ship(folder)
    assert {*store_front.puts} == {f"{BUCKET}/{PREFIX}/{path}" for path in local(folder)}


def test_a_full_disk_is_a_failure_that_passes(
    store_front: Front, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with shipper(folder, said.append) as opened:
        with monkeypatch.context() as full:

            def refuse(*_: object, **__: object) -> None:
                raise OSError(28, "No space left on device")

            full.setattr(Folder, "replace", refuse)
            assert not opened.is_shipped()
        assert opened.is_shipped()
    assert any("No space left on device" in line for line in said)
    assert unshipped.waiting(folder) == []
