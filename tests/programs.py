"""Finds the programs that `make setup` installs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program(name: str) -> str:
    """The path of a program on PATH, or beside the interpreter, where `make setup` puts those of no Debian package."""
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    found = shutil.which(name, path=places)
    assert found, f"{name} is missing: `make setup` installs it"
    return found
