"""Tests that only regular files and folders are opened, replaced and removed; anything else stays untouched."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.files import Folder, StrangeFileError

# things that may be in the place of a file, by their names in the error
STRANGERS: dict[str, Callable[[Path], object]] = {
    "a symbolic link": lambda path: path.symlink_to("../outside/file"),
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
}

# operations on a file by its name
TOUCHES: dict[str, Callable[[Folder, str], object]] = {
    "read": lambda folder, name: folder.read(name),
    "open to write": lambda folder, name: folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    "open to append": lambda folder, name: folder.open(name, os.O_RDWR | os.O_APPEND),
    "create": lambda folder, name: folder.create(name),
    "replace": lambda folder, name: folder.replace(name, b"new"),
    "remove": lambda folder, name: folder.remove(name),
    "size": lambda folder, name: folder.size(name),
    "rename over": lambda folder, name: folder.rename("file", name),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"old")
    with Folder.at(tmp_path / "inside") as opened:
        yield opened


def everything(path: Path) -> dict[str, bytes | None]:
    """Returns all that is below a path, with the bytes of files."""
    return {str(one.relative_to(path)): one.read_bytes() if one.is_file() else None for one in sorted(path.rglob("*"))}


@pytest.mark.parametrize("touch", TOUCHES)
@pytest.mark.parametrize("stranger", STRANGERS)
def test_something_other_than_a_file_is_refused_at_once_and_stays(
    folder, tmp_path, monkeypatch, stranger, touch
) -> None:
    # a socket's path may have 108 bytes
    monkeypatch.chdir(folder.path)
    STRANGERS[stranger](Path("name"))
    before = everything(tmp_path)
    with pytest.raises(StrangeFileError) as caught:
        TOUCHES[touch](folder, "name")
    assert str(caught.value) == f"{folder.path / 'name'} is {stranger}, not a file"
    assert caught.value.strerror == str(caught.value)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("stranger", ["a symbolic link", "a FIFO"])
def test_a_whole_file_is_not_written_through_what_waits_under_its_hidden_name(folder, tmp_path, stranger) -> None:
    STRANGERS[stranger](folder.path / ".name")
    before = everything(tmp_path)
    with pytest.raises(StrangeFileError, match=rf"\.name is {stranger}, not a file"):
        folder.replace("name", b"new")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("stranger", ["a symbolic link", "a FIFO", "a file"])
def test_something_other_than_a_folder_is_neither_entered_nor_removed(folder, tmp_path, stranger) -> None:
    makers = STRANGERS | {"a symbolic link": lambda path: path.symlink_to("../outside"), "a file": Path.touch}
    makers[stranger](folder.path / "name")
    before = everything(tmp_path)
    for touch in (folder.folder, folder.make_folder, folder.remove_folder):
        with pytest.raises(StrangeFileError, match=f"name is {stranger}, not a folder"):
            touch("name")
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../outside", "/etc", "a/b", "a\0b"],
    ids=["nothing", "here", "above", "beside", "elsewhere", "below", "NUL"],
)
def test_no_name_leads_out_of_the_folder(folder, name) -> None:
    for touch in (*TOUCHES.values(), Folder.folder, Folder.make_folder, Folder.remove_folder, Folder.stat):
        with pytest.raises(ValueError, match="not the name of a file"):
            touch(folder, name)


def test_the_folder_that_was_named_may_be_a_link(folder, tmp_path) -> None:
    (tmp_path / "link").symlink_to(folder.path)
    with Folder.at(tmp_path / "link") as linked:
        assert linked.read("file") == b"old"


def test_a_folder_stays_the_same_one_when_another_takes_its_place(folder, tmp_path) -> None:
    folder.path.rename(tmp_path / "moved")
    folder.path.symlink_to(tmp_path / "outside")
    folder.replace("file", b"new")
    assert (tmp_path / "moved" / "file").read_bytes() == b"new"
    assert (tmp_path / "outside" / "file").read_bytes() == b"old"


def test_entries_are_recorded_as_what_they_are(folder) -> None:
    (folder.path / "link").symlink_to("file")
    (folder.path / "below").mkdir()
    assert folder.names() == ["below", "file", "link"]
    assert [name for name in folder.names() if folder.is_file(name)] == ["file"]
    assert [name for name in folder.names() if folder.is_folder(name)] == ["below"]
    assert folder.stat("none") is None
    assert (folder.size("file"), folder.size("none")) == (3, 0)


def test_a_file_is_replaced_as_a_whole_and_is_its_owners_alone(folder) -> None:
    # the rest of a write that a crash interrupted
    (folder.path / ".file").write_bytes(b"a longer rest")
    folder.replace("file", b"new")
    folder.replace("other", b"more", sync=False)
    assert everything(folder.path) == {"file": b"new", "other": b"more"}
    assert (folder.path / "other").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_leaves_the_old_one_alone(folder, monkeypatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.replace("file", b"new")
    assert everything(folder.path) == {"file": b"old"}


def test_a_part_of_a_file_is_read_where_no_more_is_wanted(folder) -> None:
    assert folder.read("file", 2) == b"ol"
    with pytest.raises(FileNotFoundError):
        folder.read("none")


def test_folders_are_made_entered_and_removed(folder) -> None:
    with folder.make_folder("below", 0o700) as below, folder.make_folder("below") as again:
        below.replace("file", b"new")
        assert again.read("file") == b"new"
        assert below.path == folder.path / "below"
        assert below.path.stat().st_mode & 0o777 == 0o700
        below.remove("file")
    folder.remove_folder("below")
    folder.remove_folder("below")
    assert folder.names() == ["file"]
    with pytest.raises(FileNotFoundError):
        folder.folder("below")


def test_files_and_folders_are_renamed(folder) -> None:
    folder.make_folder("below").close()
    folder.rename("below", "deep")
    folder.rename("file", "renamed")
    assert folder.names() == ["deep", "renamed"]
    with pytest.raises(FileNotFoundError):
        folder.rename("none", "other")


def test_a_folder_is_closed_once(folder) -> None:
    folder.close()
    folder.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        folder.names()


def test_a_folder_that_must_be_new_is_not_another_one(folder) -> None:
    folder.make_folder("below", is_new=True).close()
    with pytest.raises(FileExistsError):
        folder.make_folder("below", is_new=True)


def test_a_folder_is_locked_by_one_until_it_is_closed(folder) -> None:
    with Folder.at(folder.path) as other:
        assert folder.lock()
        assert not other.lock()
        folder.close()
        assert other.lock()


def test_a_lock_always_succeeds_where_folders_have_no_locks(folder, monkeypatch) -> None:
    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("proxy.files.fcntl.flock", none)
    with Folder.at(folder.path) as other:
        assert folder.lock()
        assert other.lock()


def test_a_folder_knows_its_owner_and_whether_it_was_moved(folder, tmp_path) -> None:
    assert folder.owner == os.geteuid()
    assert folder.is_in_place
    folder.path.rename(tmp_path / "moved")
    assert not folder.is_in_place
    (tmp_path / "inside").mkdir()
    assert not folder.is_in_place


@pytest.mark.parametrize("open_it", [Folder.folder, Folder.read, Folder.open], ids=["folder", "read", "open"])
def test_the_error_of_a_missing_file_is_not_its_own_cause(folder: Folder, open_it: Callable[..., object]) -> None:
    """Such a circle keeps every frame on the way alive, with all that it holds, until the collector comes by."""
    with pytest.raises(FileNotFoundError) as caught:
        open_it(folder, "missing")
    assert caught.value.__cause__ is None
