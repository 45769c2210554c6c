from __future__ import annotations

import asyncio
from collections.abc import Generator

from pnne_nb.widgets.host.piecework import Piecework


def pieces(done: list[int], count: int = 3) -> Generator[object, None, None]:
    for piece in range(count):
        yield None
        done.append(piece)


def test_a_script_waits_for_all_of_it() -> None:
    done: list[int] = []
    work = Piecework()
    work.start(pieces(done))
    assert done == [0, 1, 2]
    assert not work.stop()


def test_a_loop_does_other_things_between_the_pieces() -> None:
    done: list[int] = []
    first: list[int] = []
    work = Piecework()

    async def kernel() -> None:
        work.start(pieces(first))
        work.start(pieces(done))
        assert done == []
        seen = []
        for _ in range(6):
            await asyncio.sleep(0)
            seen.append(len(done))
        assert seen[0] < seen[2] < seen[4] == 3
        work.start(pieces(first))
        assert work.stop()
        await asyncio.sleep(0)

    asyncio.run(kernel())
    assert first == [], "other work took its place, or it was given up"
