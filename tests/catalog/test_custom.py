"""A person's own types: what a signature tells, and how refusals read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.catalog.custom import describe, is_autograd_function
from pnne_nb.graph.schema.property_types import (
    BoolType,
    EnumType,
    FloatType,
    IntType,
    OptionalType,
    StringType,
    TupleType,
)
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec, Property
from pnne_nb.graph.schema.structural import MODULE_PROPERTIES

if TYPE_CHECKING:
    Missing = Tensor


class Swish(nn.Module):
    """A smooth activation.

    Args:
        beta: How steep it is.
    """

    def __init__(
        self, beta: float = 1.0, size: tuple[int, int] = (1, 2), rank: Annotated[int, IntType(1, 4)] = 1
    ) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, x: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
        return x * torch.sigmoid(self.beta * x)


class Untyped(nn.Module):
    def __init__(self, width, deep=False) -> None:  # type: ignore[no-untyped-def]  # a function without annotations is what is tested
        super().__init__()

    def forward(self, x, memory=None, steps=3):  # type: ignore[no-untyped-def]  # a function without annotations is what is tested
        return x


class Moments(NamedTuple):
    mean: Tensor
    total: int


def moments(*samples: Tensor, mode: Literal["a", "b"] = "a") -> Moments:
    """Mean and count."""
    return Moments(samples[0].mean(), len(samples))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float = 2.0, offset: float = 0.0) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * factor + offset

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0] * 2 * ctx.saved_tensors[0], None, None


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, factor: float = 2.0) -> Tensor:
        return x**3 * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])


def _properties(spec: NodeSpec) -> dict[str, tuple[object, object, str]]:
    return {
        prop.name: (prop.type, prop.default, prop.role) for prop in spec.properties if prop not in MODULE_PROPERTIES
    }


def test_module_is_read_from_its_signature() -> None:
    assert pn.register_node(category="Mine")(Swish) is Swish

    spec = pn.catalog["Swish"]
    assert (spec.category, spec.kind, spec.torch) == ("Mine", "module", Swish)
    assert [(port.name, port.optional) for port in spec.inputs] == [("x", False), ("mask", True)]
    assert [(port.name, port.kind) for port in spec.outputs] == [("output", "tensor")]
    assert spec.positional == ("x", "mask", "scale")
    assert _properties(spec) == {
        "beta": (FloatType(), 1.0, "init"),
        "size": (TupleType(IntType(), 2), (1, 2), "init"),
        "rank": (IntType(1, 4), 1, "init"),
        "scale": (FloatType(), 1.0, "call"),
    }
    assert set(MODULE_PROPERTIES) <= set(spec.properties)
    assert spec.doc == "A smooth activation."
    beta = spec.property_named("beta")
    assert isinstance(beta, Property)
    assert beta.doc == "How steep it is."


def test_forward_without_annotations_takes_tensors() -> None:
    class Loose(nn.Module):
        def forward(self, x, memory=None, steps=3):  # type: ignore[no-untyped-def]  # a function without annotations is what is tested
            return x

    spec = describe(Loose)

    assert [(port.name, port.optional) for port in spec.inputs] == [("x", False), ("memory", True)]
    assert _properties(spec) == {"steps": (IntType(), 3, "call")}


def test_function_with_named_results_and_any_number_of_tensors() -> None:
    spec = describe(moments)

    assert spec.kind == "function"
    assert [(port.name, port.variadic) for port in spec.inputs] == [("samples", True)]
    assert spec.positional == ("*samples",)
    assert [(port.name, port.kind) for port in spec.outputs] == [("mean", "tensor"), ("total", "value")]
    assert _properties(spec) == {"mode": (EnumType(("a", "b")), "a", "call")}


def test_tuple_results_are_numbered_or_named() -> None:
    def halves(x: Tensor, at: int = 1, flag: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
        return x[:at], x[at:]

    assert [port.name for port in describe(halves).outputs] == ["output_0", "output_1"]
    assert [port.name for port in describe(halves, outputs=("head", "tail")).outputs] == ["head", "tail"]
    assert _properties(describe(halves)) == {
        "at": (IntType(), 1, "call"),
        "flag": (BoolType(), False, "call"),
        "name": (OptionalType(StringType()), None, "call"),
    }


def test_autograd_function_with_a_context() -> None:
    spec = describe(Square)

    assert is_autograd_function(spec)
    assert [port.name for port in spec.inputs] == ["x"]
    # apply takes no keywords with a context: only the last argument may be left out.
    assert [(prop.name, prop.required) for prop in spec.properties] == [("factor", True), ("offset", False)]


def test_autograd_function_without_a_context() -> None:
    spec = describe(Cube)

    assert spec.positional == ("x", "factor")
    assert [(prop.name, prop.default) for prop in spec.properties] == [("factor", 2.0)]


def test_observers_hear_of_a_new_type() -> None:
    heard: list[str] = []
    unsubscribe = registry.observe(lambda spec: heard.append(spec.type))

    pn.register_node(name="swish2")(Swish)
    unsubscribe()

    assert heard == ["swish2"]


def test_a_second_registration_is_refused_unless_it_replaces() -> None:
    pn.register_node()(Swish)

    with pytest.raises(pn.RegistrationError, match=r"named 'Swish' already exists in category 'Custom'.*replace=True"):
        pn.register_node()(Swish)
    pn.register_node(category="Other", replace=True)(Swish)

    assert pn.catalog["Swish"].category == "Other"


def test_torchs_names_are_taken() -> None:
    with pytest.raises(pn.RegistrationError, match="named 'Conv2d' already exists in category 'Convolution'"):
        pn.register_node(name="Conv2d")(Swish)


def test_running_a_cell_again_replaces_its_type() -> None:
    def cell(default: int) -> Callable[..., Tensor]:
        def node(x: Tensor, k: int = default) -> Tensor:
            return x

        node.__module__, node.__qualname__ = "__main__", "node"
        registered: Callable[..., Tensor] = pn.register_node()(node)
        return registered

    cell(1)
    cell(2)

    assert pn.catalog["node"].properties[0].default == 2


def _no_annotation(x, alpha=1.0):  # type: ignore[no-untyped-def]  # a function without annotations is what is tested
    return x


def _odd(x: Tensor, callback: Callable[[], None]) -> Tensor:
    return x


def _unknown(x: Missing) -> Tensor:
    return x


def _wrong_default(x: Tensor, k: int = 1.5) -> Tensor:  # type: ignore[assignment]  # the test knows its type
    return x


class _NeedsModule(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (_no_annotation, r"'x' has no annotation.*def _no_annotation\(x: torch.Tensor, alpha: float = 1.0\)"),
        (_odd, r"'callback' has no annotation, or one that is neither a tensor nor a plain value"),
        (_unknown, r"an annotation names 'Missing', which is not known"),
        (_wrong_default, r"the default of 'k' is 1.5, but by its annotation it must be a whole number"),
        (_NeedsModule, r"the argument 'inner' of its constructor has no annotation or one that cannot be typed in"),
        (Untyped, r"the argument 'width' of its constructor.*def __init__\(self, width: int\)"),
        (dict, r"only nn.Module subclasses, functions and torch.autograd.Function"),
        (torch.mul, r"it has no Python signature. Wrap it: def my_mul_\(x: torch.Tensor\) -> torch.Tensor"),
    ],
)
def test_what_no_form_can_show_is_refused(target: Any, message: str) -> None:
    before = len(registry)

    with pytest.raises(pn.RegistrationError, match=message):
        pn.register_node(name=f"{target.__name__}_" if target is torch.mul else None)(target)

    assert len(registry) == before


def test_a_module_in_the_place_of_its_class_is_refused() -> None:
    with pytest.raises(pn.RegistrationError, match=r"ReLU cannot become a node: it is one module\. Register"):
        pn.register_node(nn.ReLU())


@pytest.mark.parametrize("name", ["class", "None", "Größe", "__init__", "a.b", "a b", "", "x" * 101])
def test_names_that_cannot_stand_in_source_are_refused(name: str) -> None:
    def as_is(x: Tensor) -> Tensor:
        return x

    with pytest.raises(pn.RegistrationError, match="cannot be the name of a node type: it must be a Python identifier"):
        pn.register_node(name=name)(as_is)


def test_lambdas_need_a_name() -> None:
    with pytest.raises(pn.RegistrationError, match=r"'<lambda>' cannot be the name of a node type.*name=\"my_node\""):
        pn.register_node()(lambda x: x)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (("a", "a"), "its outputs are named 'a', 'a'; they need different Python identifiers"),
        (("a b",), "its outputs are named 'a b'"),
        ((), "its outputs are named nothing"),
        (("a", "b", "c"), "it returns 2 values by its annotation, but 3 outputs are named"),
    ],
)
def test_bad_output_names_are_refused(outputs: tuple[str, ...], message: str) -> None:
    def pair(x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x

    with pytest.raises(pn.RegistrationError, match=message):
        pn.register_node(outputs=outputs)(pair)


def test_the_decorator_may_stand_without_parentheses() -> None:
    @pn.register_node
    def bare(x: Tensor, factor: float = 2.0) -> Tensor:
        return x * factor

    assert pn.catalog["bare"].category == "Custom"
    assert bare(torch.ones(1)).item() == 2.0


def test_a_tensor_of_the_constructor_is_given_by_its_numbers() -> None:
    @pn.register_node
    class Scaled(nn.Module):
        def __init__(self, scale: torch.Tensor, shift: torch.Tensor | None = None) -> None:
            super().__init__()
            self.register_buffer("scale", scale)
            self.shift = shift

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.get_buffer("scale")

    graph = pn.NodeGraph("scaled")
    graph.add("Input", "x", shape=("N", 2))
    graph.add("Scaled", "scaled", scale=[[0.5, 2]])
    graph.add("Output", "y")
    graph.connect("x", "scaled", "y")
    assert torch.equal(pn.compile(graph)(torch.ones(1, 2)), torch.tensor([[0.5, 2.0]]))
    with pytest.raises(pn.BadValueError, match="scale cannot be 'big': it must be a number, or a list of numbers"):
        graph.set("scaled", scale="big")


def test_a_backward_that_torch_never_calls_is_refused_with_the_way() -> None:
    class Straight(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sign()

        def backward(self, gradient: torch.Tensor) -> torch.Tensor:
            return gradient

    with pytest.raises(
        pn.RegistrationError, match=r"Straight has a backward method, .* Write a torch.autograd.Function"
    ):
        pn.register_node(Straight)
