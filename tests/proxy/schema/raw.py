"""Generates the values that a settings file may hold."""

from hypothesis import strategies as st

RAW = st.recursive(
    st.none() | st.text() | st.integers() | st.floats() | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
