"""Names that people know from elsewhere lead to a type of the catalogue."""

from __future__ import annotations

import pytest

from pnne_nb.catalog import specs
from pnne_nb.graph.schema.habits import _ELSEWHERE, habit, instead_of, layers_of
from pnne_nb.graph.schema.registry import Registry
from pnne_nb.graph.schema.structural import STRUCTURAL

REGISTRY = Registry((*STRUCTURAL, *specs()))


def test_every_suggestion_is_a_type_of_the_catalogue() -> None:
    missing = {name for names in _ELSEWHERE.values() for name in names.split()} - set(REGISTRY)
    assert not missing


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Dense", ' Write graph.add("Linear", ...).'),
        ("fully_connected", ' Write graph.add("Linear", ...).'),
        ("Pool", ' Write graph.add("MaxPool2d", ...) or graph.add("AvgPool2d", ...).'),
        ("conv2D", " Did you mean 'Conv2d'?"),  # the layer, not the function conv2d
        ("ReLU", " Did you mean 'ReLU'?"),
        ("quux_unlike_anything", ""),
    ],
)
def test_what_to_write_instead(name: str, sentence: str) -> None:
    assert habit(name, REGISTRY) == sentence


def test_a_lazy_layer_is_the_layer_without_its_sizes() -> None:
    assert 'graph.add("Linear", ...) without in_features' in habit("LazyLinear", REGISTRY)


def test_containers_are_no_nodes() -> None:
    assert "chain" in habit("nn_Sequential".removeprefix("nn_"), REGISTRY)
    assert habit("Module_List", REGISTRY) == habit("ModuleList", REGISTRY) != ""


def test_a_typing_error_is_guessed_and_no_text_is_nothing() -> None:
    assert "Linear" in instead_of("Linaer", REGISTRY)
    assert instead_of(3, REGISTRY) == ""


def test_a_function_and_its_layer_have_one_name_but_for_capitals() -> None:
    types = REGISTRY
    assert [spec.type for spec in layers_of(types["conv2d"], types)] == ["Conv2d"]
    assert [spec.type for spec in layers_of(types["batch_norm"], types)] == [
        f"BatchNorm{number}d" for number in (1, 2, 3)
    ]
    assert layers_of(types["Conv2d"], types) == []
    assert layers_of(types["matmul"], types) == []
    assert layers_of(types["norm"], types) == []
