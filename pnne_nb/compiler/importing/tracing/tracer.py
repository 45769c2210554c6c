"""Traces one ``forward`` without entering the submodules that it calls.

Each module is traced alone, with the arguments of its caller: computed values are recorded, constants stay constants. A
branch on a constant argument therefore goes the same way as in the original, and so does a branch on a size, which the
example determines. A module that branches on its training mode is traced in both (`alternatives` joins the recordings).

The traced module is a private copy and nothing outside it is replaced: other threads may run modules meanwhile.
"""

from __future__ import annotations

import math
import operator
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import is_dataclass
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import fx, nn

from pnne_nb.catalog.operators import ordered
from pnne_nb.compiler.analysis.nested_values import copied_object
from pnne_nb.compiler.importing.draft.describe import shown
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.draft.layers import obstacle
from pnne_nb.compiler.importing.tracing import decompositions
from pnne_nb.compiler.importing.tracing import recorder as recording
from pnne_nb.compiler.importing.tracing.call_effects import (
    CREATORS,
    SWAPPED,
    TYPE,
    certain,
    changes,
    list_places,
    sweep,
)
from pnne_nb.compiler.importing.tracing.call_site import (
    accepted,
    applied,
    asking,
    beside,
    is_checkpointed,
    is_followed,
    is_literal,
    outside,
    plain_place,
    reason_of,
    spot_of,
    variable,
)
from pnne_nb.compiler.importing.tracing.calls import (
    Arguments,
    Slot,
    can_be_passed,
    forward_of,
    named_arguments,
    one_form,
    opened,
    optional_names,
)
from pnne_nb.compiler.importing.tracing.context_managers import ActiveContexts, DeviceKind
from pnne_nb.compiler.importing.tracing.guards import Guards, asks_type, origin, without_inputs
from pnne_nb.compiler.importing.tracing.interception import AssignedError, intercepted, plain_tensors
from pnne_nb.compiler.importing.tracing.objects import Objects, is_made
from pnne_nb.compiler.importing.tracing.observed_calls import ObservedCall, ObservedCalls, Types, fields_of, with_fields
from pnne_nb.compiler.importing.tracing.patched_functions import Rebound
from pnne_nb.compiler.importing.tracing.proxies import (
    UNKNOWN,
    Traced,
    TracedContainer,
    TracedFloat,
    TracedInt,
    TracedList,
    TracedTensor,
    TracedTuple,
    evaluated,
    is_traced,
    seen,
    slotted,
    wrap,
)
from pnne_nb.compiler.ir.program import Inside

MODE = "training"
"""Target of the node of ``self.training``."""

FRAMES, AGAIN, WITHIN, VARIABLE, SPOT = "frames", "again", "within", "variable", "spot"
"""Keys of a recorded call's ``meta``: what was observed of a submodule's call, whether training computes the call again for
the backward pass, the contexts around it, the variable that holds its result, and its line of code."""

MAX_ANSWERS = 3
"""Branches on values of the inputs of which one recording tries both ways, at most."""

MAX_LEAVES = 8
"""Functions of one ``forward`` that are recorded as a whole, at most."""


class ForwardCall(NamedTuple):
    """The call of a ``forward`` that is recorded.

    Attributes:
        module: A module that may be changed for the time of the call.
        arguments: The arguments of the call.
        frames: The observed call.
        followed: Paths of submodules whose calls are recorded as if they were the module's own code.
        literals: Collects the numbers of which the code makes tensors, if that is to be recorded as a call; without it,
            tensors of constants alone are constants.
        types: The element types that it is recorded for, if not those of the example.
    """

    module: nn.Module
    arguments: Arguments
    frames: ObservedCalls
    followed: Collection[str] = ()
    literals: list[Any] | None = None
    types: Types | None = None


class Decision(NamedTuple):
    """What code has taken from the element types of its tensors, or from the autocast around it.

    Attributes:
        answer: Of a branch, or the element type itself.
        condition: The node that is true where the answer is this one, for True or an element type; else where it is not.
        text: The answer in words.
        check: The node that refuses another answer.
    """

    answer: Any
    condition: fx.Node
    text: str
    check: fx.Node | None


