"""The tables of a capture: each a function that makes a DataFrame of the capture's frames and events."""
