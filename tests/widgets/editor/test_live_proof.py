"""An editor of a module: it shows the drawing at once, and proves it while nothing else is to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.importing.importer import UnprovedImport
from pnne_nb.compiler.importing.verification import proof
from pnne_nb.compiler.importing.verification.bisect import ImportFault, find_fault
from pnne_nb.graph.model.ops import SetProperty
from pnne_nb.protocol import messages
from pnne_nb.protocol.export_messages import StartExport

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.drop(torch.relu(self.fc(x))))
        return out


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = Block(), Block(5), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.second(self.first(x)))
        return out


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for editor in pn.GraphEditor.opened():
        editor.close()


def in_a_cell(work: Callable[[], pn.GraphEditor], then: Callable[[pn.GraphEditor], None]) -> pn.GraphEditor:
    """Make an editor as a cell does, do something before the proof, and let the kernel do the rest."""

    async def kernel() -> pn.GraphEditor:
        editor = work()
        assert editor.unproved.startswith("Being proved")
        then(editor)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not editor.unproved
        return editor

    return asyncio.run(kernel())


def closing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the proof find that one part differs as long as it is open."""

    def differing(graph: pn.NodeGraph, *args: Any, **kwargs: Any) -> Generator[None, None, ImportFault | None]:
        yield
        if graph[path].type == "Subgraph":
            return ImportFault(path, "it computes something else")
        return (yield from find_fault(graph, *args, **kwargs))

    monkeypatch.setattr(proof, "find_fault", differing)


def edit(editor: pn.GraphEditor, node: str, name: str, value: object) -> None:
    """Change a property as a page does."""
    block, _, own = node.rpartition(".")
    graph = str(editor._graph[block].definition) if block else ""
    editor._views.receive(
        None,
        {
            "message": "edit", "id": 1, "client": "page", "base": editor._graph.version,
            "ops": [{"op": "setProperty", "node": own, "property": name, "value": value, "graph": graph}],
        },
        None,
    )  # fmt: skip


def kind(graph: pn.NodeGraph, node: str) -> str:
    return graph[node].type


def proof_of(graph: pn.NodeGraph, node: str) -> str:
    origin = graph[node].origin
    return "" if origin is None else origin.proof


def reason_of(graph: pn.NodeGraph, node: str) -> str:
    origin = graph[node].origin
    return "" if origin is None else origin.reason


def text(editor: pn.GraphEditor) -> str:
    found: str = editor.unproved
    return found


def proofs(graph: pn.NodeGraph) -> set[str]:
    return {
        node.origin.proof
        for each in graph.graphs.values()
        for node in each.nodes.values()
        if node.origin is not None and node.type not in ("Input", "Output")
    }


def test_the_drawing_is_there_before_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counting(*args: Any, **kwargs: Any) -> Generator[None, None, ImportFault | None]:
        compared.append("once")
        return (yield from find_fault(*args, **kwargs))

    monkeypatch.setattr(proof, "find_fault", counting)
    net = Net().eval()
    before = {name: each.clone() for name, each in net.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)

    def seen(editor: pn.GraphEditor) -> None:
        assert "first.fc" in editor._graph
        assert compared == []

    editor = in_a_cell(lambda: pn.GraphEditor(net, args=(X,)), seen)
    assert compared
    assert proofs(editor.graph) == {"equal"}
    assert torch.equal(torch.rand(2), expected)
    assert not net.training
    assert all(each.grad is None for each in net.parameters())
    assert all(torch.equal(before[name], each) for name, each in net.state_dict().items())
    assert editor.model is not None
    assert torch.equal(editor.model.eval()(X), net(X))


def test_what_a_cell_does_to_the_module_meanwhile_does_not_matter() -> None:
    net, x = Net(), X.clone()

    def train(_: pn.GraphEditor) -> None:
        with torch.no_grad():
            for each in net.parameters():
                each.add_(1.0)
        x.fill_(float("nan"))
        net.eval()

    editor = in_a_cell(lambda: pn.GraphEditor(net, args=(x,)), train)
    assert proofs(editor.graph) == {"equal"}
    assert editor.model is not None
    assert torch.equal(editor.model.eval()(X), net(X)), "it has the weights of the module, not of the copy"


def test_python_waits_for_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    closing("second", monkeypatch)

    def ask(editor: pn.GraphEditor) -> None:
        assert kind(editor._graph, "second") == "Subgraph"
        assert kind(editor.graph, "second") == "Module"
        assert editor.unproved == ""

    in_a_cell(lambda: pn.GraphEditor(Net(), args=(X,)), ask)


def test_in_a_script_it_is_proved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    closing("second", monkeypatch)
    editor = pn.GraphEditor(Net(), args=(X,))
    assert editor.unproved == ""
    assert editor._graph["second"].type == "Module"


