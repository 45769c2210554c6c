"""Writes into memory that code asks for without saying what is in it: what depends on that differs from run to run."""

from __future__ import annotations

from typing import Any, final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_FRESH = (_aten.empty, _aten.empty_like, _aten.empty_permuted, _aten.empty_strided, _aten.new_empty,
          _aten.new_empty_strided)  # fmt: skip


@final
class Filling(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """While it is entered (``with Filling(): ...``), `torch.empty` and its like give ones, in the calling thread.

    torch's own switch for this belongs to the whole process, and so to a training beside it, whose algorithms it
    changes.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in _FRESH and result.layout == torch.strided:
            # Ones are valid as numbers and as most indices, and hide nothing as NaN would.
            result.fill_(1)
        return result
