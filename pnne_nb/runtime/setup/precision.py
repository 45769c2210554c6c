"""Chooses the device and the floating point types of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, TypeAlias, final, get_args

import torch
from torch import Tensor

from pnne_nb.compiler.shapes.scope import available_devices
from pnne_nb.errors import TrainingError, expect, near, shown
from pnne_nb.runtime.optim.optimizers import update

PrecisionName: TypeAlias = Literal["32", "bf16", "16"]
_LEAST_SCALE = 1e-4
"""Below it, gradients are infinite by themselves, as in fairseq; from the first scale it takes 30 steps in a row."""
_NO_AUTOCAST: AbstractContextManager[None] = nullcontext()


def choose_device(device: str | torch.device) -> torch.device:
    """Return the device of a name; ``"auto"`` is the accelerator if there is one, else the CPU.

    Raises:
        TrainingError: There is no such device here.
        ArgumentError: It is no name, and no device.
    """
    expect(device, (str, torch.device), "device", 'a name such as "cuda:0", or "auto"')
    if device == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return torch.device("cpu") if found is None else torch.device(found)
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        known = available_devices()
        raise TrainingError(
            f"There is no device {shown(str(device))} here; there is {', '.join(known)}.{near(str(device), known)}"
        ) from error
    return chosen


_SPELLED_ELSEWHERE: Final = {
    **dict.fromkeys(
        ("16", "16-mixed", "16-true", "amp", "float16", "fp16", "half", "mixed", "mixed_float16", "torch.float16"), "16"
    ),
    **dict.fromkeys(("bf16-mixed", "bf16-true", "bfloat16", "mixed_bfloat16", "torch.bfloat16"), "bf16"),
    **dict.fromkeys(("32", "32-true", "float32", "fp32", "full", "torch.float32"), "32"),
}
"""Precisions by what torch and other libraries call them."""


@final
class Precision:
    """Autocast and gradient scaling for one training.

    Args:
        name: ``"32"``; ``"bf16"`` or ``"16"`` run the forward pass in that type where torch deems it safe,
            ``"16"`` with scaled gradients.
        device: Where the training runs.

    Raises:
        TrainingError: Unknown name.
    """

    def __init__(self, name: object, device: torch.device) -> None:
        known = get_args(PrecisionName)
        if not isinstance(name, str) or name not in known:
            meant = _SPELLED_ELSEWHERE.get(str(name)) if isinstance(name, (str, torch.dtype)) else None
            raise TrainingError(
                f"precision must be one of {', '.join(map(repr, known))}, not {shown(name)}."
                f"{f' Write precision={meant!r}.' if meant else ''}"
            )
        self._device = device.type
        self._dtype = {"32": None, "bf16": torch.bfloat16, "16": torch.float16}[name]
        self.scaler = torch.amp.GradScaler(self._device) if name == "16" else None
        self._unscaled = False
        self._scale: float | None = None  # the present one, where it is known without waiting for the device

    def autocast(self) -> AbstractContextManager[Any]:
        if self._dtype is None:
            return _NO_AUTOCAST
        return torch.autocast(self._device, self._dtype)

    def backward(self, loss: Tensor) -> None:
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        if self.scaler is not None:
            self._unscaled = True
            self.scaler.unscale_(optimizer)

    def unread(self, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        """Return what `step` is to know of the device, each `[]`, after `unscale`; nothing without scaling.

        They are whether a gradient overflowed, the scale, and for how many steps it has stayed.
        """
        if self.scaler is None:
            return []
        scale, stayed = self.scaler._scale, self.scaler._growth_tracker
        assert scale is not None, "made by the first scaled loss"
        assert stayed is not None, "made with the scale"
        # On several devices, one that overflows decides.
        found = [each.to(scale.device) for each in self.scaler._found_inf_per_device(optimizer).values()]
        return [sum(found[1:], found[0]), scale, stayed]

    def step(self, optimizer: torch.optim.Optimizer, read: Sequence[float]) -> bool:
        """Run the optimizer's step; return False if a scaled gradient overflowed and the step was skipped.

        Args:
            optimizer: Its gradients are unscaled.
            read: The numbers of `unread`. With them, torch's scaler need not wait for the device.
        """
        if self.scaler is None:
            update(optimizer)
            return True
        overflowed, before, stayed = read
        if not overflowed:
            update(optimizer)
        self.scaler.update()
        self._unscaled = False
        # As the device computes it, from the same numbers.
        grows = not overflowed and stayed + 1 == self.scaler.get_growth_interval()
        factor = self.scaler.get_backoff_factor() if overflowed else self.scaler.get_growth_factor() if grows else 1.0
        grown = before * factor
        self._scale = grown if grown <= torch.finfo(torch.float32).max else before
        return not overflowed

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the scale of a scaler's ``state_dict``."""
        if self.scaler is not None:
            self._scale = None
            self.scaler.load_state_dict(dict(state))

    @property
    def exhausted(self) -> bool:
        """Whether the scale is so small that it no longer explains an overflow."""
        return self.scale < _LEAST_SCALE

    def abandon(self) -> None:
        """Abandon a step without changing the scale."""
        if self.scaler is not None and self._unscaled:
            self.scaler.update(self.scale)
            self._unscaled = False

    @property
    def scale(self) -> float:
        """The scale of gradients; 1 without scaling."""
        if self.scaler is None:
            return 1.0
        return float(self.scaler.get_scale()) if self._scale is None else self._scale
