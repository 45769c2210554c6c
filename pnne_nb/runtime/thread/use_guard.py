"""Detects what a thread does with torch: uses of a live model, backward passes, draws of random numbers.

A torch function mode is active in the threads that run cells, and in every thread that starts while an engine exists. It
costs nothing in the training thread, which has none: a guard at each layer would cost every step. What goes past function
modes (compiled code, ``functional_call``, a backward pass of a thread that was there before) is seen where it enters torch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any, TypeVar, final

import numpy as np
import torch
import torch.fx
from torch import Tensor, nn
from torch.nn.utils import stateless
from torch.overrides import TorchFunctionMode

from pnne_nb.process.fork import fork_safe, renewed_after_fork
from pnne_nb.runtime.thread.live_models import GuardedModel, live_models, memory_of, plain
from pnne_nb.runtime.thread.rng_guard import DRAWING, is_global, trainings

R = TypeVar("R")

_torch: Any = torch
_overrides: Any = torch.overrides

_OURS = "pnne-"
"""How the names of this package's own threads begin: they know when to wait."""


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
"""What tells of a tensor, and neither reads nor writes its numbers."""

_ARRAYS: frozenset[Any] = frozenset((Tensor.numpy, Tensor.__array__))
"""What gives an array of NumPy, which most often shares the tensor's memory: torch sees nothing of what is done with that."""

_LENDS: frozenset[Any] = _ARRAYS | {Tensor.data_ptr, Tensor.untyped_storage, Tensor.storage, Tensor.__dlpack__}
"""What gives a tensor's memory away."""

_BACKWARD: dict[Any, int] = {Tensor.backward: 2, torch.autograd.backward: 2, torch.autograd.grad: 3}
"""What makes backward passes, with the place of its argument ``retain_graph``."""


