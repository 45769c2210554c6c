"""Copies opaque modules that run their own code on layers and blocks of the document.

Such a module is an object of the original's class. It is created without that class's constructor, which would create
submodules of its own: the constructor of the generated class around it passes in the submodules, and `settle` sets all
other attributes from the original. Attributes that refer to submodules of the original (a list of layers, a bound
method) then refer to their replacements.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import nn

from pnne_nb.compiler.codegen.loader import OWN_CALLS, itself
from pnne_nb.compiler.codegen.prelude import CALLED
from pnne_nb.compiler.weights.deepcopy import computed
from pnne_nb.compiler.weights.reuse import Former, place_in
from pnne_nb.errors import Diagnostic

_PARTS = ("_parameters", "_buffers", "_modules")
_NOT_PERSISTENT = "_non_persistent_buffers_set"


def shell(original: nn.Module) -> nn.Module:
    """Return an object of a module's class that holds nothing yet."""
    made: nn.Module = object.__new__(type(original))
    nn.Module.__init__(made)
    return made


def settle(model: nn.Module, source: nn.Module, boxes: Sequence[str], former: Former) -> list[Diagnostic]:
    """Give the shells in a new model, which have their parts, everything else.

    Args:
        model: It has the weights that it is to have.
        source: The model that has the originals.
        boxes: Paths of the opaque modules, outer ones first.
        former: Paths that modules of `model` have in `source`, where they differ.

    Returns:
        What the modules' own code would miss.
    """
    if not boxes:
        return []
    originals = {**dict(source.named_modules(remove_duplicate=False)), "": itself(source)}
    missing: list[Diagnostic] = []
    memo: dict[int, Any] = {id(each): each.detach().clone() for each in computed(source)}
    pairs: list[tuple[str, nn.Module, nn.Module]] = []
    for path, module in model.named_modules(remove_duplicate=False):
        original = originals.get(place_in(path, former))
        if original is None:
            continue
        if path in boxes:
            pairs.append((path, module, original))
        memo[id(original)] = module
        for kind in _PARTS[:2]:
            new = vars(module)[kind]
            memo.update((id(old), new[name]) for name, old in vars(original)[kind].items() if name in new)
    for path, module, original in pairs:
        for kind in _PARTS:
            held = vars(module)[kind]
            for name, part in vars(original)[kind].items():
                if part is None:
                    held.setdefault(name, None)
                elif name not in held:
                    missing.append(
                        Diagnostic(
                            code="box-lost",
                            message=f"Its own code, that of {type(original).__name__}, may use {name}, "
                            "which is no longer inside it.",
                            node=path,
                            hint=f"Give a node inside it the name {name}.",
                        )
                    )
        for name, value in vars(original).items():
            if name in _PARTS or name == _NOT_PERSISTENT:
                continue
            calls = vars(module).get(OWN_CALLS) if name in CALLED else None
            try:
                (vars(module) if calls is None else calls)[name] = copy.deepcopy(value, memo)
            except Exception as error:  # noqa: BLE001  # its class may define copying as it likes
                missing.append(
                    Diagnostic(
                        code="box-lost",
                        message=f"Its attribute {name} cannot be copied: {error}.",
                        node=path,
                        hint="Set it to what can be copied, as None, before the model is passed on.",
                    )
                )
    return missing
