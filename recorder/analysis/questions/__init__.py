"""Questions about a capture: each a function from the DataFrames of `tables` to a small DataFrame of answers."""
