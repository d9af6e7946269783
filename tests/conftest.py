"""The order of all tests."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests first: what is left for the end of a run is then short, and workers end together."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
