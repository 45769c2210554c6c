"""The methods of captum, an extra: those that need nothing but the model, its inputs and baselines."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, NoReturn

import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, near
from pnne_nb.inspector.questions.leaves import Leaves

PREFIX: Final = "captum."

_OTHERWISE = ("Layer", "Neuron", "Remote", "LLM")
"""How classes begin that answer other questions."""


def names() -> list[str]:
    """Return captum's methods, ``"captum.DeepLift"`` among them; none without captum."""
    if find_spec("captum") is None:
        return []
    module = importlib.import_module("captum.attr")
    return [f"{PREFIX}{name}" for name, value in sorted(vars(module).items()) if _fits(name, value)]


def refuse(method: str, others: Sequence[str]) -> NoReturn:
    """Raise the error for a method that captum does not have, or that needs captum.

    Raises:
        ArgumentError: Always.
    """
    if find_spec("captum") is None:
        raise ArgumentError(
            f"{method} comes with captum: pip install 'pnne_nb[captum]'. Without it, there are {', '.join(others)}."
        )
    known = names()
    raise ArgumentError(f"method cannot be {method!r}.{near(method, known)} Of captum, there are {', '.join(known)}.")


def run(
    method: str, leaves: Leaves, bases: Sequence[Tensor], options: Mapping[str, Any]
) -> tuple[list[Tensor], float | None]:
    """Return the values of each leaf, and the completeness gap if the method measures one.

    Raises:
        InspectionError: If captum cannot apply the method; the message has its reason.
    """
    kind = getattr(importlib.import_module("captum.attr"), method.removeprefix(PREFIX))
    made = kind(_Answer(leaves))
    taken = inspect.signature(made.attribute).parameters
    given = dict(options)
    if "baselines" in taken:
        given.setdefault("baselines", tuple(bases))
    measured = "return_convergence_delta" in taken
    if measured:
        given["return_convergence_delta"] = True
    points = tuple(leaf.start.clone().requires_grad_() for leaf in leaves.all)
    try:
        with warnings.catch_warnings():
            # That it sets hooks, which are those of a copy here.
            warnings.filterwarnings("ignore", message="Setting .*hooks")
            warnings.filterwarnings("ignore", message=r"\s*Setting forward, backward hooks")
            found = made.attribute(points, **given)
    except InspectionError:
        raise
    except Exception as error:
        raise InspectionError(
            f'{method} does not apply to this model: {error} (captum). method="integrated-gradients" and "occlusion" make no'
            " demands on the layers."
        ) from error
    values, delta = found if measured else (found, None)
    return list(values), None if delta is None else float(torch.as_tensor(delta).abs().max())


class _Answer(nn.Module):
    """The answer as a module of the leaves, as captum wants it."""

    def __init__(self, leaves: Leaves) -> None:
        super().__init__()
        self.leaves = leaves
        self.model = leaves.model

    def forward(self, *points: Tensor) -> Tensor:
        return self.leaves.answer(points)


def _fits(name: str, value: object) -> bool:
    base = importlib.import_module("captum.attr").Attribution
    if not isinstance(value, type) or not issubclass(value, base) or name.startswith(_OTHERWISE):
        return False
    if not hasattr(value, "attribute"):
        return False  # the base of the others
    made = inspect.signature(value).parameters
    required = [key for key, one in made.items() if one.default is one.empty]
    asked = inspect.signature(value.attribute).parameters
    needs = {key for key, one in asked.items() if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD}
    return required in (["forward_func"], ["model"]) and needs <= {"self", "inputs", "baselines"} and "inputs" in needs
