"""A kernel without Jupyter: a real document behind the editor's protocol, for fast tests in a plain page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, assert_never, final

import msgspec

from pnne_nb.errors import Diagnostic, GraphError, PnneError
from pnne_nb.graph.block_library import blocks
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Transaction
from pnne_nb.graph.schema.registry import registry
from pnne_nb.protocol import export_messages, messages
from pnne_nb.protocol.codec import catalog_event, decode_request, document_text, encode_event, view_of
from pnne_nb.protocol.train_messages import ControlTraining, GetTrainChoices, StartTraining

SHAPE = messages.TensorShape(shape=("N", 6, 24, 24), dtype="float32")
"""What every output of the tests' documents is said to carry: the tests are about the browser, not about shapes."""

FORMATS = (
    export_messages.ExportFormatState("onnx", ".onnx"),
    export_messages.ExportFormatState(
        "aoti", ".aoti.pt2", note="Writing takes a minute or more, because a compiler runs."
    ),
    export_messages.ExportFormatState(
        "executorch", ".pte", missing="The format 'executorch' needs executorch, which is not installed."
    ),
)
"""What the tests' kernel exports to."""

SEEN = messages.SeenTensor(
    0,
    "",
    0,
    (3, 6, 24, 24),
    "float32",
    "",
    ("A made-up example of the shapes that the Inputs have, in eval mode.",),
    {"mean": 0.012, "std": 0.98, "min": -3.1, "max": 3.4, "zeros": 0.25},
    messages.ValueHistogram(-3.1, 3.4, (1, 4, 9, 20, 32, 18, 8, 3, 1)),
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAIAAABvrngfAAAAXElEQVR4nF3MEQIAIBAEwOU4juM4juM4juM4Po7jOI7jOI6jvHnAAICU0lobYyyljDHAGFNKOedSSrXWOSc451pr733OubW21oIQwhgTQiCi3vve+4/OOfiie+8DQXI0vZUC9vQAAAAASUVORK5CYII=",
    "The first example, 6 channels",
)
"""What every port of the tests' documents is said to give."""

COST = messages.NodeCost(parameters=1_200, mult_adds=86_400, memory=4_800, activation=13_824)
"""What every node is said to cost, for one example."""


V = TypeVar("V")


