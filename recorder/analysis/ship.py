"""Zips the code that Spark's executors need: the wire, the tools that show it, and the recorder's rooms.

The planner of the data source runs where executors do, without a driver of ours: it reads times in options.

Executors import the code from the zip, so no module in it may require files on disk. Besides it they need Python with
pyarrow. What `spark-submit` takes is a zip of both packages as a whole: there the driver has nothing else.
"""

from __future__ import annotations

from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

NAME = "kafka-wiretap"
# package -> its folders in the zip
SHIPPED = {"proxy": ("wire", "tools", "schema"), "recorder": ("analysis", "capture")}
# package -> single files of it that those need
FILES = {"proxy": ("files.py", "terminal.py", "units.py"), "recorder": ("moments.py",)}


def write_zip(target: Path) -> Path:
    """Write the packages into `target` and return it. Raises OSError if that can't be written."""
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for package, rooms in SHIPPED.items():
            root = _folder(package)
            archive.write(root / "__init__.py", f"{package}/__init__.py")
            for name in FILES.get(package, ()):
                archive.write(root / name, f"{package}/{name}")
            for room in rooms:
                _add(archive, package, root, root / room)
    return target


def ship(target: Path) -> Path:
    """The zip for executors: `target`, which is written; or the one that this code itself was imported from."""
    within = [parent for parent in Path(__file__).parents if parent.is_file()]
    return within[0] if within else write_zip(target)


def write_whole(target: Path) -> Path:
    """Write both packages as a whole into `target`, with what tells their version, and return it. Raises OSError."""
    found = distribution(NAME)
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for package in SHIPPED:
            _add(archive, package, _folder(package), _folder(package))
        told = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {found.version}\n"
        archive.writestr(f"{NAME.replace('-', '_')}-{found.version}.dist-info/METADATA", told)
    return target


def _add(archive: ZipFile, package: str, root: Path, room: Path) -> None:
    """All files of a room of the package, which lies at `root`."""
    for file in sorted(room.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            archive.write(file, f"{package}/{file.relative_to(root)}")


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package} is not installed as files")
    return Path(spec.submodule_search_locations[0])
