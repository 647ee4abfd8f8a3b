"""Provides Hadoop's `s3a://` to Spark with only the needed modules of Amazon's SDK: 15 MB; their bundle has 686 MB.

Spark brings netty, commons-logging and slf4j. Older versions before them on the class path would keep it from starting.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

from tests.brokers.jars import Artifact, installed
from tests.s3 import REGION, Store

# of the Hadoop that PySpark's wheel carries; the SDK's version is hadoop-aws' own
HADOOP, SDK = "3.4.2", "2.29.52"
_SPARKS = ("io.netty:*", "commons-codec:*", "commons-logging:*", "org.slf4j:*")
_MODULES = ("s3-transfer-manager", "apache-client", "sts")
_ARTIFACTS = (
    Artifact("org.apache.hadoop:hadoop-aws", HADOOP, ("software.amazon.awssdk:bundle", *_SPARKS)),
    *(Artifact(f"software.amazon.awssdk:{name}", SDK, _SPARKS) for name in _MODULES),
)
SUMS = Path(__file__).with_name(f"hadoop-aws-{HADOOP}.sha256")


def options(store: Store) -> list[str]:
    """The command line's options with which Spark's `s3a://` leads to a store."""
    settings = {
        "spark.driver.extraClassPath": class_path(),
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def class_path() -> str:
    """The jars that Spark needs in front of its own. RuntimeError says why they can't be had."""
    (carried,) = Path(pyspark.__file__).with_name("jars").glob("hadoop-client-api-*.jar")
    version = re.search(r"api-(.*)[.]jar", carried.name)
    if version is None or version[1] != HADOOP:
        raise RuntimeError(f"Spark carries {carried.name}: hadoop-aws {HADOOP} is not for it")
    return ":".join(map(str, sorted(installed(f"hadoop-aws-{HADOOP}", _ARTIFACTS, SUMS).glob("libs/*.jar"))))
