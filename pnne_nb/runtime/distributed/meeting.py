"""Where the processes of a group find each other, each time that torchrun starts them."""

from __future__ import annotations

import secrets
import time

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

_LOOK_EVERY = 0.02
"""Seconds."""


def meet() -> tuple[Store, int, int]:
    """Meet the others that torchrun has started together with this process.

    Returns:
        What they write to and read from, the number of this process, and how many there are.
    """
    store, rank, count = next(iter(rendezvous("env://")))
    return own_part(store, rank, count), rank, count


def own_part(store: Store, rank: int, count: int) -> Store:
    """The part of `store` that belongs to this start of a group, and to no earlier one.

    torchrun lends the same store to every start (torch 2.13): there, a process that is started again may read where
    one of the dead has listened, and never reach anybody. Called by every process of the group.
    """
    name = secrets.token_hex(8)
    store.set(f"pnne/here/{rank}", name)
    if rank == 0:
        _call_roll(store, name, count)
        start = name
    else:
        start = _answer(store, name, rank)
    return PrefixStore(f"pnne/{start}", store)


def _call_roll(store: Store, start: str, count: int) -> None:
    """Tell everybody the name of this start; those who are not there yet may still be read as they were before."""
    answers = [f"pnne/{start}/seen/{rank}" for rank in range(1, count)]
    while answers and not store.check(answers):
        present = [store.get(f"pnne/here/{rank}").decode() for rank in range(count)]
        store.set("pnne/roll", " ".join(present))
        time.sleep(_LOOK_EVERY)


def _answer(store: Store, name: str, rank: int) -> str:
    """The name of the start on whose roll this process is: that of the process that calls it."""
    while True:
        start, *others = store.get("pnne/roll").decode().split()
        if name in others:
            store.set(f"pnne/{start}/seen/{rank}", "")
            return start
        time.sleep(_LOOK_EVERY)
