"""The node types of documents that are not torch's, and the contexts that a node can run inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pnne_nb.graph.schema.categories import STRUCTURE
from pnne_nb.graph.schema.property_types import (
    BoolType,
    ConstantType,
    DeviceType,
    DtypeType,
    EnumType,
    FloatType,
    IntType,
    NodeRefType,
    OptionalType,
    PropertyType,
    ShapeType,
    StringType,
    TupleType,
)
from pnne_nb.graph.schema.spec import REQUIRED, NodeSpec, Port, Property, Required
from pnne_nb.graph.schema.values import TorchConstant, Value


class Context(NamedTuple):
    """The call that makes a context manager.

    Attributes:
        target: Dotted name of its class.
        arguments: By position.
        keywords: By name.
    """

    target: str
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


DEVICES = ("cpu", "cuda")
"""Kinds of devices whose autocast a node can run inside."""

ELEMENTS = ("bfloat16", "float16")
"""Element types that an autocast computes in."""

CONTEXTS: Mapping[str, Context] = {
    "no_grad": Context("torch.no_grad"),
    "enable_grad": Context("torch.enable_grad"),
    "inference_mode": Context("torch.inference_mode"),
    **{f"autocast {device}": Context("torch.autocast", (device,)) for device in DEVICES},
    **{f"autocast {device} off": Context("torch.autocast", (device,), (("enabled", False),)) for device in DEVICES},
    **{
        f"autocast {device} {element}": Context("torch.autocast", (device,), (("dtype", TorchConstant(element)),))
        for device in DEVICES
        for element in ELEMENTS
    },
}
"""Contexts by their names in documents."""


CATEGORY = STRUCTURE.name


def _property(name: str, kind: PropertyType, doc: str, default: Value | Required = REQUIRED) -> Property:
    """Return a property of the node itself, not of a call."""
    return Property(name, kind, default, "node", doc)


def _spec(
    type: str, doc: str, *properties: Property, inputs: tuple[Port, ...] = (), outputs: tuple[Port, ...] = ()
) -> NodeSpec:
    return NodeSpec(type, CATEGORY, "structural", "", inputs, outputs, properties, doc=doc)


SHARES = _property(
    "shares",
    OptionalType(NodeRefType()),
    "Another node of the same type whose module, and so whose weights, this node uses.",
    None,
)
"""The property of a node that uses the module of another node."""

CHECKPOINT = _property(
    "checkpoint",
    BoolType(),
    "Whether training computes what is inside again for the backward pass, instead of keeping it in memory.",
    False,
)

DEVICE = _property(
    "device",
    OptionalType(DeviceType()),
    "Where the node's weights lie and where it runs; what comes from elsewhere is moved there. "
    "None: where its first input is.",
    None,
)

INSIDE = _property(
    "inside", TupleType(EnumType(tuple(CONTEXTS))), "Contexts of torch's that it runs in, the outermost first.", ()
)
"""The property of a node that runs inside ``with`` blocks."""

ABLATE = _property(
    "ablate",
    OptionalType(EnumType(("bypass", "zeros"))),
    "What it gives instead of running, to see what it is worth: its first input as it came (bypass), or zeros of that "
    "shape (zeros). Its weights stay. None: it runs.",
    None,
)
"""The property of a node that does not run."""

PROMOTED = _property(
    "promoted", TupleType(StringType()), "Names of its properties that the block around it shows as its own.", ()
)
"""The property that names the properties of a node that the block around it shows."""

TRAINABLE = _property(
    "trainable", BoolType(), "Whether training changes its weights; of a block, those of everything inside.", True
)
"""The property of a node with weights, which can be frozen."""

EVAL_MODE = _property(
    "eval_mode",
    BoolType(),
    "Whether it stays in eval mode while the model trains: batch norms keep their statistics, dropout is off.",
    False,
)

MODULE_PROPERTIES = (SHARES, CHECKPOINT, DEVICE, INSIDE, ABLATE, PROMOTED, TRAINABLE, EVAL_MODE)
"""The properties of every node that compiles to a submodule, beside those of its type; the last two, if it has weights, and
if these or what it computes depend on the training mode."""

CALL_PROPERTIES = (INSIDE, ABLATE, PROMOTED)
"""The properties of every other node that is called."""

_DTYPE = _property("dtype", DtypeType(), "Element type.", "float32")
_STORED_SHAPE = _property("shape", TupleType(IntType(minimum=0)), "Sizes of the tensor.")
_OF = _property(
    "of",
    OptionalType(StringType()),
    "Path of the tensor of another node that this one stands for, such as 'embed.weight'; it then has none of its own.",
    None,
)
_NAMES = TupleType(StringType())
_VALUE = (Port(name="output", kind="value"),)
_TENSOR = (Port(name="output"),)

REROUTE = "Reroute"
"""The type of a point on an edge."""

STRUCTURAL: tuple[NodeSpec, ...] = (
    _spec(
        "Input",
        "An argument of the graph's forward pass; its name is the argument's name.",
        _property(
            "shape",
            OptionalType(ShapeType()),
            "Sizes of the tensor: numbers, or names such as 'N' for sizes that may vary. "
            "None: unknown, or not a tensor.",
            None,
        ),
        _DTYPE,
        outputs=_VALUE,
    ),
    _spec(
        "Output",
        "A result of the graph. With several, the forward pass returns a tuple in the order of the nodes.",
        inputs=(Port(name="input", kind="value"),),
    ),
    _spec(
        REROUTE,
        "A point that an edge leads through, to keep it clear of other things; it gives on what arrives, and computes nothing.",
        inputs=(Port(name="input", kind="value"),),
        outputs=_VALUE,
    ),
    _spec(
        "Constant",
        "A fixed Python value.",
        _property("value", ConstantType(), "The value of the node."),
        PROMOTED,
        outputs=_VALUE,
    ),
    _spec(
        "Parameter",
        "A trainable tensor that belongs to the graph itself.",
        _STORED_SHAPE,
        _DTYPE,
        _property(
            "init",
            EnumType(("zeros", "ones", "eye", "normal", "uniform", "kaiming_uniform", "xavier_uniform")),
            "How the values are drawn before training; 'eye': an identity matrix.",
            "zeros",
        ),
        _property("mean", FloatType(), "Of the values that init='normal' draws.", 0.0),
        _property("std", FloatType(minimum=0), "Standard deviation of these values; with 0, all are the mean.", 1.0),
        _property(
            "values",
            OptionalType(ConstantType()),
            "The elements themselves as nested tuples, instead of init; an axis of size 1 is repeated.",
            None,
        ),
        _property("requires_grad", BoolType(), "Whether training changes it.", True),
        _OF,
        outputs=_TENSOR,
    ),
    _spec(
        "Buffer",
        "A tensor that belongs to the graph itself and is not trained.",
        _STORED_SHAPE,
        _DTYPE,
        _property(
            "init",
            EnumType(("zeros", "ones", "arange", "tril")),
            "The values before anything is loaded; 'tril': ones on and below the diagonal, such as a causal mask.",
            "zeros",
        ),
        _property(
            "values", OptionalType(ConstantType()), "The elements themselves as nested tuples, instead of init.", None
        ),
        _property("persistent", BoolType(), "Whether it is part of the state_dict.", True),
        _OF,
        outputs=_TENSOR,
    ),
    _spec(
        "Subgraph",
        "A graph inside the graph, compiled to a nested module.",
        _property(
            "definition",
            StringType(),
            "Which of the document's graphs this node shows; its Input and Output nodes are the ports.",
        ),
        *MODULE_PROPERTIES,
    ),
    _spec(
        "Module",
        "An imported module kept as it is, because its inside cannot be drawn.",
        _property(
            "target",
            StringType(),
            "Qualified name of the imported class, for reading only: it is never imported by this name.",
            "",
        ),
        _property("inputs", _NAMES, "Names of the call's arguments.", ("input",)),
        _property("outputs", _NAMES, "Names of the results.", ("output",)),
        _property(
            "definition",
            OptionalType(StringType()),
            "Which of the document's graphs holds what is inside, by name: layers and blocks that can be edited. The "
            "module's own code calls them, so there are no edges between them. None: the inside is closed.",
            None,
        ),
        *MODULE_PROPERTIES,
    ),
)
"""Specs of the structural types, which every registry starts with."""
