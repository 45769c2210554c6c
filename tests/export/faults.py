"""Seeded faults in ONNX files, each in an operator of a known drawn node."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from torch import Tensor

import pnne_nb as pn
from pnne_nb.export.attempt import prepare, request_of
from pnne_nb.export.formats.base import as_array
from pnne_nb.export.formats.onnx import OnnxFormat
from pnne_nb.export.proof.eager_run import Model
from pnne_nb.export.proof.fresh_process import Run
from pnne_nb.export.proof.parity import NodeParity
from pnne_nb.export.proof.prove import compare_nodes
from pnne_nb.export.subject.example_batches import BatchMaker
from pnne_nb.process.random_state import private_random_state

PADDED = {"Conv", "AveragePool", "MaxPool"}
WITH_EPSILON = {"BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"}
LOOKED_UP = {"Gather", "Reshape", "Expand", "Slice", "Range"}
"""Operators whose constants are indices, or tables of which a batch reads a part."""


class Fault(NamedTuple):
    """One change to a file.

    Attributes:
        kind: What is wrong.
        node: The drawn node whose operator it is in.
        apply: Makes the change.
    """

    kind: str
    node: str
    apply: Callable[[], None]


def node_of(operator: Any) -> str:
    return next((entry.value for entry in operator.metadata_props if entry.key == "pnne_nb.node"), "")


def faults(model: Any, rng: random.Random) -> Iterator[Fault]:
    """Yield every fault that can be put into a file: exactly one is to be applied."""
    constants = {each.name: each for each in model.graph.initializer}
    readers: dict[str, str] = {}  # the first one: there a tied weight that is wrong shows first
    for operator in model.graph.node:
        for name in operator.input:
            readers.setdefault(name, node_of(operator))
    for operator in model.graph.node:
        node = node_of(operator)
        if not node:
            continue
        for name in operator.input:
            if name in constants and operator.op_type not in LOOKED_UP and readers[name] == node:
                yield from _weight_faults(constants[name], node, rng)
        for attribute in operator.attribute:
            if operator.op_type in WITH_EPSILON and attribute.name == "epsilon":
                yield Fault("eps", node, partial(_multiply, attribute, rng.choice([0.01, 10.0, 100.0])))
            if operator.op_type in PADDED and attribute.name == "pads" and any(attribute.ints):
                yield Fault("padding", node, partial(_shift, attribute))


def _weight_faults(constant: Any, node: str, rng: random.Random) -> Iterator[Fault]:
    values = numpy_helper.to_array(constant)
    if values.dtype != np.float32 or values.size < 2 or float(values.std()) == 0.0:
        return

    def put(changed: Any) -> None:
        constant.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(changed, dtype=np.float32), constant.name))

    def one_element() -> None:
        changed = values.copy()
        changed.flat[rng.randrange(values.size)] += np.float32(0.1 * values.std())
        put(changed)

    if values.shape[0] > 1 and not np.array_equal(np.roll(values, 1, 0), values):
        yield Fault("permuted", node, lambda: put(np.roll(values, 1, 0)))
    yield Fault("scale", node, lambda: put(values * np.float32(rng.choice([1.001, 0.99, 1.1]))))
    yield Fault("element", node, one_element)


def _multiply(attribute: Any, factor: float) -> None:
    attribute.f *= factor


def _shift(attribute: Any) -> None:
    """Move the padding by one: the shape stays."""
    half = len(attribute.ints) // 2
    place = next(index for index, size in enumerate(attribute.ints) if size)
    place, other = place % half, place % half + half
    low, high = (place, other) if attribute.ints[place] else (other, place)
    attribute.ints[low] -= 1
    attribute.ints[high] += 1


class Exported:
    """A graph with its file, for comparing changed copies of the file node by node without starting a process each time."""

    def __init__(self, graph: pn.NodeGraph, folder: Path, name: str = "") -> None:
        self.path = folder / f"{name or graph.name}.onnx"
        with private_random_state():
            self.subject, _, self.sizes = prepare(graph, None, None)
            self.maker = BatchMaker(self.subject.model, self.subject.inputs, self.subject.limits)
            OnnxFormat().write(request_of(self.subject, self.maker.tensors(self.sizes)), self.path)
        self.tensors = OnnxFormat().node_tensors(self.path)
        self.names = [info.name for info in self.subject.inputs]
        self.model = Model(self.subject.model, self.subject.outputs)

    def compare(self, path: Path, batch: dict[str, Tensor]) -> dict[str, NodeParity]:
        """Return how well a file agrees with the model at each node."""
        reference = self.model.run([batch[name] for name in self.names], nodes=True)
        given = {
            each.tensor: reference.nodes[each.node][0].value for each in self.tensors if each.node in reference.random
        }
        watched = [each.tensor for each in self.tensors if each.tensor not in given]
        opened = OnnxFormat().open(path, watched, list(given))
        outputs = opened.run({**{name: as_array(tensor) for name, tensor in batch.items()}, **given})
        return compare_nodes(self.subject, reference, self.tensors, Run(outputs), "auto", ())

    def batch(self, sizes: dict[str, int] | None = None) -> dict[str, Tensor]:
        return dict(zip(self.names, self.maker.tensors(sizes or self.sizes), strict=True))

    def with_fault(self, seed: int, to: Path) -> Fault:
        """Write a copy of the file with one fault, and return which."""
        rng = random.Random(seed)
        model = onnx.load(str(self.path))
        found = list(faults(model, rng))
        kind = rng.choice(sorted({fault.kind for fault in found}))
        fault = rng.choice([each for each in found if each.kind == kind])
        fault.apply()
        onnx.save(model, str(to))
        return fault


def first_bad(nodes: dict[str, NodeParity]) -> str | None:
    """Return the first node that differs."""
    return next((each.node for each in nodes.values() if not each.ok), None)
