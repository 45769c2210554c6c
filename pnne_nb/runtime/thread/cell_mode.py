"""Sees what a cell does with torch, by a torch function mode that is active in the cell's own thread for the span of the cell.

It costs the training nothing, whose thread has none. It sees raw weights, ``.data`` and backward passes, which no hook does,
and draws from the global generator, which has the training's own state in a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from pnne_nb.runtime.thread.boundary import Boundary, boundaries, memory_of, plain
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.running_trainings import between_steps

_torch: Any = torch
_overrides: Any = torch.overrides


def _getters(names: str) -> set[Any]:
    return {getattr(Tensor, name).__get__ for name in names.split()}


_DESCRIBES: frozenset[Any] = frozenset(
    {
        *_getters(
            "shape dtype device layout requires_grad is_leaf ndim grad_fn name is_cuda is_cpu is_meta is_sparse "
            "is_sparse_csr is_quantized is_mps is_xpu is_nested is_mkldnn itemsize nbytes _version output_nr retains_grad "
            "_backward_hooks _base"
        ),
        *(
            getattr(Tensor, name)
            for name in (
                "size dim ndimension numel nelement stride storage_offset element_size is_contiguous is_floating_point "
                "is_complex is_signed get_device is_shared is_pinned is_inference is_conj is_neg __len__ __hash__ "
                "is_same_size"
            ).split()
        ),
        torch.numel,
        torch.is_floating_point,
        torch.is_complex,
        torch.is_same_size,
    }
)
"""Functions that describe a tensor and neither read nor write its numbers."""

_DRAWS = frozenset(
    """
    alpha_dropout alpha_dropout_ bernoulli bernoulli_ binomial cauchy_ dropout dropout1d dropout2d dropout3d dropout_
    exponential_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ fractional_max_pool2d
    fractional_max_pool3d geometric_ gru gumbel_softmax log_normal_ lstm multi_head_attention_forward multinomial
    native_dropout normal normal_ poisson rand rand_like randint randint_like randn randn_like random_ randperm
    rnn_relu rnn_tanh rrelu rrelu_ rrelu_with_noise rrelu_with_noise_ scaled_dot_product_attention uniform_
    """.split()
)
"""Names of torch's functions and methods that may draw from the global generator."""

_BACKWARD: frozenset[Any] = frozenset((Tensor.backward, torch.autograd.backward, torch.autograd.grad))


@final
class _CellMode(TorchFunctionMode):
    # Compiled code would not come here: torch runs it as it is written while this is active.
    @torch.compiler.disable(  # type: ignore[no-untyped-call,untyped-decorator]  # torch leaves it untyped
        reason="A training runs in a thread of this kernel: compile in `with engine.paused() as model:`."
    )
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        __tracebackhide__ = True
        kwargs = kwargs or {}
        if func in _DESCRIBES:
            return func(*args, **kwargs)
        trainings = boundaries()
        if not trainings:
            return func(*args, **kwargs)
        tensors = _tensors(func, args, kwargs)
        for each in trainings:
            if not each.held_here() and each.uses(tensors):
                each.park()
        if _draws(func, tensors, kwargs) and not all(each.held_here() for each in trainings):
            with between_steps():
                return func(*args, **kwargs)
        if not _may_write(func, kwargs):
            return func(*args, **kwargs)
        return _noted(trainings, func, args, kwargs)


def _noted(
    trainings: Iterable[Boundary], func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function of torch, and note which tensors of a training it has written."""
    __tracebackhide__ = True
    tensors = list(tensors_in((args[:1], kwargs.get("out"))))
    for each in trainings:
        if not each.held_here() and each.uses(tensors, writes=True):
            each.park()
    before = [_written(tensor) for tensor in tensors]
    names = [each.uses(tensors, writes=True) for each in trainings]
    result = func(*args, **kwargs)
    if before != [_written(tensor) for tensor in tensors]:
        for each, changed in zip(trainings, names, strict=True):
            each.note_changed(changed)
    return result


def _written(tensor: Tensor) -> tuple[int, int, bool]:
    tensor = plain(tensor)
    return memory_of(tensor), 0 if tensor.is_inference() else tensor._version, tensor.requires_grad


def _tensors(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    found = list(tensors_in((args, kwargs)))
    return [*found, *_behind(found)] if func in _BACKWARD else found


def _may_write(func: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    name = _name(func)
    return (name[-1:] == "_" and name[:2] != "__") or name in {"__setitem__", "__set__"} or "out" in kwargs


def _draws(func: Callable[..., Any], tensors: Iterable[Tensor], kwargs: dict[str, Any]) -> bool:
    # What a function of Python calls in turn is not seen here: initialisation counts as drawing as a whole.
    named = _name(func) in _DRAWS or getattr(func, "__module__", "") == "torch.nn.init"
    if not named or kwargs.get("generator") not in (None, torch.default_generator):
        return False
    # Shapes are inferred on tensors without data, under locks that the training's thread may want, too.
    device = kwargs.get("device")
    return (device is None or torch.device(device).type != "meta") and all(map(_has_data, tensors))


def _has_data(tensor: Tensor) -> bool:
    return not tensor.is_meta and not isinstance(tensor, FakeTensor)


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", "").partition(".")[0]  # an operator is called ``add.Tensor``


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among `values`, and in lists, tuples and dictionaries of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def _behind(roots: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the tensors that get gradients in a backward pass from `roots`."""
    seen: set[Any] = set()
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    while waiting:
        node: Any = waiting.pop()
        if node not in seen:
            seen.add(node)
            if type(node).__name__ == "AccumulateGrad":
                yield node.variable
            waiting += [before for before, _ in node.next_functions if before is not None]


# In the thread of a cell


class _Here(threading.local):
    def __init__(self) -> None:
        self.mode: _CellMode | None = None


_here = _Here()


def enter_cell() -> None:
    """Watch the calling thread until the cell that runs there ends, if a training runs."""
    if _here.mode is None and cells.open_here() and boundaries():
        cells.at_end(_leave)
        _enter()


def _enter() -> None:
    _here.mode = _CellMode()
    _insert(_here.mode)


def _leave() -> None:
    mode, _here.mode = _here.mode, None
    if mode is not None:
        for one in reversed(_taken_off()):
            if one is not mode:
                _overrides._push_mode(one)


@contextmanager
def unwatched() -> Iterator[None]:
    """Stop watching the calling thread in this block, which has the only training to itself."""
    if _here.mode is None or len(boundaries()) > 1:
        yield
        return
    _leave()
    try:
        yield
    finally:
        if cells.open_here():
            _enter()


def _insert(mode: TorchFunctionMode) -> None:
    """Insert the mode below the active ones, because their owners remove the topmost one when they leave."""
    above = _taken_off()
    if above and above[-1] is getattr(_torch._GLOBAL_DEVICE_CONTEXT, "device_context", None):
        _overrides._push_mode(above.pop())  # torch expects the default device at the bottom
    _overrides._push_mode(mode)
    for one in reversed(above):
        _overrides._push_mode(one)


def _taken_off() -> list[TorchFunctionMode]:
    """Remove and return all modes of the thread, the topmost first."""
    return [_overrides._pop_mode() for _ in range(_overrides._len_torch_function_stack())]


def _cell_began() -> None:
    for each in boundaries():
        each.cell_began()
    enter_cell()


cells.at_begin(_cell_began)
