"""Converts a model to named tensors and a short JSON text, and back, without code.

A file of plain tensors leaves out which names share one tensor, which parameters are frozen, which buffers no
``state_dict`` has, and which modules are in training mode. `ModelState` says that.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.compiler import compile as compile_graph
from pnne_nb.compiler.pipeline.compile import load as load_class
from pnne_nb.errors import Diagnostic, ExportError, GraphFileError, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.random_state import private_random_state

DEEPEST = 200
"""Modules inside each other in a file, at most."""


class ModelState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The state of a model besides its tensors.

    Attributes:
        tied: Further names of tensors, each with the name under which the tensor is stored.
        frozen: Names of the parameters that are not trained.
        buffers: Names of the tensors that are no parameters.
        transient: Names of the buffers that ``state_dict`` leaves out.
        strides: Steps in memory of the tensors whose elements are not in the usual order, as in ``channels_last``. torch
            chooses a convolution's algorithm, and so its rounding, by them.
        training: Whether the model is in training mode.
        switched: Paths of the modules that are in the other mode.
    """

    tied: dict[str, str] = {}
    frozen: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    transient: tuple[str, ...] = ()
    strides: dict[str, tuple[int, ...]] = {}
    training: bool = True
    switched: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the state as JSON, the same text for equal states."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str | bytes, place: str) -> ModelState:
        """Read what `to_json` wrote.

        Raises:
            GraphFileError: If it is something else; `place` says where it stands.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise GraphFileError(f"{place}: the description of the weights is damaged: {error}.") from error


def require_closed(graph: NodeGraph) -> None:
    """Raise an error for a graph with opaque nodes, whose modules only code could restore.

    Raises:
        ExportError: It names the nodes.
        CompileError: If the graph is unfinished.
    """
    opaque = load_class(graph).generated.opaque
    if not opaque:
        return
    found = [
        Diagnostic(
            code="opaque-module",
            message="The node keeps a module that the graph does not describe, and a data file cannot hold its code.",
            node=graph[path].path if path and path in graph else path or None,
            hint="Draw what it does, or register its class with @pn.register_node and use that type.",
        )
        for path in opaque
    ]
    raise ExportError(
        f"{graph.name!r} cannot be saved as data, because of its opaque nodes:\n"
        + "\n".join(f"  - {each}" for each in found),
        found,
    )


def read_state(model: nn.Module) -> tuple[dict[str, Tensor], ModelState]:
    """Return copies of all parameters and buffers on the CPU, and the rest of the model's state.

    Raises:
        ExportError: If a tensor has no data, is no plain tensor, or overlaps another one in memory.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers(remove_duplicate=False))
    kept = model.state_dict(keep_vars=True)
    extra = [name for name, value in kept.items() if not isinstance(value, Tensor)]
    if extra:
        raise ExportError(f"{extra[0]} of the model is no tensor, and a data file cannot hold it. Make it a buffer.")
    named = {**kept, **parameters, **buffers}  # in the order of state_dict
    first: dict[int, str] = {}
    tied: dict[str, str] = {}
    tensors: dict[str, Tensor] = {}
    strides: dict[str, tuple[int, ...]] = {}
    for name, tensor in named.items():
        if id(tensor) in first:
            tied[name] = first[id(tensor)]
            continue
        first[id(tensor)] = name
        _require_plain(name, tensor)
        tensors[name] = tensor.detach().cpu().contiguous().clone()
        steps = tensor.detach().clone(memory_format=torch.preserve_format).stride()
        if steps != torch.empty(tensor.shape, device="meta").stride():
            strides[name] = steps
    _require_apart({name: named[name] for name in tensors})
    state = ModelState(
        tied=tied,
        frozen=tuple(name for name, tensor in parameters.items() if not tensor.requires_grad),
        buffers=tuple(buffers),
        transient=tuple(name for name in buffers if name not in kept),
        strides=strides,
        training=model.training,
        switched=tuple(path for path, module in model.named_modules() if module.training is not model.training),
    )
    return tensors, state


