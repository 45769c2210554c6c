"""The node types that belong to documents themselves and not to torch."""

from __future__ import annotations

from pnne_nb.graph.spec import NodeSpec, Port, Property
from pnne_nb.graph.types import (
    BoolType,
    ConstantType,
    DeviceType,
    DtypeType,
    EnumType,
    IntType,
    NodeRefType,
    OptionalType,
    ShapeType,
    StringType,
    TupleType,
)

CATEGORY = "Structure"

SHARES = Property(
    name="shares",
    type=OptionalType(NodeRefType()),
    default=None,
    role="node",
    doc="Another node of the same type whose module, and so whose weights, this node uses.",
)
"""The property by which a node uses another's module."""

CHECKPOINT = Property(
    name="checkpoint",
    type=BoolType(),
    default=False,
    role="node",
    doc="Whether training computes what is inside again for the backward pass, instead of keeping it in memory.",
)

DEVICE = Property(
    name="device",
    type=OptionalType(DeviceType()),
    default=None,
    role="node",
    doc="Where the node's weights lie and where it runs; what comes from elsewhere is moved there. "
    "None: where its first input is.",
)

MODULE_PROPERTIES = (SHARES, CHECKPOINT, DEVICE)
"""What every node that compiles to a submodule has, beside the properties of its type."""

_DTYPE = Property(name="dtype", type=DtypeType(), default="float32", role="node", doc="Element type.")
_STORED_SHAPE = Property(name="shape", type=TupleType(IntType(minimum=0)), role="node", doc="Sizes of the tensor.")
_NAMES = TupleType(StringType())

STRUCTURAL: tuple[NodeSpec, ...] = (
    NodeSpec(
        type="Input",
        category=CATEGORY,
        kind="structural",
        outputs=(Port(name="output", kind="value"),),
        properties=(
            Property(
                name="shape",
                type=OptionalType(ShapeType()),
                default=None,
                role="node",
                doc="Sizes of the tensor: numbers, or names such as 'N' for sizes that may vary. "
                "None: unknown, or not a tensor.",
            ),
            _DTYPE,
        ),
        doc="An argument of the graph's forward pass; its name is the argument's name.",
    ),
    NodeSpec(
        type="Output",
        category=CATEGORY,
        kind="structural",
        inputs=(Port(name="input", kind="value"),),
        doc="A result of the graph. With several, the forward pass returns a tuple in the order of the nodes.",
    ),
    NodeSpec(
        type="Constant",
        category=CATEGORY,
        kind="structural",
        outputs=(Port(name="output", kind="value"),),
        properties=(Property(name="value", type=ConstantType(), role="node", doc="What the node gives out."),),
        doc="A fixed Python value.",
    ),
    NodeSpec(
        type="Parameter",
        category=CATEGORY,
        kind="structural",
        outputs=(Port(name="output"),),
        properties=(
            _STORED_SHAPE,
            _DTYPE,
            Property(
                name="init",
                type=EnumType(("zeros", "ones", "normal", "uniform", "kaiming_uniform", "xavier_uniform")),
                default="zeros",
                role="node",
                doc="How the values are drawn before training.",
            ),
            Property(
                name="requires_grad", type=BoolType(), default=True, role="node", doc="Whether training changes it."
            ),
            Property(
                name="of",
                type=OptionalType(StringType()),
                default=None,
                role="node",
                doc="Path of the parameter of another node that this one stands for, such as 'embed.weight'; "
                "it then has none of its own.",
            ),
        ),
        doc="A trainable tensor that belongs to the graph itself.",
    ),
    NodeSpec(
        type="Buffer",
        category=CATEGORY,
        kind="structural",
        outputs=(Port(name="output"),),
        properties=(
            _STORED_SHAPE,
            _DTYPE,
            Property(
                name="init",
                type=EnumType(("zeros", "ones", "arange", "tril")),
                default="zeros",
                role="node",
                doc="The values before anything is loaded; 'tril': ones on and below the diagonal, such as a causal mask.",
            ),
            Property(
                name="values",
                type=OptionalType(ConstantType()),
                default=None,
                role="node",
                doc="The elements themselves as nested tuples, instead of init.",
            ),
            Property(
                name="persistent",
                type=BoolType(),
                default=True,
                role="node",
                doc="Whether it is part of the state_dict.",
            ),
        ),
        doc="A tensor that belongs to the graph itself and is not trained.",
    ),
    NodeSpec(
        type="Subgraph",
        category=CATEGORY,
        kind="structural",
        properties=(
            Property(
                name="definition",
                type=StringType(),
                role="node",
                doc="Which of the document's graphs this node shows; its Input and Output nodes are the ports.",
            ),
            *MODULE_PROPERTIES,
        ),
        doc="A graph inside the graph, compiled to a nested module.",
    ),
    NodeSpec(
        type="Module",
        category=CATEGORY,
        kind="structural",
        properties=(
            Property(
                name="target",
                type=StringType(),
                default="",
                role="node",
                doc="Qualified name of the imported class, for reading only: it is never imported by this name.",
            ),
            Property(name="inputs", type=_NAMES, default=("input",), role="node", doc="Names of the call's arguments."),
            Property(name="outputs", type=_NAMES, default=("output",), role="node", doc="Names of the results."),
            *MODULE_PROPERTIES,
        ),
        doc="An imported module kept as it is, because its inside cannot be drawn.",
    ),
)
"""Specs of the structural types, which every registry starts with."""
