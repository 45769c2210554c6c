"""`Sizes`: reads and edits the named sizes of a document."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import final

from pnne_nb.errors import expect, near, shown
from pnne_nb.graph.edits.transactions import TransactionLog
from pnne_nb.graph.model.ops import SetSize


@final
class Sizes(MutableMapping[str, int]):
    """The named sizes of a document, which any number may be calculated from.

    ::

        graph.sizes["hidden"] = 64
        graph.sizes["inner"] = "4*hidden"
        graph.add("Linear", out_features="inner // 2")
        graph.sizes["hidden"] = 128  # one change, for one undo: the layer has 256 features now

    A size is a whole number, or a calculation of other sizes with ``+``, ``-``, ``*``, ``//`` and brackets. Where one is
    deleted, its number takes its place.
    """

    def __init__(self, ledger: TransactionLog) -> None:
        self._ledger = ledger

    def __getitem__(self, name: str) -> int:
        with self._ledger.lock:
            sizes = self._ledger.content.sizes
            if name not in sizes:
                raise KeyError(f"The graph has no size {shown(name)}.{near(name, sizes)}")
            return int(sizes[name])

    def __setitem__(self, name: str, value: int | str) -> None:
        """Give, or change, a size.

        Raises:
            IllegalNameError: If Python cannot have a variable of that name, or it means something else in the graph.
            BadValueError: If `value` is neither a whole number nor a calculation of other sizes, is calculated from itself,
                or a property cannot have the number that follows.
        """
        expect(value, (int, str), f"graph.sizes[{shown(name)}]", "a whole number or a calculation such as '4*hidden'")
        with self._ledger.editing():
            self._ledger.apply([SetSize(name, value)])

    def __delitem__(self, name: str) -> None:
        self[name]
        with self._ledger.editing():
            self._ledger.apply([SetSize(name, None)])

    def __iter__(self) -> Iterator[str]:
        with self._ledger.lock:
            return iter(sorted(self._ledger.content.sizes))

    def __len__(self) -> int:
        with self._ledger.lock:
            return len(self._ledger.content.sizes)

    def __repr__(self) -> str:
        with self._ledger.lock:
            each = sorted(self._ledger.content.sizes.items())
        return f"Sizes({', '.join(f'{name} = {value!r}' for name, value in each)})"
