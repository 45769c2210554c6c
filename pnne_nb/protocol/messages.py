"""The messages between an editor view in the browser and its `NodeGraph` in Python.

One gesture is one `Edit`; Python answers it with one `Committed` (sent to every view) or one
`Rejected` (sent to the view that asked). Every request carries an id and a client, and every answer
returns them. Python is the authority: versions rise by one per commit, and a view that misses one
asks to `Sync`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from pnne_nb.errors import Diagnostic
from pnne_nb.graph.layout.layered import Direction
from pnne_nb.graph.model.ops import Op
from pnne_nb.graph.schema.categories import Category
from pnne_nb.graph.schema.property_types import PropertyType
from pnne_nb.graph.schema.spec import NodeKind, Port
from pnne_nb.graph.storage import DocumentState
from pnne_nb.protocol.base_message import Answer as _Answer
from pnne_nb.protocol.base_message import Message as _Message
from pnne_nb.protocol.base_message import ViewRequest as _Request
from pnne_nb.protocol.export_messages import ExportEvent, ExportRequest
from pnne_nb.protocol.train_messages import TrainEvent, TrainRequest

# From the browser


class Edit(_Request, frozen=True, tag="edit"):
    """Apply `ops`, made against version `base`, as one undoable transaction."""

    base: int
    ops: tuple[Op, ...]
    label: str = ""


class Undo(_Request, frozen=True, tag="undo"):
    """Undo the last transaction, of whatever client."""


class Redo(_Request, frozen=True, tag="redo"):
    """Redo the transaction that was undone last."""


class Arrange(_Request, frozen=True, tag="arrange"):
    """Lay out one graph, or some of its nodes, as one transaction.

    With `values`, sizes, constants and steps of an expression are cards, and not written on those that use them. `first`
    says that nobody asked for it: the graph is seen for the first time, and Undo passes over it. `cell` is the width and
    height of the view in pixels, `folded` the rows of nodes that it shows as one card each.
    """

    graph: str = ""
    direction: Direction = "down"
    values: bool = False
    first: bool = False
    cell: tuple[float, float] | None = None
    nodes: tuple[str, ...] = ()
    folded: tuple[tuple[str, ...], ...] = ()


class Group(_Request, frozen=True, tag="group"):
    """Move nodes of one graph into a nested graph, as one transaction; numbered if `name` is None."""

    nodes: tuple[str, ...]
    name: str | None = None
    graph: str = ""


class Ungroup(_Request, frozen=True, tag="ungroup"):
    """Replace a Subgraph node by its contents, as one transaction."""

    node: str
    graph: str = ""


class Sync(_Request, frozen=True, tag="sync"):
    """Send a `Snapshot` to this view, which has the document at `version`; None: it has none."""

    version: int | None = None


class GetCatalog(_Request, frozen=True, tag="getCatalog"):
    """Send the `Catalog` to this view."""


class GetSource(_Request, frozen=True, tag="getSource"):
    """Send the generated PyTorch source, as `Source`."""


class GetSteps(_Request, frozen=True, tag="getSteps"):
    """Send the labels of what can be undone and redone, as `Steps`, to this view."""


class GetBundle(_Request, frozen=True, tag="getBundle"):
    """Send the editor's front end as `Bundle`, to a page that has not loaded it."""


class GetPreview(_Request, frozen=True, tag="getPreview"):
    """Send the effect of an edge between two ports, given by their paths, as `Preview`, without a change."""

    source: str
    target: str


class RunToHere(_Request, frozen=True, tag="runToHere"):
    """Run one example up to an output port, given by its path, and send its value as `SeenTensor`."""

    port: str


class Painted(_Request, frozen=True, tag="painted"):
    """Update number `tick` of a training has been painted, so that the next one may be sent. Not answered."""

    tick: int


class HideTraining(_Request, frozen=True, tag="hideTraining"):
    """Stop measuring and showing a training; answered by an empty `Training` to every view."""


class Publish(_Request, frozen=True, tag="publish"):
    """Publish the contents of a Subgraph node as a block in every palette; `node` is its path from the root."""

    node: str
    name: str


class Unpublish(_Request, frozen=True, tag="unpublish"):
    """Remove a block from the palettes."""

    name: str


class LoadBlocks(_Request, frozen=True, tag="loadBlocks"):
    """Add the blocks of a graph file to the palettes; `text` is the contents of the file."""

    text: str


Request: TypeAlias = (
    Edit | Undo | Redo | Arrange | Group | Ungroup | Publish | Unpublish | LoadBlocks | Sync | GetCatalog | GetSource
    | GetBundle | GetPreview | RunToHere | GetSteps
    | Painted | HideTraining
    | ExportRequest | TrainRequest
)  # fmt: skip


