"""`pn.intervene`: changes what layers return, for the calls of a block; `pn.keep` draws that in a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from types import TracebackType
from typing import final

import torch
from torch import Tensor, nn

from pnne_nb.compiler.shapes.infer import infer_shapes
from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError, answers_misuse, expect, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node
from pnne_nb.inspector.capture.hooks import in_backward
from pnne_nb.inspector.capture.preserve import is_compiled, uncompiled
from pnne_nb.inspector.questions.changes import Change, Part, clamp, mean, patch, scale, zero
from pnne_nb.inspector.questions.example import opened, refuse_unseen
from pnne_nb.inspector.questions.sites import Edit, edited, functions, number_of_heads
from pnne_nb.inspector.statistics.patterns import match_layers

Changes = Change | Callable[[Tensor], Tensor]
"""A change, or a function of the layer's output."""

_MAKERS = (zero, scale, clamp, mean, patch)


@final
class Row:
    """One change of one layer.

    Attributes:
        layer: Path of the layer.
        change: What is done to its output.
        on: Whether it is done; may be set at any time.
        calls: In how many calls it was done.
        shape: Of the output that it changed last; None before.
        module: The layer; None for a function of a compiled graph.
        sources: What the layer returned for the second example of a patch, by call.
    """

    def __init__(self, layer: str, module: nn.Module | None, change: Change) -> None:
        self.layer, self.change = layer, change
        self.on = True
        self.calls = 0
        self.shape: tuple[int, ...] | None = None
        self.module = module
        self._place = change.part
        self.sources: list[Tensor] = []
        self._call = 0
        if change.part.heads is not None:
            if module is None:
                raise InspectionError(
                    f"The function {layer!r} has no heads: name the linear layer behind it that joins them."
                )
            of = number_of_heads(layer, module, change.part.of)
            self._place = Part(heads=change.part.heads, of=of, tokens=change.part.tokens, dim=change.part.dim)

    def __repr__(self) -> str:
        state = f"{self.calls} call{'' if self.calls == 1 else 's'}" if self.on else "off"
        of = "" if self.shape is None else f" of {list(self.shape)}"
        return f"{self.layer or 'the model'}: {self.change}{of} ({state})"

    def edit(self, tensor: Tensor) -> Tensor:
        """Return the changed output of a call, or the same if the row is off.

        Raises:
            InspectionError: If the change does not fit the output.
        """
        call, self._call = self._call, self._call + 1
        if not self.on:
            return tensor
        source = None
        if self.change.source is not None:
            if in_backward() and self.sources:
                call %= len(self.sources)  # a checkpoint computes it again
            if call >= len(self.sources):
                raise InspectionError(
                    f"The layer {self.layer!r} is called more often than for the second example of pn.patch, for which it"
                    f" was called {len(self.sources)} times."
                )
            source = self.sources[call]
        inside = self._place.mask(tensor, type(self.module), self.layer)
        try:
            new: object = self.change.rule(tensor, self.module, source)
        except InspectionError as error:
            raise InspectionError(f"The layer {self.layer!r}: {error}") from None
        if not isinstance(new, Tensor) or new.shape != tensor.shape or new.dtype != tensor.dtype:
            what = f"{list(new.shape)} {new.dtype}" if isinstance(new, Tensor) else shown(new)
            raise InspectionError(
                f"The change of the layer {self.layer!r} makes {what} of its output {list(tensor.shape)} {tensor.dtype}:"
                " what follows needs the same shape and type."
            )
        self.calls += 1
        self.shape = tuple(tensor.shape)
        return new if inside is None else torch.where(inside, new, tensor)

    def begin(self) -> None:
        """Count the calls of a new call of the model."""
        self._call = 0


