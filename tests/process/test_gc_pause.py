"""Free memory can be given back, and collections paused."""

from __future__ import annotations

import gc

from pnne_nb.process.gc_pause import SMALL, return_free_memory, without_collections


def test_free_memory_is_given_back_where_the_system_can() -> None:
    for used in (0, SMALL):
        return_free_memory(used)  # and does no harm


def test_collections_go_on_after_the_block() -> None:
    assert gc.isenabled()
    with without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()
