"""Every layer, function and method of the catalogue, compiled and run: it equals the plain torch call.

What each is called with is that of the catalogue's own tests; here it is drawn, so that generated source, shape
inference and the names in ``state_dict`` are in between. `test_families` has the symbolic batch.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.catalog import functions, layers
from pnne_nb.graph.schema.spec import NodeSpec
from tests.catalog import function_samples, layer_samples
from tests.catalog.calling import build, call, flat
from tests.catalog.layer_samples import Sample

# Each function is added by its name, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* is the function, whose weight:UserWarning")

SPECS = {spec.type: spec for spec in (*layers.specs(), *functions.specs())}
FRESH_MEMORY = ("empty", "empty_like", "new_empty")
"""What they hold is not defined."""


def _sample(spec: NodeSpec) -> Sample:
    torch.manual_seed(0)
    return layer_samples.sample(spec.type) if spec.kind == "module" else function_samples.sample(spec)


def _tensors(value: Any) -> list[Tensor]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _drawn(spec: NodeSpec, sample: Sample) -> pn.NodeGraph:
    """The node with an Input for each tensor and an Output for each result; a loose wire, for those without inputs."""
    graph = pn.NodeGraph("one")
    properties: Any = dict(sample.values)
    node = graph.add(spec.type, "node", **properties)
    graph.add("Input", "loose")
    for port, value in sample.inputs.items():
        end = f"node.{port}"
        if isinstance(value, tuple):
            graph.add("tuple", f"{port}_tuple")
            graph.connect(f"{port}_tuple", end)
            end = f"{port}_tuple.items"
        elif value is None:
            graph.add("Constant", f"{port}_none", value=None)
            graph.connect(f"{port}_none", end)
        for place, tensor in enumerate(_tensors(value)):
            name = f"{port}_{place}_in"
            graph.add("Input", name, shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))
            graph.connect(f"{name}.output", end if isinstance(value, Tensor) else f"{end}_{place}")
    for output in spec.present_outputs(node.properties):
        graph.add("Output", f"out_{output.name}")
        graph.connect(f"node.{output.name}", f"out_{output.name}")
    graph.add("Output", "out")
    graph.connect("loose", "out")
    return graph


def _copied(sample: Sample, *, inplace: bool) -> dict[str, Any]:
    def fresh(tensor: Tensor) -> Tensor:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad and not inplace)

    return {
        name: fresh(value) if isinstance(value, Tensor) else value and type(value)(map(fresh, value))
        for name, value in sample.inputs.items()
    }


def _gradients(results: list[Any], inputs: dict[str, Any], module: nn.Module | None) -> list[Any]:
    """Of everything that needs one, or what torch says against it."""
    leaves = [tensor for value in inputs.values() for tensor in _tensors(value) if tensor.requires_grad]
    leaves += [] if module is None else [p for p in module.parameters() if p.requires_grad]
    wanted = [result for result in results if isinstance(result, Tensor) and result.requires_grad]
    total: Any = sum(result.abs().sum() if result.is_complex() else result.sum() for result in wanted)
    try:
        return list(torch.autograd.grad(total, leaves, allow_unused=True)) if leaves and wanted else []
    except (RuntimeError, NotImplementedError) as error:
        return [str(error)]


def _same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)
    return one == other


@pytest.mark.parametrize("name", SPECS)
def test_a_node_gives_what_torch_gives(name: str) -> None:
    spec, sample = SPECS[name], _sample(SPECS[name])
    graph = _drawn(spec, sample)
    inferred = pn.infer_shapes(graph)
    model = pn.compile(graph)

    plain: nn.Module | None = None
    if spec.kind == "module":
        plain = build(spec, sample.values, [sample.inputs.get(port.name) for port in spec.inputs])
        assert [f"node.{key}" for key in plain.state_dict()] == list(model.state_dict())
        plain.load_state_dict(copy.deepcopy(model.get_submodule("node").state_dict()))
    else:
        assert not list(model.state_dict())

    inplace = spec.kind == "method" and name.endswith("_")
    mine, theirs = (_copied(sample, inplace=inplace) for _ in range(2))
    torch.manual_seed(1)
    ours = model(None, *[tensor for value in mine.values() for tensor in _tensors(value)])[:-1]
    torch.manual_seed(1)
    expected = call(spec, spec.torch if plain is None else plain, sample.values, theirs)

    if name in FRESH_MEMORY:
        assert ours[0].shape == expected.shape
        return
    assert len(flat(ours)) == len(flat(expected))
    assert all(map(_same, flat(ours), flat(expected)))
    gradients = _gradients(flat(ours), mine, model), _gradients(flat(expected), theirs, plain)
    assert all(_same(one, other) for one, other in zip(*gradients, strict=True))
    for output, result in zip(spec.present_outputs(graph["node"].properties), ours, strict=True):
        known = inferred.get(f"node.{output.name}")
        if isinstance(result, Tensor) and known is not None:
            assert (known.shape, known.dtype) == (tuple(result.shape), str(result.dtype).removeprefix("torch."))


UNKNOWN = frozenset(
    """
    argwhere bernoulli_ bincount combinations equal allclose masked_select nonzero nonzero_static unique
    unique_consecutive item repeat_interleave histc
    ctc_loss CTCLoss gaussian_nll_loss GaussianNLLLoss AdaptiveLogSoftmaxWithLoss istft
    """.split()
)
"""Types whose sizes follow from what the input holds, or that look into it before they compute."""


def test_shapes_are_known_wherever_they_do_not_depend_on_the_data() -> None:
    unknown = set()
    for name, spec in SPECS.items():
        inferred = pn.infer_shapes(_drawn(spec, _sample(spec)))
        outputs = spec.present_outputs(_sample(spec).values)
        if not all(f"node.{output.name}" in inferred for output in outputs if output.kind == "tensor"):
            unknown.add(name)
    assert unknown <= UNKNOWN