# To the browser


class TensorShape(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The shape of an edge's tensor: sizes (numbers, or expressions such as ``"N"`` and ``"H//2"``) and a dtype name.

    Attributes:
        shape: As it is for the example where the document is an import.
        dtype: Name of the element type.
        named: With names for the sizes that the proof of the import varied, ``~16`` for one that follows in an unknown way.
    """

    shape: tuple[int | str, ...]
    dtype: str
    named: tuple[int | str, ...] | None = None


class NodeCost(msgspec.Struct, frozen=True, rename="camel"):
    """The cost of one node, inner nodes included.

    Attributes:
        parameters: Elements of its parameters; shared ones count at the node that has them.
        mult_adds: Multiply-adds of a forward pass: matrix products, convolutions and attention.
        memory: Bytes of its parameters and buffers.
        activation: Bytes of its outputs; for a container, of the outputs of its nodes.
    """

    parameters: int
    mult_adds: int
    memory: int
    activation: int


class Derived(msgspec.Struct, frozen=True, rename="camel"):
    """Python's analysis of the document; as a delta, only the changes.

    Attributes:
        shapes: By output port path (``"block.conv1.output"``); None takes the entry away.
        resolved: Values inferred for properties left ``"auto"``, by node path, in JSON form; None takes
            the entry away.
        diagnostics: By node path (``""``: the whole graph), replacing that node's earlier ones.
        costs: Costs of nodes by path; None removes the entry.
        example: The symbolic sizes that the costs are for, the batch's being 1; None if they are as before.
    """

    shapes: dict[str, TensorShape | None] = {}
    resolved: dict[str, dict[str, object] | None] = {}
    diagnostics: dict[str, tuple[Diagnostic, ...]] = {}
    costs: dict[str, NodeCost | None] = {}
    example: dict[str, int] | None = None


class Consequence(msgspec.Struct, frozen=True, rename="camel"):
    """The effect of an edge.

    Attributes:
        shape: Shape of its target's output, or at an Output of its input; None if unknown.
        diagnostics: Findings that the edge would cause.
    """

    shape: TensorShape | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


class HistoryState(msgspec.Struct, frozen=True, rename="camel"):
    """Labels of the next undo and redo; None if there is nothing to undo or redo."""

    undo: str | None = None
    redo: str | None = None


class Steps(_Answer, frozen=True, tag="steps"):
    """Answer to `GetSteps`: labels in the order in which it was done.

    Attributes:
        done: Steps that undo would revert, the latest first.
        undone: Steps that redo would apply, the next first.
        earlier: Number of earlier steps that `done` leaves out.
    """

    done: tuple[str, ...]
    undone: tuple[str, ...]
    earlier: int = 0


class Committed(_Message, frozen=True, tag="committed"):
    """A transaction was committed; `id` and `client` are those of the request, if one asked for it."""

    version: int
    ops: tuple[Op, ...]
    label: str
    history: HistoryState
    client: str | None = None
    id: int | None = None


class Rejected(_Message, frozen=True, tag="rejected"):
    """A request was refused; the document is as it was at `version`."""

    id: int | None
    client: str | None
    version: int
    error: str
    diagnostics: tuple[Diagnostic, ...] = ()


class DerivedChanged(_Message, frozen=True, tag="derivedChanged"):
    """A delta of `Derived` for the document at `version`; `more` says that another piece of it follows."""

    version: int
    derived: Derived
    more: bool = False


class Snapshot(_Message, frozen=True, tag="snapshot"):
    """The full state, for a view that opens or has missed a commit; without the document if the view has this version.

    The document is the JSON text of a `DocumentState`: ipywidgets looks at each value of a message, one by one.
    """

    version: int
    document: str | None
    derived: Derived
    history: HistoryState
    id: int | None = None
    client: str | None = None


class PropertyState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A property for the browser; `default` in JSON form, absent when required."""

    name: str
    type: PropertyType
    required: bool = False
    default: object = None
    role: Literal["init", "call", "node"] = "init"
    doc: str = ""


class _TypeState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    type: str
    kind: NodeKind
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    doc: str = ""
    url: str = ""


class NodeTypeState(_TypeState, frozen=True, kw_only=True):
    """A node type for the browser."""

    category: Category
    properties: tuple[PropertyState, ...] = ()


class CatalogEntry(_TypeState, frozen=True, kw_only=True):
    """A node type in a `Catalog`.

    Attributes:
        category: Place in the catalogue's list of categories.
        properties: Places in the catalogue's list of properties.
    """

    category: int
    properties: tuple[int, ...] = ()


class Catalog(_Message, frozen=True, tag="catalog"):
    """Every node type; `key` changes with the contents, so that a page loads it once.

    Attributes:
        categories: Of all types, each once, in the order of their first types.
        properties: Of all types, each once: many types have the same ones, and the list is half of the message.
        templates: Networks to begin with: the Subgraph nodes of a document's outermost graph.
    """

    key: str
    categories: tuple[Category, ...]
    properties: tuple[PropertyState, ...]
    types: tuple[CatalogEntry, ...]
    templates: DocumentState
    id: int | None = None
    client: str | None = None


class NodeTypeAdded(_Message, frozen=True, tag="nodeTypeAdded"):
    """A type was registered while the editor is open."""

    type: NodeTypeState


class Blocks(_Message, frozen=True, tag="blocks"):
    """The blocks that the palette offers: the Subgraph nodes of a document's outermost graph."""

    document: DocumentState
    id: int | None = None
    client: str | None = None


class SourceLines(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The places of nodes in one class of the source: `lines` from 1 by name, and `members`, the classes of its blocks."""

    lines: dict[str, tuple[int, ...]]
    members: dict[str, str] = {}


class Source(_Answer, frozen=True, tag="source"):
    """Generated source of the model, with the lines of its nodes; the class of the whole graph is ``""``.

    `error` says what is wrong with the graph, and whether nodes are missing in the source.
    """

    text: str
    classes: dict[str, SourceLines] = {}
    error: str = ""


class Bundle(_Answer, frozen=True, tag="bundle"):
    """Answer to `GetBundle`: a JavaScript module."""

    text: str


class Preview(_Answer, frozen=True, tag="preview"):
    """Answer to `GetPreview`."""

    consequence: Consequence


class ValueHistogram(msgspec.Struct, frozen=True, rename="camel"):
    """A histogram: counts in equally wide bins from `low` to `high`, without the `left_out` values, such as infinite ones."""

    low: float
    high: float
    counts: tuple[int, ...]
    left_out: int = 0


class SeenTensor(_Answer, frozen=True, tag="seenTensor"):
    """Answer to `RunToHere`: a port's value for one example.

    Attributes:
        version: Of the document that has been run.
        shape: Of the tensor; None if it is something else, which `text` says.
        dtype: Its element type, or the type of what is no tensor.
        text: The values, where they are few.
        facts: The example, and which weights are not those of a model, as sentences.
        statistics: By name, in the order in which they are shown; of a large tensor, of an even sample.
        histogram: How its values are spread; None if there are none.
        picture: A ``data:`` address, where the tensor can be seen as a picture; else empty.
        caption: What it shows.
    """

    version: int
    shape: tuple[int, ...] | None
    dtype: str
    text: str
    facts: tuple[str, ...]
    statistics: dict[str, float] = {}
    histogram: ValueHistogram | None = None
    picture: str = ""
    caption: str = ""


class LayerFault(msgspec.Struct, frozen=True, rename="camel"):
    """A fault of a layer in training: a stable name, and the observation with numbers."""

    kind: Literal["notFinite", "exploding", "vanishing", "dead", "saturated"]
    reason: str


class LayerState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A layer's measurements in the latest observed step of a training; None if unknown or not finite.

    Attributes:
        mean: Of its output.
        std: Of its output.
        zeros: Share of its output's elements that are 0.
        weights: Norm of the gradient of its own parameters.
        flow: Norm of the gradient that comes back through its first output.
        fault: What is wrong with it over the last observations.
    """

    mean: float | None = None
    std: float | None = None
    zeros: float | None = None
    weights: float | None = None
    flow: float | None = None
    fault: LayerFault | None = None


class Training(_Message, frozen=True, tag="training"):
    """The state of this graph's training, as update number `tick`; without layers, only its pictures are shown.

    Attributes:
        step: The latest observed step.
        layers: By node path.
        pictures: What nodes give, as the address of a PNG, by node path; they stay after the training.
    """

    tick: int
    step: int = 0
    layers: dict[str, LayerState] = {}
    pictures: dict[str, str] = {}


class NodeMark(msgspec.Struct, frozen=True, rename="camel"):
    """The mark on a node's card.

    Attributes:
        text: A few characters under the card.
        level: The colour of the card's edge: from good to bad; ``"plain"`` has none.
        title: The tooltip of the text, which a screen reader also says.
    """

    text: str
    level: Literal["plain", "good", "near", "warning", "bad"] = "plain"
    title: str = ""


class Marks(_Message, frozen=True, tag="marks"):
    """The marks of all nodes that have one, by path."""

    marks: dict[str, NodeMark] = {}


Event: TypeAlias = (
    Committed | Rejected | DerivedChanged | Snapshot | Catalog | NodeTypeAdded | Blocks | Source | Steps | Bundle | Preview
    | SeenTensor | Training | Marks
    | ExportEvent | TrainEvent
)  # fmt: skip