@final
class Intervention:
    """Changes of a model's layers that hold inside a ``with`` block, made by `intervene`.

    Attributes:
        rows: The changes, in the order in which they were given and in the model's order for one pattern; each can be
            switched off: ``rows[0].on = False``.
    """

    def __init__(self, net: nn.Module, changes: Mapping[str, Changes | Sequence[Changes]]) -> None:
        self._model = uncompiled(net)
        self._compiled = is_compiled(net)
        refuse_unseen(self._model)
        expect(changes, Mapping, "changes", "a mapping of layers to changes", 'Write {"conv1": pn.zero(channels=[3])}.')
        if not changes:
            raise ArgumentError('changes names no layer: write {"conv1": pn.zero(channels=[3])}.')
        self.rows: list[Row] = []
        for pattern, listed in changes.items():
            wanted = listed if isinstance(listed, (list, tuple)) else [listed]
            for layer, module in _places(self._model, pattern).items():
                self.rows += [Row(layer, module, _as_change(each)) for each in wanted]
        self._stack: ExitStack | None = None
        self._called = False

    def __repr__(self) -> str:
        state = "at work" if self._stack is not None else "at work inside `with` only"
        return f"Intervention({len(self.rows)} changes, {state})" + "".join(f"\n  {row}" for row in self.rows)

    def __enter__(self) -> Intervention:
        if self._stack is not None:
            raise InspectionError("This intervention is at work already: make another one with pn.intervene.")
        with ExitStack() as stack:
            self._patch()
            self._called = False
            for row in self.rows:
                row.calls = 0
            if self._compiled:
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.callback(self._model.register_forward_pre_hook(self._begin).remove)
            # Heads first: what is done to the output comes after their projection.
            for heads in (True, False):
                rows = _by_layer(self.rows, heads=heads)
                edits: dict[str, Edit] = {layer: partial(_edited, each) for layer, each in rows.items()}
                stack.enter_context(edited(self._model, edits, heads=heads))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()
        idle = [row for row in self.rows if row.on and not row.calls]
        if kind is None and self._called and idle:
            raise InspectionError(
                f"The layer {idle[0].layer!r} was not called, so that nothing was changed there: the model does not use it,"
                " or does not call it as a module. (The heads of an nn.MultiheadAttention are changed at the attention"
                " itself: pn.zero(heads=[0]).)"
            )

    def _begin(self, _module: nn.Module, _args: object) -> None:
        self._called = True
        for row in self.rows:
            row.begin()

    def _patch(self) -> None:
        """Run the model once for each second example, and keep what the patched layers return."""
        waiting = [row for row in self.rows if row.change.source is not None]
        while waiting:
            data = waiting[0].change.source
            now = [row for row in waiting if row.change.source is data]
            waiting = [row for row in waiting if row.change.source is not data]
            with opened(self._model, data, grad=False, evaluation=False) as example, ExitStack() as hooks:
                for heads in (True, False):
                    kept: dict[str, list[Tensor]] = {}
                    for layer, rows in _by_layer(now, heads=heads).items():
                        kept[layer] = []
                        for row in rows:
                            row.sources = kept[layer]
                    edits: dict[str, Edit] = {layer: partial(_kept, outputs) for layer, outputs in kept.items()}
                    hooks.enter_context(edited(self._model, edits, heads=heads))
                example.run()


def _by_layer(rows: list[Row], *, heads: bool) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if (row.change.part.heads is not None) == heads:
            found.setdefault(row.layer, []).append(row)
    return found


def _places(model: nn.Module, pattern: str) -> Mapping[str, nn.Module | None]:
    """Return the layers of a pattern, or else the functions of a compiled graph.

    Raises:
        LayerNotFoundError: If there are none.
    """
    try:
        return match_layers(model, pattern)
    except LayerNotFoundError:
        found = [path for path in functions(model) if fnmatchcase(path, pattern)]
        if not found:
            raise
        return dict.fromkeys(found)


def _edited(rows: list[Row], tensor: Tensor) -> Tensor:
    for row in rows:
        tensor = row.edit(tensor)
    return tensor


def _kept(outputs: list[Tensor], tensor: Tensor) -> Tensor:
    outputs.append(tensor.detach().clone())
    return tensor


@answers_misuse('pn.intervene(net, {"fc": pn.zero()})')
def intervene(net: nn.Module, changes: Mapping[str, Changes | Sequence[Changes]]) -> Intervention:
    """Change what layers return, for the calls of a ``with`` block.

    Such as ``with pn.intervene(net, {"layer3.1.conv2": pn.zero(channels=[3, 17])}) as what_if: net(x)``. A change is switched
    off and on by ``what_if.rows[0].on``.

    The model gets hooks, which are removed at the end of the block, also after an error; nothing else of it is changed.
    Gradients flow through the changes. A layer that is called several times in a call of the model is changed each time. Of
    a layer that returns several tensors (an LSTM), the first real one is changed.

    Args:
        net: Any module. One that ``torch.compile`` made runs uncompiled inside the block.
        changes: Changes by pattern of layers, as for ``Inspector.watch``: `pn.zero`, `pn.scale`, `pn.clamp`, `pn.mean`,
            `pn.patch`, or a function of the output; several as a list, in which each gets what the one before returned.

    Returns:
        The intervention, with its ``rows``.

    Raises:
        LayerNotFoundError: If no layer matches a pattern; near names are suggested.
        ArgumentError: If something is no module or no change.
        InspectionError: Here, if the layers cannot be seen or heads not told apart. In the block, if a layer has no such
            place or a change gives another shape. At its end, if the model was called and a changed layer was not.
    """
    return Intervention(net, changes)


