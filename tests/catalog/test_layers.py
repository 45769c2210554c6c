"""Every layer of the installed torch: read completely, made and called from its spec alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn

from pnne_nb.catalog import layers
from pnne_nb.graph.schema.property_types import EnumType, PropertyType, check
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import EVAL_MODE, MODULE_PROPERTIES, TRAINABLE
from tests.catalog.calling import build, call, flat, resolve
from tests.catalog.layer_samples import sample

SPECS = {spec.type: spec for spec in layers.specs()}
SKIPPED = {"self", "device", "dtype", "size_average", "reduce", "process_group", "args", "kwargs"}


def _seeded(function: Callable[[], Any]) -> Any:
    torch.manual_seed(1)
    return function()


def test_every_public_layer_is_there() -> None:
    own = {
        name
        for name in dir(nn)
        if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
        if not name.startswith("Lazy")
    }
    left_out = own - set(SPECS)

    assert left_out == {
        "Module", "Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict",
        "DataParallel", "RNNBase", "RNNCellBase", "NLLLoss2d",
    }  # fmt: skip
    assert len(SPECS) >= 138  # in torch 2.11


@pytest.mark.parametrize("name", SPECS)
def test_layer_made_and_called_from_its_spec_gives_what_torch_gives(name: str) -> None:
    spec = SPECS[name]
    given = sample(name)
    module = build(spec, given.values, [given.inputs.get(port.name) for port in spec.inputs])

    ours = _seeded(lambda: call(spec, module, given.values, given.inputs))

    at_call = {prop.name for prop in spec.properties if prop.role == "call"} & given.values.keys()
    theirs = _seeded(lambda: module(**given.inputs, **{key: given.values[key] for key in at_call}))
    assert type(module) is spec.torch is resolve(spec.target)
    assert len(flat(ours)) == len(spec.present_outputs(given.values))
    assert all(torch.equal(one, other) for one, other in zip(flat(ours), flat(theirs), strict=True))


@pytest.mark.parametrize("name", SPECS)
def test_properties_are_the_constructors_arguments(name: str) -> None:
    spec = SPECS[name]
    cls: Any = spec.torch
    init = nn.RNNBase.__init__ if issubclass(cls, nn.RNNBase) else cls.__init__
    parameters = {
        key: parameter
        for key, parameter in inspect.signature(init).parameters.items()
        if key not in SKIPPED and not key.startswith("_")
    }
    properties = {prop.name: prop for prop in spec.properties if prop.role == "init"}
    only_in_torch = parameters.keys() - properties.keys()
    only_in_spec = properties.keys() - parameters.keys()

    allowed = {
        "distance_function", "options", "custom_encoder", "custom_decoder",  # live objects
        "encoder_layer", "decoder_layer",  # built from properties of their own
        "min_value", "max_value",  # deprecated
        "mode", "proj_size",  # of RNNBase
    }  # fmt: skip
    assert only_in_torch <= allowed
    assert only_in_spec <= {
        "nonlinearity", "d_model", "nhead", "dim_feedforward", "dropout", "activation", "layer_norm_eps",
        "batch_first", "norm_first", "bias", "norm",
    }  # fmt: skip
    for key in parameters.keys() & properties.keys():
        default = parameters[key].default
        if default is inspect.Parameter.empty:
            assert properties[key].required or properties[key].default == "auto"
        elif not callable(default) and key != "norm":
            assert properties[key].default == default


def test_everything_is_documented() -> None:
    for name, spec in SPECS.items():
        assert spec.doc
        assert not set(spec.doc) & set("`\\")
        assert [prop.name for prop in spec.properties if not prop.doc] == []
        assert [port.name for port in (*spec.inputs, *spec.outputs) if not port.doc] == []
        assert spec.url.endswith(f"torch.nn.{name}.html")
        own = [prop for prop in MODULE_PROPERTIES if prop in spec.properties]
        assert [*spec.properties[-len(own) :]] == own
        assert {*MODULE_PROPERTIES} - {*own} <= {TRAINABLE, EVAL_MODE}
        # Instance norms have weights only if they are asked for.
        assert (TRAINABLE in own) == _has_weights(spec) or name.startswith("InstanceNorm")


def _has_weights(spec: NodeSpec) -> bool:
    given = sample(spec.type)
    module = build(spec, given.values, [given.inputs.get(port.name) for port in spec.inputs])
    return any(True for _ in module.parameters())


def test_ports_are_described_by_torchs_own_shapes() -> None:
    convolution, recurrent = SPECS["Conv2d"], SPECS["LSTM"]
    assert convolution.inputs[0].doc == "(N, C_in, H_in, W_in) or (C_in, H_in, W_in)"
    assert convolution.outputs[0].doc == "(N, C_out, H_out, W_out) or (C_out, H_out, W_out)"
    assert [port.doc.partition(" for ")[0] for port in (recurrent.inputs[0], *recurrent.outputs)] == [
        "tensor of shape (L, H_in)",
        "tensor of shape (L, D * H_out)",
        "tensor of shape (D * num_layers, H_out)",
        "tensor of shape (D * num_layers, H_cell)",
    ]
    assert not any("operand" in port.doc for spec in SPECS.values() for port in spec.inputs)


def test_choices_are_those_that_torch_accepts() -> None:
    for spec in SPECS.values():
        given = sample(spec.type)
        for prop in spec.properties:
            for choice in _choices(prop.type):
                build(spec, {**given.values, prop.name: choice}, list(given.inputs.values()))


def _choices(kind: PropertyType) -> tuple[str, ...]:
    return kind.choices if isinstance(kind, EnumType) else ()


@pytest.mark.parametrize(
    ("name", "prop", "bad"),
    [
        ("Conv2d", "padding_mode", "mirror"),
        ("Conv2d", "padding", "full"),
        ("Conv2d", "groups", 0),
        ("Dropout", "p", 1.5),
        ("RNN", "nonlinearity", "sigmoid"),
        ("EmbeddingBag", "mode", "median"),
        ("MultiMarginLoss", "p", 3),
        ("CrossEntropyLoss", "label_smoothing", 2.0),
        ("TransformerEncoderLayer", "activation", "tanh"),
    ],
)
def test_what_torch_refuses_the_spec_refuses_too(name: str, prop: str, bad: object) -> None:
    spec = SPECS[name]
    given = sample(name)
    declared = spec.property_named(prop)
    assert declared is not None

    keywords = {key: value for key, value in given.values.items() if key not in (prop, "weight")}
    with pytest.raises(ValueError, match=r"number|one of|'valid'"):
        check(declared.type, bad)
    with pytest.raises((ValueError, RuntimeError, AssertionError)):
        _call_torch(spec.torch, {**SIZES.get(name, {}), **keywords, prop: bad}, given.inputs)


SIZES = {"Conv2d": {"in_channels": 4}, "TransformerEncoderLayer": {"d_model": 8}, "RNN": {"input_size": 4}}


def _call_torch(cls: Any, settings: Mapping[str, object], inputs: Mapping[str, object]) -> None:
    cls(**settings)(*inputs.values())


def test_ports_follow_the_forward() -> None:
    attention = SPECS["MultiheadAttention"]
    ports = [(port.name, port.optional) for port in attention.inputs]

    assert ports == [
        ("query", False), ("key", False), ("value", False), ("key_padding_mask", True), ("attn_mask", True),
    ]  # fmt: skip
    assert attention.positional[3:5] == ("key_padding_mask", "need_weights")
    assert {prop.name for prop in attention.properties if prop.role == "call"} == {
        "need_weights", "average_attn_weights", "is_causal",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "outputs", "returns"),
    [
        ("LSTM", ["output", "h_n", "c_n"], ("output", ("h_n", "c_n"))),
        ("GRU", ["output", "h_n"], ()),
        ("RNN", ["output", "h_n"], ()),
        ("LSTMCell", ["h_1", "c_1"], ()),
        ("MultiheadAttention", ["output", "attn_weights"], ()),
        ("AdaptiveLogSoftmaxWithLoss", ["output", "loss"], ()),
        ("Conv2d", ["output"], ()),
    ],
)
def test_results_have_names(name: str, outputs: list[str], returns: object) -> None:
    spec = SPECS[name]

    assert [port.name for port in spec.outputs] == outputs
    assert spec.returns == returns


@pytest.mark.parametrize("name", [name for name in SPECS if "MaxPool" in name])
def test_indices_are_an_output_only_on_demand(name: str) -> None:
    spec = SPECS[name]
    given = sample(name)
    values = {**given.values, "return_indices": True}
    module = build(spec, values, list(given.inputs.values()))

    assert [port.name for port in spec.present_outputs({})] == ["output"]
    assert [port.name for port in spec.present_outputs({"return_indices": True})] == ["output", "indices"]
    assert len(call(spec, module, values, given.inputs)) == 2


def test_transformer_encoder_is_one_node_with_the_properties_of_its_layer() -> None:
    spec = SPECS["TransformerEncoder"]
    module = build(spec, {"d_model": 8, "nhead": 2, "num_layers": 3, "norm": True, "batch_first": True})
    plain = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 3, nn.LayerNorm(8))

    assert list(module.state_dict()) == list(plain.state_dict())


def test_integer_inputs_are_told_apart() -> None:
    dtypes = {name: SPECS[name].inputs[0].dtypes for name in ("Embedding", "Linear", "Conv2d", "ReLU")}

    assert dtypes == {"Embedding": "integer", "Linear": "floating", "Conv2d": "floating", "ReLU": "any"}
    assert SPECS["NLLLoss"].inputs[1].dtypes == "integer"


def test_registry_holds_every_layer() -> None:
    assert set(SPECS) <= set(registry)
    assert registry["Conv2d"].torch is nn.Conv2d
