"""The settings of `capture.ship`: the bucket, the store, and where the SDK finds the keys. They hold no secret.

A secret is in a file of the SDK's own format or in the environment (AWS_SECRET_ACCESS_KEY, a profile, a machine's
role); only the SDK reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from proxy.schema.addresses import http_url
from proxy.schema.errors import InvalidValue
from proxy.schema.keys import Key
from proxy.schema.kinds import FILE, Kind, text, text_within
from recorder.capture.remote import SCHEME
from recorder.capture.selection import SelectionSettings

# Amazon's rules for names of buckets, and the longest key, less what a capture's longest path takes
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_MAX_PREFIX = 512
_REGION = re.compile(r"[a-z0-9-]{1,64}")


def _target(raw: Any) -> str:
    url = text_within(_MAX_PREFIX, raw)
    bucket, *folders = url.removeprefix(SCHEME).removesuffix("/").split("/")
    if not url.startswith(SCHEME) or _BUCKET.fullmatch(bucket) is None:
        raise InvalidValue("names no bucket")
    if any(folder in ("", ".", "..") for folder in folders):
        raise InvalidValue("has a folder without a name")
    return "/".join((SCHEME + bucket, *folders))


def _region(raw: Any) -> str:
    region = text(raw)
    if _REGION.fullmatch(region) is None:
        raise InvalidValue("is no region")
    return region


TARGET = Kind('a URL such as "s3://bucket/folder"', _target, str, "URL")
ENDPOINT = Kind('a URL such as "https://store.example:9000"', partial(http_url, "a store"), str, "URL")
REGION = Kind("a region", _region, str, "REGION")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipSettings(SelectionSettings):
    """Where the capture is copied to. None: as the SDK finds it, or nowhere (`ship`)."""

    ship: Annotated[
        str | None,
        Key(
            TARGET,
            "ship",
            "Copy each published file to this folder of an S3 bucket; what is not copied yet is not removed.",
            "s3://bucket/captures/orders",
            unset="nothing is copied",
        ),
    ] = None
    ship_endpoint: Annotated[
        str | None,
        Key(
            ENDPOINT,
            "ship_endpoint",
            "The store, if it is another than Amazon's.",
            "https://store.example:9000",
            unset="`AWS_ENDPOINT_URL_S3`, or Amazon's",
        ),
    ] = None
    ship_region: Annotated[
        str | None,
        Key(
            REGION, "ship_region", "The bucket's region.", "eu-central-1", unset="`AWS_REGION`, or as the SDK finds it"
        ),
    ] = None
    ship_credentials: Annotated[
        Path | None,
        Key(
            FILE,
            "ship_credentials",
            "A file with the keys in the SDK's format: `[default]`, `aws_access_key_id`, `aws_secret_access_key`. Only "
            "its owner may read it.",
            "/etc/kafka-wiretap/s3",
            unset="as the SDK finds them: environment, profile, role",
        ),
    ] = None
