"""Tests of shipping into another store than moto: S3Proxy, which knows no digests, whole files and files in parts."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from recorder.shipping import store
from recorder.shipping.store import Cause, StoreError
from tests.recorder.shipping.shipped import BUCKET, URL, local, shipper
from tests.s3 import REGION, Store
from tests.s3proxy import s3proxy

pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    place = tmp_path / "s3proxy"
    place.mkdir()
    with s3proxy(place) as opened:
        for name, value in opened.environment.items():
            monkeypatch.setenv(name, value)
        client().create_bucket(Bucket=BUCKET)
        yield opened


def client() -> Any:
    """A client that sends no fields of digests."""
    plain = Config(request_checksum_calculation="when_required", response_checksum_validation="when_required")
    return boto3.client("s3", region_name=REGION, config=plain)


def held() -> dict[str, str]:
    """key -> digest of all that the bucket holds."""
    found = {}
    for page in client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for one in page["Contents"]:
            body = client().get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
            found[one["Key"]] = hashlib.sha256(body).hexdigest()
    return found


def test_it_gets_what_the_folder_holds_in_files_and_in_parts(
    other: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shipper(folder) as opened:
        opened._store = store.Store(URL)
        assert opened.ship_all(3)
        assert opened.is_shipped()
    prefix = URL.removeprefix(f"s3://{BUCKET}/")
    assert held() == {f"{prefix}/{path}": digest for path, digest in local(folder).items()}

    monkeypatch.setattr(store, "LARGEST_WHOLE", 5 << 20)
    monkeypatch.setattr(store, "PART_BYTES", 5 << 20)
    content = random.Random(1).randbytes(12 << 20)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    opened_store = store.Store(URL)
    opened_store.put("large", io.BytesIO(content), len(content), digest)
    assert opened_store.holds("large", len(content), digest)
    assert not opened_store.holds("large", len(content), f"sha256:{'0' * 64}")
    assert not opened_store.holds("large", 5, digest)


def test_what_it_refuses_has_its_cause(other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = f"sha256:{hashlib.sha256(b'x').hexdigest()}"
    with pytest.raises(StoreError) as refused:
        store.Store("s3://nowhere/kept").put("x", io.BytesIO(b"x"), 1, digest)
    assert refused.value.cause is Cause.NO_BUCKET
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreError) as refused:
        store.Store(URL).put("x", io.BytesIO(b"x"), 1, digest)
    assert refused.value.cause in (Cause.CREDENTIALS, Cause.REFUSED)
    assert "wrong" not in str(refused.value)
