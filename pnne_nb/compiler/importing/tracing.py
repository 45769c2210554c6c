"""Traces one ``forward`` without entering the submodules that it calls.

Each module is traced alone, with what its caller passes: values that the caller computes are recorded, constants stay
constants. A branch on a constant argument therefore goes the way it goes in the original, and so does one on a size,
of which the example is known. Where it branches on its training mode, it is traced in both (`modes` joins them).

Nothing outside the traced module, which is a private copy, is replaced meanwhile: other threads may run modules.
"""

from __future__ import annotations

import math
import operator
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from pnne_nb.catalog.operators import ordered
from pnne_nb.compiler.contexts import Inside, casts
from pnne_nb.compiler.faking import cast
from pnne_nb.compiler.importing import recording, rewriting
from pnne_nb.compiler.importing.assuming import Assumptions, Batch
from pnne_nb.compiler.importing.calling import (
    Arguments,
    Slot,
    can_be_passed,
    one_form,
    opened,
    parameter_names,
)
from pnne_nb.compiler.importing.circumstances import asking, is_checkpointed, is_followed, variable
from pnne_nb.compiler.importing.drafting import UntranslatableError
from pnne_nb.compiler.importing.intercepting import AssignedError, intercepted
from pnne_nb.compiler.importing.layers import obstacle
from pnne_nb.compiler.importing.observing import Frames, fields_of, with_fields
from pnne_nb.compiler.importing.outlining import outside
from pnne_nb.compiler.importing.quoting import shown
from pnne_nb.compiler.importing.rebinding import Rebound
from pnne_nb.compiler.importing.recognising import CREATORS, SWAPPED, certain, changes, list_places, sweep
from pnne_nb.compiler.importing.refusing import accepted
from pnne_nb.compiler.importing.surroundings import DeviceKind, Surroundings
from pnne_nb.compiler.importing.values import (
    UNKNOWN,
    Traced,
    TracedFloat,
    TracedInt,
    TracedTensor,
    TracedTuple,
    is_traced,
    known,
    wrap,
)

MODE = "training"
"""Target of the node that stands for ``self.training``."""

FRAMES = "frames"
"""Where a call of a submodule keeps what was observed of it."""

AGAIN = "again"
"""Where a call of a submodule keeps whether training computes it again for the backward pass."""

WITHIN = "within"
"""Where a recorded call keeps the contexts that the code has entered round it."""

VARIABLE = "variable"
"""Where a recorded call keeps in which variable the code puts its result."""
MAX_LEAVES = 8
"""Functions of one ``forward`` that are tried to be called as a whole."""


class Recording(NamedTuple):
    """What a ``forward`` does.

    Attributes:
        graph: The recorded calls.
        slots: The slot of each placeholder by its target.
        branches: Whether it branches on its training mode.
        assumed: What it took from the example, in words.
        batches: First sizes of its arguments that it took from the example.
        ranked: Whether it asked for a number of dimensions.
    """

    graph: fx.Graph
    slots: dict[str, Slot]
    branches: bool
    assumed: tuple[str, ...]
    batches: tuple[Batch, ...]
    ranked: bool


def trace(
    module: nn.Module, arguments: Arguments, frames: Frames, followed: Collection[str] = (), *, training: bool
) -> Recording:
    """Record what a module's ``forward`` does in one mode.

    Args:
        module: A module that may be changed for the time of the call.
        arguments: What it is called with.
        frames: What was observed of that call.
        followed: Paths of submodules whose calls are recorded as if they were its own code.
        training: The mode.

    Raises:
        UntranslatableError: If it cannot be recorded.
    """
    leaves: list[Any] = []
    watched: set[str] = set()
    while True:
        recorder = Recorder(module, frames, followed, training=training)
        try:
            return recorder.run(arguments, leaves, watched)
        except AssignedError as error:
            if error.paths <= watched:
                raise
            watched |= error.paths
        except Exception as error:
            # A function that cannot be followed may still be called as a whole.
            found = outside(error)
            if found is None or found in leaves or len(leaves) >= MAX_LEAVES:
                raise (
                    error if isinstance(error, UntranslatableError) else UntranslatableError(_reason(error))
                ) from error
            leaves.append(found)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"its forward cannot be traced: {lines[0] if lines else type(error).__name__}"


