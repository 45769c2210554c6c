"""Reads a document: its nodes, diagnostics, picture and file, and observers of its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from msgspec.structs import replace

from pnne_nb.errors import (
    AnswersNames,
    ArgumentError,
    Diagnostic,
    GraphError,
    answers_misuse,
    expect,
    no_attribute,
    require_settable,
    shown,
)
from pnne_nb.graph import storage
from pnne_nb.graph.edits.bulk import matching
from pnne_nb.graph.edits.transactions import Observer, Step, TransactionLog
from pnne_nb.graph.layout.arrange_graph import arrangement
from pnne_nb.graph.layout.cards import NONE_RESOLVED, Resolved
from pnne_nb.graph.model.annex import Annex
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.lint import lint, lint_at
from pnne_nb.graph.model.node import Edge, Node
from pnne_nb.graph.model.ops import ChangeFrame, MoveNode
from pnne_nb.graph.model.paths import find_node, frozen_around, paths_in
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.model.views import Graphs, Nodes
from pnne_nb.graph.render.html import figure, lines
from pnne_nb.graph.render.import_report import ImportReport, import_report
from pnne_nb.graph.render.scene import NO_SHAPES, Scene, Shapes
from pnne_nb.graph.render.scene import scene as scene_of
from pnne_nb.graph.render.svg import ThemeName, describe, svg
from pnne_nb.graph.schema.analysis_hook import installed
from pnne_nb.graph.schema.habits import METHODS, SETTINGS
from pnne_nb.graph.sizes import Sizes
from pnne_nb.graph.storage import DocumentState, replace_file


class GraphQueries(metaclass=AnswersNames):
    """The half of a `NodeGraph` that changes nothing.

    Attributes:
        nodes: The nodes of the root by name, in their order.
        graphs: Every graph by id, the root (``""``) first.
        sizes: Named sizes, which any number may be calculated from.
    """

    graphs: Graphs
    nodes: Nodes
    sizes: Sizes

    _elsewhere = METHODS

    def __init__(self, ledger: TransactionLog, types: Types) -> None:
        self._ledger = ledger
        self._types = types
        self._annex: Annex | None = None
        self._tables: Path | None = None
        self.graphs = Graphs(lambda: ledger.content, types, ledger.lock)
        self.sizes = Sizes(ledger)
        self.nodes = Nodes(lambda: ledger.content.graphs[""], ledger.lock)

    @property
    def annex(self) -> Annex | None:
        """What is kept beside the document; copies of the document get their own."""
        return self._annex

    @annex.setter
    def annex(self, annex: Annex) -> None:
        self._annex = annex

    @property
    def tables(self) -> Path | None:
        """The file with large fixed tables, beside the graph file that the document was loaded from or saved to."""
        return self._tables

    @tables.setter
    def tables(self, path: Path | None) -> None:
        self._tables = path

    @property
    def version(self) -> int:
        """Rises by one with every committed change, undo and redo included."""
        return self._ledger.version

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of the root, as pairs (source, target) of ``"node.port"``."""
        return self.graphs[""].edges

    @property
    def in_transaction(self) -> bool:
        """Whether the calling thread is inside a `transaction`."""
        return self._ledger.in_transaction

    @property
    def undo_label(self) -> str | None:
        """Label of the change that `undo` would revert, or None."""
        with self._ledger.lock:
            return self._ledger.undo_label

    @property
    def redo_label(self) -> str | None:
        """Label of the change that `redo` would apply, or None."""
        with self._ledger.lock:
            return self._ledger.redo_label

    def find(self, pattern: str = "*", /, *, type: str | None = None, inside: bool = True) -> list[str]:
        """Return the paths of nodes, in the order of the document.

        Args:
            pattern: A path in which ``*`` stands for any letters and dots, and ``?`` for one letter.
            type: The type of the nodes, as in the catalogue; None for any.
            inside: Whether nodes inside blocks count.

        Raises:
            ArgumentError: `pattern` is no path, but a type of nodes that are there.
        """
        expect(pattern, str, "pattern", "a path in which * stands for any letters", 'Write graph.find("layer*.relu").')
        with self._ledger.lock:
            found = matching(self._content, pattern, type, inside=inside)
            if not found and type is None and matching(self._content, "*", pattern, inside=True):
                raise ArgumentError(
                    f"{pattern!r} is no path of a node, but a type. Write graph.find(type={pattern!r})."
                )
            return found

    def step_labels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the labels of the changes that `undo` and `redo` can reach, each in the order of the changes."""
        with self._ledger.lock:
            done, undone = self._ledger.done, reversed(self._ledger.undone)
            return tuple(step.label for step in done), tuple(step.label for step in undone)

    def __getitem__(self, path: str) -> Node:
        """Return the node at a path.

        Raises:
            UnknownNodeError: If there is none.
        """
        return self._at(path)

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __getattr__(self, name: str) -> Node:
            """Return the node of that name: ``graph.fc`` is ``graph["fc"]``, so that ``hasattr(graph, "fc")`` tells the truth."""
            if "_ledger" in vars(self) and name in self:
                return self[name]
            raise no_attribute(self, name, METHODS)

    def __setattr__(self, name: str, value: object) -> None:
        layer = (
            {}
            if isinstance(value, str) or not hasattr(value, "forward")
            else {name: f'graph.add(layer, name="{name}")'}
        )
        own = {name: f'graph.set("{name}", type=layer)'} if layer and name in self else layer
        require_settable(self, name, SETTINGS | own)
        super().__setattr__(name, value)

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse ``graph(x)``: a document is no module."""
        raise TypeError("A graph is no module. Write model = pn.compile(graph), then model(x).")

    def __sub__(self, other: object) -> NoReturn:
        """Refuse ``graph - other``."""
        raise TypeError("Write pn.diff(graph, other) for what two graphs differ in.")

    def __setitem__(self, name: str, value: object) -> NoReturn:
        """Refuse ``graph["act"] = nn.ReLU()``."""
        raise TypeError(
            f'A graph takes no assignment. Write graph.add(nn.ReLU(), name="{name}"), or graph.set("{name}", ...).'
        )

    def __delattr__(self, name: str) -> None:
        """Refuse ``del graph.act``."""
        raise AttributeError(f'Write graph.remove("{name}").')

    def __delitem__(self, name: str) -> NoReturn:
        """Refuse ``del graph["act"]``."""
        raise TypeError(f'Write graph.remove("{name}").')

    def __rshift__(self, other: object) -> NoReturn:
        """Refuse ``graph >> nn.ReLU()``."""
        raise TypeError('Write graph.chain(nn.ReLU()), which appends to the end, or graph.connect("a", "b").')

    def __contains__(self, path: object) -> bool:
        try:
            self[path]  # type: ignore[index]  # anything else is refused just below, as not contained
        except GraphError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __hash__(self) -> int:
        """Refuse ``hash(graph)``: a document changes, and equality is by content."""
        raise TypeError(
            "A graph changes, so it cannot be a key. Write graph.to_json() for its content, id(graph) for itself."
        )

    def __bool__(self) -> bool:
        """Return whether there is a document: True for an empty one too."""
        return True

    def _ipython_key_completions_(self) -> list[str]:
        """Return the completions of ``graph["``: all paths, nested ones included."""
        with self._ledger.lock:
            return list(paths_in(self._content))

    def __eq__(self, other: object) -> bool:
        """Return whether name, graphs, nodes in their order and edges are equal; history and version do not matter."""
        if not isinstance(other, GraphQueries):
            return NotImplemented
        return self is other or self.to_json() == other.to_json()

    def __repr__(self) -> str:
        with self._ledger.lock:
            name, root = self._content.name, self._content.graphs[""]
            nodes, edges = len(root.nodes), len(root.edges)
        return f'NodeGraph "{name}": {nodes} node{"" if nodes == 1 else "s"}, {edges} edge{"" if edges == 1 else "s"}'

    def diagnostics(self) -> list[Diagnostic]:
        """Find what keeps the document from compiling, as far as it can be found without torch."""
        with self._ledger.lock:
            return lint(self._content, self._types)

    def diagnostics_at(self, paths: Iterable[str]) -> dict[str, list[Diagnostic]]:
        """Find faults at some nodes only, and under ``""`` those of the document as a whole.

        Args:
            paths: Paths of nodes; those that do not exist are left out.
        """
        expect(paths, Iterable, "paths", "paths of nodes")
        with self._ledger.lock:
            return lint_at(self._content, paths, self._types)

    @property
    def import_report(self) -> ImportReport:
        """The parts that ``pn.from_module`` could open, those that stay closed, and why; a notebook shows a table."""
        with self._ledger.lock:
            return import_report(self._content.name, self.graphs)

    # Drawing

    def to_svg(
        self,
        theme: ThemeName = "auto",
        *,
        within: str = "",
        shapes: Shapes = NO_SHAPES,
        resolved: Resolved = NONE_RESOLVED,
        fold: bool = False,
    ) -> str:
        """Draw one graph as the editor shows it, without a browser: accessible SVG, the same for equal documents.

        Nodes are at their places; without places they are arranged. A nested graph is one card, marked ``×3`` if three
        nodes show it. Of more than 400 nodes only names are drawn.

        Args:
            theme: ``"light"`` or ``"dark"``; ``"auto"`` follows the reader's system.
            within: Path of the Subgraph node whose inside is drawn; empty for the root.
            shapes: Labels of edges, by path of the output port: ``pn.infer_shapes(graph)``.
            resolved: Inferred values of properties that are ``"auto"``, by path of the node.
            fold: Whether what repeats in a row is drawn as one, marked ``×8``.

        Raises:
            UnknownNodeError: If there is no node at `within`.
            ArgumentError: If `theme` is none of the three.
        """
        return svg(self._scene(within, shapes, resolved, fold), theme)

    def to_text(self, *, shapes: Shapes = NO_SHAPES, resolved: Resolved = NONE_RESOLVED) -> str:
        """Return the graph as plain text: a sentence, and a line for each node with what feeds it."""
        scene = self._scene("", shapes, resolved, fold=False)
        return "\n".join([f"{scene.title}: {describe(scene)}", *lines(scene)])

    def to_html(
        self,
        theme: ThemeName = "auto",
        *,
        within: str = "",
        shapes: Shapes = NO_SHAPES,
        resolved: Resolved = NONE_RESOLVED,
        fold: bool = False,
    ) -> str:
        """Draw an HTML image with the graph as a list beneath it; for the arguments see `to_svg`.

        Viewers of stored notebooks remove scripts, styles and inline SVG; they keep this image.
        """
        scene = self._scene(within, shapes, resolved, fold)
        return figure(scene, svg(scene, theme))

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Show the picture in a notebook cell with the shapes on its edges; it stays there without a kernel."""
        shapes, resolved = installed().shapes(self)
        scene = self._scene("", shapes, resolved, fold=False)
        picture = svg(scene, "auto")
        return {"text/plain": repr(self), "text/html": figure(scene, picture), "image/svg+xml": picture}

    @answers_misuse("graph.summary()", input_size="pn.summary(graph, args=(x,)); the Input nodes have the shapes")
    def summary(self) -> object:
        """Return parameters, shapes and multiply-adds by layer, as ``pn.summary(graph)``.

        Raises:
            CompileError: If the graph is unfinished, or no example inputs can be made from its Input nodes.
        """
        return installed().summary(self)

    def _scene(self, within: str, shapes: Shapes, resolved: Resolved, fold: bool) -> Scene:
        expect(within, str, "within", "the path of a block, or an empty text")
        with self._ledger.lock:
            # No edit has to wait until a large graph is drawn.
            content = self._content.copy()
        return scene_of(content, within, self._types, shapes, resolved, fold=fold)

    # Its file

    def state(self, *, arranged: bool = False) -> DocumentState:
        """Return the whole document as plain data.

        Args:
            arranged: Whether graphs without any places are arranged in the result; the document stays as it is.
        """
        with self._ledger.lock:
            state = self.frozen()()
            return _arranged(state, self._content, self._types) if arranged else state

    def named_sizes(self) -> dict[str, int]:
        """Return the named sizes: whole numbers, each a `Calculated` if it is made of others."""
        with self._ledger.lock:
            return {name: self._content.sizes[name] for name in sorted(self._content.sizes)}

    def frozen(self) -> Callable[[], DocumentState]:
        """Return a function that returns the present `state` at any later time."""
        with self._ledger.lock:
            return partial(storage.state, self._content.name, self._content.parts(), self._content.sizes.copy())

    @answers_misuse('graph.to_json(), or graph.save("net.pnne.json")')
    def to_json(self) -> str:
        """Return the text of a graph file: the same for equal documents, a line for each node and edge."""
        return storage.write(self.state())

    def save(self, path: str | Path) -> None:
        """Write a graph file, by custom named ``….pnne.json``; an existing one is replaced at once, or not at all.

        A graph file holds no weights. Large tables of an imported module that are not drawn and not trained, such as a table
        of sines, are kept beside it, in ``….values.safetensors``, as long as the module is there.

        Args:
            path: The file; its directory must exist.

        Raises:
            GraphFileAccessError: If the file cannot be written; it is an ``OSError`` too.
        """
        nodes = (node for graph in self.graphs.values() for node in graph.nodes.values())
        has_tables = any(node.origin is not None and node.origin.initial for node in nodes)
        if has_tables and (values := installed().tables(self)) is not None:
            beside = storage.tables_beside(path)
            replace_file(beside, values)
            self.tables = beside
        replace_file(path, self.to_json())

    # Observing

    @property
    def changes(self) -> tuple[Step, ...]:
        """The changes since the document was made or loaded, in order, without those that were undone."""
        with self._ledger.lock:
            return tuple(self._ledger.done)

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """Block changes of the document in the ``with`` block, to read several parts of it consistently.

        Changes by other threads wait meanwhile, so be brief.
        """
        with self._ledger.lock:
            yield self

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with each transaction after it is committed, in order; return a function that ends this.

        It is called in the thread that made the change, without the document's lock. It may change the document: observers
        are notified of its changes after this one. Its errors are logged, and undo nothing.
        """
        if not callable(observer):
            raise ArgumentError(f"observer must be a function of a transaction, not {shown(observer)}.")
        return self._ledger.delivery.observe(observer)

    def _at(self, path: str, within: str = "") -> Node:
        with self._ledger.lock:
            _, node, prefix = find_node(self._content, path, within)
            if not prefix:
                return node
            return replace(node, path=f"{prefix}{node.name}", frozen_by=frozen_around(self._content, prefix, within))

    @property
    def _content(self) -> Content:
        return self._ledger.content


def _arranged(state: DocumentState, content: Content, types: Types) -> DocumentState:
    """Return a document's plain data, with graphs without any places arranged."""
    graphs = {}
    for id, graph in state.graphs.items():
        if any(node.position is not None for node in graph.nodes):
            graphs[id] = graph
            continue
        ops = arrangement(content, id, types)
        places = {op.name: op.position for op in ops if isinstance(op, MoveNode)}
        boxes = {op.name: op.box for op in ops if isinstance(op, ChangeFrame)}
        nodes = (replace(node, position=places[node.name]) for node in graph.nodes)
        frames = (replace(frame, box=boxes.get(frame.name) or frame.box) for frame in graph.frames)
        graphs[id] = replace(graph, nodes=tuple(nodes), frames=tuple(frames))
    return replace(state, graphs=graphs)
