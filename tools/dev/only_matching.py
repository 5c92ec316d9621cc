"""A pytest plugin: `--only-matching PATTERN` keeps the tests whose name the regular expression finds."""

from __future__ import annotations

import re

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--only-matching", default=None, help="regular expression searched in test names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    pattern = config.getoption("--only-matching")
    if pattern is None:
        return
    kept = [item for item in items if re.search(pattern, item.nodeid)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