@final
class _UseGuard(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        __tracebackhide__ = True
        kwargs = kwargs or {}
        # Where torch.compile traces a cell, whoever called it has waited already; see `_enter_compiled`.
        if torch.compiler.is_compiling() or not live_models or func in _DESCRIBES:
            return func(*args, **kwargs)
        result = _guarded(func, args, kwargs)
        if func in _LENDS:
            # One that was converted owns its memory.
            array = result if isinstance(result, np.ndarray) and result.base is not None else None
            for guarded in live_models.of(args[:1]) if array is not None or func not in _ARRAYS else ():
                guarded.lend(memory_of(args[0]), array)
        return result


class _Here(threading.local):
    def __init__(self) -> None:
        self.mode: _UseGuard | None = None
        self.inside = False


_here = _Here()


def _guarded(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of torch when no step is using its arguments."""
    __tracebackhide__ = True
    if func in _BACKWARD:
        return _backward(func, args, kwargs)
    # What a function of Python calls in turn is not seen here: initialisation counts as drawing as a whole.
    draws = getattr(func, "__name__", "") in DRAWING or getattr(func, "__module__", "") == "torch.nn.init"
    draws = draws and is_global(kwargs.get("generator"))
    models = live_models.all()
    held = not draws and all(guarded.held_here() for guarded in models)
    if held and not any(guarded.parked_here() for guarded in models):
        return func(*args, **kwargs)
    tensors = [*tensors_in(args), *tensors_in(kwargs.values())]
    used = live_models.of(tensors, writes=_may_write(func, kwargs))
    if held:
        return _noted(used, tensors, func, args, kwargs)
    for guarded in live_models.just_before(tensors):
        used.setdefault(guarded, [])
    if not (used or draws):
        return func(*args, **kwargs)
    with ExitStack() as stack:
        for guarded, buffers in used.items():
            stack.enter_context(guarded.in_use(buffers))
        if draws:
            stack.enter_context(trainings.between_steps())
        result = _noted(used, tensors, func, args, kwargs)
        for guarded in used:
            guarded.keep(result)
        return result


def _may_write(func: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    return (name[-1:] == "_" and name[:2] != "__") or name in {"__setitem__", "__set__"} or "out" in kwargs


def _noted(
    used: Iterable[GuardedModel],
    tensors: list[Tensor],
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function of torch, and record which tensors of a training it has written, by their version counters."""
    __tracebackhide__ = True
    if not used:
        return func(*args, **kwargs)
    before = [_written(tensor) for tensor in tensors]
    result = func(*args, **kwargs)
    for tensor, known in zip(tensors, before, strict=True):
        if _written(tensor) != known:
            for guarded in used:
                guarded.written(known[0])
    return result


def _written(tensor: Tensor) -> tuple[int, int]:
    return memory_of(tensor), 0 if tensor.is_inference() else plain(tensor)._version


def _backward(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a backward pass when no step is using the parameters that get its gradients.

    When it has ended, well or not, the thread no longer needs the model for it, unless the graph is kept.
    """
    __tracebackhide__ = True
    if all(guarded.held_here() for guarded in live_models.all()):
        return func(*args, **kwargs)
    given = [*args[:1], *(kwargs[name] for name in ("tensors", "outputs") if name in kwargs)]
    models, nodes = live_models.behind(tensors_in(given))
    if not models:
        return func(*args, **kwargs)
    place = _BACKWARD[func]
    kept = kwargs.get("retain_graph", args[place] if len(args) > place else None)
    kept = kwargs.get("create_graph", False) if kept is None else kept
    with ExitStack() as stack:
        for guarded in models:
            stack.enter_context(guarded.in_use())
        try:
            return func(*args, **kwargs)
        except BaseException:
            kept = False
            raise
        finally:
            if not kept:
                for node in nodes:
                    node.metadata.pop(KEPT, None)


KEPT = "pnne_nb"
"""Where a node of autograd keeps what ends with it, in its metadata; see `model_guard`."""


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among `values`, and in lists, tuples and dictionaries of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


# Threads


def guard_thread() -> None:
    """Guard the calling thread, unless it is one of this package."""
    if _here.mode is None and not threading.current_thread().name.startswith(_OURS):
        _watch_compiled()
        _here.mode = _UseGuard()
        _insert(_here.mode)


def unguard_thread() -> None:
    """Stop guarding the calling thread."""
    mode, _here.mode = _here.mode, None
    if mode is not None:
        _remove(mode)


def guard_new_threads(*, wanted: bool) -> None:
    """Guard every new thread, or stop guarding new threads."""
    start: Any = _start if wanted else _original_start
    # A training that runs has put its own before one of these.
    if threading.Thread.start in {_start, _original_start}:
        setattr(threading.Thread, "start", start)  # noqa: B010  a type checker wants its own method there


def _insert(mode: TorchFunctionMode) -> None:
    """Insert the guard below the active modes, because their owners remove the topmost one when they leave."""
    above = _taken_off()
    if above and above[-1] is getattr(_torch._GLOBAL_DEVICE_CONTEXT, "device_context", None):
        _overrides._push_mode(above.pop())  # torch expects the default device at the bottom
    _overrides._push_mode(mode)
    for one in reversed(above):
        _overrides._push_mode(one)


def _remove(mode: TorchFunctionMode) -> None:
    for one in reversed(_taken_off()):
        if one is not mode:
            _overrides._push_mode(one)


def _taken_off() -> list[TorchFunctionMode]:
    """Remove and return all modes of the thread, the topmost first."""
    return [_overrides._pop_mode() for _ in range(_overrides._len_torch_function_stack())]


def _start(thread: threading.Thread) -> None:
    """Replacement for ``Thread.start`` that guards the thread. Python 3.11 may never stop calling a profile function.

    What a step starts is a part of the step, which may wait for it.
    """
    if thread.ident is None and not thread.name.startswith(_OURS) and not _entries.pass_by():
        thread.run = partial(_run_guarded, thread, thread.run)  # type: ignore[method-assign]  # every thread that starts is guarded
    _original_start(thread)


def _run_guarded(thread: threading.Thread, run: Callable[[], None]) -> None:
    vars(thread).pop("run", None)
    guard_thread()
    run()


_original_start = threading.Thread.start


# Ways into torch that function modes do not see


@final
class _Entries:
    """Guards the entries into torch that no function mode sees, while a training runs."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._runs = 0
        self._replaced: list[tuple[Any, str, Any]] = []
        self.callback: Any = None
        self.training_threads: set[int] = set()
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Restore torch's functions in a forked child, which has no training."""
        self.training_threads.clear()
        self._runs = 0
        self._put_back()

    def open(self) -> None:
        """Mark the calling thread as a training thread."""
        with self._lock:
            self.training_threads.add(threading.get_ident())
            self._runs += 1
            if self._runs > 1:
                return
            self._replace(ThreadPoolExecutor, "submit", _submit)
            self._replace(nn.Module, "train", _train)
            self._replace(torch.autograd, "backward", _enter_backward)
            self._replace(torch.autograd, "grad", _enter_grad)
            self._replace(stateless, "_reparametrize_module", _reparametrized)
            self._replace(torch.fx.Tracer, "trace", _trace)
            for name in _CHANGES:
                self._replace(nn.Module, name, _changing(getattr(nn.Module, name)))

    def close(self, thread: int) -> None:
        """Remove the mark of a training thread."""
        with self._lock:
            self.training_threads.discard(thread)
            self._runs -= 1
            if self._runs:
                return
            self._put_back()

    def _put_back(self) -> None:
        for owner, name, original in self._replaced:
            setattr(owner, name, original)
        self._replaced = []

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)

    def pass_by(self) -> bool:
        return threading.get_ident() in self.training_threads


_entries = _Entries()
open_entries, close_entries = _entries.open, _entries.close

_original_submit: Any = ThreadPoolExecutor.submit
_original_train = nn.Module.train
_original_trace: Any = torch.fx.Tracer.trace
_original_reparametrize: Any = stateless._reparametrize_module


def _submit(pool: ThreadPoolExecutor, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
    """Replacement for ``ThreadPoolExecutor.submit``, because a pool may be older than the engine."""
    seen = () if _entries.pass_by() else (_in_guarded_thread,)
    future: Future[R] = _original_submit(pool, *seen, function, *args, **kwargs)
    return future


def _in_guarded_thread(function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    guard_thread()
    return function(*args, **kwargs)


def _train(module: nn.Module, mode: bool = True) -> nn.Module:
    """Replacement for ``Module.train``, because the mode must not change during a step."""
    with _using(module):
        return _original_train(module, mode)


def _changing(original: Callable[..., R]) -> Callable[..., R]:
    """Wrap a method that changes a layer, so that a layer in training changes only between two steps."""

    @wraps(original)
    def change(module: nn.Module, *args: Any, **kwargs: Any) -> R:
        # A thread that a step has started, or autograd's own, is a part of the step.
        layer_of = () if _here.mode is None else live_models.with_layer(module)
        if not layer_of:
            return original(module, *args, **kwargs)
        with ExitStack() as stack:
            for guarded in layer_of:
                stack.enter_context(guarded.in_use())
            return original(module, *args, **kwargs)

    return change


_CHANGES = (
    "__setattr__ __delattr__ add_module register_parameter register_buffer register_forward_hook "
    "register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook register_backward_hook"
).split()
"""The methods of a module that make another one of it."""


@contextmanager
def _reparametrized(module: nn.Module, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Replacement for the context manager of ``functional_call``, which temporarily replaces the module's parameters."""
    with _using(module), _original_reparametrize(module, *args, **kwargs) as entered:
        yield entered


def _trace(tracer: Any, *args: Any, **kwargs: Any) -> Any:
    """Replacement for ``Tracer.trace``, which patches the calls of all modules in the process."""
    with ExitStack() as stack:
        for guarded in () if _entries.pass_by() else live_models.all():
            stack.enter_context(guarded.in_use())
        return _original_trace(tracer, *args, **kwargs)


@contextmanager
def _using(module: nn.Module) -> Iterator[None]:
    with ExitStack() as stack:
        if not _entries.pass_by():
            for guarded in live_models.of_module(module):
                stack.enter_context(guarded.in_use())
        yield


def _entering(original: Callable[..., R]) -> Callable[..., R]:
    """Return `original` inside the model's guard, for threads without a function mode, such as older ones."""

    def enter(*args: Any, **kwargs: Any) -> R:
        if _entries.pass_by() or _here.inside:
            return original(*args, **kwargs)
        _here.inside = True
        try:
            result: R = _backward(original, args, kwargs)
            return result
        finally:
            _here.inside = False

    _BACKWARD[enter] = _BACKWARD[original]
    enter.__name__, enter.__doc__ = original.__name__, original.__doc__
    return enter


_enter_backward, _enter_grad = _entering(torch.autograd.backward), _entering(torch.autograd.grad)


def _watch_compiled() -> None:
    """Guard every call of compiled code; compiling, like every optimizer, imports dynamo."""
    eval_frame: Any = sys.modules.get("torch._dynamo.eval_frame")
    found = getattr(eval_frame, "_callback_from_stance", None)
    if found is not None and found is not _enter_compiled:
        _entries.callback = found
        eval_frame._callback_from_stance = _enter_compiled


def _enter_compiled(callback: Any) -> Any:
    """Guard a call of compiled code, whose uses and draws no function mode sees."""
    # Without a callback, it is code that shall not be compiled: each of its functions is seen.
    if callback is not None and not _entries.pass_by():
        frame = sys._getframe(1)
        for guarded in live_models.all():
            guarded.use_until_return(frame)
        at_end = frame.f_locals.get("cleanups")
        if _here.mode is not None and isinstance(at_end, list):
            # Torch compiles less where a mode is active, and is called back by its own list when the code returns.
            unguard_thread()
            at_end.append(guard_thread)
    return _entries.callback(callback)
