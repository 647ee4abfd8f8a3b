"""Provides promtool, which reads Prometheus' rules and expressions."""

import os
import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture
def promtool() -> str:
    # `make setup` may have installed promtool beside the interpreter
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    found = shutil.which("promtool", path=places)
    assert found, "promtool is missing: `make setup` installs it"
    return found
