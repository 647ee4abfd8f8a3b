"""Tests of the token: what a file may hold, and how it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.limited_files import UnusableFile
from proxy.tokens import bearer_of, is_equal, new_token, token_of
from tests.tables import each_row

TOKEN = "correct-horse-battery-staple"


@pytest.mark.parametrize(
    "content",
    [b"", b"short", b"two\nlines of a long file", b"\xff" * 20, b"x" * 5000, b"a" * 20 + b"\0b"],
)
def test_a_file_without_a_token_is_refused_in_a_sentence_without_its_text(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UnusableFile, match="holds no token") as error:
        token_of(file)
    assert not content or content.decode("latin-1") not in str(error.value)


def test_blanks_around_a_token_are_no_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f" {TOKEN}\r\n")
    assert token_of(file) == TOKEN
    assert is_equal(f" {TOKEN} ", TOKEN)
    assert not is_equal(f"{TOKEN}s", TOKEN)


def test_new_tokens_are_long_and_different() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 40


@each_row(
    "header, shown",
    [(f"Bearer {TOKEN}", TOKEN), (f"bearer {TOKEN}", TOKEN), ("Bearer", ""), (f"Basic {TOKEN}", None), ("", None)],
)
def test_a_token_is_shown_by_the_scheme_bearer(header: str, shown: str | None) -> None:
    assert bearer_of(header) == shown
