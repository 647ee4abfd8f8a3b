"""Folders of `.kafka` files beside the code: their names and their texts, from plain files or out of a zip.

Spark's executors get this code as a zip; everybody else has files.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

HERE = os.path.dirname(__file__)


class Folder:
    """The `.kafka` files of one folder of this room. `path` is the folder's, in the zip too."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Plain paths where there are files: importlib.resources takes longer to import than the rest of this room.
        self.path = os.path.join(HERE, name)

    def names(self) -> list[str]:
        """The names of the folder's files, sorted."""
        found = os.listdir(self.path) if os.path.isdir(self.path) else [one.name for one in self._zipped().iterdir()]
        return sorted(name for name in found if name.endswith(".kafka"))

    def text(self, name: str) -> str:
        """The text of the file of that name."""
        if os.path.isdir(self.path):
            with open(os.path.join(self.path, name), encoding="utf-8") as file:
                return file.read()
        return self._zipped().joinpath(name).read_text("utf-8")

    def _zipped(self) -> "Traversable":
        from importlib.resources import files

        return files(f"proxy.wire.{self.name}")
