"""Name patterns find layers, and say what is near when they do not."""

from __future__ import annotations

import pytest
from torch import nn

from pnne_nb.errors import LayerNotFoundError
from pnne_nb.inspector.statistics.patterns import (
    first_paths,
    layers,
    leaf_layers,
    match_layers,
    own_parameters,
    resolve_watch,
)
from tests.inspector.models import Encoder, Twice, mlp


def test_wildcards_span_dots() -> None:
    net = Encoder()
    assert list(match_layers(net, "blocks.?.ffn")) == ["blocks.0.ffn", "blocks.1.ffn"]
    assert list(match_layers(net, "*.2")) == ["blocks.0.ffn.2", "blocks.1.ffn.2"]
    assert list(match_layers(net, "blocks.[1]")) == ["blocks.1"]
    assert len(match_layers(net)) == 15


def test_several_patterns_come_in_the_order_of_the_model() -> None:
    assert list(match_layers(Encoder(), ["head", "blocks.0.norm"])) == ["blocks.0.norm", "head"]


def test_exclusion_and_types() -> None:
    net = Encoder()
    assert list(match_layers(net, "!blocks*")) == ["head", "unused"]
    assert list(match_layers(net, ("*", "!blocks*"), exclude=["un*"])) == ["head"]
    assert list(match_layers(net, types=(nn.LayerNorm, nn.ReLU), exclude="blocks.1.*")) == [
        "blocks.0.norm",
        "blocks.0.ffn.1",
    ]


def test_names_with_wildcard_characters_match_themselves() -> None:
    net = nn.ModuleDict({"a[0]": nn.Linear(1, 1), "a0": nn.Linear(1, 1)})
    assert list(match_layers(net, "a[0]")) == ["a[0]", "a0"]


def test_a_shared_module_has_its_first_name() -> None:
    assert list(match_layers(Twice(), "again")) == ["layer"]
    assert first_paths(Twice())["again"] == "layer"


def test_the_model_itself_only_on_request_or_alone() -> None:
    assert list(match_layers(nn.Linear(1, 1))) == [""]
    assert list(match_layers(mlp(), "")) == [""]
    assert "" not in layers(mlp())
    assert list(leaf_layers(Encoder()))[:2] == ["blocks.0.norm", "blocks.0.ffn.0"]


def test_watches_are_joined_by_layer() -> None:
    found = resolve_watch(mlp(), {"2": ("gradients",), "*": ("activations", "gradients")})
    assert found == {
        "0": ("activations", "gradients"),
        "1": ("activations", "gradients"),
        "2": ("gradients", "activations"),
    }


def test_own_parameters_are_listed_once() -> None:
    assert [(layer, name) for layer, name, _ in own_parameters(Twice())] == [("layer", "weight"), ("layer", "bias")]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("haed", r"No layer matches 'haed'\. Did you mean 'head'"),
        ("*.fnn.*", r"No layer matches '\*\.fnn\.\*'\. Did you mean 'ffn'"),
        ("zzz", r"No layer matches 'zzz'\. The layers are 'blocks', 'blocks\.0', .*…\."),
        (["head", "zzz"], r"No layer matches 'zzz'"),
        (["head", "!*"], r"No layer matches 'head', '!\*'\. The model has layers of the types Block, LayerNorm"),
    ],
)
def test_nothing_found_is_explained(pattern: str | list[str], message: str) -> None:
    with pytest.raises(LayerNotFoundError, match=message):
        match_layers(Encoder(), pattern)


def test_a_model_without_submodules_says_so() -> None:
    with pytest.raises(LayerNotFoundError, match=r"No layer matches 'x'\. The model has no submodule"):
        match_layers(nn.Linear(1, 1), "x")


def test_a_type_that_is_absent_is_named() -> None:
    with pytest.raises(
        LayerNotFoundError, match=r"matches '\*' and is a Conv2d or LSTM\. The model has layers of the ty"
    ):
        match_layers(mlp(), types=(nn.Conv2d, nn.LSTM))
