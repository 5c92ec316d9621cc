"""The logger of simpler, with the level TIMING between INFO and WARNING."""

from __future__ import annotations

import logging

__all__ = ["DEFAULT_THRESHOLD", "NUL", "TIMING", "get_current_config", "get_logger"]

TIMING = 25
NUL = 60
DEFAULT_THRESHOLD = TIMING
_LADDER = (10, 20, TIMING, 30, 40, NUL)

logging.addLevelName(NUL, "NULL")
logging.addLevelName(NUL, "NUL")
logging.addLevelName(TIMING, "TIMING")


def get_logger() -> logging.Logger:
    """Return the logger of this package.

    Examples
    --------
    >>> get_logger().name
    'simpler'
    """
    return logging.getLogger("simpler")


def get_current_config() -> int:
    """Return the logger's level, rounded up to one of the known ones.

    Examples
    --------
    >>> get_logger().setLevel(21)
    >>> get_current_config()
    25
    >>> get_logger().setLevel(0)
    """
    level = get_logger().getEffectiveLevel()
    return next((step for step in _LADDER if level <= step), NUL)