@final
class Recorder(recording.Recorder):
    """Records the calls that one ``forward`` makes, and knows the shapes of what they return."""

    def __init__(self, module: nn.Module, frames: Frames, followed: Collection[str] = (), *, training: bool) -> None:
        super().__init__()
        self.graph = fx.Graph(tracer_cls=type(self))
        self._module = module
        self._training = training
        self._followed = followed
        self._frames = frames
        self._frame = frames.get(training) or frames.get(not training)
        self._prefix = f"{self._frame.path}." if self._frame is not None and self._frame.path else ""
        self._rebound = Rebound(self, ())
        self._obstacles = {path: obstacle(each) for path, each in module.named_modules() if path}
        self._slots: dict[str, Slot] = {}
        self._by_mode: set[fx.Node] = set()
        self._checked: set[fx.Node] = set()
        self._count: Counter[str] = Counter()
        self._branches = False
        self.assumptions: Assumptions = Assumptions(self.graph)
        self.surroundings = Surroundings()
        self.device = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), torch.device("cpu"))
        self.root = module  # where fx looks for constants
        self.tensor_attrs = _plain_tensors(module)

    def run(self, arguments: Arguments, leaves: Sequence[Any] = (), watched: Collection[str] = ()) -> Recording:
        """Record the call.

        Args:
            arguments: What the module is called with.
            leaves: Functions that are recorded as a whole.
            watched: Paths of submodules whose attributes it assigns.
        """
        self._rebound = Rebound(self, leaves)
        frame = self._frame
        named = parameter_names(self._module)
        seen = {} if frame is None else {**{named(i): value for i, value in enumerate(frame.args)}, **frame.kwargs}
        args = tuple(self._placeholders(v, seen.get(named(i), UNKNOWN)) for i, v in enumerate(arguments[0]))
        kwargs = {name: self._placeholders(v, seen.get(name, UNKNOWN)) for name, v in arguments[1].items()}
        # torch.arange(n) and its like take no traced tensor: a mode, which is of this thread alone, sees them.
        with ExitStack() as stack:
            mode = wrap(self.graph.get_attr(MODE), self, self._training)
            self._by_mode.add(mode.node)
            watchers = stack.enter_context(intercepted(self, self._module, mode, self._calling, watched))
            stack.enter_context(_Watch(self))
            for each, watcher in watchers:
                stack.enter_context(self._rebound.one(each, watcher.methods))
            stack.enter_context(self._rebound.among(self._module.modules()))
            result = type(self._module).forward(self._module, *args, **kwargs)
            if is_dataclass(result) and frame is not None and frame.path:
                result = tuple(fields_of(result).values())
        self.graph.output(self.create_arg(result))
        sweep(self.graph, self._checked)
        assumed = self.assumptions
        return Recording(
            self.graph, self._slots, self._branches, tuple(assumed.texts), tuple(assumed.batches), assumed.ranked
        )

    def _placeholders(self, value: Any, seen: Any) -> Any:
        if isinstance(value, Slot):
            node = self.graph.create_node("placeholder", f"slot{len(self._slots)}", name=value.name)
            self._slots[str(node.target)] = value
            if value.only:
                self.assumptions.given(node, value.only[0])
                return value.only[0]
            return wrap(node, self, seen)
        if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            parts = (
                list(seen) if isinstance(seen, (tuple, list)) and len(seen) == len(value) else [UNKNOWN] * len(value)
            )
            made = [self._placeholders(each, part) for each, part in zip(value, parts, strict=True)]
            return made if isinstance(value, list) else tuple(made)
        if isinstance(value, dict):
            items = seen if isinstance(seen, dict) else {}
            return {key: self._placeholders(each, items.get(key, UNKNOWN)) for key, each in value.items()}
        return value

    # What the forward of the module finds

    def _calling(self, path: str) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            within = self.surroundings.inside()
            frames = self._frames_of(path)
            if path in self._followed or not can_be_passed((args, kwargs)):
                return self._follow(path, frames, args, kwargs)
            seen = frames.get(self._training) or frames.get(not self._training)
            args, kwargs = opened(one_form(self._module.get_submodule(path), args, kwargs))
            node = self.create_node("call_module", path, self.create_arg(args), self.create_arg(kwargs))
            self._count[path] += 1
            node.meta[FRAMES] = frames
            node.meta.update({AGAIN: is_checkpointed(sys._getframe(1), Recorder.run.__code__), WITHIN: within})
            result = seen.result if seen is not None else UNKNOWN
            if not is_dataclass(result):
                return self._called(wrap(node, self, result))
            # It comes apart at the border of the nested graph, which has an output for each field.
            parts = fields_of(result)
            whole = wrap(node, self, tuple(parts.values()))
            return with_fields(result, {name: whole[index] for index, name in enumerate(parts)})

        return forward

    def _follow(self, path: str, frames: Frames, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record what a submodule does that is called in several ways, or given an object that no port carries."""
        module = self._module.get_submodule(path)
        if self._obstacles[path]:
            why = "called in different ways" if path in self._followed else "given an object that no port carries"
            raise UntranslatableError(f"{path} is {why}, and {self._obstacles[path]}")
        self._count[path] += 1
        before = self._frames, self._frame
        self._frames, self._frame = frames, frames.get(self._training) or frames.get(not self._training)
        try:
            with self._rebound.one(module):
                return type(module).forward(module, *args, **kwargs)
        finally:
            self._frames, self._frame = before

    def _frames_of(self, path: str) -> Frames:
        """Return what was observed of the next call of a submodule, in both modes."""
        found: Frames = {}
        for mode, frame in self._frames.items():
            calls = frame.calls.get(self._prefix + path)
            if calls:
                found[mode] = calls[min(self._count[path], len(calls) - 1)]
        return found

    # Recording

    def create_arg(self, a: Any) -> Any:
        """Return an argument as the recording holds it."""
        if issubclass(type(a), Traced):
            if a.tracer is not self:
                raise UntranslatableError("it is given an object, such as a cache, that other calls have filled")
            return a.node
        if isinstance(a, np.generic):
            return a.item()  # NumPy's numbers are Python's
        if type(a) is DeviceKind:
            return str(a)
        if isinstance(a, torch.Size):
            a = tuple(a)  # which may have recorded items
        if type(a) is OrderedDict:
            return self.create_node("call_function", ordered, (self.create_arg(list(a.values())), tuple(a)), {})
        if is_dataclass(a) and not isinstance(a, type):
            # Some are dictionaries as well, which would lose their class.
            given = {name: self.create_arg(value) for name, value in fields_of(a).items() if value is not None}
            return self.create_node("call_function", type(a), (), given)
        return super().create_arg(a)

    def create_proxy(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *_: Any, **__: Any
    ) -> Any:
        """Record a call and return what stands for its result."""
        within = self.surroundings.inside()
        if any(type(each) is TracedTuple for each in args):
            places = list_places(target)
            args = tuple(opened(each) if place in places else each for place, each in enumerate(args))
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs))
        node.meta.update({AGAIN: is_checkpointed(sys._getframe(1), Recorder.run.__code__), WITHIN: within})
        module = getattr(target, "__module__", "")
        if module == "_operator" and any(source in self._by_mode for source in node.all_input_nodes):
            self._by_mode.add(node)
        evaluated = self._evaluated(kind, target, args, kwargs, within)
        if target is operator.getitem and (evaluated is None or type(evaluated) is str):
            return evaluated  # one of several results, for `is None` to see, or a name
        found = wrap(node, self, evaluated)
        if changes(kind, target, kwargs) and issubclass(type(args[0]), Traced):
            # The same tensor: what uses it from here on stands after the change.
            args[0].node = node
        return self._called(found, args[1] if target is operator.getitem else None)

    def _called(self, value: Any, part: object = None) -> Any:
        """Return what the code is given, under the name that the code will give it."""
        frame = sys._getframe(1)
        # A size or type that other code reads on its way to what it gives has no name here.
        is_given = type(value) is TracedTensor or (issubclass(type(value), Traced) and is_followed(asking(frame)))
        found = variable(frame, part) if is_given else None
        if found is not None:
            value.node.meta[VARIABLE] = found
        return value

    def call_method(self, owner: Traced, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a method."""
        found = rewriting.method(self, name, owner, args, kwargs)
        if found is not rewriting.ABSENT:
            return self._called(found)
        if type(owner) not in (TracedTensor, TracedInt, TracedFloat) and owner.value is not UNKNOWN:
            if name == "numel" and isinstance(owner.value, torch.Size):
                return math.prod(owner.opened())
            return getattr(owner.opened(), name)(*args, **kwargs)
        return self.create_proxy("call_method", name, (owner, *args), kwargs)

    def watched(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a function or method of torch's, or make it if nothing in it is traced."""
        name = getattr(function, "__name__", "")
        if name == "_set_grad_enabled":
            return function(*map(bool, args))
        if function not in CREATORS and not is_traced((args, kwargs)):
            return function(*args, **kwargs)
        if function is torch._assert:
            bool(args[0])  # a check of its own becomes one of ours
            return None
        if kwargs.get("out") is not None:
            target = kwargs.pop("out")
            return self.call_method(target, "copy_", (self.watched(function, args, kwargs),), {})
        if name == "__get__":  # of a property
            return getattr(args[0], function.__self__.__name__)  # type: ignore[attr-defined]  # a bound descriptor
        if name in SWAPPED:
            return self.create_proxy("call_function", SWAPPED[name], (args[1], args[0]), {})
        if getattr(torch.Tensor, name, None) is function:
            plain = getattr(operator, name, None) if name.startswith("__") else None
            if plain is not None:
                return self.create_proxy("call_function", plain, args, kwargs)
            if is_traced(args[:1]):
                return self.call_method(args[0], name, args[1:], kwargs)
            return self.create_proxy("call_method", name, args, kwargs)
        found = rewriting.function(self, function, args, kwargs)
        if found is not rewriting.ABSENT:
            return self._called(found)
        return self.create_proxy("call_function", function, args, kwargs)

    @staticmethod
    def _evaluated(kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], within: Inside) -> Any:
        """Return what a call gives in the example."""
        given, named = known(args), known(kwargs)
        if given is UNKNOWN or named is UNKNOWN:
            return UNKNOWN
        if target in CREATORS or "device" in named:
            named = {**named, "device": "meta"}
        call: Any = target
        if kind == "call_method":
            call = (
                getattr(torch.Tensor, target) if isinstance(given[0], torch.Tensor) else getattr(type(given[0]), target)
            )
        elif isinstance(target, type) and issubclass(target, torch.autograd.Function):
            call = target.apply
        try:
            with torch.no_grad():
                return cast(call, given, named, within) if casts(within) else call(*given, **named)
        except Exception as error:
            if isinstance(error, (RuntimeError, NotImplementedError)) or isinstance(target, FunctionType):
                return UNKNOWN  # what only data can tell
            raise

    # What Python wants to know

    def decide(self, value: Traced) -> bool:
        """Answer a branch on a traced value."""
        if value.node in self._by_mode:
            self._branches = True
            return bool(value.value)
        if value.value is UNKNOWN or type(value) is TracedTensor:
            answer = accepted(asking(sys._getframe(1)))
            if answer is None:
                answer = certain(value.node)
            if answer is None:
                raise self.unknown(value)
            self._checked.add(value.node)
            return answer
        answer = bool(value.value)
        self.assumptions.went(value, answer)
        return answer

    def settle(self, value: Traced) -> Any:
        """Return a traced value as it is in the example, for Python to work with."""
        if value.value is UNKNOWN or type(value) is TracedTensor:
            raise self.unknown(value)
        if value.node in self._by_mode:
            self._branches = True
        else:
            self.assumptions.settled(value.node, value.value)
        return value.value

    @staticmethod
    def unknown(value: Traced) -> UntranslatableError:
        """Return the error of a ``forward`` that goes by the data."""
        return UntranslatableError(
            f"its forward depends on the values of its inputs ({shown(value.node)} is only known when it runs)"
        )


def _plain_tensors(module: nn.Module) -> Any:
    """Return where a module keeps tensors as plain attributes."""
    return {
        value: f"{path}.{name}" if path else name
        for path, each in module.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, torch.Tensor)
    }


class _Watch(TorchFunctionMode):
    """Has a recorder see every function of torch's that the code calls."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._recorder.watched(func, args, kwargs or {})
