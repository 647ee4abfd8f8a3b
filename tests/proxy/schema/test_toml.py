import tomllib

from hypothesis import given
from hypothesis import strategies as st

from proxy.schema.toml import dotted, toml


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.lists(st.text(st.characters(exclude_categories=["Cs"])))
)
def test_toml_reads_what_is_written_as_toml(value):
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3))
def test_toml_reads_a_place_as_it_is_shown(names):
    found = tomllib.loads(f"{dotted(tuple(names))} = 1")
    for name in names:
        found = found[name]
    assert found == 1
