"""Collections can be paused, and kept to what is new."""

from __future__ import annotations

import gc

from pnne_nb.process.gc_pause import collecting_new_only, without_collections


def test_collections_go_on_after_the_block() -> None:
    before = gc.get_freeze_count()
    assert gc.isenabled()
    with without_collections(), collecting_new_only():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == before
