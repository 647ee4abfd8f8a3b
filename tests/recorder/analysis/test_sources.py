"""Every table by its name has the columns that it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recorder.analysis.sources import SOURCES, load

Build = Callable[..., Any]


@pytest.mark.parametrize("name", SOURCES)
def test_columns_are_named_once_typed_and_told(name: str) -> None:
    table = SOURCES[name].table
    assert table.name == name
    assert len({*table.names}) == len(table.names)
    assert all(column.meaning for column in table.columns)


@pytest.mark.real
@pytest.mark.parametrize("name", SOURCES)
def test_a_table_has_the_columns_that_it_declares(captured: Build, request_row: Build, name: str) -> None:
    found = load(captured(request_row(0)), name)
    assert [f"{field.name} {field.dataType.simpleString()}" for field in found.schema] == [
        column.ddl.replace(": ", ":").replace(", ", ",") for column in SOURCES[name].table.columns
    ]
