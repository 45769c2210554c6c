"""``pn.check_gradients`` and ``pn.check_numerics``: check that a module's gradients are right and its values finite."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError
from torch.nn.utils.stateless import _reparametrize_module
from torch.overrides import TorchFunctionMode

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.nan_origin import NanOrigin, OriginTrace
from pnne_nb.diagnosis.evidence import gather
from pnne_nb.diagnosis.finding import Finding
from pnne_nb.diagnosis.layer_rules import NotFinite
from pnne_nb.errors import ArgumentError, InspectionError, expect
from pnne_nb.inspector.capture.call_arguments import as_arguments, as_keywords, placed
from pnne_nb.inspector.capture.hooks import tensors_in
from pnne_nb.inspector.capture.preserve import refuse_lazy, uncompiled
from pnne_nb.inspector.capture.run import Inspection, frames_of, run_once
from pnne_nb.inspector.statistics.patterns import layers
from pnne_nb.process.random_state import private_random_state
from pnne_nb.telemetry.frames import Quantity

_finding = partial(Finding, "not-finite")


@final
@dataclass(frozen=True)
class GradientReport:
    """The comparison of analytic with numeric gradients.

    Attributes:
        checked: Names of the inputs (``"args.0"``) and parameters whose gradients are right.
        wrong: The differences, by name.
        unused: Trainable parameters on which the output does not depend.
    """

    checked: tuple[str, ...]
    wrong: Mapping[str, str]
    unused: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no gradient is wrong."""
        return not self.wrong

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        unused = f", {len(self.unused)} unused: {', '.join(self.unused)}" if self.unused else ""
        wrong = "".join(f"\n  {name}: {reason}" for name, reason in self.wrong.items())
        return f"GradientReport({len(self.checked)} right, {len(self.wrong)} wrong{unused}){wrong}"


