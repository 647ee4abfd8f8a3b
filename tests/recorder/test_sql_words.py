"""Tests of what other databases' shells call the words of `sql`."""

from __future__ import annotations

from recorder.sql_words import asked
from tests.tables import each_row


@each_row("text", ["tables", "TABLES;", ".tables", "\\d", "\\dt", "\\dt+", "show tables", "SHOW TABLES ;", " \\d \n"])
def test_tables_are_asked_for(text: str) -> None:
    assert asked(text) == ("tables",)


@each_row(
    "text",
    [
        *("describe frames", "desc frames;", 'describe "frames"', "DESCRIBE `frames`;", "describe table frames"),
        *("\\d frames", "\\d+ 'frames'", ".schema frames", "show columns from frames;"),
    ],
)
def test_the_columns_of_a_table_are_asked_for(text: str) -> None:
    assert asked(text) == ("describe", "frames")


@each_row("text", ["", ";", "select 1", "describe", "show", "describe frames; select 1", "with tables as (select 1)"])
def test_anything_else_is_no_word(text: str) -> None:
    assert asked(text) is None
