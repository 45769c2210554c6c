"""`LayerLook`: measures the layers of a model in a single training step, without an inspector and without changing the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from pnne_nb.telemetry.frames import Frame, LookFrame, NormsFrame, Quantity, StatisticsFrame

STEPS: Final = frozenset((1, 10, 100, 1_000, 10_000, 100_000, 1_000_000))
"""Steps in which a training looks at its layers by itself; the last step comes on top."""
_SAMPLE: Final = 1 << 10
"""Elements of each parameter that are compared before and after the update, at most."""
_ELEMENTS: Final = 1 << 17
"""Elements of an activation that are counted, at most: whole examples, two at least."""
_SEQUENCE: Final = 3
_FEW: Final = 64
"""Examples and positions from which on a unit that is 0 in all of them counts as dead."""
_NEAR: Final = 0.03
"""Distance from a bound within which an output is saturated, as a share of the range between the bounds."""
_RECTIFIERS: Final = (nn.ReLU, nn.ReLU6, nn.Threshold)
_BOUNDED: Final[tuple[tuple[type[nn.Module], float, float], ...]] = (
    (nn.Tanh, -1.0, 1.0), (nn.Softsign, -1.0, 1.0), (nn.Sigmoid, 0.0, 1.0), (nn.Hardsigmoid, 0.0, 1.0),
)  # fmt: skip


@final
class LayerLook:
    """A probe of one step (see `pnne_nb.telemetry.probe.Probe`) whose only frame is a `LookFrame`.

    It reads rectifiers and bounded activations with hooks, and gradients, weights and updates without; hooks exist only
    between `open` and `close`. It draws no random numbers and writes into nothing.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._step = 0
        self._handles: list[RemovableHandle] = []
        self._called: set[str] = set()
        self._wanted: list[tuple[str, Quantity, tuple[str, ...]]] = []
        self._values: list[Tensor] = []
        self._norms: list[tuple[str, Tensor]] = []
        self._before: list[tuple[str, list[Tensor], list[Tensor]]] = []
        self._unreached: list[str] = []

    def open(self, step: int) -> None:
        """Attach hooks to the layers whose calls are looked at, if hooks can see them."""
        self._step = step
        if any(_hides_calls(module) for module in self._model.modules()):
            return
        for name, module in self._model.named_modules():
            if any(True for _ in module.children()):
                continue
            measure = _measure_of(module)
            if measure is not None or any(True for _ in module.parameters(recurse=False)):
                hook = partial(self._take, name, measure)
                self._handles.append(module.register_forward_hook(hook))

    @torch.no_grad()
    def gradients_ready(self) -> None:
        """Measure gradients and weights, and sample the weights before they change."""
        for name, module in self._model.named_modules():
            own = [one for one in module.parameters(recurse=False) if one.requires_grad and _dense(one)]
            if not own:
                continue
            gradients = [one.grad for one in own if one.grad is not None and _dense(one.grad)]
            if gradients:
                self._norms += [(name, norm) for norm in torch._foreach_norm(gradients)]
            elif name in self._called and all(one.grad is None for one in own):
                self._unreached.append(name)
            self._before.append((name, own, [_sample(one) for one in own]))
            weight = next((one for one in own if one.dim() > 1), None)
            if weight is not None:
                self._weigh(name, weight)

    @torch.no_grad()
    def updated(self) -> None:
        """Compare the weights with what they were."""
        for name, own, before in self._before:
            if before:
                changes = torch._foreach_norm([_sample(one) - old for one, old in zip(own, before, strict=True)])
                sizes = torch._foreach_norm(before)
                self._put(name, "updates", change=_together(changes), size=_together(sizes))

    def close(self) -> Sequence[Frame]:
        """Detach everything; return what was seen."""
        while self._handles:
            self._handles.pop().remove()
        numbers = iter(_to_host([*self._values, *(norm for _, norm in self._norms)]))
        found: list[StatisticsFrame] = []
        for name, quantity, labels in self._wanted:
            values = {label: next(numbers) for label in labels}
            if quantity == "updates":
                values = {"ratio": values["change"] / values["size"]} if values["size"] > 0 else {}
            if values:
                found.append(StatisticsFrame(self._step, name, quantity, values))
        found += [
            StatisticsFrame(self._step, name, "parameter_gradients", {"missing": 1.0}) for name in self._unreached
        ]
        squares: dict[str, float] = {}
        for name, _ in self._norms:
            squares[name] = squares.get(name, 0.0) + next(numbers) ** 2
        norms = {name: square**0.5 for name, square in squares.items()}
        if not found and not norms:
            return ()
        return [LookFrame(self._step, tuple(found), NormsFrame(self._step, norms, sum(squares.values()) ** 0.5))]

    def _take(self, name: str, measure: Callable[[Tensor], dict[str, Tensor]] | None, *called: Any) -> None:
        output = called[-1]
        if name in self._called:
            return
        self._called.add(name)
        if measure is not None and isinstance(output, Tensor) and _dense(output) and output.is_floating_point():
            with torch.no_grad():
                examples = max(2, _ELEMENTS // max(1, output[:1].numel())) if output.dim() > 1 else output.numel()
                part = output.detach()[:examples]
                if part.dim() > 1 and part.shape[0] > 1 and part.numel():
                    self._put(name, "activations", **measure(part))

    def _weigh(self, name: str, weight: Tensor) -> None:
        rows = weight.detach().flatten(1)
        sampled = _sample(weight)
        equal = (rows[:1] == rows[-1:]).all() & (rows[:1] == rows[rows.shape[0] // 2]).all()
        # Of one unit, there is no other to be equal to.
        equal = equal if rows.shape[0] > 1 else torch.zeros_like(equal)
        scale = sampled.float().square().mean().sqrt() * rows.shape[1] ** 0.5
        self._put(name, "parameters", scale=scale, equal=equal.float(), zeros=(sampled == 0).float().mean())

    def _put(self, name: str, quantity: Quantity, **values: Tensor) -> None:
        self._wanted.append((name, quantity, tuple(values)))
        self._values += values.values()


def _measure_of(module: nn.Module) -> Callable[[Tensor], dict[str, Tensor]] | None:
    if isinstance(module, _RECTIFIERS):
        return _zeros
    for kind, low, high in _BOUNDED:
        if isinstance(module, kind):
            return partial(_bounds, low, high)
    return None


def _zeros(output: Tensor) -> dict[str, Tensor]:
    """Return shares of zeros among the elements, and among the units `[n, c]`, `[n, t, c]` or `[n, c, ...]` if they are known."""
    zero = output == 0
    found = {"zeros": zero.float().mean()}
    values = zero.movedim(-1 if output.dim() == _SEQUENCE else 1, 0).flatten(1)
    if values.shape[1] >= _FEW:
        found["dead"] = values.all(1).float().mean()
    return found


def _bounds(low: float, high: float, output: Tensor) -> dict[str, Tensor]:
    margin = _NEAR * (high - low)
    return {"saturation": ((output <= low + margin) | (output >= high - margin)).float().mean()}


def _sample(parameter: Tensor) -> Tensor:
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLE)].clone()


def _together(norms: Sequence[Tensor]) -> Tensor:
    return torch.stack([norm.float() for norm in norms]).square().sum().sqrt()


def _dense(tensor: Tensor) -> bool:
    return (
        tensor.layout == torch.strided and not tensor.is_nested and tensor.device.type != "meta" and tensor.numel() > 0
    )


def _hides_calls(module: nn.Module) -> bool:
    """Return whether the layers inside run where hooks are ignored: in TorchScript, or compiled."""
    return (
        isinstance(module, torch.jit.ScriptModule)
        or module._compiled_call_impl is not None
        or "_orig_mod" in module._modules
    )


def _to_host(values: Sequence[Tensor]) -> Iterator[float]:
    """Yield numbers `[]` in their order, with one transfer from each device."""
    by_device: dict[torch.device, list[int]] = {}
    for index, value in enumerate(values):
        by_device.setdefault(value.device, []).append(index)
    found = [0.0] * len(values)
    for places in by_device.values():
        numbers = torch.stack([values[place].detach().float().reshape(()) for place in places]).tolist()
        for place, number in zip(places, numbers, strict=True):
            found[place] = number
    yield from found
