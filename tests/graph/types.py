"""A small catalogue for tests of the document: it needs no torch."""

from __future__ import annotations

from pnne_nb.graph.schema.property_types import BoolType, EnumType, IntType, NumberType, TupleType
from pnne_nb.graph.schema.registry import Registry
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property
from pnne_nb.graph.schema.structural import SHARES, STRUCTURAL

_INPUT = (Port(name="input"),)
_OUTPUT = (Port(name="output"),)
_SIZE = TupleType(IntType(minimum=0), length=2, scalar=True)

SPECS = (
    NodeSpec(
        type="Conv2d",
        category="Convolution",
        kind="module",
        inputs=_INPUT,
        outputs=_OUTPUT,
        properties=(
            Property(name="in_channels", type=IntType(minimum=1)),
            Property(name="out_channels", type=IntType(minimum=1)),
            Property(name="kernel_size", type=TupleType(IntType(minimum=1), length=2, scalar=True)),
            Property(name="stride", type=_SIZE, default=1),
            Property(name="padding", type=_SIZE, default=0),
            Property(name="bias", type=BoolType(), default=True),
            Property(name="padding_mode", type=EnumType(("zeros", "reflect")), default="zeros"),
            SHARES,
        ),
    ),
    NodeSpec(
        type="Linear",
        category="Linear",
        kind="module",
        inputs=_INPUT,
        outputs=_OUTPUT,
        properties=(
            Property(name="in_features", type=IntType(minimum=1)),
            Property(name="out_features", type=IntType(minimum=1)),
            SHARES,
        ),
    ),
    NodeSpec(type="ReLU", category="Activation", kind="module", inputs=_INPUT, outputs=_OUTPUT, properties=(SHARES,)),
    NodeSpec(
        type="MaxPool2d",
        category="Pooling",
        kind="module",
        inputs=_INPUT,
        outputs=(*_OUTPUT, Port(name="indices", when="return_indices")),
        properties=(Property(name="return_indices", type=BoolType(), default=False),),
    ),
    NodeSpec(
        type="add",
        category="Arithmetic",
        kind="function",
        inputs=(Port(name="input"), Port(name="other")),
        outputs=_OUTPUT,
        properties=(Property(name="alpha", type=NumberType(), default=1, role="call"),),
    ),
    NodeSpec(
        type="pow",
        category="Arithmetic",
        kind="function",
        inputs=_INPUT,
        outputs=_OUTPUT,
        properties=(Property(name="exponent", type=NumberType(), role="call"),),
    ),
    NodeSpec(
        type="cat",
        category="Joining",
        kind="function",
        inputs=(Port(name="tensors", variadic=True),),
        outputs=_OUTPUT,
        properties=(Property(name="dim", type=IntType(), default=0, role="call"),),
    ),
    NodeSpec(type="Digits", category="Data", kind="training", outputs=(Port(name="output", kind="dataset"),)),
    NodeSpec(
        type="Loader",
        category="Data",
        kind="training",
        inputs=(Port(name="dataset", kind="dataset"), Port(name="sampler", kind="value", optional=True)),
        outputs=(Port(name="output", kind="loader"),),
    ),
)

TYPES = Registry((*STRUCTURAL, *SPECS))
