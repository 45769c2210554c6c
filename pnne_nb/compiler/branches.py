"""Which calls of a program only run in one mode: what a ``choose`` node takes for training, and what for evaluation."""

from __future__ import annotations

from typing import Literal

from pnne_nb.compiler.program import Argument, Call, Program, Ref, Sequence
from pnne_nb.compiler.variables import references

CHOOSE = "choose"
"""Target of the call that is written ``train if self.training else eval``."""

Branch = Literal["", "train", "eval"]


def branches(program: Program) -> list[Branch]:
    """Return for each call of a program the mode in which alone it is made; empty where it always is."""
    if not any(call.target == CHOOSE for call in program.calls):
        return [""] * len(program.calls)
    uses: dict[str, set[Branch]] = {}
    for result in program.results:
        _use(uses, result.value, "")
    found: dict[str, Branch] = {}
    for call in reversed(program.calls):
        modes = uses.get(call.node)
        branch: Branch = next(iter(modes)) if modes and len(modes) == 1 else ""
        found[call.node] = branch
        if call.target == CHOOSE:
            for mode, argument in zip(("train", "eval"), call.arguments, strict=False):
                _use(uses, argument, branch or mode)  # type: ignore[arg-type]  # both are modes
        else:
            for ref in references(call):
                uses.setdefault(ref.node, set()).add(branch)
    # What nothing uses changes something in place: it belongs to where that was made.
    for call in program.calls:
        if call.node not in uses:
            found[call.node] = next((found[ref.node] for ref in references(call) if found.get(ref.node)), "")
    return [found[call.node] for call in program.calls]


def _use(uses: dict[str, set[Branch]], argument: Argument, mode: Branch) -> None:
    if isinstance(argument, Ref):
        uses.setdefault(argument.node, set()).add(mode)
    elif isinstance(argument, Sequence):
        for item in argument.items:
            _use(uses, item, mode)
    elif isinstance(argument, Call):
        for ref in references(argument):
            uses.setdefault(ref.node, set()).add(mode)
