"""How the processes of a group meet, and find the start that they belong to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from torch.distributed import HashStore  # type: ignore[attr-defined]  # documented there
from torch.distributed.distributed_c10d import Store

from pnne_nb.runtime.distributed.step.group import own_part

COUNT = 3


def test_each_start_of_a_group_has_a_part_of_the_store_to_itself() -> None:
    # torchrun lends one store to every start, whatever the dead have left in it.
    store = HashStore()

    def start(rank: int) -> Store:
        return own_part(store, rank, COUNT)

    with ThreadPoolExecutor(COUNT) as threads:
        first = list(threads.map(start, range(COUNT)))
        first[0].set("address", "of the dead")
        assert {part.get("address") for part in first} == {b"of the dead"}
        second = list(threads.map(start, reversed(range(COUNT))))
    assert not any(part.check(["address"]) for part in second)
    second[2].set("address", "of the living")
    assert {part.get("address") for part in second} == {b"of the living"}