def check_gradients(
    net: nn.Module,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
) -> GradientReport:
    """Compare the gradients that autograd gives with finite differences, on a copy in float64.

    Casts inside the module also give float64, because finite differences need its precision. Every floating or complex
    input and every trainable parameter is checked separately, along random directions. Random numbers (dropout) are the
    same in every evaluation. Gradients differ legitimately where a function has a kink within `eps` (ReLU at 0).

    Args:
        net: Any module; it is not changed.
        args: Its positional arguments as a tuple, or its only argument.
        kwargs: Its keyword arguments.
        eps: Size of the finite difference; the default is that of ``torch.autograd.gradcheck``, for float64.
        atol: Absolute tolerance; the default is that of ``gradcheck``.
        rtol: Relative tolerance; the default is that of ``gradcheck``.

    Returns:
        A report of right, wrong and unused gradients by name; it is true if none is wrong.

    Raises:
        ArgumentError: If `net` is not a module, or a number is out of range.
        InspectionError: If ``forward`` does not take the arguments, a lazy layer has no parameters yet, or the module
            has a reentrant checkpoint.
    """
    for name, size in (("eps", eps), ("atol", atol), ("rtol", rtol)):
        expect(size, int | float, name, "a number")
        if not (size > 0 if name == "eps" else size >= 0):
            raise ArgumentError(f"{name} must be {'above' if name == 'eps' else 'at least'} 0, not {size!r}.")
    refuse_lazy(uncompiled(net))
    model = copy.deepcopy(uncompiled(net)).double()
    state = {name: _double(tensor) for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    positional, named = following((as_arguments(args), as_keywords(kwargs)), model)
    call = [_double(arg) if isinstance(arg, Tensor) else arg for arg in positional]
    keywords = {key: _double(value) if isinstance(value, Tensor) else value for key, value in named.items()}

    held = ExitStack()

    def evaluate(place: str, value: Tensor) -> tuple[Tensor, ...]:
        # Every evaluation gets fresh buffers: an updated running mean would change the function.
        values = {name: tensor.clone() for name, tensor in state.items()}
        positional = list(call)
        value = _DenseGradient.apply(value)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if place.startswith("args."):
            positional[int(place[5:])] = value
        else:
            values[place] = value
        # The buffers stay until the next evaluation, because a checkpoint runs forward again in the backward pass.
        held.close()
        held.enter_context(_reparametrize_module(model, values))
        with private_random_state():
            output = model(*positional, **keywords)
        return tuple(tensor for _, tensor in tensors_in(output) if tensor.requires_grad)

    places = {f"args.{index}": arg for index, arg in enumerate(call) if _differentiable(arg)}
    places |= {name: state[name] for name, parameter in model.named_parameters() if parameter.requires_grad}
    broken = [name for name, start in places.items() if isinstance(start, Tensor) and not _finite(start)]
    if broken:
        reason = f"There is nothing to compare: {', '.join(broken)} has NaN or infinite values (see check_numerics)."
        return GradientReport((), dict.fromkeys(places, reason), ())
    checked, wrong, unused = [], {}, []
    with held, placed(model, tuple(call), keywords), _StaysDouble():
        for name, start in places.items():
            assert isinstance(start, Tensor)
            value = start.detach().clone().requires_grad_()
            if not evaluate(name, value):
                unused.append(name)
                continue
            try:
                torch.autograd.gradcheck(
                    lambda tensor, place=name: evaluate(place, tensor),
                    (value,), eps=eps, atol=atol, rtol=rtol, fast_mode=True,
                )  # fmt: skip
            except GradcheckError as error:
                wrong[name] = " ".join(str(error).split())[:300]
            except RuntimeError as error:
                if "use_reentrant=True" not in str(error):
                    raise
                raise InspectionError(
                    "The module has a reentrant checkpoint, which computes gradients for backward() alone. Pass"
                    " use_reentrant=False to torch.utils.checkpoint.checkpoint to have its gradients checked."
                ) from error
            else:
                checked.append(name)
    return GradientReport(tuple(checked), wrong, tuple(unused))


@final
@dataclass(frozen=True)
class NumericsReport:
    """Places of NaN and infinite values.

    Attributes:
        findings: Inputs, parameters and buffers that are not finite, and the first layer whose output or gradient is not.
    """

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether everything is finite."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        found = "".join(f"\n  {finding.told}" for finding in self.findings)
        return f"NumericsReport({'all finite' if self.ok else 'not finite'}){found}"


def check_numerics(
    net: nn.Module, data: object, target: object = None, loss_fn: Callable[..., Tensor] | None = None
) -> NumericsReport:
    """Run `net` once and find the origin of NaN or infinite values: data, state, or the first layer.

    Args:
        net: Any module; it is not changed.
        data: As for ``Inspector.run_inspection``.
        target: The second argument of `loss_fn`.
        loss_fn: A function of output and target that gives a scalar. With it, gradients are checked too.

    Returns:
        A report that is true if there are no findings. Each finding names the layer and what to try. A mask of ``-inf``
        before a softmax is not a finding.

    Raises:
        ArgumentError: If `net` is not a module, or `loss_fn` not a function.
        InspectionError: If the model or the loss does not take what it is given, or the loss is not a real scalar
            with a gradient.
    """
    model = uncompiled(net)
    refuse_lazy(model)
    findings = [
        _finding(None, f"The input {label or '0'} has NaN or infinite values.", "Clean the data.")
        for label, tensor in tensors_in(data)
        if not _finite(tensor)
    ]
    findings += [
        _finding(
            name.rpartition(".")[0] or None,
            f"Its {name.rpartition('.')[2]} has NaN or infinite values.",
            "An earlier step produced them: go back to a checkpoint, lower the learning rate, clip gradients.",
        )
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if not _finite(tensor)
    ]
    watched: dict[str, tuple[Quantity, ...]] = dict.fromkeys(layers(model), ("activations", "gradients"))
    run = partial(run_once, model, watched, data, target, loss_fn)
    inspection = run()
    masks = _absorbed_masks(inspection)
    seen = dataclasses.replace(inspection, captures=tuple(one for one in inspection.captures if one.layer not in masks))
    found = NotFinite().find(gather(model, frames_of(seen)))
    outputs = [tensor for _, tensor in tensors_in(inspection.output)]
    if inspection.loss is not None and not math.isfinite(inspection.loss) and all(map(_finite, outputs)):
        # Non-finite gradients are a consequence.
        name = type(loss_fn).__name__ if isinstance(loss_fn, nn.Module) else getattr(loss_fn, "__name__", "loss_fn")
        reason = f"The loss is {inspection.loss}, while every output of the model is finite: {name} produces it."
        hint = "Look at the target, and at what the loss takes the log or the root of, or divides by."
        found = [_finding(None, reason, hint)]
    elif found and all(map(_finite, outputs)):
        found = _made_backward(model, run) or found
    elif not (findings or all(map(_finite, outputs))) and all(
        _finite(one.tensor) for one in inspection.captures if one.quantity == "activations"
    ):
        # Non-finite gradients are a consequence here too.
        found = [_made_by_itself(model, data)]
    return NumericsReport((*findings, *found))


def _made_by_itself(model: nn.Module, data: object) -> Finding:
    """Run forward once more and name the operation of the model's own code that is not finite; all layers' outputs are."""
    origin = _origin(model, lambda: (tensor for _, tensor in tensors_in(run_once(model, {}, data).output)))
    by = "the model's own code made them" if origin is None else f"{origin.operation} made {origin.made}"
    source = "" if origin is None or origin.source is None else f" At {origin.source}."
    return _finding(
        None if origin is None else origin.node,
        f"The model's output has NaN or infinite values, while every layer's output is finite: {by}.{source}",
        "Check its inputs: a root or a logarithm of too small a number, a division by 0, or a row that is all masked.",
    )


def _made_backward(model: nn.Module, run: Callable[[], Inspection]) -> list[Finding]:
    """Run once more and name the operation whose gradient is not finite; hooks see it only at the layer before."""
    origin = _origin(model, lambda: (one.tensor for one in run().captures if one.quantity == "gradients"))
    if origin is None or origin.stage != "backward":
        return []
    where = " The loss calls it, or other code outside of the model." if origin.outside else ""
    source = "" if origin.source is None else f" At {origin.source}."
    reason = (
        f"In the backward pass, {origin.operation} made {origin.made}, while the outputs are finite.{source}{where}"
    )
    hint = "Check its inputs: a root or a logarithm at 0, or a division by 0; clamp that, or add a small number."
    return [_finding(origin.node, reason, hint)]


def _origin(model: nn.Module, run: Callable[[], Iterable[Tensor]]) -> NanOrigin | None:
    """Return where the first value that is not finite in the tensors of a run comes from, or None if it is unknown."""
    trace = OriginTrace(model)
    try:
        with trace:
            tensors = run()
        return trace.origin(tensors)
    except Exception:  # noqa: BLE001  # a module that cannot be traced has been looked at without
        return None


def _absorbed_masks(inspection: Inspection) -> set[str]:
    """Return layers whose outputs contain -inf that a later layer absorbs, such as a mask before a softmax."""
    passed_on = [tensor for _, tensor in tensors_in(inspection.output)]
    passed_on += [capture.tensor for capture in inspection.captures if capture.quantity != "activations"]
    if not all(map(_finite, passed_on)) or not math.isfinite(inspection.loss or 0.0):
        return set()
    if inspection.norms.by_layer and not math.isfinite(inspection.norms.total):
        return set()
    outputs = [capture for capture in inspection.captures if capture.quantity == "activations"]
    if any(torch.isnan(capture.tensor).any() or torch.isposinf(_real(capture.tensor)).any() for capture in outputs):
        return set()
    return {capture.layer for capture in outputs if not _finite(capture.tensor)}


def _finite(tensor: Tensor) -> bool:
    return tensor.device.type == "meta" or bool(torch.isfinite(tensor.detach()).all())


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _double(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def _differentiable(value: object) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()) and value.numel() > 0


class _DenseGradient(torch.autograd.Function):
    """Gives its input a dense gradient; `gradcheck` calls a sparse one (``Embedding(sparse=True)``) wrong."""

    @staticmethod
    def forward(_context: Any, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].to_dense()


_NARROW = frozenset((torch.float32, torch.float16, torch.bfloat16))
_CASTS = frozenset((Tensor.float, Tensor.half, Tensor.bfloat16))


class _StaysDouble(TorchFunctionMode):
    """Makes casts to narrower floating types, and functions that create tensors of these types, give float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _CASTS:
            return args[0].double()
        named = {key: _widened(value) for key, value in (kwargs or {}).items()}
        if func in (Tensor.to, Tensor.type):
            args = tuple(map(_widened, args))
        return func(*args, **named)


def _widened(value: object) -> object:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value
