"""Provides a small capture with a row of each kind, and what makes its rows."""

from __future__ import annotations

from tests.recorder.small_capture import folder, make_request, make_response, written

__all__ = ["folder", "make_request", "make_response", "written"]