def test_what_the_proof_closes_changes_beneath_the_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    closing("second", monkeypatch)
    net = Net()

    def change(editor: pn.GraphEditor) -> None:
        edit(editor, "first.drop", "p", 0.5)
        editor._graph.rename("last", "head")
        editor._graph.move("second", 10, 20)

    editor = in_a_cell(lambda: pn.GraphEditor(net, args=(X,)), change)
    graph = editor.graph
    assert graph["second"].type == "Module"
    assert tuple(graph["second"].position or ()) == (10.0, 20.0)
    assert "it computes something else" in reason_of(graph, "second")
    assert graph["first.drop"].properties["p"] == 0.5
    assert proof_of(graph, "first") == "edited"
    assert editor.model is not None
    assert torch.equal(editor.model.eval()(X), net.eval()(X)), "renamed nodes keep their weights"
    for _ in range(3):
        graph.undo()
    assert graph.undo_label is None, "what the proof does cannot be undone"
    assert graph == pn.from_module(net, X)


def test_where_an_edit_does_not_fit_the_node_says_that_it_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    closing("second", monkeypatch)
    editor = in_a_cell(lambda: pn.GraphEditor(Net(), args=(X,)), lambda editor: edit(editor, "second.drop", "p", 0.5))
    graph = editor.graph
    assert graph["second.drop"].properties["p"] == 0.5
    assert proof_of(graph, "first") == "equal"
    graph.undo()
    assert proof_of(graph, "second") == "edited", "undo brings no proof back that there never was"
    assert "edits are in the way" in reason_of(graph, "second")
    assert "not all of this is proved: edits are in the way" in graph.import_report.headline


def test_a_proof_that_raises_leaves_a_drawing_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: Any, **__: Any) -> Any:
        yield from ()
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr("pnne_nb.compiler.importing.importer.proof", raising)
    editor = in_a_cell(lambda: pn.GraphEditor(Net(), args=(X,)), lambda _: None)
    assert proofs(editor.graph) == {"edited"}
    assert "nothing of this is proved: comparing it with the original failed: no luck" in repr(
        editor.graph.import_report
    )


def test_an_interrupt_ends_a_piece_and_the_proof_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = iter([True])

    def interrupted(*args: Any, **kwargs: Any) -> Generator[None, None, ImportFault | None]:
        yield
        if next(interrupts, False):
            raise KeyboardInterrupt
        return (yield from find_fault(*args, **kwargs))

    monkeypatch.setattr(proof, "find_fault", interrupted)

    def ask(editor: pn.GraphEditor) -> None:
        with pytest.raises(KeyboardInterrupt):
            _ = editor.graph
        assert editor.unproved

    editor = in_a_cell(lambda: pn.GraphEditor(Net(), args=(X,)), ask)
    assert proofs(editor.graph) == {"equal"}


def test_a_closed_editor_proves_no_more_until_it_is_asked() -> None:
    async def kernel() -> pn.GraphEditor:
        editor = pn.GraphEditor(Net(), args=(X,))
        editor.close()
        for _ in range(100):
            await asyncio.sleep(0)
        return editor

    editor = asyncio.run(kernel())
    assert text(editor)
    assert proofs(editor.graph) == {"equal"}
    assert not text(editor)


def test_a_module_whose_copies_refer_to_it_is_proved_before_it_is_shown() -> None:
    net = Net()
    net.first.register_forward_hook(lambda *_: None)
    drawn = UnprovedImport(net, X)
    assert drawn.is_proved
    assert not UnprovedImport(Net(), X).is_proved


@pytest.mark.parametrize(
    "request_", [StartExport(1, "page", "onnx", "net.onnx"), messages.Publish(1, "page", "first", "first")]
)
def test_a_page_is_told_to_wait(request_: messages.Request) -> None:
    def ask(editor: pn.GraphEditor) -> None:
        with pytest.raises(pn.GraphError, match=r"still being compared with the original.*editor\.graph"):
            editor._answer(request_)

    in_a_cell(lambda: pn.GraphEditor(Net(), args=(X,)), ask)


def test_a_document_begins_again_only_where_its_changes_fit() -> None:
    graph, other = pn.from_module(Net(), X), pn.from_module(Net(), X)
    other.remove("last")
    graph.set("last", bias=False)
    before, version = graph.to_json(), graph.version
    assert not graph.begin_as(other)
    assert (graph.to_json(), graph.version) == (before, version)
    graph.undo()
    assert graph.begin_as(other)
    assert "last" not in graph
    assert graph.undo_label is None


def test_a_withdrawn_proof_stays_withdrawn() -> None:
    graph = pn.from_module(Net(), X)
    graph.apply([SetProperty("last", "bias", value=False)])
    graph.withdraw_proofs("it was not compared")
    graph.undo()
    assert proofs(graph) == {"edited"}
    assert reason_of(graph, "last") == "it was not compared"
