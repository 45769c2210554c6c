"""Every function and method: callable from its spec alone, with the results that the spec names."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import get_overridable_functions

from pnne_nb.catalog import functions
from pnne_nb.catalog.tables import function_list
from pnne_nb.graph.schema.property_types import (
    DtypeType,
    FloatType,
    IntType,
    NumberType,
    OptionalType,
    TupleType,
    check,
)
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from tests.catalog.calling import call, flat, resolve
from tests.catalog.function_samples import sample

SPECS = {spec.type: spec for spec in functions.specs()}


def test_there_are_hundreds() -> None:
    listed = [
        name for group in (*function_list.FUNCTIONS.values(), *function_list.METHODS.values()) for name in group.split()
    ]

    assert len(SPECS) >= 450
    assert list(SPECS) == [name for name in listed if name in SPECS], "an older torch may lack some"
    assert len(set(listed)) == len(listed)


def test_every_function_of_the_installed_torch_is_there() -> None:
    offered = {function.__name__ for function in get_overridable_functions()[torch.nn.functional]}
    public = {name for name in offered if not name.startswith("_")}
    others = {f"{name}_with_indices" for name in SPECS}
    assert public - set(registry) - others <= {
        "log_sigmoid",  # the operator behind logsigmoid
        "native_channel_shuffle",  # the one behind channel_shuffle
    }


def test_a_function_of_a_later_torch_appears_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def sharpen(input: Tensor, amount: float = 2.0) -> Tensor:
        """Sharpens.

        Args:
            input: the image
            amount: how much
        """
        return input * amount

    def unreadable(input: NotThere) -> Tensor:  # type: ignore[name-defined]  # noqa: F821  # that is the point
        raise AssertionError

    for function in (sharpen, unreadable):
        function.__module__ = "torch.nn.functional"
        monkeypatch.setattr(torch.nn.functional, function.__name__, function, raising=False)
    found = {spec.type: spec for spec in functions.specs()}
    assert found.keys() >= SPECS.keys()
    spec = found["sharpen"]
    assert (spec.category, spec.target, spec.doc) == ("Other functions", "torch.nn.functional.sharpen", "Sharpens.")
    assert [(port.name, port.doc) for port in spec.inputs] == [("input", "the image")]
    assert [(prop.name, prop.default, prop.doc) for prop in spec.properties] == [("amount", 2.0, "how much")]


@pytest.mark.parametrize("name", SPECS)
def test_function_called_from_its_spec_gives_what_torch_gives(name: str) -> None:
    spec = SPECS[name]
    torch.manual_seed(0)
    values, inputs = sample(spec)

    torch.manual_seed(1)
    result = call(spec, spec.torch, values, _copied(inputs))

    torch.manual_seed(1)
    plain = call(spec, _target(spec), values, _copied(inputs))
    present = spec.present_outputs(values)
    if len(present) > 1:
        assert len(result) == len(present)
    elif present[0].kind == "tensor":
        assert isinstance(result, Tensor)
    else:
        assert not isinstance(result, Tensor)
    for ours, theirs in zip(flat(result), flat(plain), strict=True):
        # Fresh memory is not defined, so only its size can be compared.
        assert ours.shape == theirs.shape if "empty" in name else _same(ours, theirs)


def _target(spec: NodeSpec) -> Any:
    return spec.torch if spec.kind == "method" else resolve(spec.target)


def _copied(inputs: Any) -> dict[str, Any]:
    return {
        name: [t.detach().clone() for t in value] if isinstance(value, list)
        else value.detach().clone() if isinstance(value, Tensor) else value
        for name, value in inputs.items()
    }  # fmt: skip


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, Tensor) and isinstance(theirs, Tensor):
        return torch.equal(ours, theirs) or bool(torch.isnan(ours).any() and torch.isnan(theirs).any())
    return ours == theirs


def test_everything_is_documented() -> None:
    undocumented = [name for name, spec in SPECS.items() if not spec.doc]
    undocumented += [f"{name}.{prop.name}" for name, spec in SPECS.items() for prop in spec.properties if not prop.doc]

    assert undocumented == []
    assert all(spec.url.startswith("https://docs.pytorch.org/") for spec in SPECS.values())


def test_what_is_passed_by_name_is_a_name_that_the_function_takes() -> None:
    for spec in SPECS.values():
        if not inspect.isfunction(spec.torch):  # torch's own have no signature
            continue
        takes = inspect.signature(spec.torch)
        for prop in spec.properties:
            if prop.name not in spec.positional:
                takes.bind_partial(**{prop.name: prop.default})


def test_every_position_is_an_argument_of_the_call() -> None:
    for spec in SPECS.values():
        known = {port.name for port in spec.inputs} | {prop.name for prop in spec.properties}
        assert {argument.removeprefix("*") for argument in spec.positional} <= known
        assert all(prop.role == "call" for prop in spec.properties)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("relu", "torch.nn.functional.relu"),
        ("sigmoid", "torch.sigmoid"),
        ("cat", "torch.cat"),
        ("softmax", "torch.nn.functional.softmax"),
        ("linalg_norm", "torch.linalg.norm"),
        ("fft_rfft", "torch.fft.rfft"),
        ("view", "view"),
        ("masked_fill", "torch.masked_fill"),
    ],
)
def test_names_stand_for_torchs_own(name: str, target: str) -> None:
    assert SPECS[name].target == target


def test_an_operand_can_be_wired_or_typed_in() -> None:
    add = SPECS["add"]

    assert [port.name for port in add.inputs] == ["input", "other"]
    other = add.property_named("other")
    assert other is not None
    assert (other.type, other.required, other.role) == (NumberType(), True, "call")
    assert torch.equal(call(add, torch.add, {"other": 2}, {"input": torch.ones(2)}), torch.full((2,), 3.0))


def test_joins_take_any_number_of_tensors() -> None:
    (tensors,) = SPECS["cat"].inputs

    assert tensors.variadic
    assert SPECS["cat"].positional == ("tensors", "dim")
    assert SPECS["broadcast_tensors"].positional == ("*tensors",)
    assert SPECS["einsum"].positional == ("equation", "tensors")


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_a_reduction_over_an_axis_also_gives_indices(name: str) -> None:
    spec = SPECS[name]

    assert [port.name for port in spec.present_outputs({})] == ["output"]
    assert [port.name for port in spec.present_outputs({"dim": 0})] == ["output", "indices"]


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("topk", ["values", "indices"]),
        ("var_mean", ["var", "mean"]),
        ("aminmax", ["min", "max"]),
        ("linalg_qr", ["Q", "R"]),
        ("linalg_slogdet", ["sign", "logabsdet"]),
    ],
)
def test_several_results_have_torchs_names(name: str, outputs: list[str]) -> None:
    assert [port.name for port in SPECS[name].outputs] == outputs


@pytest.mark.parametrize("name", ["size", "dim", "numel", "chunk", "split", "unbind", "equal", "item"])
def test_results_that_are_no_tensors_are_values(name: str) -> None:
    assert [port.kind for port in SPECS[name].outputs] == ["value"]


@pytest.mark.parametrize("name", ["dropout", "batch_norm", "rrelu", "alpha_dropout"])
def test_training_follows_the_module(name: str) -> None:
    training = SPECS[name].property_named("training")

    assert training is not None
    assert training.default == "auto"


@pytest.mark.parametrize("name", ["cross_entropy", "kl_div", "softmax", "mse_loss"])
def test_arguments_after_a_hidden_one_are_not_positional(name: str) -> None:
    assert not {"reduction", "dtype", "label_smoothing"} & set(SPECS[name].positional)


def test_types_say_what_torch_accepts() -> None:
    kinds = {
        (name, prop.name): prop.type
        for name in ("sum", "reshape", "to", "one_hot", "dropout", "conv2d", "round")
        for prop in SPECS[name].properties
    }

    assert kinds["sum", "dim"] == OptionalType(TupleType(IntType(), scalar=True))
    assert kinds["sum", "dtype"] == OptionalType(DtypeType())
    assert kinds["to", "dtype"] == OptionalType(DtypeType())
    assert kinds["reshape", "shape"] == TupleType(IntType())
    assert kinds["one_hot", "num_classes"] == IntType(-1)
    assert kinds["dropout", "p"] == FloatType(0, 1)
    assert kinds["conv2d", "stride"] == TupleType(IntType(1), 2, scalar=True)
    assert kinds["round", "decimals"] == OptionalType(IntType())


@pytest.mark.parametrize(
    ("type", "name", "value"),
    [
        ("stft", "pad_mode", "mirror"),
        ("linalg_eigvalsh", "UPLO", "X"),
        ("bernoulli", "p", 1.5),
        ("mvlgamma", "p", 0),
        ("chunk", "chunks", 0),
        ("kthvalue", "k", 0),
        ("topk", "k", -1),
        ("multinomial", "num_samples", 0),
        ("OneCycleLR", "pct_start", 1.5),
        ("HuberLoss", "delta", -1.0),
    ],
)
def test_values_that_torch_rejects_are_refused_before(type: str, name: str, value: object) -> None:
    prop = registry[type].property_named(name)
    assert prop is not None
    with pytest.raises(ValueError, match=r"one of|number"):
        check(prop.type, value)


def test_a_name_that_torch_lacks_is_left_out() -> None:
    assert functions.find("no_such_function") is None
    assert functions.find("linalg_no_such_function") is None


def test_registry_holds_every_function() -> None:
    assert set(SPECS) <= set(registry)