def _as_change(change: object) -> Change:
    if isinstance(change, Change):
        return change
    for maker in _MAKERS:
        if getattr(change, "__wrapped__", change) is maker:
            raise ArgumentError(f"pn.{maker.__name__} makes a change, and is none: write pn.{maker.__name__}(…).")
    if callable(change) and not isinstance(change, type):
        name = getattr(change, "__name__", type(change).__name__)
        return Change(name, Part(), lambda tensor, *_: change(tensor))
    raise ArgumentError(
        f"{shown(change)} is no change of a layer: write pn.zero(), pn.scale(0.5), pn.clamp(-1, 1), pn.mean(),"
        " pn.patch(other_x), or a function of the output."
    )


def keep(graph: NodeGraph, changes: Mapping[str, Change | Sequence[Change]] | Intervention) -> list[Node]:
    """Write changes into a graph, as one undoable edit: a multiplication by a mask behind each node.

    ```python
    pn.keep(graph, {"conv1": pn.zero(channels=[3, 17])})
    net = pn.compile(graph, reuse=net)
    ```

    Args:
        graph: The document.
        changes: `pn.zero` and `pn.scale` by node, path or pattern of paths; several as a list. Of an
            intervention, those of its rows that are on. Heads cannot be kept.

    Returns:
        The multiplications.

    Raises:
        ArgumentError: If `graph` is no graph, or `changes` neither.
        UnknownNodeError: If there is no such node.
        InspectionError: If a change is another one, or the part is none of the node's output or of a size that is not known.
        ShapeError: If the graph's shapes do not fit.
    """
    expect(graph, NodeGraph, "graph", "a NodeGraph", "pn.from_module(net, args=(x,)) makes one of a module.")
    if isinstance(changes, Intervention):
        layers = dict.fromkeys(row.layer for row in changes.rows if row.on)
        changes = {layer: [row.change for row in changes.rows if row.on and row.layer == layer] for layer in layers}
    expect(changes, Mapping, "changes", "a mapping of nodes to changes", 'Write {"conv1": pn.zero(channels=[3])}.')
    made: list[Node] = []
    with graph.transaction("Keep changes"):
        for pattern, listed in changes.items():
            expect(pattern, str, "a key of changes", "the path of a node, or a pattern of paths")
            each: Sequence[object] = listed if isinstance(listed, Sequence) else [listed]
            for change in each:
                if not isinstance(change, Change) or change.factor is None or change.part.heads is not None:
                    raise InspectionError(
                        f"{change!r} cannot be kept in a graph: what can is pn.zero and pn.scale, of channels, tokens, units or"
                        " the whole output."
                    )
                named = graph.find(pattern, inside=True) if any(sign in pattern for sign in "*?[") else [pattern]
                made += [_masked(graph, path, change, change.factor) for path in named]
    return made


def _masked(graph: NodeGraph, path: str, change: Change, factor: float) -> Node:
    kind = graph[path].spec.torch
    port = next(iter(graph[path].spec.present_outputs({})))
    shape = infer_shapes(graph)[f"{path}.{port.name}"].shape
    [node] = graph.insert_after(path, "mul")
    # A size that is a name has one place in the mask, for all of them; examples always do.
    sizes = [1, *(size if isinstance(size, int) else 1 for size in shape[1:])]
    inside = change.part.mask(torch.empty(sizes), kind if isinstance(kind, type) else object, path)
    if inside is None:
        graph.set(node, other=factor)
        return node
    mask = torch.where(inside, factor, 1.0)
    name = f"{node.path}_mask"
    values = _nested(mask.tolist())
    graph.add("Buffer", name=name, shape=tuple(mask.shape), values=values, persistent=False)
    graph.connect(f"{name}.output", f"{node.path}.other")
    return node


def _nested(values: object) -> object:
    return tuple(_nested(each) for each in values) if isinstance(values, list) else values
