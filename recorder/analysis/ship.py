"""Zips the code that Spark's executors need: the wire, the tools that show it, and the recorder's rooms.

Executors import the code from the zip, so no module in it may require files on disk. Besides it they need Python with
pyarrow.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

# package -> its folders in the zip
SHIPPED = {"proxy": ("wire", "tools"), "recorder": ("analysis", "capture")}
# package -> single files of it that those need
FILES = {"proxy": ("files.py", "terminal.py")}


def write_zip(target: Path) -> Path:
    """Write the packages into `target` and return it. Raises OSError if that can't be written."""
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for package, rooms in SHIPPED.items():
            root = _folder(package)
            archive.write(root / "__init__.py", f"{package}/__init__.py")
            for name in FILES.get(package, ()):
                archive.write(root / name, f"{package}/{name}")
            for room in rooms:
                for file in sorted((root / room).rglob("*")):
                    if file.is_file() and "__pycache__" not in file.parts:
                        archive.write(file, f"{package}/{file.relative_to(root)}")
    return target


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package} is not installed as files")
    return Path(spec.submodule_search_locations[0])
