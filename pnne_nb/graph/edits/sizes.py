"""What follows from a change of a named size: other sizes and all nodes that are calculated from it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import Op, SetProperty, SetSize
from pnne_nb.graph.schema.calculation import calculated, names_used, written_out
from pnne_nb.graph.schema.values import Calculated, mapped


def following(content: Content, op: Op) -> Iterator[Op]:
    """Yield the ops that an op consists of, each to be applied before the next is asked for.

    A changed size changes all that is calculated from it. Where a size is removed, its number takes its place.
    """
    if not isinstance(op, SetSize):
        yield op
    elif op.value is None:
        number = content.sizes.get(op.name)
        if number is not None:

            def without(value: Calculated) -> int:
                text = written_out(value.text, op.name, int(number))
                result = calculated(text, content.sizes)
                return int(value) if result is None else result

            for name, value in list(content.sizes.items()):
                if _uses(value, (op.name,)):
                    yield SetSize(name, mapped(value, without))
            yield from _users(content, (op.name,), lambda value: mapped(value, without))
        yield op
    else:
        yield op
        stale = {op.name: None}
        while fresh := [name for name, value in content.sizes.items() if name not in stale and _uses(value, stale)]:
            stale.update(dict.fromkeys(fresh))
        del stale[op.name]
        done: set[str] = set()
        while ready := [
            name for name in stale if name not in done and not _uses(content.sizes[name], stale.keys() - done)
        ]:
            for name in ready:
                yield SetSize(name, content.sizes[name])
            done.update(ready)
        yield from _users(content, (op.name, *stale), lambda value: value)


def _users(content: Content, names: Container[str], change: Callable[[object], object]) -> Iterator[Op]:
    for graph in content.graphs.values():
        for node in list(graph.nodes.values()):
            for name, value in node.properties.items():
                if _uses(value, names):
                    yield SetProperty(node.name, name, change(value), graph.id)


def _uses(value: object, names: Container[str]) -> bool:
    return any(name in names for name in names_used(value))