class Recording(NamedTuple):
    """The recording of one ``forward``.

    Attributes:
        graph: The recorded calls.
        slots: The slot of each placeholder by its target.
        branches: Whether the code branches on the training mode.
        assumed: What the code took from the example, in words.
        batches: First sizes of arguments that the code took from the example, each with its expression in the source.
        ranked: Whether the code asked for a number of dimensions.
        decisions: What the code took from element types, by the origin of each.
        typed: Whether it is joined of recordings with other element types.
    """

    graph: fx.Graph
    slots: dict[str, Slot]
    branches: bool
    assumed: tuple[str, ...]
    batches: tuple[tuple[int, str], ...]
    ranked: bool
    decisions: Mapping[str, Decision] = MappingProxyType({})
    typed: bool = False


class UndecidedError(UntranslatableError):
    """A ``forward`` branches on the values of its inputs."""


def trace(call: ForwardCall, *, training: bool, answers: tuple[bool, ...] = ()) -> Recording:
    """Record a call in one mode.

    Args:
        call: The call.
        training: The mode.
        answers: Of the first branches on values of the inputs.

    Raises:
        UntranslatableError: If it cannot be recorded.
    """
    leaves: list[Any] = []
    watched: set[str] = set()
    while True:
        recorder = ForwardTracer(call, training=training, answers=answers)
        try:
            return recorder.run(leaves, watched)
        except AssignedError as error:
            if error.paths <= watched:
                raise
            watched |= error.paths
        except Exception as error:
            if isinstance(error, UndecidedError):
                either = _either(call, training=training, answers=answers)
                if either is not None:
                    return either
            # A function that cannot be followed may still be called as a whole.
            found = outside(error)
            if found is None or found in leaves or len(leaves) >= MAX_LEAVES:
                if recorder.fails:
                    return recorder.cut()
                raise UntranslatableError(reason_of(error, call.module)) from error
            leaves.append(found)


def _either(call: ForwardCall, *, training: bool, answers: tuple[bool, ...]) -> Recording | None:
    """Return the recording that is the same for both answers to the next branch, such as one that warns; None if they differ."""
    if len(answers) == MAX_ANSWERS:
        return None
    try:
        one, other = (trace(call, training=training, answers=(*answers, each)) for each in (False, True))
    except UntranslatableError:
        return None
    if _content(one) != _content(other):
        return None
    return one._replace(branches=one.branches or other.branches)


def _are_equal(one: torch.Tensor, other: object) -> bool:
    if not isinstance(other, torch.Tensor) or one.is_meta:
        return False
    return (one.dtype, one.device) == (other.dtype, other.device) and torch.equal(one, other)


def _content(recording: Recording) -> tuple[Any, ...]:
    """Return what a recording does, without names: what was swept took some."""
    place = {node: ("node", index) for index, node in enumerate(recording.graph.nodes)}
    calls = [
        (
            node.op,
            node.target,
            fx.node.map_arg((node.args, node.kwargs), lambda each: place[each]),
            node.meta.get(WITHIN),
        )
        for node in recording.graph.nodes
    ]
    told = [(asked, each.answer) for asked, each in recording.decisions.items()]
    return calls, told, recording.assumed, recording.batches, recording.ranked


