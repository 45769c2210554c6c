from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.errors import Fix
from pnne_nb.graph.schema.registry import registry
from tests.catalog import function_samples, layer_samples
from tests.compiler import graphs

# Each function is added by its name, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* is the function, whose weight:UserWarning")

Build = Callable[[], pn.NodeGraph]
Inputs = Callable[[int], Sequence[torch.Tensor]]


def evaluated(size: int | str, names: dict[str, int]) -> int:
    """Work out an expression such as ``"(H + 1)//2"``."""
    value = eval(size, {"__builtins__": {}}, names) if isinstance(size, str) else size  # our own text
    assert isinstance(value, int)
    return value


def real_shapes(graph: pn.NodeGraph, inputs: Sequence[torch.Tensor]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return what modules really give, by port path."""
    model = pn.compile(graph)
    seen: dict[str, tuple[tuple[int, ...], str]] = {}

    def note(name: str, output: object) -> None:
        if isinstance(output, torch.Tensor):
            seen[f"{name}.output"] = tuple(output.shape), str(output.dtype).removeprefix("torch.")

    for name, module in model.named_modules():
        if name and not list(module.children()):
            module.register_forward_hook(lambda _m, _i, output, name=name: note(name, output))
    model(*inputs)
    return seen


@pytest.mark.parametrize("batch", [1, 2, 7])
@pytest.mark.parametrize(
    ("build", "inputs"),
    [
        (graphs.mlp, lambda n: [torch.randn(n, 8)]),
        (graphs.lenet, lambda n: [torch.randn(n, 1, 28, 28)]),
        (graphs.residual, lambda n: [torch.randn(n, 3, 8, 8)]),
        (graphs.branches, lambda n: [torch.randn(n, 4), torch.randn(n, 4)]),
        (graphs.nested, lambda n: [torch.randn(n, 6)]),
    ],
)
def test_inferred_shapes_are_real_ones(build: Build, inputs: Inputs, batch: int) -> None:
    graph = build()
    inferred = pn.infer_shapes(graph)
    seen = real_shapes(graph, inputs(batch))
    assert seen
    for path, (shape, dtype) in seen.items():
        if path in ("shared.output", "again.output"):
            continue
        spec = inferred[path]
        assert tuple(evaluated(size, {"N": batch}) for size in spec.shape) == shape
        assert spec.dtype == dtype


def single(kind: str, sizes: tuple[int | str, ...], dtype: str = "float32", /, **properties: Any) -> pn.NodeGraph:
    graph = pn.NodeGraph("single")
    graph.add("Input", "x", shape=sizes, dtype=dtype)
    graph.add(kind, "node", **properties)
    graph.add("Output", "y")
    first = graph.graphs[""].output_ports("node")
    assert first
    graph.connect("x", "node")
    graph.connect(f"node.{first[0].name}", "y.input")
    return graph


SYMBOLIC: list[tuple[str, tuple[int | str, ...], dict[str, object], tuple[int | str, ...]]] = [
    ("Conv2d", ("N", 3, "H", "W"), {"in_channels": 3, "out_channels": 8, "kernel_size": 3, "padding": 1}, ("N", 8, "H", "W")),
    (
        "Conv2d", ("N", 3, "H", "W"), {"out_channels": 8, "kernel_size": 3, "stride": 2, "padding": 1},
        ("N", 8, "(H + 1)//2", "(W + 1)//2"),
    ),
    ("MaxPool2d", ("N", 8, "H", "W"), {"kernel_size": 2}, ("N", 8, "H//2", "W//2")),
    ("MaxPool2d", ("N", 8, "H", "W"), {"kernel_size": 3}, ("N", 8, "H//3", "W//3")),
    ("AdaptiveAvgPool2d", ("N", 8, "H", "W"), {"output_size": 1}, ("N", 8, 1, 1)),
    ("ConvTranspose2d", ("N", 8, "H", "W"), {"out_channels": 4, "kernel_size": 2, "stride": 2}, ("N", 4, "2*H", "2*W")),
    ("Upsample", ("N", 8, "H", "W"), {"scale_factor": 2}, ("N", 8, "2*H", "2*W")),
    ("PixelShuffle", ("N", 8, "H", "W"), {"upscale_factor": 2}, ("N", 2, "2*H", "2*W")),
    ("Flatten", ("N", 3, "H", "W"), {}, ("N", "3*H*W")),
    ("Flatten", ("N", 3, 4, 5), {}, ("N", 60)),
    ("Linear", ("N", "T", 5), {"out_features": 7}, ("N", "T", 7)),
    ("LSTM", ("N", "T", 5), {"hidden_size": 7, "batch_first": True}, ("N", "T", 7)),
    ("GRU", ("T", "N", 5), {"hidden_size": 7, "bidirectional": True}, ("T", "N", 14)),
    ("Conv1d", ("N", 2, "L"), {"out_channels": 4, "kernel_size": 5}, ("N", 4, "L - 4")),
    ("ZeroPad2d", ("N", 2, "H", "W"), {"padding": 3}, ("N", 2, "H + 6", "W + 6")),
    ("mean", ("N", "T", 5), {"dim": 1}, ("N", 5)),
    ("transpose", ("N", "T", 5), {"dim0": 1, "dim1": 2}, ("N", 5, "T")),
    ("flatten", ("N", "T", 4), {"end_dim": 1}, ("N*T", 4)),
    ("unsqueeze", ("N", 5), {"dim": 1}, ("N", 1, 5)),
    ("Embedding", ("N", "T"), {"num_embeddings": 9, "embedding_dim": 4}, ("N", "T", 4)),
    ("reshape", ("N", "T", 6), {"shape": (-1, 12)}, ("(N*T)//2", 12)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "shape", "properties", "expected"), SYMBOLIC, ids=[case[0] for case in SYMBOLIC])
def test_symbolic_sizes_are_carried_through(
    kind: str, shape: tuple[int | str, ...], properties: dict[str, object], expected: tuple[int | str, ...]
) -> None:
    graph = single(kind, shape, "int64" if kind == "Embedding" else "float32", **properties)
    inferred = pn.infer_shapes(graph)
    port = graph.graphs[""].output_ports("node")
    assert port
    assert inferred[f"node.{port[0].name}"].shape == expected


@pytest.mark.parametrize("height", [63, 64, 65, 97, 224])
def test_a_deep_network_of_odd_strides_is_exact(height: int) -> None:
    """Rounding at every level is composed, not guessed."""
    graph = pn.NodeGraph("deep")
    graph.add("Input", "x", shape=("N", 3, "H", "W"))
    graph.add("Conv2d", "stem", out_channels=4, kernel_size=7, stride=2, padding=3)
    graph.add("MaxPool2d", "pool", kernel_size=3, stride=2, padding=1)
    graph.add("Conv2d", "down", out_channels=4, kernel_size=3, stride=2)
    graph.add("AvgPool2d", "floor", kernel_size=2)
    graph.add("Upsample", "up", scale_factor=3)
    graph.add("Output", "y")
    graphs.wire(graph, "x stem pool down floor up y")
    inferred = pn.infer_shapes(graph)
    for path, (shape, _) in real_shapes(graph, [torch.randn(2, 3, height, 96)]).items():
        names = {"N": 2, "H": height, "W": 96}
        assert tuple(evaluated(size, names) for size in inferred[path].shape) == shape, path


@pytest.mark.parametrize("type", ["Softmax", "softmax", "gumbel_softmax", "sort", "argsort", "sum"])
def test_an_axis_that_is_not_there_is_said_at_the_node(type: str) -> None:
    with pytest.raises(pn.ShapeError, match=r"node.*: (dim is 7, and the input \(N, 5\) has 2 axes|.*out of range)"):
        pn.compile(single(type, ("N", 5), dim=7))
    assert pn.compile(single(type, ("N", 5), dim=-2)) is not None


def test_a_new_axis_is_one_of_the_result() -> None:
    assert pn.infer_shapes(single("unsqueeze", ("N", 5), dim=2))["node.output"].shape == ("N", 5, 1)
    assert pn.infer_shapes(single("softmax", (), dim=0))["node.output"].shape == ()


def test_long_sequences_are_not_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    forward = nn.GRU.forward

    def counting(
        self: nn.GRU, input: torch.Tensor, hx: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        lengths.append(input.shape[1])
        result: tuple[torch.Tensor, torch.Tensor] = forward(self, input, hx)
        return result

    monkeypatch.setattr(nn.GRU, "forward", counting)
    graph = single("GRU", ("N", 100_000, 5), hidden_size=7, batch_first=True)
    assert pn.infer_shapes(graph)["node.output"].shape == ("N", 100_000, 7)
    assert lengths == [2, 2]


def test_joining_adds_sizes() -> None:
    graph = pn.NodeGraph("joint")
    graph.add("Input", "a", shape=("N", "S", 4))
    graph.add("Input", "b", shape=("N", "T", 4))
    graph.add("cat", "joint", dim=1)
    graph.add("Output", "y")
    graphs.wire(graph, "a joint", "b joint", "joint y")
    assert pn.infer_shapes(graph)["joint.output"].shape == ("N", "S + T", 4)


def test_numbers_taken_from_shapes_are_symbolic_too() -> None:
    graph = pn.NodeGraph("sizes")
    graph.add("Input", "x", shape=("N", "T", 4))
    graph.add("size", "length", dim=1)
    graph.add("operator_mul", "twice", b=2)
    graph.add("Output", "y")
    graph.connect("x", "length.input")
    graph.connect("length.output", "twice.a")
    graph.connect("twice.output", "y.input")
    assert pn.infer_shapes(graph).keys() == {"x.output"}
    assert pn.compile(graph)(torch.zeros(2, 5, 4)) == 10


def test_paths_lead_into_nested_graphs() -> None:
    inferred = pn.infer_shapes(graphs.nested())
    assert inferred["layer2.0.output"] == pn.TensorSpec(("N", 6), "float32")
    assert inferred["layer2.output"] == pn.TensorSpec(("N", 6), "float32")


def test_weights_and_constants_have_shapes() -> None:
    inferred = pn.infer_shapes(graphs.weights())
    assert inferred["scale.output"] == pn.TensorSpec((3,), "float32")
    assert "factor.output" not in inferred
    assert inferred["halved.output"].shape == ("N", 3)


def test_a_mismatch_names_the_node_both_sides_and_the_value_that_fits() -> None:
    graph = graphs.lenet()
    graph.set("fc", in_features=400)
    with pytest.raises(
        pn.ShapeError, match=r"fc.input: in_features is 400, and the input \(N, 256\) has 256 there."
    ) as e:
        pn.infer_shapes(graph)
    fix = e.value.diagnostics[0].fix
    assert isinstance(fix, Fix)
    assert (fix.node, fix.property, fix.value, fix.label) == ("fc", "in_features", 256, "Set in_features to 256")


def test_a_mismatch_in_a_tuple_is_fixed_in_the_tuple() -> None:
    graph = single("LayerNorm", ("N", 4, 5), normalized_shape=(4, 6))
    with pytest.raises(pn.ShapeError, match=r"normalized_shape is 6, and the input \(N, 4, 5\) has 5 there") as caught:
        pn.infer_shapes(graph)
    fix = caught.value.diagnostics[0].fix
    assert isinstance(fix, Fix)
    assert fix.value == [4, 5]


@pytest.mark.parametrize("kind", ["BatchNorm2d", "Conv2d", "GroupNorm"])
def test_channels_that_do_not_fit(kind: str) -> None:
    properties: dict[str, dict[str, object]] = {
        "BatchNorm2d": {"num_features": 5},
        "Conv2d": {"in_channels": 5, "out_channels": 5, "kernel_size": 1},
        "GroupNorm": {"num_groups": 1, "num_channels": 5},
    }
    with pytest.raises(pn.ShapeError, match=r"is 5, and the input \(N, 3, 8, 8\) has 3 there"):
        pn.infer_shapes(single(kind, ("N", 3, 8, 8), **properties[kind]))


def test_inputs_that_do_not_fit_each_other() -> None:
    graph = pn.NodeGraph("sum")
    graph.add("Input", "a", shape=("N", 4))
    graph.add("Input", "b", shape=("N", 5))
    graph.add("add", "sum")
    graph.add("Output", "y")
    graphs.wire(graph, "a sum.input", "b sum.other", "sum y")
    with pytest.raises(pn.ShapeError, match=r"sum: The inputs do not fit add: input \(N, 4\), other \(N, 5\)"):
        pn.infer_shapes(graph)


def test_a_size_that_varies_cannot_be_fixed() -> None:
    graph = single("Linear", ("N", "D"), in_features=3, out_features=2)
    with pytest.raises(pn.ShapeError, match=r"has D there, which is not a fixed number"):
        pn.infer_shapes(graph)


@pytest.mark.parametrize(
    ("kind", "dtype", "properties", "message"),
    [
        (
            "Linear",
            "int64",
            {"out_features": 2},
            r"Linear computes with floating-point numbers, but input is \(N, 4\) int64",
        ),
        ("Conv1d", "int64", {"out_channels": 2, "kernel_size": 1}, "computes with floating-point numbers"),
        ("Embedding", "float32", {"num_embeddings": 3, "embedding_dim": 2}, r"Embedding needs integers at input"),
    ],
)
def test_element_types_are_checked_at_the_ports(
    kind: str, dtype: str, properties: dict[str, object], message: str
) -> None:
    with pytest.raises(pn.ShapeError, match=message) as caught:
        pn.infer_shapes(single(kind, ("N", 4), dtype, **properties))
    fix = caught.value.diagnostics[0].fix
    assert isinstance(fix, Fix)
    assert (fix.node, fix.property) == ("x", "dtype")
    assert fix.value == ("int64" if kind == "Embedding" else "float32")


def test_properties_that_torch_rejects() -> None:
    with pytest.raises(
        pn.ShapeError, match="Conv2d cannot be built with these properties: in_channels must be divisible"
    ):
        pn.infer_shapes(single("Conv2d", ("N", 3, 8, 8), out_channels=4, kernel_size=1, groups=2))


@pytest.mark.parametrize(
    ("type", "properties", "message"),
    [
        (
            "split",
            {"split_size_or_sections": 1},
            "cut a tensor into 100,000,000 pieces, and a node may return at most 10,000",
        ),
        ("chunk", {"chunks": 10**8}, "cut a tensor into 100,000,000 pieces, and a node may return at most 10,000"),
        ("unbind", {}, "cut a tensor into 100,000,000 pieces, and a node may return at most 10,000"),
        ("tensor_split", {"sections": 10**8}, "take more than 30,000 operations"),
    ],
)
def test_a_tensor_is_not_cut_into_more_pieces_than_memory_holds(
    type: str, properties: dict[str, Any], message: str
) -> None:
    with pytest.raises(pn.ShapeError, match=rf"It would {message}.* Make fewer and larger pieces"):
        pn.infer_shapes(single(type, (10**8,), **properties))


def test_every_mismatch_is_listed() -> None:
    graph = pn.NodeGraph("two")
    graph.add("Input", "x", shape=("N", 3))
    graph.add("Linear", "one", in_features=4, out_features=2)
    graph.add("Linear", "two", in_features=5, out_features=2)
    graph.add("cat", "joint", dim=1)
    graph.add("Output", "y")
    graphs.wire(graph, "x one joint", "x two joint", "joint y")
    with pytest.raises(pn.ShapeError, match="'two' has 2 problems:") as caught:
        pn.infer_shapes(graph)
    assert [diagnostic.node for diagnostic in caught.value.diagnostics] == ["one", "two"]


def test_what_depends_on_the_data_is_left_unknown() -> None:
    graph = single("nonzero", ("N", 3))
    assert pn.infer_shapes(graph).keys() == {"x.output"}


def test_an_input_without_a_shape_leaves_everything_unknown() -> None:
    graph = pn.NodeGraph("unknown")
    graph.add("Input", "x")
    graph.add("ReLU", "act")
    graph.add("Output", "y")
    graphs.wire(graph, "x act y")
    assert pn.infer_shapes(graph) == {}


def test_an_unfinished_graph_has_shapes_as_far_as_it_goes() -> None:
    graph = pn.NodeGraph("unfinished")
    graph.add("Input", "x", shape=("N", 3))
    graph.add("Linear", "fc", in_features=3, out_features=2)
    graph.add("Linear", "empty", in_features=3)
    graph.add("cat", "joint")
    graphs.wire(graph, "x fc joint")
    assert pn.infer_shapes(graph)["joint.output"].shape == ("N", 2)


def test_a_norm_that_averages_all_batches_has_a_shape_and_a_plan() -> None:
    """It asks how many batches it has seen, which tensors without data do not tell."""
    graph = pn.NodeGraph("net")
    graph.add("Input", "x", shape=("N", 3, 8, 8))
    graph.add("BatchNorm2d", "norm", num_features=3, momentum=None)
    graph.add("Output", "y")
    graphs.wire(graph, "x norm y")
    assert pn.infer_shapes(graph)["norm.output"].shape == ("N", 3, 8, 8)
    assert pn.plan_memory(graph, torch.zeros(2, 3, 8, 8), training=True).peak > 2 * 3 * 8 * 8 * 4
    norm = pn.compile(graph).get_submodule("norm")
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.momentum is None


def test_a_custom_module_that_cannot_be_tried_is_a_warning() -> None:
    class Fussy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.size = int(torch.ones(1).item())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.size

    pn.register_node(category="Custom", replace=True)(Fussy)
    graph = single("Fussy", ("N", 3))
    assert pn.infer_shapes(graph).keys() == {"x.output"}
    assert pn.compile(graph)(torch.ones(1, 3)).shape == (1, 3)


def _symbolic(tensor: object) -> tuple[tuple[int, ...], str] | None:
    if isinstance(tensor, torch.Tensor):
        return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    return None


LAYERS = [spec.type for spec in registry.values() if spec.kind == "module" and spec.target.startswith("torch.nn.")]
FUNCTIONS = [
    spec.type
    for spec in registry.values()
    if spec.kind in ("function", "method") and spec.category not in ("Python", "Custom")
]


@pytest.mark.parametrize("kind", LAYERS)
def test_every_layer_compiles_and_gives_the_shape_that_was_inferred(kind: str) -> None:
    sample = layer_samples.sample(kind)
    check_node(kind, dict(sample.values), dict(sample.inputs))


def check_node(kind: str, values: dict[str, Any], inputs: dict[str, object]) -> None:
    spec = registry[kind]
    graph = pn.NodeGraph("one")
    graph.add(kind, "node", **values)
    given = []
    for port, tensor in inputs.items():
        items = tensor if isinstance(tensor, (list, tuple)) and not _is_pair(spec.type, port) else [tensor]
        for index, item in enumerate(items):
            if item is None:
                graph.add("Constant", f"none_{port}", value=None)
                graph.connect(f"none_{port}.output", f"node.{port}")
            if not isinstance(item, torch.Tensor):
                continue
            known = spec.input_named(f"{port}_{index}") if spec.input_named(port) is None else None
            name = f"in_{port}_{index}"
            graph.add("Input", name, shape=tuple(item.shape), dtype=str(item.dtype).removeprefix("torch."))
            graph.connect(f"{name}.output", f"node.{port}_{index}" if known is not None else f"node.{port}")
            given.append(item)
    if not given:
        graph.add("Input", "unused")
        given.append(torch.zeros(1))
    ports = spec.present_outputs(graph["node"].properties)
    for end in ports:
        graph.add("Output", f"out_{end.name}")
        graph.connect(f"node.{end.name}", f"out_{end.name}.input")
    inferred = pn.infer_shapes(graph)
    torch.manual_seed(0)
    result = pn.compile(graph)(*given)
    results = result if len(ports) > 1 else (result,)
    for end, value in zip(ports, results, strict=True):
        expected = _symbolic(value)
        found = inferred.get(f"node.{end.name}")
        if expected is not None and found is not None:
            assert (found.shape, found.dtype) == expected, end.name


def _is_pair(kind: str, port: str) -> bool:
    return kind in ("LSTM", "LSTMCell") and port == "hx"


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_every_function_compiles_and_gives_the_shape_that_was_inferred(kind: str) -> None:
    sample = function_samples.sample(registry[kind])
    check_node(kind, dict(sample.values), dict(sample.inputs))


def test_a_huge_constant_is_named_in_few_words() -> None:
    graph = pn.NodeGraph("huge")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Constant", "k", value=10**900)
    graph.add("add", "sum")
    graph.add("Output", "y")
    for source, target in [("x", "sum"), ("k", "sum.other"), ("sum", "y")]:
        graph.connect(source, target)
    with pytest.raises(pn.ShapeError, match=r"The inputs do not fit add: input \(N, 4\), other 1000000") as caught:
        pn.compile(graph)
    assert len(str(caught.value)) < 300


def test_a_weight_has_a_size_that_adds_to_one_with_a_name() -> None:
    graph = pn.NodeGraph("token")
    graph.add("Input", "x", shape=("N", 8))
    graph.add("Parameter", "token", shape=(1, 8))
    graph.add("cat", "joint")
    graph.add("Output", "y")
    graphs.wire(graph, "token joint", "x joint y")
    assert pn.infer_shapes(graph)["joint.output"].shape == ("N + 1", 8)
    assert pn.compile(graph)(torch.zeros(3, 8)).shape == (4, 8)


def test_the_size_of_a_weight_is_inferred_beside_one_with_a_name() -> None:
    graph = pn.NodeGraph("form")
    graph.add("Input", "x", shape=("N", 8))
    graph.add("Parameter", "p", shape=(4,))
    graph.add("Bilinear", "form", out_features=3)
    graph.add("Output", "y")
    graphs.wire(graph, "x form.input1", "p form.input2", "form y")
    with pytest.raises(pn.ShapeError, match="input dimensions do not match: got 2 and 1"):
        pn.infer_shapes(graph)


def test_an_image_without_a_batch_has_its_channels_first() -> None:
    graph = single("Conv2d", (3, 28, 28), out_channels=4, kernel_size=3)
    assert pn.infer_shapes(graph)["node.output"].shape == (4, 26, 26)


def test_a_size_on_an_axis_that_is_missing_cannot_be_inferred() -> None:
    with pytest.raises(pn.ShapeError, match="cannot be inferred: the input has 2 axes, 3 are needed"):
        pn.infer_shapes(single("Conv2d", ("N", 3), out_channels=4, kernel_size=3))
