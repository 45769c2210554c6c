"""Every family of node types: compiled and run, it equals the plain torch call.

Outputs, gradients of inputs and weights, ``state_dict`` keys, and the inferred shapes, in float32 and at batch sizes
1, 2 and 7. One compiled model serves all three sizes, so that its shapes are symbolic in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.errors import Fix

Size = int | str


class Family(NamedTuple):
    """One node and what it is compared with.

    Attributes:
        type: Its type.
        values: Its properties; sizes that follow from the inputs are left out.
        inputs: By port: shape without the batch, and the number of classes for integer inputs (0: float32).
        reference: Makes the module, or is the function, that is called on the same inputs.
        expected: Inferred shape by output port, ``"N"`` for the batch.
        batch: Axis of the batch in inputs that have one.
    """

    type: str
    values: Mapping[str, Any]
    inputs: Mapping[str, tuple[tuple[Size, ...], int]]
    reference: Callable[..., Any]
    expected: Mapping[str, tuple[Size, ...]]


def image(channels: int = 3, size: int = 8) -> tuple[tuple[Size, ...], int]:
    return ("N", channels, size, size), 0


def vector(*sizes: Size) -> tuple[tuple[Size, ...], int]:
    return ("N", *sizes), 0


def tokens(*sizes: Size, count: int = 10) -> tuple[tuple[Size, ...], int]:
    return ("N", *sizes), count


OUT = "output"
CASES: dict[str, Family] = {
    "linear": Family("Linear", {"out_features": 5}, {"input": vector(4)}, lambda: nn.Linear(4, 5), {OUT: ("N", 5)}),
    "linear of sequences": Family(
        "Linear", {"out_features": 5}, {"input": vector("T", 4)}, lambda: nn.Linear(4, 5), {OUT: ("N", "T", 5)}
    ),
    "bilinear": Family(
        "Bilinear",
        {"out_features": 3},
        {"input1": vector(4), "input2": vector(5)},
        lambda: nn.Bilinear(4, 5, 3),
        {OUT: ("N", 3)},
    ),
    "convolution": Family(
        "Conv2d",
        {"out_channels": 6, "kernel_size": 3, "stride": 2, "padding": 1},
        {"input": image()},
        lambda: nn.Conv2d(3, 6, 3, 2, 1),
        {OUT: ("N", 6, 4, 4)},
    ),
    "convolution of any size": Family(
        "Conv2d",
        {"out_channels": 6, "kernel_size": 2, "stride": 2},
        {"input": (("N", 3, "H", "W"), 0)},
        lambda: nn.Conv2d(3, 6, 2, 2),
        {OUT: ("N", 6, "H//2", "W//2")},
    ),
    "transposed convolution": Family(
        "ConvTranspose2d",
        {"out_channels": 6, "kernel_size": 3, "stride": 2},
        {"input": image(3, 4)},
        lambda: nn.ConvTranspose2d(3, 6, 3, 2),
        {OUT: ("N", 6, 9, 9)},
    ),
    "convolution of sequences": Family(
        "Conv1d",
        {"out_channels": 6, "kernel_size": 3},
        {"input": vector(4, "T")},
        lambda: nn.Conv1d(4, 6, 3),
        {OUT: ("N", 6, "T - 2")},
    ),
    "pooling": Family(
        "MaxPool2d", {"kernel_size": 2}, {"input": image()}, lambda: nn.MaxPool2d(2), {OUT: ("N", 3, 4, 4)}
    ),
    "pooling with indices": Family(
        "MaxPool2d",
        {"kernel_size": 2, "return_indices": True},
        {"input": image()},
        lambda: nn.MaxPool2d(2, return_indices=True),
        {OUT: ("N", 3, 4, 4), "indices": ("N", 3, 4, 4)},
    ),
    "adaptive pooling": Family(
        "AdaptiveAvgPool2d",
        {"output_size": 2},
        {"input": (("N", 3, "H", "W"), 0)},
        lambda: nn.AdaptiveAvgPool2d(2),
        {OUT: ("N", 3, 2, 2)},
    ),
    "padding": Family(
        "ReflectionPad2d", {"padding": 1}, {"input": image()}, lambda: nn.ReflectionPad2d(1), {OUT: ("N", 3, 10, 10)}
    ),
    "activation": Family("GELU", {}, {"input": vector(4)}, nn.GELU, {OUT: ("N", 4)}),
    "activation with weights": Family(
        "PReLU", {"num_parameters": "auto"}, {"input": vector(4)}, lambda: nn.PReLU(4), {OUT: ("N", 4)}
    ),
    "batch norm": Family("BatchNorm2d", {}, {"input": image()}, lambda: nn.BatchNorm2d(3), {OUT: ("N", 3, 8, 8)}),
    "layer norm": Family(
        "LayerNorm", {}, {"input": vector("T", 6)}, lambda: nn.LayerNorm(6), {OUT: ("N", "T", 6)}
    ),
    "group norm": Family(
        "GroupNorm", {"num_groups": 2}, {"input": image(4)}, lambda: nn.GroupNorm(2, 4), {OUT: ("N", 4, 8, 8)}
    ),
    "dropout": Family("Dropout", {"p": 0.3}, {"input": vector(4)}, lambda: nn.Dropout(0.3), {OUT: ("N", 4)}),
    "LSTM": Family(
        "LSTM",
        {"hidden_size": 3, "num_layers": 2, "batch_first": True, "bidirectional": True},
        {"input": vector("T", 4)},
        lambda: nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True),
        {OUT: ("N", "T", 6), "h_n": (4, "N", 3), "c_n": (4, "N", 3)},
    ),
    "GRU": Family(
        "GRU",
        {"hidden_size": 3, "batch_first": True},
        {"input": vector("T", 4)},
        lambda: nn.GRU(4, 3, batch_first=True),
        {OUT: ("N", "T", 3), "h_n": (1, "N", 3)},
    ),
    "cell": Family("GRUCell", {"hidden_size": 3}, {"input": vector(4)}, lambda: nn.GRUCell(4, 3), {OUT: ("N", 3)}),
    "attention": Family(
        "MultiheadAttention",
        {"num_heads": 2, "batch_first": True},
        {"query": vector("T", 8), "key": vector("S", 8), "value": vector("S", 8)},
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        {OUT: ("N", "T", 8), "attn_weights": ("N", "T", "S")},
    ),
    "transformer": Family(
        "TransformerEncoder",
        {"nhead": 2, "dim_feedforward": 16, "num_layers": 2, "batch_first": True, "enable_nested_tensor": False},
        {"src": vector("T", 8)},
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False
        ),
        {OUT: ("N", "T", 8)},
    ),
    "embedding": Family(
        "Embedding",
        {"num_embeddings": 10, "embedding_dim": 4},
        {"input": tokens("T")},
        lambda: nn.Embedding(10, 4),
        {OUT: ("N", "T", 4)},
    ),
    "bag of embeddings": Family(
        "EmbeddingBag",
        {"num_embeddings": 10, "embedding_dim": 4},
        {"input": tokens("T")},
        lambda: nn.EmbeddingBag(10, 4),
        {OUT: ("N", 4)},
    ),
    "vision": Family(
        "PixelShuffle", {"upscale_factor": 2}, {"input": image(4)}, lambda: nn.PixelShuffle(2), {OUT: ("N", 1, 16, 16)}
    ),
    "distance": Family(
        "CosineSimilarity", {}, {"x1": vector(4), "x2": vector(4)}, nn.CosineSimilarity, {OUT: ("N",)}
    ),
    "loss": Family(
        "CrossEntropyLoss",
        {"label_smoothing": 0.1},
        {"input": vector(10), "target": tokens()},
        lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
        {OUT: ()},
    ),
    "loss with class weights": Family(
        "CrossEntropyLoss",
        {"weight": (0.5, 2.0, 1.0)},
        {"input": vector(3), "target": tokens(count=3)},
        lambda: nn.CrossEntropyLoss(weight=torch.tensor([0.5, 2.0, 1.0])),
        {OUT: ()},
    ),
    "trigonometry": Family("sin", {}, {"input": vector("T")}, lambda: torch.sin, {OUT: ("N", "T")}),
    "special function": Family("erf", {}, {"input": vector(4)}, lambda: torch.erf, {OUT: ("N", 4)}),
    "logic": Family("logical_not", {}, {"input": vector(4)}, lambda: torch.logical_not, {OUT: ("N", 4)}),
    "cast": Family("double", {}, {"input": vector(4)}, lambda: torch.Tensor.double, {OUT: ("N", 4)}),
    "creation": Family("zeros_like", {}, {"input": vector("T")}, lambda: torch.zeros_like, {OUT: ("N", "T")}),
    "flatten": Family("Flatten", {}, {"input": image()}, nn.Flatten, {OUT: ("N", 192)}),
    "flatten of any size": Family(
        "Flatten", {}, {"input": (("N", 3, "H", "W"), 0)}, nn.Flatten, {OUT: ("N", "3*H*W")}
    ),
    "joining": Family(
        "cat",
        {"dim": 1},
        {"tensors_0": vector(4), "tensors_1": vector(2), "tensors_2": vector(1)},
        lambda: lambda *items: torch.cat(items, 1),
        {OUT: ("N", 7)},
    ),
    "joining of sequences": Family(
        "cat",
        {"dim": 1},
        {"tensors_0": vector("T", 4), "tensors_1": vector("S", 4)},
        lambda: lambda *items: torch.cat(items, 1),
        {OUT: ("N", "T + S", 4)},
    ),
    "arithmetic": Family(
        "add", {"alpha": 2}, {"input": vector(4), "other": vector(4)},
        lambda: lambda one, other: torch.add(one, other, alpha=2), {OUT: ("N", 4)},
    ),
    "matrix": Family(
        "matmul", {}, {"input": vector("T", 4), "other": vector(4, 5)}, lambda: torch.matmul, {OUT: ("N", "T", 5)}
    ),
    "reduction": Family(
        "mean", {"dim": 1}, {"input": vector("T", 4)}, lambda: lambda x: x.mean(1), {OUT: ("N", 4)}
    ),
    "several results": Family(
        "topk", {"k": 2}, {"input": vector(5)}, lambda: lambda x: x.topk(2), {"values": ("N", 2), "indices": ("N", 2)}
    ),
    "indexing": Family(
        "select", {"dim": 1, "index": 0}, {"input": vector("T", 4)}, lambda: lambda x: x.select(1, 0), {OUT: ("N", 4)}
    ),
    "shape": Family(
        "transpose", {"dim0": 1, "dim1": 2}, {"input": vector("T", 4)}, lambda: lambda x: x.mT, {OUT: ("N", 4, "T")}
    ),
    "comparison": Family("gt", {"other": 0.5}, {"input": vector(4)}, lambda: lambda x: x > 0.5, {OUT: ("N", 4)}),
    "functional": Family(
        "scaled_dot_product_attention",
        {},
        {"query": vector(2, "T", 4), "key": vector(2, "S", 4), "value": vector(2, "S", 4)},
        lambda: F.scaled_dot_product_attention,
        {OUT: ("N", 2, "T", 4)},
    ),
}  # fmt: skip
CONCRETE = {"T": 5, "S": 3, "H": 8, "W": 6}


def draw(family: Family) -> pn.NodeGraph:
    """Draw the node alone between inputs and outputs."""
    graph = pn.NodeGraph("family")
    graph.add(family.type, "node", **family.values)
    for port, (shape, count) in family.inputs.items():
        graph.add("Input", f"in_{port}", shape=shape, dtype="int64" if count else "float32")
        graph.connect(f"in_{port}.output", f"node.{port}")
    for port in family.expected:
        graph.add("Output", f"out_{port}")
        graph.connect(f"node.{port}", f"out_{port}")
    return graph


def given(family: Family, batch: int) -> list[Tensor]:
    """Draw the inputs of one call."""
    generator = torch.Generator().manual_seed(batch)
    made = []
    for shape, count in family.inputs.values():
        sizes = [_value(size, {**CONCRETE, "N": batch}) for size in shape]
        if count:
            made.append(torch.randint(0, count, sizes, generator=generator))
        else:
            made.append(torch.randn(sizes, generator=generator).requires_grad_())
    return made


def flat(result: object) -> list[Tensor]:
    """Return the tensors of a nested result in their order."""
    if isinstance(result, Tensor):
        return [result]
    return [tensor for item in result for tensor in flat(item)] if isinstance(result, tuple) else []


def gradients(results: list[Tensor], inputs: list[Tensor], module: nn.Module | None) -> list[Tensor | None]:
    """Return the gradients of inputs and weights for one scalar of all results."""
    wanted = [x for x in inputs if x.requires_grad] + ([] if module is None else list(module.parameters()))
    scalar = sum((result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum()
                 for result in results if result.requires_grad)  # fmt: skip
    return list(torch.autograd.grad(scalar, wanted, allow_unused=True)) if isinstance(scalar, Tensor) else []


@pytest.mark.parametrize("name", CASES)
def test_a_node_equals_the_plain_call(name: str) -> None:
    family = CASES[name]
    graph = draw(family)
    inferred = pn.infer_shapes(graph)
    assert {port: inferred[f"node.{port}"].shape for port in family.expected} == dict(family.expected)
    torch.manual_seed(0)
    model = pn.compile(graph)
    torch.manual_seed(0)
    reference = family.reference()
    plain = reference if isinstance(reference, nn.Module) else None
    if plain is not None:
        assert list(model.state_dict()) == [f"node.{key}" for key in plain.state_dict()]
        assert all(map(torch.equal, model.state_dict().values(), plain.state_dict().values()))
    for batch in (1, 2, 7):
        inputs = given(family, batch)
        torch.manual_seed(batch)
        ours = flat(model(*inputs))
        torch.manual_seed(batch)
        theirs = flat(reference(*inputs))
        assert len(ours) == len(theirs) == len(family.expected)
        assert all(map(torch.equal, ours, theirs)), batch
        for one, other in zip(gradients(ours, inputs, model), gradients(theirs, inputs, plain), strict=True):
            assert (one is None and other is None) or torch.equal(one, other)  # type: ignore[arg-type]  # the test knows its type
        for port, result in zip(family.expected, ours, strict=True):
            spec = inferred[f"node.{port}"]
            sizes = {**CONCRETE, "N": batch}
            assert tuple(result.shape) == tuple(_value(size, sizes) for size in spec.shape or ())
            assert spec.dtype == str(result.dtype).removeprefix("torch.")


def _value(size: Size | None, sizes: Mapping[str, int]) -> int:
    """Compute a size as it is shown, such as ``"T - 2"`` or ``"3*H*W"``."""
    match str(size).split():
        case [one, "+", other]:
            return _value(one, sizes) + _value(other, sizes)
        case [one, "-", other]:
            return _value(one, sizes) - _value(other, sizes)
    if "//" in str(size):
        one, other = str(size).split("//")
        return _value(one, sizes) // int(other)
    product = 1
    for factor in str(size).split("*"):
        product *= sizes[factor] if factor in sizes else int(factor)
    return product


@pytest.mark.parametrize(
    ("type", "values", "shape", "prop", "fitting"),
    [
        ("Linear", {"in_features": 256, "out_features": 10}, ("N", 400), "in_features", 400),
        ("Conv2d", {"in_channels": 1, "out_channels": 4, "kernel_size": 3}, ("N", 3, 8, 8), "in_channels", 3),
        ("Conv1d", {"in_channels": 1, "out_channels": 4, "kernel_size": 3}, ("N", 3, "T"), "in_channels", 3),
        ("ConvTranspose2d", {"in_channels": 1, "out_channels": 4, "kernel_size": 3}, ("N", 3, 8, 8), "in_channels", 3),
        ("BatchNorm2d", {"num_features": 8}, ("N", 3, 8, 8), "num_features", 3),
        ("InstanceNorm2d", {"num_features": 8, "affine": True}, ("N", 3, 8, 8), "num_features", 3),
        ("GroupNorm", {"num_groups": 2, "num_channels": 8}, ("N", 4, 8), "num_channels", 4),
        ("LayerNorm", {"normalized_shape": 8}, ("N", "T", 4), "normalized_shape", 4),
        ("LayerNorm", {"normalized_shape": (5, 8)}, ("N", 5, 4), "normalized_shape", [5, 4]),
        ("RNN", {"input_size": 8, "hidden_size": 3}, ("T", "N", 4), "input_size", 4),
        ("LSTM", {"input_size": 8, "hidden_size": 3}, ("T", "N", 4), "input_size", 4),
        ("GRU", {"input_size": 8, "hidden_size": 3, "batch_first": True}, ("N", "T", 4), "input_size", 4),
        ("TransformerEncoderLayer", {"d_model": 8, "nhead": 2}, ("T", "N", 4), "d_model", 4),
    ],
)
def test_a_mismatch_names_both_sizes_and_carries_the_fix(
    type: str, values: dict[str, Any], shape: tuple[Size, ...], prop: str, fitting: object
) -> None:
    graph = pn.NodeGraph("mismatch")
    graph.add("Input", "x", shape=shape)
    graph.add(type, "node", **values)
    graph.connect("x", "node")
    graph.add("Output", "y")
    graph.connect("node", "y")
    (found,) = shape_findings(graph)

    assert found.node == "node"
    assert f"{prop} is " in found.message
    assert str(shape[1]) in found.message
    assert isinstance(found.fix, Fix)
    assert (found.fix.node, found.fix.property, found.fix.value) == ("node", prop, fitting)
    graph.set("node", **{prop: tuple(fitting) if isinstance(fitting, list) else fitting})
    assert shape_findings(graph) == []
    assert pn.compile(graph) is not None


def shape_findings(graph: pn.NodeGraph) -> list[pn.Diagnostic]:
    """Return what shape inference finds."""
    with IncrementalAnalysis(graph) as analysis:
        return [found for found in analysis.diagnostics if found.severity == "error"]


def test_attention_names_the_size_that_would_fit() -> None:
    graph = pn.NodeGraph("attention")
    graph.add("Input", "x", shape=("N", "T", 6))
    graph.add("MultiheadAttention", "node", embed_dim=8, num_heads=2, batch_first=True)
    for port in ("query", "key", "value"):
        graph.connect("x", f"node.{port}")
    graph.add("Output", "y")
    graph.connect("node.output", "y")
    fixes = {found.fix.property: found.fix.value for found in shape_findings(graph) if isinstance(found.fix, Fix)}
    assert fixes["embed_dim"] == 6


def test_floats_into_an_embedding_name_the_dtype_that_would_fit() -> None:
    graph = pn.NodeGraph("embedding")
    graph.add("Input", "x", shape=("N", "T"))
    graph.add("Embedding", "node", num_embeddings=10, embedding_dim=4)
    graph.connect("x", "node")
    graph.add("Output", "y")
    graph.connect("node", "y")
    (found,) = shape_findings(graph)
    assert "needs integers at input" in found.message
    assert isinstance(found.fix, Fix)
    assert (found.fix.node, found.fix.property, found.fix.value) == ("x", "dtype", "int64")