@final
class Kernel:
    """Answers the editor's messages for one document.

    Args:
        graph: The document.
        busy: While true, nothing is answered, as when a cell is running.
    """

    def __init__(self, graph: NodeGraph, *, busy: bool = False) -> None:
        self.graph = graph
        self.busy = busy
        self.received: list[Mapping[str, Any]] = []
        self.extra: list[Diagnostic] = []
        self.foreseen: list[Diagnostic] = []
        self._outbox: list[messages.Event] = []
        self._request: tuple[int | None, str | None] = (None, None)
        self._diagnosed: set[str] = set()
        self._told = messages.Derived()
        graph.observe(self._committed)

    def snapshot(self, id: int | None = None, client: str | None = None, known: int | None = None) -> messages.Snapshot:
        """Everything, as an opening view gets it; `known` is the version that it has."""
        state = None if known == self.graph.version else document_text(self.graph.state())
        return messages.Snapshot(self.graph.version, state, self._derived(), self._history(), id, client)

    def receive(self, content: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Carry out a message; return the messages that answer it."""
        self.received.append(content)
        if self.busy:
            return []
        self._request = (content["id"], content["client"])
        try:
            self._carry_out(content)
        except PnneError as error:
            self._outbox.append(messages.Rejected(*self._request, self.graph.version, str(error), error.diagnostics))
        self._request = (None, None)
        return self.pending()

    def show(self, event: messages.Training | export_messages.ExportState | export_messages.ExportCheck) -> None:
        """Have a picture of a training, or how an export or its check stands, sent."""
        self._outbox.append(event)

    def pending(self) -> list[dict[str, Any]]:
        """Return the messages that have not been sent yet, such as what Python's own edits made."""
        events, self._outbox = self._outbox, []
        return [encode_event(event) for event in events]

    def _carry_out(self, content: Mapping[str, Any]) -> None:  # noqa: C901,PLR0912,PLR0915  one case for each request
        request = decode_request(content)
        version = self.graph.version
        match request:
            case messages.Edit(ops=ops, label=label, base=base):
                self.graph.apply(ops, label=label, base=base)
            case messages.Undo():
                self.graph.undo()
            case messages.Redo():
                self.graph.redo()
            case messages.GetPreview(target=target):
                problem = [each for each in self.foreseen if each.node == target.rpartition(".")[0]]
                found = messages.Consequence(None if problem else SHAPE, tuple(problem))
                self._outbox.append(messages.Preview(request.id, request.client, found))
            case messages.RunToHere(port=port):
                if port.startswith("y."):
                    raise GraphError("There is no example to run. Give every Input a shape.")
                self._outbox.append(
                    msgspec.structs.replace(SEEN, id=request.id, client=request.client, version=version)
                )
            case messages.GetSteps():
                self._outbox.append(messages.Steps(request.id, request.client, *self.graph.step_labels()))
            case messages.GetBundle():
                raise AssertionError("The page loads the editor itself.")
            case messages.Painted():
                pass
            case messages.HideTraining():
                self._outbox.append(messages.Training(0))
            case export_messages.GetExportFormats():
                weights = "The weights are those of the training."
                self._outbox.append(
                    export_messages.ExportFormats(request.id, request.client, FORMATS, "/home/me", weights)
                )
            case export_messages.StartExport(format=format, path=path, overwrite=overwrite):
                if not overwrite and path == "there.onnx":
                    raise GraphError("'there.onnx' exists already.")
                self._outbox.append(
                    export_messages.ExportState("running", format, path, id=request.id, client=request.client)
                )
            case export_messages.CancelExport():
                self._outbox.append(export_messages.ExportState("cancelled", id=request.id, client=request.client))
            case export_messages.WatchExport(format=format):
                state: Literal["checking", "off"] = "checking" if format else "off"
                self._outbox.append(export_messages.ExportCheck(state, format, id=request.id, client=request.client))
            case messages.Arrange(graph=graph, direction=direction, nodes=nodes, values=values, first=first):
                view = view_of(request)
                self.graph.arrange(
                    graph, direction=direction, nodes=nodes, values=values, undoable=not first, view=view
                )
            case messages.Group(nodes=nodes, name=name, graph=graph):
                self.graph.group(nodes, name, graph=graph)
            case messages.Ungroup(node=node, graph=graph):
                self.graph.ungroup(node, graph=graph)
            case messages.Sync(version=known):
                self._outbox.append(self.snapshot(request.id, request.client, known))
                if blocks:
                    self._outbox.append(messages.Blocks(blocks.graph.state()))
            case messages.GetCatalog():
                self._outbox.append(catalog_event(registry.values(), request.id, request.client))
            case messages.Publish(node=node, name=name):
                blocks.publish(self.graph, node, name)
            case messages.Unpublish(name=name):
                blocks.remove(name)
            case messages.LoadBlocks(text=text):
                blocks.load_text(text)
            case messages.GetSource():
                if any(diagnostic.severity == "error" for diagnostic in self.graph.diagnostics()):
                    raise GraphError("The graph has errors; its source can be shown once they are gone.")
                lines = {"": messages.SourceLines(dict.fromkeys(self.graph.nodes, (2,)))}
                self._outbox.append(
                    messages.Source(request.id, request.client, "class Net(nn.Module):\n    ...\n", lines)
                )
            case GetTrainChoices() | StartTraining() | ControlTraining():
                raise GraphError("This kernel trains nothing.")
            case _:
                assert_never(request)
        if isinstance(request, (messages.Publish, messages.Unpublish, messages.LoadBlocks)):
            self._outbox.append(messages.Blocks(blocks.graph.state(), request.id, request.client))
        if isinstance(request, messages.Arrange) and version == self.graph.version:
            self._outbox.append(messages.Committed(version, (), "Arrange", self._history(), request.client, request.id))

    def _committed(self, transaction: Transaction) -> None:
        id, client = self._request
        self._outbox.append(
            messages.Committed(transaction.version, transaction.ops, transaction.label, self._history(), client, id)
        )
        before, now = self._told, self._derived()
        # As Python does it: what follows from the change, and not all once more.
        delta = messages.Derived(
            shapes=_changed(before.shapes, now.shapes),
            diagnostics=_changed(before.diagnostics, now.diagnostics),
            costs=_changed(before.costs, now.costs),
            example=now.example,
        )
        self._outbox.append(messages.DerivedChanged(transaction.version, delta))

    def _history(self) -> messages.HistoryState:
        return messages.HistoryState(self.graph.undo_label, self.graph.redo_label)

    def _derived(self) -> messages.Derived:
        found: dict[str, list[Diagnostic]] = {path: [] for path in self._diagnosed}
        for diagnostic in [*self.graph.diagnostics(), *self.extra]:
            found.setdefault(diagnostic.node or "", []).append(diagnostic)
        self._diagnosed = set(found)
        shapes: dict[str, messages.TensorShape | None] = {edge.source: SHAPE for edge in self.graph.edges}
        self._told = messages.Derived(
            shapes=shapes,
            diagnostics={path: tuple(items) for path, items in found.items()},
            costs=dict.fromkeys(self.graph.nodes, COST),
            example={"N": 1},
        )
        return self._told


def _changed(before: Mapping[str, V], now: Mapping[str, V]) -> dict[str, V]:
    return {key: value for key, value in now.items() if before.get(key) != value}


def to_json(event: messages.Event) -> str:
    """The text of a message, to hand to a page."""
    return msgspec.json.encode(encode_event(event)).decode()
