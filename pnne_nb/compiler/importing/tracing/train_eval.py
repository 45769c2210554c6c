"""Joins the recordings of training mode and evaluation mode into one."""

from __future__ import annotations

import difflib
from typing import Any, final

import torch
from torch import fx, nn

from pnne_nb.catalog.operators import choose
from pnne_nb.compiler.importing.tracing.call_effects import changes, draws, holds_nodes
from pnne_nb.compiler.importing.tracing.tracer import VARIABLE, WITHIN, ForwardCall, Recording, trace


def trace_modes(call: ForwardCall) -> Recording:
    """Record a call, in both modes if it depends on the mode.

    Raises:
        UntranslatableError: If it cannot be recorded.
    """
    training = trace(call, training=True)
    if not training.branches:
        return training
    evaluation = trace(call, training=False)
    graph = _Join(call.module).join(training.graph, evaluation.graph)
    assumed = tuple(dict.fromkeys((*training.assumed, *evaluation.assumed)))
    batches = tuple(dict.fromkeys((*training.batches, *evaluation.batches)))
    return Recording(graph, training.slots, True, assumed, batches, training.ranked or evaluation.ranked)


@final
class _Join:
    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._graph = fx.Graph()
        self._train: dict[fx.Node, fx.Node] = {}
        self._eval: dict[fx.Node, fx.Node] = {}
        self._chosen: dict[str, fx.Node] = {}

    def join(self, train: fx.Graph, evaluation: fx.Graph) -> fx.Graph:
        ones, others = list(train.nodes)[:-1], list(evaluation.nodes)[:-1]
        matcher = difflib.SequenceMatcher(None, [_key(n) for n in ones], [_key(n) for n in others], autojunk=False)
        for _, i1, i2, j1, j2 in matcher.get_opcodes():
            if i2 - i1 == j2 - j1 and all(_key(a) == _key(b) for a, b in zip(ones[i1:i2], others[j1:j2], strict=True)):
                for one, other in zip(ones[i1:i2], others[j1:j2], strict=True):
                    self._both(one, other)
                continue
            for node in ones[i1:i2]:
                self._train[node] = self._alone(node, self._train)
            for node in others[j1:j2]:
                self._eval[node] = self._alone(node, self._eval)
        results = [next(iter(reversed(list(graph.nodes)))).args[0] for graph in (train, evaluation)]
        result = self._merged(*results)
        self._bind_changes()
        self._graph.output(result)
        self._bind_effects()
        return self._graph

    def _alone(self, node: fx.Node, side: dict[fx.Node, fx.Node]) -> fx.Node:
        """Copy a call that only one mode makes."""
        if node.target is torch._assert:
            holds, said = side[node.args[0]], node.args[1]  # type: ignore[index]  # a check is made of a node
            condition = (holds, True) if side is self._train else (True, holds)
            chosen = self._graph.create_node("call_function", choose, condition)
            return self._graph.create_node("call_function", torch._assert, (chosen, said))
        return self._graph.node_copy(node, side.__getitem__)

    def _bind_changes(self) -> None:
        """Restrict changes in place to the mode that makes them, where nothing reads the result."""
        shared = {*self._train.values()} & {*self._eval.values()}
        for side in (self._train, self._eval):
            for node in list(side.values()):
                if node in shared or node.users or not changes(node.op, node.target, node.kwargs):
                    continue
                changed = node.args[0]
                while isinstance(changed, fx.Node) and changed not in shared and changed.op != "get_attr":
                    changed = changed.args[0] if changed.args else None
                if isinstance(changed, fx.Node):
                    pair = (node, changed) if side is self._train else (changed, node)
                    self._graph.create_node("call_function", choose, pair, {})

    def _bind_effects(self) -> None:
        """Keep calls in both modes where only one of them reads the result, but each call has an effect.

        A dropout draws random numbers, so that later calls get others; a BatchNorm counts.
        """
        shared = {*self._train.values()} & {*self._eval.values()}
        modes: dict[fx.Node, set[str]] = {}
        result = next(iter(reversed(self._graph.nodes)))
        for node in reversed(self._graph.nodes):
            # A call whose result nothing reads takes place in both modes.
            read_in = modes.get(node, set()) if node.users else {"train", "eval"}
            for each in node.all_input_nodes:
                of = {mode for mode, place in zip(("train", "eval"), node.args, strict=False) if place is each}
                modes.setdefault(each, set()).update(read_in & of if node.target is choose else read_in)
        for node in shared:
            if node.users and len(modes[node]) == 1 and self._has_effect(node):
                with self._graph.inserting_before(result):
                    self._graph.create_node("call_function", choose, (node, node), {})

    def _has_effect(self, node: fx.Node) -> bool:
        if node.op != "call_module":
            return draws(node) or changes(node.op, node.target, node.kwargs)
        called = self._module.get_submodule(str(node.target))
        return any(
            part._buffers
            or getattr(part, "dropout", 0)
            or any(word in type(part).__name__ for word in ("Drop", "RReLU"))
            for part in called.modules()
        )

    def _both(self, one: fx.Node, other: fx.Node) -> None:
        args = self._merged(tuple(one.args), tuple(other.args))
        kwargs = {name: self._merged(one.kwargs[name], other.kwargs[name]) for name in one.kwargs}
        made = self._graph.create_node(one.op, one.target, tuple(args), kwargs, name=one.name)
        made.meta.update({**other.meta, **one.meta})
        self._train[one] = self._eval[other] = made

    def _merged(self, one: Any, other: Any) -> Any:
        """Return a value that is one of two, according to the mode."""
        if isinstance(one, fx.Node) and isinstance(other, fx.Node) and self._train[one] is self._eval[other]:
            return self._train[one]
        if isinstance(one, (tuple, list)) and type(one) is type(other) and len(one) == len(other):
            parts = [self._merged(a, b) for a, b in zip(one, other, strict=True)]
            return tuple(parts) if isinstance(one, tuple) else parts
        if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
            return {key: self._merged(one[key], other[key]) for key in one}
        if isinstance(one, slice) and isinstance(other, slice):
            bounds = zip((one.start, one.stop, one.step), (other.start, other.stop, other.step), strict=True)
            return slice(*(self._merged(a, b) for a, b in bounds))
        if not holds_nodes((one, other)) and type(one) is type(other) and one == other:
            return one
        first, second = fx.node.map_arg(one, self._train.__getitem__), fx.node.map_arg(other, self._eval.__getitem__)
        key = repr((first, second))
        if key not in self._chosen:
            made = self._chosen[key] = self._graph.create_node("call_function", choose, (first, second), {})
            said = [each.meta.get(VARIABLE) for each in (first, second) if isinstance(each, fx.Node)]
            if len(said) == 2 and said[0] == said[1] is not None:
                made.meta[VARIABLE] = said[0]
        return self._chosen[key]


def _key(node: fx.Node) -> tuple[object, ...]:
    said = node.args[1] if node.target is torch._assert else ""
    return node.op, node.target, len(node.args), tuple(node.kwargs), node.meta.get(WITHIN), said
