"""Fetch and share sessions: the replay's own, fed with what the recorded ones held."""
