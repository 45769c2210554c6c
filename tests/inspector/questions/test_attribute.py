from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pnne_nb as pn
from tests.inspector.questions.nets import CASES, Case, made
from tests.inspector.questions.untouched import untouched


def scored(case: Case, output: Any) -> Tensor:
    """The answer of each example, written once more by hand."""
    output = output["price"] if isinstance(output, dict) else output
    match case.target:
        case None:
            return output.flatten()  # type: ignore[no-any-return]
        case int():
            return output[:, case.target]  # type: ignore[no-any-return]
        case tuple():
            return output[(slice(None), *case.target)]  # type: ignore[no-any-return]
        case Tensor():
            return output[torch.arange(len(output)), case.target.repeat(len(output) // len(case.target))]  # type: ignore[no-any-return]
        case _:
            return case.target(output)  # type: ignore[no-any-return]


def inputs_of(case: Case) -> dict[str | int, Tensor]:
    match case.data:
        case Mapping():
            return dict(case.data)
        case tuple():
            return dict(enumerate(case.data))
        case _:
            return {0: case.data}


def by_captum(name: str, method: str, **options: Any) -> list[Tensor | None]:
    """The values that captum gives, of a copy in evaluation mode in which embedded tokens are inputs."""
    case = made(name)
    net = copy.deepcopy(case.net).eval()
    given = inputs_of(case)
    embedded = {key: value for key, value in given.items() if value.dtype == torch.int64}
    floats = [key for key, value in given.items() if value.is_floating_point()]
    keys = [*floats, *embedded]
    embeddings = [each for each in net.modules() if isinstance(each, nn.Embedding)]
    table = next((each for each in embeddings), None)
    starts = [given[key] if key in floats else table.weight[given[key]].detach() for key in keys]  # type: ignore[union-attr]

    def answer(*points: Tensor) -> Tensor:
        now = dict(zip(keys, points, strict=True))
        waiting = [now[key] for key in embedded]

        def instead(_module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
            return waiting.pop(0)

        handles = [table.register_forward_hook(instead)] if table is not None else []
        arguments = {key: value if key in embedded else now.get(key, value) for key, value in given.items()}
        for key, value in arguments.items():  # as many rows as captum has points
            if len(value) != len(points[0]):
                arguments[key] = value.repeat(len(points[0]) // len(value), *(1 for _ in value.shape[1:]))
        output = net(*(v for k, v in arguments.items() if isinstance(k, int)),
                     **{k: v for k, v in arguments.items() if isinstance(k, str)})  # fmt: skip
        for handle in handles:
            handle.remove()
        return scored(case, output)

    kind = getattr(captum.attr, method)
    found = kind(answer).attribute(tuple(start.requires_grad_() for start in starts), **options)
    values = dict(
        zip(keys, ((v.sum(-1) if k in embedded else v).detach() for k, v in zip(keys, found, strict=True)), strict=True)
    )
    return [values.get(key) for key in given]


def assert_close(found: tuple[Tensor | None, ...], expected: list[Tensor | None]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.shape == other.shape
            assert float((one - other).abs().max() / other.abs().max()) < 1e-5


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("method", "theirs"), [("gradient-x-input", "InputXGradient"), ("integrated-gradients", "IntegratedGradients")]
)
def test_values_are_those_of_captum(name: str, method: str, theirs: str) -> None:
    case = made(name)
    found = pn.attribute(case.net, case.data, case.target, method)
    options = {} if method == "gradient-x-input" else {"n_steps": 50}
    assert_close(found.values, by_captum(name, theirs, **options))
    assert (found.gap is None) == (method == "gradient-x-input")


@pytest.mark.parametrize("name", CASES)
def test_integrated_gradients_add_up_to_the_answer(name: str) -> None:
    case = made(name)
    # Nothing at all is where a layer norm turns most: a token is a better start.
    baseline = (1, 1) if name == "encoder–decoder" else None
    found = pn.attribute(case.net, case.data, case.target, baseline=baseline, steps=200)
    assert found.gap is not None
    assert found.gap < 0.01 * (1 + float(found.answers.abs().max()))
    assert f"completeness gap {found.gap:.2g}" in repr(found)


@pytest.mark.parametrize("name", ["MLP", "CNN", "residual", "U-Net", "ViT", "LSTM", "two inputs"])
def test_occlusion_is_that_of_captum(name: str) -> None:
    case = made(name)
    images = [x for x in inputs_of(case).values() if x.dim() == 4]
    window = None if name == "two inputs" else (images[0].shape[1], 2, 2) if images else None
    found = pn.attribute(case.net, case.data, case.target, "occlusion", window=window)
    windows = tuple(
        (window or {1: (1,), 2: (1, x.shape[-1]), 3: (x.shape[1], 1, 1)}[x.dim() - 1]) for x in inputs_of(case).values()
    )
    assert_close(found.values, by_captum(name, "Occlusion", sliding_window_shapes=windows, strides=windows))


@pytest.mark.parametrize(("name", "layer"), [("CNN", "3"), ("residual", "conv1"), ("U-Net", "out"), ("ViT", "patches")])
def test_grad_cam_is_that_of_captum(name: str, layer: str) -> None:
    case = made(name)
    found = pn.attribute(case.net, case.data, case.target, "grad-cam", layer=layer)
    net = copy.deepcopy(case.net).eval()
    theirs = captum.attr.LayerGradCam(net, net.get_submodule(layer))
    small = theirs.attribute(case.data, target=case.target, relu_attributions=True)
    large = F.interpolate(small, size=case.data.shape[2:], mode="bilinear", align_corners=False)
    assert_close(found.values, [large.expand(case.data.shape).detach()])
    assert f"at the layer '{layer}'" in repr(found)


def test_grad_cam_takes_the_last_convolution_that_is_called() -> None:
    case = made("residual")
    assert pn.attribute(case.net, case.data, 2, "grad-cam").where == {"x": "layer 'conv2'"}
    text = made("text CNN")
    assert pn.attribute(text.net, text.data, 1, "grad-cam").values[0].shape == (2, 7)  # type: ignore[union-attr]


def test_tokens_are_asked_about_at_their_embedding() -> None:
    case = made("GPT")
    found = pn.attribute(case.net, case.data, case.target)
    assert found.where == {"ids": "embedding 'tokens'"}
    assert found.values[0].shape == case.data.shape  # type: ignore[union-attr]


def test_a_token_can_be_the_baseline() -> None:
    case = made("GRU of tokens")
    found = pn.attribute(case.net, case.data, 0, baseline=4)
    net = copy.deepcopy(case.net).eval()
    theirs = captum.attr.LayerIntegratedGradients(net, net.embedding)
    expected = theirs.attribute(case.data, baselines=torch.full_like(case.data, 4), target=0, internal_batch_size=2)
    assert_close(found.values, [expected.sum(-1).detach()])


def test_positions_that_equal_the_tokens_are_not_taken_for_them() -> None:
    case = made("GPT")
    ids = torch.arange(6).unsqueeze(0)
    found = pn.attribute(case.net, ids, (-1, 7), "gradient-x-input")
    assert found.where == {"ids": "embedding 'tokens'"}


def test_occlusion_of_tokens_replaces_embeddings() -> None:
    case = made("GPT")
    found = pn.attribute(case.net, case.data, case.target, "occlusion")
    net = copy.deepcopy(case.net).eval()
    expected = torch.zeros(case.data.shape)
    for place in range(case.data.shape[1]):

        def without(_module: nn.Module, _args: Any, output: Tensor, place: int = place) -> Tensor:
            changed = output.clone()
            changed[:, place] = 0
            return changed

        whole = net(case.data)[:, -1, 7]
        handle = net.tokens.register_forward_hook(without)  # type: ignore[union-attr]
        expected[:, place] = (whole - net(case.data)[:, -1, 7]).detach()
        handle.remove()
    assert_close(found.values, [expected])


def test_a_target_for_each_example() -> None:
    case = made("text CNN")
    found = pn.attribute(case.net, case.data, case.target, "integrated-gradients").values[0]
    one_by_one = [
        pn.attribute(case.net, case.data[place : place + 1], int(case.target[place])).values[0] for place in range(2)
    ]
    assert found is not None
    torch.testing.assert_close(found, torch.cat(one_by_one))  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["Saliency", "DeepLift", "GradientShap", "ShapleyValueSampling"])
def test_captum_adds_its_methods(method: str) -> None:
    case = made("MLP")
    options = {"n_samples": 3} if method in ("GradientShap", "ShapleyValueSampling") else None
    with untouched(case.net):
        found = pn.attribute(case.net, case.data, 1, f"captum.{method}", options=options)
    assert found.values[0].shape == (3, 5)  # type: ignore[union-attr]
    assert (found.gap is not None) == (method in ("DeepLift", "GradientShap"))
    if method == "Saliency":
        assert_close(found.values, by_captum("MLP", "Saliency"))


def test_without_captum_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum", None)
    monkeypatch.setattr("pnne_nb.inspector.questions.attribute.find_spec", lambda _: None)
    case = made("MLP")
    with pytest.raises(pn.ArgumentError, match=r"captum.DeepLift comes with captum: pip install 'pnne_nb\[captum\]'"):
        pn.attribute(case.net, case.data, 1, "captum.DeepLift")


def test_a_method_of_captum_that_does_not_apply_gives_its_reason() -> None:
    case = made("CNN")
    with untouched(case.net), pytest.raises(pn.InspectionError, match=r"captum.LRP does not apply .* has no rule"):
        pn.attribute(case.net, case.data, 1, "captum.LRP")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_looking_changes_nothing_when_the_model_raises(error: type[BaseException]) -> None:
    case = made("tabular")
    calls = []

    def fail(*_: object) -> None:
        calls.append(1)
        if len(calls) > 2:
            raise error

    handle = case.net.body.register_forward_hook(fail)  # type: ignore[union-attr]
    with untouched(case.net), pytest.raises(error):
        pn.attribute(case.net, case.data, method="integrated-gradients")
    handle.remove()


def test_a_compiled_graph_and_its_input_names() -> None:
    graph = pn.sequential(nn.Linear(4, 3), "Tanh", nn.Linear(3, 2), input=("N", 4))
    net, x = pn.compile(graph), torch.randn(2, 4)
    found = pn.attribute(net, x, 1, "gradient-x-input")
    point = x.clone().requires_grad_()
    net(point)[:, 1].sum().backward()
    assert point.grad is not None
    assert_close(found.values, [point.grad * x])


def test_a_unit_of_a_layer_or_a_function_is_attributed_to_the_input() -> None:
    case = made("residual")
    graph = pn.from_module(case.net, args=(case.data,))
    drawn = pn.compile(graph)
    for net, of in ((case.net, "conv1"), (drawn, "add")):
        with untouched(net):
            found = pn.attribute(net, case.data, (2, 1, 3), "gradient-x-input", of=of)
        seen: list[Tensor] = []
        point = case.data.clone().requires_grad_()
        copied = copy.deepcopy(case.net).eval()
        for layer in (copied.stem, copied.conv1, copied.bn2):
            layer.register_forward_hook(lambda *call, seen=seen: seen.append(call[2]))  # type: ignore[union-attr]
        copied(point)
        value = seen[1] if of == "conv1" else seen[2] + F.gelu(seen[0])
        value[:, 2, 1, 3].sum().backward()  # type: ignore[no-untyped-call]
        assert point.grad is not None
        torch.testing.assert_close(found.answers, value[:, 2, 1, 3].detach())
        assert_close(found.values, [point.grad * case.data])


def test_the_result_shows_itself() -> None:
    case = made("tabular")
    found = pn.attribute(case.net, case.data)
    assert found.names == ("numbers", "categories", "mask")
    assert "mask: no values" in repr(found)
    assert "categories: [3, 2] at the embedding 'category'" in repr(found)
    assert found._repr_html_().count("<img") == 2
    image = made("CNN")
    assert "<img" in pn.attribute(image.net, image.data, 1, "grad-cam")._repr_html_()


class Lost(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x.detach() * torch.ones(2, requires_grad=True)


class Objects(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return object()


def mlp(*args: Any, **options: Any) -> Callable[[], object]:
    return lambda: pn.attribute(made("MLP").net, torch.randn(3, 5), *args, **options)


def residual(*args: Any, **options: Any) -> Callable[[], object]:
    return lambda: pn.attribute(made("residual").net, torch.randn(1, 3, 6, 6), *args, **options)


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no target": (
        lambda: pn.attribute(made("MLP").net, torch.randn(3, 5)),
        r"The output has the shape \[3, 3\]: say which number .* such as target=\d, the largest of the first example",
    ),
    "target outside": (mlp(7), r"target=7 is outside of the output of an example, which has the shape \[3\]"),
    "too few indices": (
        lambda: pn.attribute(made("U-Net").net, torch.randn(1, 1, 8, 8), 1),
        r"target=1 is one index, and the output of an example has the shape \[3, 8, 8\].*such as target=\(0, 0, 1\)",
    ),
    "classes for other examples": (mlp(torch.tensor([1, 2])), r"A target of the shape \[2\] is one class for each example"),
    "class outside": (
        lambda: pn.attribute(made("MLP").net, torch.randn(2, 5), torch.tensor([1, 9])),
        "A class of target is outside of the output, which has 3",
    ),
    "target of another type": (mlp("dog"), "target cannot be 'dog': give the index of a class"),
    "function that returns no number": (
        mlp(lambda out: out), r"must return one real number for each example, not a tensor \[3, 3\]"
    ),
    "unknown method": (mlp(1, "integrated_gradients"), "Did you mean 'integrated-gradients'"),
    "unknown method of captum": (mlp(1, "captum.DepLift"), "Did you mean 'captum.DeepLift'"),
    "an example that does not fit": (lambda: pn.attribute(made("MLP").net, (torch.randn(3, 5), 1), 1), "cannot be called with"),
    "no gradient": (
        lambda: pn.attribute(Lost(), torch.randn(3, 2), 1),
        "no gradient with respect to 'x': the output does not depend on it.*method=\"occlusion\" needs none",
    ),
    "an output of objects": (
        lambda: pn.attribute(Objects(), torch.randn(3, 2), 1), "The model returns a object, in which there is no real number"
    ),
    "whole numbers without an embedding": (
        lambda: pn.attribute(nn.Flatten(), torch.zeros(2, 3, dtype=torch.int64), lambda out: out[:, 0].float()), "none does here"
    ),
    "Grad-CAM without a convolution": (mlp(1, "grad-cam"), 'the model has none: method="integrated-gradients" or'),
    "Grad-CAM of a layer without positions": (
        lambda: pn.attribute(made("CNN").net, torch.randn(1, 1, 8, 8), 1, "grad-cam", layer="6"),
        "The layer '6' returns .* has no positions",
    ),
    "Grad-CAM of several layers": (
        residual(1, "grad-cam", layer="conv*"), "takes one layer, and 'conv\\*' matches 'conv1', 'conv2'"
    ),
    "Grad-CAM of positions that no input has": (
        lambda: pn.attribute(made("ViT").net, torch.randn(1, 1, 8, 8), 1, "grad-cam", layer="encoder.linear2"),
        "which no input has",
    ),
    "a layer for another method": (residual(1, layer="conv1"), 'layer= chooses the layer of method="grad-cam"'),
    "a baseline that does not fit": (
        mlp(1, baseline=torch.zeros(4)), r"The baseline \[4\] does not fit the input 'input', which has the shape \[3, 5\]"
    ),
    "a baseline of another type": (mlp(1, baseline="black"), "baseline must be a number or a tensor"),
    "baselines of other inputs": (mlp(1, baseline=(0, 0)), "baseline has 2 values for 1 inputs"),
    "a token outside": (
        lambda: pn.attribute(made("GPT").net, torch.zeros(1, 3, dtype=torch.int64), (0, 0), baseline=11),
        "is a token from 0 to 10, not 11",
    ),
    "a window that does not fit": (
        mlp(1, "occlusion", window=(2, 2)),
        r"window=\(2, 2\) does not fit an example of the input 'input', which has the shape \[5\]",
    ),
    "answers for other examples": (mlp(lambda out: out[:2, 0], "occlusion"), "occlusion needs examples in the first dimension"),
    "no steps": (mlp(1, steps=0), "steps must be at least 1, not 0"),
    "no module": (lambda: pn.attribute(3, torch.randn(3, 5)), "net must be an nn.Module"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_work_is_explained(name: str) -> None:
    call, message = BAD[name]
    with pytest.raises((pn.ArgumentError, pn.InspectionError, pn.LayerNotFoundError), match=message):
        call()


def test_a_layer_that_is_called_twice_has_no_one_map() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3)

        def forward(self, x: Tensor) -> Any:
            return self.conv(self.conv(x)).flatten(1)

    with pytest.raises(pn.InspectionError, match="The layer 'conv' is called several times"):
        pn.attribute(Twice(), torch.randn(1, 1, 6, 6), 0, "grad-cam")


def test_a_value_without_a_batch() -> None:
    net = nn.Linear(4, 3)
    found = pn.attribute(net, torch.ones(4), 2, "occlusion")
    assert_close(found.values, [net.weight[2].detach()])
    assert np.isclose(pn.attribute(net, torch.ones(4), 2).gap, 0, atol=1e-6)  # type: ignore[arg-type]
