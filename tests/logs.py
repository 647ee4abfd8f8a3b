"""What tests read of the program's log."""

import logging
from typing import Any


def keys_of(record: logging.LogRecord) -> dict[str, Any]:
    """Returns the keys that `proxy.log.log` was given."""
    found: dict[str, Any] = vars(record)["keys"]
    return found
