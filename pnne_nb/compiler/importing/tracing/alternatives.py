"""Joins recordings of one call: of training mode and evaluation mode, and of the element types for which its code differs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any, final

import torch
from torch import fx, nn

from pnne_nb.catalog.operators import choose, if_else
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.call_effects import TYPE, changes, draws, holds_nodes, sweep
from pnne_nb.compiler.importing.tracing.observed_calls import OTHER_TYPES
from pnne_nb.compiler.importing.tracing.proxies import EXAMPLE
from pnne_nb.compiler.importing.tracing.tracer import VARIABLE, WITHIN, Decision, ForwardCall, Recording, trace


def trace_modes(call: ForwardCall) -> Recording:
    """Record a call, in both modes if it depends on the mode, and in other element types if it asks for these.

    Raises:
        UntranslatableError: If it cannot be recorded.
    """
    training = _trace_types(call, training=True)
    if not training.branches:
        return training
    return _joined(call.module, training, _trace_types(call, training=False))


def _trace_types(call: ForwardCall, *, training: bool) -> Recording:
    """Record a call in one mode, in each of the element types for which its code does something else."""
    found = [trace(call, training=training)]
    if not found[0].decisions:
        return found[0]
    for types in OTHER_TYPES:
        try:
            other = trace(call._replace(types=types), training=training)
        except UntranslatableError:
            continue  # what the code asked for is refused then
        if all(_answers(other) != _answers(each) for each in found):
            found.append(other)
    made = _by_types(call.module, found)
    sweep(made.graph)
    return made


def _answers(recording: Recording) -> list[tuple[str, Any]]:
    return [(asked, each.answer) for asked, each in recording.decisions.items()]


def _by_types(module: nn.Module, found: Sequence[Recording]) -> Recording:
    """Join recordings at the first question that they answer otherwise, those on either side before.

    One that does not ask it, in these words, is left out: its element types are drawn or refused by what they answer.
    """
    first = found[0]
    differing = ((asked, said) for asked, said in first.decisions.items() if len(_told(asked, found)) > 1)
    if len(found) == 1 or (question := next(differing, None)) is None:
        return first
    asked, said = question
    if any(asked not in each.decisions for each in found):
        return _by_types(module, [each for each in found if asked in each.decisions])
    answer = said.answer if type(said.answer) is not bool else True
    holds = [each for each in found if each.decisions[asked].answer is answer]
    rest = [each for each in found if each not in holds]
    # Either answer to a branch is drawn; of element types, the last one is still asked for.
    for each in found if answer is True else holds:
        check = each.decisions[asked].check
        if check is not None:
            each.graph.erase_node(check)
    drawn = {each.decisions[asked].text for each in found}
    return _joined(module, _by_types(module, holds), _by_types(module, rest), asked, drawn)


def _told(asked: str, found: Sequence[Recording]) -> set[Any]:
    return {each.decisions[asked].answer if asked in each.decisions else None for each in found}


def _joined(
    module: nn.Module, one: Recording, other: Recording, asked: str = "", drawn: Collection[str] = ()
) -> Recording:
    """Join two recordings, of training and evaluation, or of the two answers to what was `asked`, which are `drawn`."""
    decision = one.decisions.get(asked)
    join = _Join(module, decision.condition if decision is not None else None)
    graph = join.join(one.graph, other.graph)
    decisions: dict[str, Decision] = {}
    for side, recording in ((join.other, other), (join.one, one)):
        for name, each in recording.decisions.items():
            if name != asked and each.condition in side:
                checked = side.get(each.check) if each.check is not None else None
                decisions[name] = each._replace(condition=side[each.condition], check=checked)
    assumed = (text for text in (*one.assumed, *other.assumed) if text not in drawn)
    batches = tuple(dict.fromkeys((*one.batches, *other.batches)))
    return Recording(
        graph, one.slots, one.branches or other.branches, tuple(dict.fromkeys(assumed)), batches,
        one.ranked or other.ranked, decisions, bool(asked) or one.typed or other.typed,
    )  # fmt: skip


@final
class _Join:
    """Joins two recordings.

    Args:
        module: The recorded module.
        condition: The node of the first recording that says which of them holds; None if that is the mode.

    Attributes:
        one: The joined node of each node of the first recording.
        other: The same for the second.
    """

    def __init__(self, module: nn.Module, condition: fx.Node | None) -> None:
        self._module = module
        self._asked = condition
        self._graph = fx.Graph()
        self.one: dict[fx.Node, fx.Node] = {}
        self.other: dict[fx.Node, fx.Node] = {}
        self._chosen: dict[str, fx.Node] = {}
        self._choices: set[fx.Node] = set()

    def join(self, train: fx.Graph, evaluation: fx.Graph) -> fx.Graph:
        ones, others = list(train.nodes)[:-1], list(evaluation.nodes)[:-1]
        if self._asked is not None:
            ones, others = self._before(self._asked, ones, others)
        matcher = difflib.SequenceMatcher(None, [_key(n) for n in ones], [_key(n) for n in others], autojunk=False)
        for _, i1, i2, j1, j2 in matcher.get_opcodes():
            if i2 - i1 == j2 - j1 and all(_key(a) == _key(b) for a, b in zip(ones[i1:i2], others[j1:j2], strict=True)):
                for one, other in zip(ones[i1:i2], others[j1:j2], strict=True):
                    self._both(one, other)
                continue
            for node in ones[i1:i2]:
                self.one[node] = self._alone(node, self.one)
            for node in others[j1:j2]:
                self.other[node] = self._alone(node, self.other)
        results = [next(iter(reversed(list(graph.nodes)))).args[0] for graph in (train, evaluation)]
        result = self._merged(*results)
        self._bind_changes()
        self._graph.output(result)
        self._bind_effects()
        return self._graph

    def _before(
        self, condition: fx.Node, ones: list[fx.Node], others: list[fx.Node]
    ) -> tuple[list[fx.Node], list[fx.Node]]:
        """Join what the recordings have up to the condition, where they are one but for what was swept; return the rest."""
        named = {node.name: place for place, node in enumerate(others)}
        place, done = ones.index(condition), 0
        for one in ones[:place]:
            twin = named.get(one.name, -1)
            if twin < done or _key(one) != _key(others[twin]):
                self.one[one] = self._graph.node_copy(one, self.one.__getitem__)
                continue
            for other in others[done:twin]:
                self.other[other] = self._graph.node_copy(other, self.other.__getitem__)
            done = twin + 1
            if self._is_same(one, others[twin]):
                self._both(one, others[twin])
            else:
                self.one[one] = self._graph.node_copy(one, self.one.__getitem__)
                self.other[others[twin]] = self._graph.node_copy(others[twin], self.other.__getitem__)
        made = self.one[condition] = self._graph.node_copy(condition, self.one.__getitem__)
        rest = others[done:]
        same = others[named[condition.name]] if named.get(condition.name, -1) >= done else None
        if same is not None and same.target is condition.target and self._is_same(condition, same):
            self.other[same] = made
            rest.remove(same)
        return ones[place + 1 :], rest

    def _is_same(self, one: fx.Node, other: fx.Node) -> bool:
        """Return whether two calls have the same arguments in the joined recording."""
        mine = fx.node.map_arg((one.args, one.kwargs), lambda each: self.one.get(each, each))
        return bool(mine == fx.node.map_arg((other.args, other.kwargs), lambda each: self.other.get(each, each)))

    def _choice(self, one: Any, other: Any) -> fx.Node:
        """Return the call that gives one of two values, according to what is asked."""
        if self._asked is None:
            made = self._graph.create_node("call_function", choose, (one, other))
        else:
            made = self._graph.create_node("call_function", if_else, (self.one[self._asked], one, other))
        self._choices.add(made)
        examples = [each.meta.get(EXAMPLE) if isinstance(each, fx.Node) else each for each in (one, other)]
        if examples[0] is not None and type(examples[0]) is type(examples[1]):
            made.meta.update({TYPE: type(examples[0]), EXAMPLE: examples[0]})
        return made

    def _alone(self, node: fx.Node, side: dict[fx.Node, fx.Node]) -> fx.Node:
        """Copy a call that only one mode makes."""
        if node.target is torch._assert:
            holds, said = side[node.args[0]], node.args[1]  # type: ignore[index]  # a check is made of a node
            chosen = self._choice(*((holds, True) if side is self.one else (True, holds)))
            return self._graph.create_node("call_function", torch._assert, (chosen, said))
        return self._graph.node_copy(node, side.__getitem__)

    def _bind_changes(self) -> None:
        """Restrict changes in place to the mode that makes them, where nothing reads the result."""
        shared = {*self.one.values()} & {*self.other.values()}
        for side in (self.one, self.other):
            for node in list(side.values()):
                if node in shared or node.users or not changes(node.op, node.target, node.kwargs):
                    continue
                changed = node.args[0]
                while isinstance(changed, fx.Node) and changed not in shared and changed.op != "get_attr":
                    changed = changed.args[0] if changed.args else None
                if isinstance(changed, fx.Node):
                    self._choice(*((node, changed) if side is self.one else (changed, node)))

    def _bind_effects(self) -> None:
        """Keep calls in both modes where only one of them reads the result, but each call has an effect.

        A dropout draws random numbers, so that later calls get others; a BatchNorm counts.
        """
        shared = {*self.one.values()} & {*self.other.values()}
        modes: dict[fx.Node, set[str]] = {}
        result = next(iter(reversed(self._graph.nodes)))
        for node in reversed(self._graph.nodes):
            # A call whose result nothing reads takes place in both modes.
            read_in = modes.get(node, set()) if node.users else {"train", "eval"}
            for each in node.all_input_nodes:
                places = node.args[-2:] if node in self._choices else (each, each)
                of = {mode for mode, place in zip(("train", "eval"), places, strict=True) if place is each}
                modes.setdefault(each, set()).update(read_in & of)
        for node in shared:
            if node.users and len(modes[node]) == 1 and self._has_effect(node):
                with self._graph.inserting_before(result):
                    self._choice(node, node)

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
        self.one[one] = self.other[other] = made

    def _merged(self, one: Any, other: Any) -> Any:
        """Return a value that is one of two, according to the mode."""
        if isinstance(one, fx.Node) and isinstance(other, fx.Node) and self.one[one] is self.other[other]:
            return self.one[one]
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
        first, second = fx.node.map_arg(one, self.one.__getitem__), fx.node.map_arg(other, self.other.__getitem__)
        key = repr((first, second))
        if key not in self._chosen:
            made = self._chosen[key] = self._choice(first, second)
            said = [each.meta.get(VARIABLE) for each in (first, second) if isinstance(each, fx.Node)]
            if len(said) == 2 and said[0] == said[1] is not None:
                made.meta[VARIABLE] = said[0]
        return self._chosen[key]


def _key(node: fx.Node) -> tuple[object, ...]:
    said = node.args[1] if node.target is torch._assert else ""
    return node.op, node.target, len(node.args), tuple(node.kwargs), node.meta.get(WITHIN), said
