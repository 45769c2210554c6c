"""One warm server for the tests of a file, which leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pnne_nb.runtime.training_process.process_server import server
from tests.runtime.distributed import groups


@pytest.fixture(autouse=True, scope="module")
def _one_server() -> Iterator[None]:
    yield
    left = groups.children()
    server.close()
    groups.assert_gone(left)
