"""What the acceptance tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import server


@pytest.fixture
def home() -> Iterator[Path]:
    """A home for an embedded server of the test's own."""
    home = server.new_home()
    yield home
    server.remove_home(home)
