"""Provides a small capture with a row of each kind."""

from __future__ import annotations

from tests.recorder.small_capture import folder

__all__ = ["folder"]
