"""Where a change takes hold: a layer's output, or the joined heads of its attention. Hooks that read and write there."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.compiler.codegen.loader import document_of
from pnne_nb.errors import InspectionError, LayerNotFoundError, expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node
from pnne_nb.inspector.capture.hooks import in_backward, primary_tensor
from pnne_nb.inspector.statistics.patterns import near_layers

Edit = Callable[[Tensor], Tensor]
"""Gets the value of a call and returns the one that takes its place."""


def _attach(layer: str, module: nn.Module, edit: Edit, *, heads: bool) -> RemovableHandle:
    """Have `edit` see and replace the output of each call of `module`, or its joined heads `[…, heads * d]`.

    Of an output with several tensors, it is the first real one.

    Raises:
        InspectionError: If the heads of `module` cannot be told apart.
    """
    if not heads:
        return module.register_forward_hook(lambda _module, _args, output: _edited(layer, output, edit))
    if isinstance(module, nn.MultiheadAttention):
        return module.register_forward_hook(partial(_heads, layer, edit), with_kwargs=True)
    if isinstance(module, nn.Linear):
        return module.register_forward_pre_hook(lambda _module, args: (edit(args[0]), *args[1:]))
    inside = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    places = [f"{layer}.{name}" if layer else name for name in inside]
    raise InspectionError(
        f"The heads of the layer {layer!r} ({type(module).__name__}) cannot be told apart from outside."
        + (
            f" Name the linear layer that joins them, and their number: {{{places[-1]!r}: pn.zero(heads=[0], of=4)}}. The"
            f" linear layers are {', '.join(map(repr, places))}."
            if places
            else " Name the linear layer that joins them, and their number."
        )
    )


def place_of(model: nn.Module, path: str) -> nn.Module | None:
    """Return the layer at `path`, or None for a function of a compiled graph.

    Raises:
        ArgumentError: If `path` is no text.
        LayerNotFoundError: If there is neither; near names are suggested.
    """
    expect(path, str, "layer", "the path of a layer", "dict(net.named_modules()) lists them.")
    modules: dict[str, nn.Module] = dict(model.named_modules(remove_duplicate=False))
    if path in modules:
        return modules[path]
    known = functions(model)
    if path not in known:
        raise LayerNotFoundError(f"The model has no layer {path!r}.{near_layers(path, [*modules, *known])}")
    return None


@contextmanager
def edited(model: nn.Module, edits: Mapping[str, Edit], *, heads: bool = False) -> Iterator[None]:
    """Have edits see and replace what layers and functions return, by path; see `place_of` and `_attach` for errors."""
    with ExitStack() as stack:
        called: dict[str, Edit] = {}
        for path, edit in edits.items():
            module = place_of(model, path)
            if module is None:
                called[path] = edit
            else:
                stack.callback(_attach(path, module, edit, heads=heads).remove)
        if called:
            stack.enter_context(_at_functions(model, called))
        yield


def functions(model: nn.Module) -> dict[str, Node]:
    """Return the nodes of a compiled graph that call no module, by path: ``relu``, an addition."""
    document = document_of(model)
    if document is None:
        return {}
    modules = {name for name, _ in model.named_modules(remove_duplicate=False)}
    graph = NodeGraph.from_json(document.text)
    nodes = {path: graph[path] for path in graph.find(inside=True) if path not in modules}
    return {path: node for path, node in nodes.items() if node.spec.torch is not None}


def _at_functions(model: nn.Module, edits: Mapping[str, Edit]) -> AbstractContextManager[None]:
    """Have edits see and replace what functions of a compiled graph return, while its code is followed line by line."""

    def see(step: NodeExecution) -> dict[str, object] | None:
        edit = edits.get(step.node)
        if edit is None or in_backward():
            return None
        name, value = next(iter(step.outputs.items()))
        return {name: _edited(step.node, value, edit)}

    return stepping(model, see)


def number_of_heads(layer: str, module: nn.Module, of: int | None) -> int:
    """Return how many heads `module` joins.

    Raises:
        InspectionError: If it is not said, or does not divide the projection's input.
    """
    if isinstance(module, nn.MultiheadAttention):
        if of not in (None, module.num_heads):
            raise InspectionError(f"The layer {layer!r} has {module.num_heads} heads, not {of}: leave of= out.")
        return int(module.num_heads)
    size = module.in_features if isinstance(module, nn.Linear) else None
    if of is None and size is not None:
        raise InspectionError(f"How many heads does the layer {layer!r} join? Write pn.zero(heads=[0], of=4).")
    if of is not None and size is not None and size % of:
        raise InspectionError(
            f"The layer {layer!r} takes {size} values, which are not those of {of} heads of one size."
        )
    return of or 1


def _edited(layer: str, output: object, edit: Edit) -> object:
    tensor = primary_tensor(output)
    if tensor is None:
        raise InspectionError(
            f"The layer {layer!r} returns a {type(output).__name__}, in which there is no tensor to change: name a layer"
            " inside it."
        )
    return _with(output, tensor, edit(tensor))


def _heads(
    layer: str, edit: Edit, module: nn.MultiheadAttention, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> object:
    """Return the output of an attention whose projection is no call of a layer, after an edit of what it projects."""
    if module.training and module.dropout:
        raise InspectionError(
            f"The heads of the layer {layer!r} are computed a second time, for which its dropout would draw other numbers:"
            " call net.eval() first."
        )
    weight: Tensor = module.out_proj.weight
    bias: Tensor | None = module.out_proj.bias
    # A second attention with the same weights, which does not project.
    joined, projection = copy.copy(module), copy.copy(module.out_proj)
    tensors: dict[str, Any] = {
        "weight": torch.eye(len(weight)).to(weight),
        "bias": None if bias is None else torch.zeros_like(bias),
    }
    projection._parameters = tensors
    joined._modules = module._modules | {"out_proj": projection}
    heads, _ = joined.forward(*args, **kwargs)
    return F.linear(edit(heads), weight, bias), output[1]


def _with(output: Any, old: Tensor, new: Tensor) -> Any:
    """Return a nested output with one tensor replaced by another."""
    match output:
        case Tensor():
            return new if output is old else output
        case Mapping():
            changed = copy.copy(output)
            for key, value in output.items():
                changed[key] = _with(value, old, new)  # type: ignore[index]  # what a model returns can be written
            return changed
        case tuple() if hasattr(output, "_fields"):
            return type(output)(*(_with(value, old, new) for value in output))
        case tuple() | list():
            return type(output)(_with(value, old, new) for value in output)
        case _ if dataclasses.is_dataclass(output) and not isinstance(output, type):
            fields = {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
            return dataclasses.replace(output, **{name: _with(value, old, new) for name, value in fields.items()})
        case _:
            return output
