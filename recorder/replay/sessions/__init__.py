"""Fetch and share sessions. The replay has its own, with the partitions of the recorded ones."""