def make_model(graph: NodeGraph, tensors: Mapping[str, Tensor], state: ModelState, place: str) -> nn.Module:
    """Return a model of `graph` with these weights.

    Args:
        graph: The document; its own code alone is run.
        tensors: Values by name.
        state: The rest of the model's state.
        place: Where the weights come from, for messages.

    Raises:
        CompileError: If the graph cannot be compiled, for example because a node type is not registered.
        GraphFileError: If the weights do not belong to the graph.
    """
    with private_random_state():
        model = compile_graph(graph, reuse=_holder(tensors, state, place))
    made: dict[str, Tensor] = {
        **dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))
    }  # fmt: skip
    wanted = {**{name: name for name in tensors}, **state.tied}
    lost = [name for name in wanted if name not in made]
    absent = [name for name in made if name not in wanted]
    for names, what in ((lost, "has the weight {!r}, which no node takes"), (absent, "lacks the weight {!r}")):
        if names:
            raise GraphFileError(f"{place} {what.format(names[0])}: graph and weights do not belong together.")
    for name, stored in wanted.items():
        value, given = made[name], tensors[stored]
        if value.dtype != given.dtype or value.shape != given.shape or not _equal(value, given):
            raise GraphFileError(
                f"{place}: {name} is {_described(given)}, and the graph makes it {_described(value)}: they do not belong "
                "together."
            )
        if made[stored] is not value:
            raise GraphFileError(f"{place}: {name} and {stored} are one tensor there, but not in the graph.")
    return model


def _require_plain(name: str, tensor: Tensor) -> None:
    if type(tensor) not in (Tensor, nn.Parameter, nn.Buffer) or tensor.layout != torch.strided or tensor.is_quantized:
        raise ExportError(
            f"{name} is a {type(tensor).__name__} of layout {tensor.layout}, and a data file holds plain dense tensors only."
        )
    if tensor.device.type == "meta":
        raise ExportError(f"{name} has no data: it is on the meta device. Save the model after its weights were made.")


def _require_apart(tensors: Mapping[str, Tensor]) -> None:
    """Raise an error for different tensors that overlap in memory, because loading would separate them."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            start = int(tensor.storage_offset() * tensor.element_size())
            reach = 1 + sum(int((size - 1) * step) for size, step in zip(tensor.shape, tensor.stride(), strict=True))
            place = tensor.untyped_storage().data_ptr()
            spans.setdefault(place, []).append((start, start + reach * tensor.element_size(), name))
    for found in spans.values():
        found.sort()
        for (_, end, one), (start, _, other) in pairwise(found):
            if start < end:
                raise ExportError(
                    f"{one} and {other} share memory without being one tensor, which would be lost in a file. Tie them "
                    f"(model.b.weight = model.a.weight), or give one of them a copy."
                )


def _arranged(tensor: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Return a copy with these strides, which must not take more memory than the tensor has elements."""
    reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, strides, strict=True))
    if min(strides, default=0) < 0 or reach > max(tensor.numel(), 1):
        raise RuntimeError(f"there are no strides {strides}")
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def _holder(tensors: Mapping[str, Tensor], state: ModelState, place: str) -> nn.Module:
    """Return modules without a forward that hold the tensors by name, from which the compiler takes them."""
    root = nn.Module()
    for name in [*tensors, *state.tied, *state.switched]:
        if name.count(".") > DEEPEST:
            raise GraphFileError(f"{place}: {shown(name)} is nested more than {DEEPEST} deep.")
    kinds = {name: name in state.buffers for name in [*tensors, *state.tied]}
    made: dict[str, Tensor] = {}
    try:
        for name, stored in [*((name, name) for name in tensors), *state.tied.items()]:
            if stored not in made:
                value = tensors[stored]
                if stored in state.strides:
                    value = _arranged(value, state.strides[stored])
                made[stored] = value if kinds[stored] else nn.Parameter(value, requires_grad=stored not in state.frozen)
            module, last = _made_module(root, name)
            if kinds[name]:
                module.register_buffer(last, made[stored], persistent=name not in state.transient)
            else:
                value = made[stored]
                module.register_parameter(last, value if isinstance(value, nn.Parameter) else nn.Parameter(value))
        for path in state.switched:
            _made_module(root, f"{path}.")
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise GraphFileError(f"{place}: the weights are not as their description says: {shown(error)}.") from error
    for path, module in root.named_modules():
        module.training = state.training is not (path in state.switched)
    return root


def _made_module(root: nn.Module, name: str) -> tuple[nn.Module, str]:
    """Return the module that holds a tensor, creating it if needed, and the last part of the tensor's name."""
    *path, last = name.split(".")
    module = root
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    return module, last


def _equal(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same bits, NaN included."""
    one, other = one.detach().cpu().contiguous(), other.contiguous()
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
