"""Checks that this machine can run Spark, before Spark fails with a message of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

# The oldest version of Java that Spark 4 runs on.
OLDEST_JAVA = 17


def missing() -> str | None:
    """Returns one line about a requirement of Spark that this machine lacks; None if it has them all."""
    java, home = _java(), os.environ.get("JAVA_HOME")
    if java is None and home:
        return (
            f"no Java found: JAVA_HOME is {home}, where there is no bin/java; set it to a Java {OLDEST_JAVA} or newer"
        )
    if java is None:
        return f"no Java found: install a JDK or JRE {OLDEST_JAVA} or newer, or set JAVA_HOME"
    version = _version(java)
    if version is not None and version < OLDEST_JAVA:
        return f"{java} is Java {version}: Spark needs {OLDEST_JAVA} or newer (set JAVA_HOME)"
    return None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        inside = Path(home) / "bin" / "java"
        return str(inside) if os.access(inside, os.X_OK) else None
    return shutil.which("java")


def _version(java: str) -> int | None:
    """Returns Java's major version; None if it can't be determined, and then Spark itself checks."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if not found:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major
