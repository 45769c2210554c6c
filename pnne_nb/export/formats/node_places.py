"""Finds the node of an exported operation, and the tensors that leave a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pnne_nb.compiler import generated as parent
from pnne_nb.compiler.codegen import loader
from pnne_nb.export.formats.base import NodeTensor

_PLACE = re.compile(rf'File "<({re.escape(parent.__name__)}\.[^>]+)>", line (\d+)')


class Operation(NamedTuple):
    """An operation of a file.

    Attributes:
        node: The path of the drawn node that it belongs to; ``""`` if it belongs to none.
        inputs: The names of the tensors that it reads.
        outputs: The names of those that it makes.
    """

    node: str
    inputs: Sequence[str]
    outputs: Sequence[str]


def node_at(stack_trace: str) -> str:
    """Return the path of the node whose line of generated code is the outermost one in a stack trace.

    Args:
        stack_trace: As ``torch.export`` keeps it; ``""`` is returned if no line belongs to a node.
    """
    names = []
    for key, number in _PLACE.findall(stack_trace):
        loaded = loader.find(key)
        line = loaded.generated.lines.get(int(number)) if loaded is not None else None
        if line is not None and line.calls:
            names.append(line.node)
    return ".".join(names)


def leaving(operations: Iterable[Operation], outputs: Mapping[str, str] | Sequence[str]) -> Iterator[NodeTensor]:
    """Yield the tensors that another node or the caller reads, in the order of their computation.

    Args:
        operations: All of them, in order.
        outputs: The names of the tensors that the file returns.
    """
    operations = list(operations)
    maker = {tensor: operation.node for operation in operations for tensor in operation.outputs if tensor}
    left = {tensor for tensor in outputs if tensor in maker}
    for operation in operations:
        left.update(tensor for tensor in operation.inputs if maker.get(tensor, operation.node) != operation.node)
    for tensor, node in maker.items():
        if node and tensor in left:
            yield NodeTensor(tensor, node)