@final
class ForwardTracer(recording.TraceRecorder):
    """Records the calls of one ``forward`` with the shapes of their results."""

    def __init__(self, call: ForwardCall, *, training: bool, answers: tuple[bool, ...] = ()) -> None:
        super().__init__()
        self.graph = fx.Graph(tracer_cls=type(self))
        self._module, self._arguments, self._frames, self._followed, self._literals, self.types = call
        self._training = training
        self._answers = iter(answers)
        module, self._frame = call.module, self._seen(call.frames)
        self.fails = self._frame is not None and self._frame.failed
        self._prefix = f"{self._frame.path}." if self._frame is not None and self._frame.path else ""
        self._rebound = Rebound(self, ())
        self._obstacles = {path: obstacle(each) for path, each in module.named_modules() if path}
        self._slots: dict[str, Slot] = {}
        self._by_mode: set[fx.Node] = set()
        self._checked: set[fx.Node] = set()
        self._decisions: dict[str, Decision] = {}
        self._count: Counter[str] = Counter()
        self._branches = False
        self.assumptions: Guards = Guards(self.graph)
        self.surroundings = ActiveContexts()
        self.device = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), torch.device("cpu"))
        self._objects = Objects(self, module)
        self.root = module  # where fx looks for constants
        self.tensor_attrs = plain_tensors(module)
        self._earlier = [
            (name, each) for each, name in self.tensor_attrs.items() if name.startswith("_tensor_constant")
        ]

    def _seen(self, frames: ObservedCalls) -> ObservedCall | None:
        """Return the call in this mode, or else in the other one, and in these element types."""
        found = frames.get(self._training) or frames.get(not self._training)
        return found if found is None or self.types is None else found.as_of(self.types, training=self._training)

    def run(self, leaves: Sequence[Any] = (), watched: Collection[str] = ()) -> Recording:
        """Record the call.

        Args:
            leaves: Functions that are recorded as a whole.
            watched: Paths of submodules whose attributes the code assigns.
        """
        self._rebound = Rebound(self, leaves)
        frame = self._frame
        if frame is None and self.types is not None:
            raise UntranslatableError("it is not called in these element types")
        given_before = {} if frame is None else dict(named_arguments(self._module, frame.args, frame.kwargs))
        given = named_arguments(self._module, *self._arguments)
        made = [(name, self._placeholders(value, given_before.get(name, UNKNOWN))) for name, value in given]
        if frame is not None and not frame.path:
            self._look_at_optional(dict(made))
        count = len(self._arguments[0])
        args, kwargs = tuple(value for _, value in made[:count]), dict(made[count:])
        # Functions such as torch.arange(n) take no traced tensor; a mode, which is local to the thread, sees them.
        with ExitStack() as stack:
            mode = wrap(self.graph.get_attr(MODE), self, self._training)
            self._by_mode.add(mode.node)
            watchers = stack.enter_context(intercepted(self, self._module, mode, self._calling, watched))
            stack.enter_context(recording.FunctionWatch(self))
            for each, watcher in watchers:
                stack.enter_context(self._rebound.one(each, watcher.methods))
            stack.enter_context(self._rebound.among(self._module.modules()))
            result = forward_of(self._module)(*args, **kwargs)
            if is_dataclass(result) and frame is not None and frame.path:
                result = tuple(fields_of(result).values())
        return self._finished(self.create_arg(result))

    def cut(self) -> Recording:
        """Return the recording up to where the code fails, with its last tensor as the result."""
        made = [node for node in self.graph.nodes if node.op == "call_module" or node.meta.get(TYPE) is torch.Tensor]
        return self._finished(made[-1] if made else None)

    def _finished(self, result: Any) -> Recording:
        self._objects.finish()
        self.graph.output(result)
        self._objects.sweep()
        self.assumptions.check_structures(self._called_in_messages)
        sweep(self.graph, self._checked, {each.condition for each in self._decisions.values()})
        assumed = self.assumptions
        return Recording(
            self.graph,
            self._slots,
            self._branches,
            tuple(assumed.texts),
            tuple(assumed.batches),
            assumed.ranked,
            self._decisions,
        )

    def _look_at_optional(self, made: dict[str, Any]) -> None:
        """Note which arguments are given that the next call may leave out: no code shows that it asks whether one is None."""
        for name in optional_names(self._module):
            value: Any = made.get(name)
            if issubclass(type(value), Traced) and value.value is not UNKNOWN:
                self.assumptions.looked(value.node, *seen(value.value))

    def _called_in_messages(self, node: fx.Node) -> str:
        if node.op == "placeholder":
            return self._slots[str(node.target)].name
        # Without its arguments: constants in them may differ between the alternatives of a module.
        return f"the result of {f'{node.target}(…)' if node.op == 'call_module' else shown(node)}"

    def proxied(self, node: fx.Node, value: Any, made: dict[int, Any] | None = None) -> Any:
        """Return the proxy of a value; `made` are those of the containers and objects around it, by identity."""
        return self._objects.proxied(node, value, {} if made is None else made)

    def _placeholders(self, value: Any, seen: Any) -> Any:
        if isinstance(value, Slot):
            node = self.graph.create_node("placeholder", f"slot{len(self._slots)}", name=value.name)
            self._slots[str(node.target)] = value
            if value.only:
                self.assumptions.given(node, value.only[0])
                return value.only[0]
            return self.proxied(node, seen)
        if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            parts = (
                list(seen) if isinstance(seen, (tuple, list)) and len(seen) == len(value) else [UNKNOWN] * len(value)
            )
            made = [self._placeholders(each, part) for each, part in zip(value, parts, strict=True)]
            return made if isinstance(value, list) else tuple(made)
        if isinstance(value, dict):
            items = seen if isinstance(seen, dict) else {}
            return {key: self._placeholders(each, items.get(key, UNKNOWN)) for key, each in value.items()}
        return copied_object(value)  # code that fills a cache would leave proxies in it

    # What the forward of the module finds

    def _calling(self, path: str) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            within = self.surroundings.inside()
            frames = self._frames_of(path)
            if path in self._followed or not can_be_passed((args, kwargs)):
                return self._follow(path, frames, args, kwargs)
            seen = self._seen(frames)
            args, kwargs = opened(one_form(self._module.get_submodule(path), args, kwargs))
            node = self.create_node("call_module", path, self.create_arg(args), self.create_arg(kwargs))
            self._count[path] += 1
            node.meta[FRAMES] = frames
            self._mark(node, within)
            result = seen.result if seen is not None else UNKNOWN
            if not is_dataclass(result):
                return self._called(self.proxied(node, result))
            # A data class is taken apart at the border of the nested graph, which has an output for each field.
            parts = fields_of(result)
            whole = wrap(node, self, tuple(parts.values()))
            return with_fields(result, {name: whole[index] for index, name in enumerate(parts)})

        return forward

    def _follow(self, path: str, frames: ObservedCalls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the code of a submodule that is called in several ways, or given an object that no port can carry."""
        module = self._module.get_submodule(path)
        if self._obstacles[path]:
            why = "called in different ways" if path in self._followed else "given an object that no port can carry"
            raise UntranslatableError(f"{path} is {why}, and {self._obstacles[path]}")
        self._count[path] += 1
        before = self._frames, self._frame
        self._frames, self._frame = frames, self._seen(frames)
        try:
            with self._rebound.one(module):
                return forward_of(module)(*args, **kwargs)
        finally:
            self._frames, self._frame = before

    def _frames_of(self, path: str) -> ObservedCalls:
        """Return what was observed of the next call of a submodule, in both modes."""
        found: ObservedCalls = {}
        for mode, frame in self._frames.items():
            calls = frame.calls.get(self._prefix + path)
            if calls:
                found[mode] = calls[min(self._count[path], len(calls) - 1)]
        return found

    # Recording

    @staticmethod
    def _mark(node: fx.Node, within: Inside) -> None:
        """Keep where the traced code makes a call."""
        frame = sys._getframe(1)
        again = is_checkpointed(frame, ForwardTracer.run.__code__)
        node.meta.update({AGAIN: again, WITHIN: within, SPOT: spot_of(frame)})

    def create_arg(self, a: Any) -> Any:
        """Return an argument in the form of the recording."""
        if issubclass(type(a), Traced):
            if a.tracer is not self:
                raise UntranslatableError("it is given an object, such as a cache, that other calls have filled")
            if issubclass(type(a), TracedContainer):
                a.flush()
            return a.node
        if isinstance(a, np.generic):
            return a.item()  # NumPy's numbers are Python's
        if type(a) is DeviceKind:
            return str(a)
        if isinstance(a, torch.Size):
            a = tuple(a)  # which may have recorded items
        if type(a) is OrderedDict:
            return self.create_node("call_function", ordered, (self.create_arg(list(a.values())), tuple(a)), {})
        if is_made(a) or self._objects.knows(a):
            return self._objects.node_of(a)
        if is_dataclass(a) and not isinstance(a, type):
            # Some are also dictionaries, and would lose their class.
            given = {name: self.create_arg(value) for name, value in fields_of(a).items() if value is not None}
            return self.create_node("call_function", type(a), (), given)
        if type(a) is torch.Tensor and a not in self.tensor_attrs:
            # What recordings ask about it is compared by its name. Two of one recording may change in place.
            at = next((at for at, (_, each) in enumerate(self._earlier) if _are_equal(a, each)), None)
            if at is not None:
                self.tensor_attrs[a] = self._earlier.pop(at)[0]
        try:
            return super().create_arg(a)
        except UntranslatableError:
            raise
        except Exception as error:
            kind = "function" if isinstance(a, FunctionType) else type(a).__name__
            place = plain_place(self._module, a) if isinstance(a, torch.nn.Parameter) else ""
            said = f"it passes on a {kind}, which no node gives{slotted(type(a))}"
            raise UntranslatableError(place or said) from error

    def create_proxy(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *_: Any, **__: Any
    ) -> Any:
        """Record a call and return the proxy of its result."""
        within = self.surroundings.inside()
        if target in (operator.eq, operator.ne) and (same := self._same_device(*args)) is not None:
            return same is (target is operator.eq)
        if any(type(each) in (TracedTuple, TracedList) for each in args):
            places = list_places(target)
            args = tuple(
                each if place not in places else [*each] if type(each) is TracedList else opened(each)
                for place, each in enumerate(args)
            )
        if within and (name := applied(sys._getframe(1), ForwardTracer.run.__code__)):
            raise UntranslatableError(f"it calls {name}.apply, whose own backward pass would be lost")
        self._objects.refuse_in((args, kwargs), target)
        self.assumptions.viewed(target, args)
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs))
        self._mark(node, within)
        if getattr(target, "__module__", "") == "_operator" and not self._by_mode.isdisjoint(node.all_input_nodes):
            self._by_mode.add(node)
        self._look(target, args)
        around = () if self.types is None else self.types.inside
        value = evaluated(kind, target, args, kwargs, (*around, *within))
        if target is operator.getitem and type(args[0]) is TracedTuple:
            is_checked = self.assumptions.looked(node, *seen(value))
            if value is None or type(value) is str or (type(value) is bool and is_checked):
                return value  # for `is None` to see, or a name
        found = self.proxied(node, value)
        if changes(kind, target, kwargs) and issubclass(type(args[0]), Traced):
            # The same tensor: its later uses come after the change.
            args[0].node = node
        return self._called(found, args[1] if target is operator.getitem else None)

    def _look(self, target: Any, args: tuple[Any, ...]) -> None:
        """Note what a call sees of a tuple: one item, or all of them."""
        if getattr(target, "__module__", "") != "_operator":
            return
        is_item = target is operator.getitem and type(args[1]) is int and args[1] >= 0
        for each in args:
            if type(each) is TracedTuple and not isinstance(each.value, torch.Size) and each.value is not UNKNOWN:
                self.assumptions.looked(each.node, "kind", "a tuple")
                if not is_item:
                    self.assumptions.looked(each.node, "length", len(each.value))

    def name(self, value: Any, part: object) -> None:
        """Note the variable in which the code keeps a value that it reads, and the line."""
        if issubclass(type(value), Traced):
            self._mark(value.node, self.surroundings.inside())
            self._called(value, part)

    def _called(self, value: Any, part: object = None) -> Any:
        """Note the variable in which the code keeps a value, and return the value."""
        frame = sys._getframe(1)
        # A size or type that other packages read on the way to their result has no name here.
        is_given = type(value) is TracedTensor or (issubclass(type(value), Traced) and is_followed(asking(frame)))
        found = variable(frame, part) if is_given else None
        if found is not None:
            value.node.meta[VARIABLE] = found
        return value

    def call_method(self, owner: Traced, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a method."""
        found = decompositions.method(self, name, owner, args, kwargs)
        if found is not decompositions.ABSENT:
            return self._called(found)
        if issubclass(type(owner), TracedContainer):
            raise UntranslatableError(f"it calls {name} of a {type(owner.value).__name__} that it is given")
        if type(owner) not in (TracedTensor, TracedInt, TracedFloat) and owner.value is not UNKNOWN:
            if name == "numel" and isinstance(owner.value, torch.Size):
                return math.prod(owner.opened())
            return getattr(owner.opened(), name)(*args, **kwargs)
        return self.create_proxy("call_method", name, (owner, *args), kwargs)

    def watched(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a torch call, or run it if no argument is a proxy."""
        name = getattr(function, "__name__", "")
        if name == "_set_grad_enabled":
            return function(*map(bool, args))
        if function not in CREATORS and not is_traced((args, kwargs)):
            near = beside(asking(sys._getframe(1))) if function is torch.tensor else None
            if near is not None:
                kwargs = {"dtype": near.dtype, "device": near.device}
            elif self._literals is not None and function is torch.tensor and is_literal(args, kwargs):
                self._literals.append(args[0])
                return self._called(self.create_proxy("call_function", torch.as_tensor, args, {}))
            else:
                return function(*args, **kwargs)
        if function is torch._assert:
            if type(args[0]) is TracedTensor or args[0].value is UNKNOWN:
                self.create_node("call_function", torch._assert, (args[0].node, str(args[1])), {})
            else:
                bool(args[0])  # whose answer is checked
            return None
        if kwargs.get("out") is not None:
            target = kwargs.pop("out")
            made = self.watched(function, args, kwargs)
            trained = made.requires_grad  # torch itself refuses to write a result with gradients into a tensor
            self.assumptions.required(trained.node, asking(sys._getframe(1)), answer=False)
            return self.call_method(target, "copy_", (made,), {})
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
        found = decompositions.function(self, function, args, kwargs)
        if found is not decompositions.ABSENT:
            return self._called(found)
        return self.create_proxy("call_function", function, args, kwargs)

    # What Python wants to know

    def decide(self, value: Traced) -> bool:
        """Return the answer of a branch on a proxy."""
        if value.node in self._by_mode:
            self._branches = True
            return bool(value.value)
        if value.value is UNKNOWN or type(value) is TracedTensor:
            frame = asking(sys._getframe(1))
            answer = accepted(frame)
            if answer is not None:
                self.assumptions.required(value.node, frame, answer=answer)
                return answer
            answer = certain(value.node)
            if answer is None:
                found = without_inputs(value.node)
                if found is UNKNOWN:
                    answer = next(self._answers, None)
                    if answer is None:
                        raise UndecidedError(self.unknown(value))
                    self._checked.add(value.node)
                    return answer
                self.assumptions.computed(value.node, bool(found))
                return bool(found)
            self._checked.add(value.node)
            return answer
        answer = bool(value.value)
        self._decided(value.node, answer, self.assumptions.went(value, answer), value.node)
        return answer

    def _decided(self, asked: fx.Node, answer: Any, check: fx.Node | None, condition: Any) -> None:
        """Note what the code takes from an element type."""
        if asks_type(asked) and isinstance(condition, fx.Node):
            text = f"{shown(asked)} is {answer}"
            self._decisions.setdefault(origin(asked), Decision(answer, condition, text, check))

    def outlined(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the module without data, in the element type of the recording."""
        found = tensor.detach().to("meta")
        return found if self.types is None else self.types.of(found)

    def settle(self, value: Traced) -> Any:
        """Return the value of a proxy in the example, for Python."""
        if value.value is UNKNOWN or type(value) is TracedTensor:
            found = without_inputs(value.node)
            if not isinstance(found, (bool, int, float)):
                raise self.unknown(value)
            self.assumptions.settled(value.node, found)
            return found
        if value.node in self._by_mode:
            self._branches = True
        else:
            check = self.assumptions.settled(value.node, value.value)
            self._decided(value.node, value.value, check, check.args[0] if check is not None else None)
        return value.value

    def kind_of(self, tensor: Any) -> DeviceKind:
        """Return the type of the device on which the tensor of a node lies."""
        kind = self.device.type
        return DeviceKind(kind, lambda: self.assumptions.placed(tensor, is_cuda=kind == "cuda"))

    def _same_device(self, one: Any, other: Any) -> bool | None:
        """Return whether the device of a traced tensor is of the same kind as a device that the code names."""
        if isinstance(one, torch.device):
            one, other = other, one
        is_asked = (
            issubclass(type(one), Traced) and isinstance(one.value, torch.device) and isinstance(other, torch.device)
        )
        return self.kind_of(one.node.args[0]) == other.type if is_asked else None

    @staticmethod
    def unknown(value: Traced) -> UntranslatableError:
        """Return the error for a ``forward`` that depends on data."""
        return UntranslatableError(
            f"its forward depends on the values of its inputs ({shown(value.node)} is only known when it runs)"
        )
