"""`GraphEditor`: the editor of a document in a notebook cell.

Python owns the document. A view shows an edit at once and requests it; every commit, from whatever source, is sent to
every view. Shapes and findings are computed after the answer.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, assert_never

import anywidget
import msgspec
import traitlets
from torch import Tensor, nn

from pnne_nb.compiler import UnprovedImport
from pnne_nb.compiler.analysis.verify import call_arguments
from pnne_nb.errors import ArgumentError, Diagnostic, GraphError, InspectionError, answers_misuse, expect, no_attribute
from pnne_nb.graph.block_library import blocks
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Transaction
from pnne_nb.graph.model.ops import LookOp
from pnne_nb.graph.render.html import png
from pnne_nb.graph.render.svg import ThemeName
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.process.subscribers import weakly
from pnne_nb.protocol import messages
from pnne_nb.protocol.codec import catalog_event, document_text, encode_event, node_type_state
from pnne_nb.protocol.export_messages import ExportCheck, ExportState, StartExport
from pnne_nb.protocol.train_messages import ControlTraining, GetTrainChoices, StartTraining, TrainRequest
from pnne_nb.runtime.objective.losses import Loss
from pnne_nb.widgets.editor import open_views
from pnne_nb.widgets.editor.background_tasks import BackgroundTasks, ExportRequest, lent_model, weights_of
from pnne_nb.widgets.editor.beside import Beside
from pnne_nb.widgets.editor.card_pictures import rows
from pnne_nb.widgets.editor.edited_document import EditedModel, document_of, still_there
from pnne_nb.widgets.editor.live_analysis import LiveAnalysis
from pnne_nb.widgets.editor.live_proof import BEING_PROVED, LiveProof
from pnne_nb.widgets.editor.training_overlay import OverlaidTraining, Overlay
from pnne_nb.widgets.host.bundle import bundled, key_of
from pnne_nb.widgets.host.displays import Displays, answer_while_busy, close_parts, widget_tree
from pnne_nb.widgets.host.examples import Examples
from pnne_nb.widgets.host.static_picture import SHOWN, KeptPicture, described

if TYPE_CHECKING:
    from pnne_nb.runtime.engine import TrainingEngine
    from pnne_nb.widgets.editor.run_to_here import Example

QUICKLY_DRAWN: Final = 2000
"""Most nodes whose static picture the cell waits for; it takes a fifth of a second."""

QUICKLY_ARRANGED: Final = 300
"""Most nodes of a graph whose arrangement other requests wait for; it takes a tenth of a second."""


@lru_cache(maxsize=1)
def _catalog(_revision: int) -> messages.Catalog:
    return catalog_event(registry.values())


class GraphEditor(anywidget.AnyWidget):
    """An editor of a document, in every cell that displays it.

    Several editors of one document, edits from Python code and undo stay in step. Errors of a gesture are shown in
    the editor and change nothing.

    ::

        pn.GraphEditor()  # an empty document, as editor.graph
        pn.GraphEditor(graph)
        pn.GraphEditor(net, args=(x,))  # what pn.from_module makes of a module
        pn.GraphEditor(net, input_size=(2, 3))

    Args:
        graph: The document, or None for a new one. A module is imported. It is shown as soon as it is drawn, and proved
            while the kernel is free; `graph` and `model` wait for that. If its call fails, the graph ends in a red frame
            around the failing code.
        args: For a module: the positional arguments of a typical call.
        kwargs: For a module: the keyword arguments of that call.
        input_size: For a module: the shape of its input, instead of `args`.
        height: Height in the cell, in pixels, at least 120.
        read_only: Whether views cannot edit.
        theme: ``"auto"`` follows the notebook.
        data: Examples, as `ModuleExplorer` takes them with `target`, `labels`, `tokenizer` and `loss`: what the explorer
            shows beside its map is then shown beside the selected node, of the model as it is after each edit. A module is
            imported by a call with the first of them.
        pictures: Whether cards show small pictures of what their nodes give, while a training is shown and after it: over
            the plane of its examples in a network with one Input of two numbers, or the channels of images for the first
            example. At most eight units or channels, and 64 cards. They follow the training, which waits about 3 % of its
            time for them, and stand in the saved notebook.

    Attributes:
        selection: Paths of the selected nodes, synchronised with the browser.
        folded: Paths of a node of each folded row of what repeats, synchronised with the browser; a reload of the page
            keeps them.

    Raises:
        ArgumentError: If `graph` is neither a document nor a module, a document comes with arguments of a module, or
            there are targets without data, or more or fewer than examples.
        CompileError: If a module cannot be imported.
        FileNotFoundError: If the front end has not been built.
    """

    selection = traitlets.Tuple().tag(sync=True)
    folded = traitlets.Tuple().tag(sync=True)
    _folded_once = traitlets.Tuple().tag(sync=True)  # ids of graphs whose rows a page has folded once
    height = traitlets.Int(560, min=120).tag(sync=True)
    pictures = traitlets.Bool(False)
    read_only = traitlets.Bool(False).tag(sync=True)
    bundle_key = traitlets.Unicode().tag(sync=True)
    panel = traitlets.Enum(("", "export"), default_value="").tag(sync=True)  # panel that is open at the start
    theme = traitlets.Enum(("auto", "light", "dark"), default_value="auto").tag(sync=True)
    _release: weakref.finalize[..., GraphEditor] | None = None  # None: the constructor has failed
    _arranged_at = -1  # the version at the last change of `read_only`
    _arrived: ClassVar[bool] = False  # whether a page has loaded the front end from this kernel
    _following: ClassVar[weakref.WeakSet[GraphEditor]] = weakref.WeakSet()
    unproved = traitlets.Unicode("").tag(sync=True)  # what badges say instead of that a node is proved, until it is
    look = traitlets.Unicode("").tag(
        sync=True
    )  # model id of what is shown beside a selected node; "" for its properties
    asking = traitlets.Bool(True).tag(sync=True)  # whether pages show that instead of the properties
    views = traitlets.Int(0).tag(sync=True)  # number of open views; the page writes it
    # Both are computed when a page reads the widget's state, and never sent otherwise.
    snapshot = traitlets.Any(read_only=True).tag(sync=True, to_json=lambda _, editor: encode_event(editor._snapshot()))
    catalog_key = traitlets.Any(read_only=True).tag(sync=True, to_json=lambda *_: _catalog(registry.revision).key)

    @answers_misuse(
        "pn.GraphEditor(graph) or pn.GraphEditor(net, args=(x,))",
        example_inputs="args=(x,)", input_shape="input_size=(2, 3)", width="height=560; the width is that of the cell",
    )  # fmt: skip
    def __init__(  # noqa: PLR0913  nearly all have defaults, and the last five are those of the explorer
        self,
        graph: NodeGraph | nn.Module | None = None,
        *,
        args: Sequence[Any] | Tensor = (),
        kwargs: Mapping[str, Any] | None = None,
        input_size: Sequence[int] | Sequence[Sequence[int]] | None = None,
        height: int = 560,
        read_only: bool = False,
        theme: ThemeName = "auto",
        pictures: bool = False,
        data: Any = None, target: Any = None, labels: Sequence[str] | None = None, tokenizer: Any = None, loss: Loss = None,
    ) -> None:  # fmt: skip
        module = graph if isinstance(graph, nn.Module) else None
        given = {"data": data, "target": target, "labels": labels, "tokenizer": tokenizer, "loss": loss}
        if data is None and any(one is not None for one in given.values()):
            raise ArgumentError(
                f"{', '.join([*given][1:])} belong to data: write pn.GraphEditor(net, data=x, target=y)."
            )
        self.asks: dict[str, Any] | None = None if data is None else given
        if (
            module is not None
            and data is not None
            and input_size is None
            and isinstance(args, tuple)
            and not (args or kwargs)
        ):
            args, kwargs = Examples(module, data, target, free=loss is not None).call(module)
        document = document_of(graph, args, kwargs, input_size)
        self._proof: LiveProof | None = None
        if isinstance(document, UnprovedImport):
            assert module is not None, "only modules are imported"
            self._proof = LiveProof(document, module, weakly(self._proved))
            document = self._proof.graph
        front_end = bundled("editor.js")
        # A page keeps the front end that it has loaded; later editors use it.
        self._esm = bundled("loader.js") if self._arrived else front_end
        self._css = bundled("editor.css")
        self._graph = document
        self._views = open_views.Views(self, document, weakly(self._answer))
        self._model = EditedModel(document, module)
        self._overlay: Overlay | None = None
        self._picture: messages.Training | None = None
        self._marks = messages.Marks()
        self._analysis = LiveAnalysis.of(document)
        editor, analysis = weakref.ref(self), self._analysis
        self._kept = KeptPicture(
            lambda: repr(document),
            lambda: analysis.picture() + rows(_pictures_of(editor())),
            lambda: len(document.nodes) <= QUICKLY_DRAWN,
        )
        self._example: Example | None = (
            None if module is None or input_size is not None else call_arguments(args, kwargs)
        )
        self._tasks = BackgroundTasks(document, lambda: lent_model(editor), weakly(self._show_export))
        self._throttle = open_views.CommitThrottle(weakly(self._catch_up))
        super().__init__(
            height=height, read_only=read_only, theme=theme, bundle_key=key_of(front_end), pictures=pictures
        )
        self.on_msg(self._views.receive)
        self._follow()
        if self._proof is not None:
            self.unproved = BEING_PROVED
            self._proof.start()

    def _follow(self) -> None:
        self.beside = Beside(self)  # what follows may call from another thread at once
        # The analysis subscribes to the document before this editor, so that it sees each commit first.
        endings = (
            self._analysis.follow(weakly(self._derived)),
            self._graph.observe(weakly(self._committed)),
            registry.observe(weakly(self._type_added)),
            blocks.graph.observe(weakly(self._blocks_changed)),
            self._kept.close,
            self._throttle.close,
        )
        self._release = weakref.finalize(self, _end, endings)
        # Nothing must run at the exit of the kernel.
        self._release.atexit = False
        self._following.add(self)
        answer_while_busy(self)
        self._analysis.request()

    @classmethod
    def opened(cls) -> list[GraphEditor]:
        """Return the editors that have not been closed."""
        return [editor for editor in list(cls._following) if editor.comm is not None]

    def __repr__(self) -> str:
        return f"GraphEditor of {self._graph!r}"

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            own = {name: f"editor.graph.{name}(...)"} if callable(getattr(NodeGraph, name, None)) else {}
            raise no_attribute(self, name, SHOWN | own)

    @property
    def graph(self) -> NodeGraph:
        """The document; that of a module once its import is proved, which this waits for."""
        self._wait_for_proof()
        return self._graph

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The findings of the badges: errors that prevent compiling, and warnings."""
        if not self._graph.in_transaction:
            self._analysis.refresh()
        return [finding for found in self._analysis.whole.diagnostics.values() for finding in found]

    @property
    def model(self) -> nn.Module | None:
        """The document as a module, weights reused across edits; None while there are errors.

        It is the same module until an edit changes what is computed. It waits for the proof of an import.
        """
        if self._graph.in_transaction:
            return self._model.current
        self._wait_for_proof()
        # Shape mismatches are errors too, which the compiler alone does not check.
        if any(finding.severity == "error" for finding in self.diagnostics):
            return None
        return self._model.compile()

    @property
    def training(self) -> OverlaidTraining | None:
        """The training that is shown on the graph while it runs, or None.

        Nodes show the standard deviation of their outputs and the share of zeros, edges the norm of their gradient. Dead,
        saturated, exploding, vanishing and non-finite layers are marked. Observing takes about 1 % of the training's time.

        Raises:
            ArgumentError: When set to neither a training nor None.
            InspectionError: When set to a training of another model, or whose layers cannot be observed.
        """
        return None if self._overlay is None else self._overlay.engine

    @training.setter
    def training(self, engine: OverlaidTraining | None) -> None:
        expect(
            engine, (OverlaidTraining, NoneType), "training", "a TrainingEngine or None", "pn.TrainingEngine makes one."
        )
        if engine is self.training:
            return
        show = weakly(self._show_training)
        overlay = None if engine is None else Overlay(engine, self._graph, show, pictures=self.pictures)
        before, self._overlay = self._overlay, overlay
        if before is not None:
            before.close()
        pictures = {} if overlay is None else overlay.pictures
        if before is not None or pictures:
            self._show_training(messages.Training(0, pictures=pictures))

    @property
    def engine(self) -> TrainingEngine | None:
        """The training that was started under "Train" in the page, or None."""
        return self._tasks.engine

    @property
    def example(self) -> tuple[Any, ...] | int | None:
        """With `data`, the number of the current example of all views of the model.

        Otherwise the positional arguments of a call for Run to here; with None, they are made up from the shapes of the
        Inputs. For an imported module, it begins as `args`. If a training is shown, its data are used instead.

        Raises:
            ArgumentError: When set to neither a tuple of arguments nor a tensor, or to a number without an example.
        """
        if self.asks is not None:
            return int(self.explorer.example)
        return None if self._example is None else self._example[0]

    @example.setter
    def example(self, args: Sequence[Any] | Tensor | int | None) -> None:
        if isinstance(args, int) and (explorer := self.beside.explorer) is not None:
            explorer.example = args
        else:
            self._example = None if args is None else call_arguments(args, None)  # type: ignore[arg-type]  # a number is refused

    @property
    def explorer(self) -> Any:
        """The `ModuleExplorer` whose panel is beside the selected node; None without `data` and without one that shows this.

        Raises:
            PnneError: What `ModuleExplorer` raises.
        """
        return self.beside.explorer

    def show_below(self, widget: Any) -> None:
        """Show another widget below, in the cell; it closes with the editor."""
        self._kept.show_instead(widget)

    @property
    def marks(self) -> Mapping[str, messages.NodeMark]:
        """Short texts under the cards of nodes, by path; a block shows the most severe mark inside it.

        ::

            editor.marks = {"conv1": "12 ms", "fc": pn.NodeMark("slow", "warning", "It waits for the copy.")}

        Raises:
            ArgumentError: When set to anything but a mapping of paths to texts or marks.
        """
        return dict(self._marks.marks)

    @marks.setter
    def marks(self, marks: Mapping[str, messages.NodeMark | str]) -> None:
        way = 'editor.marks = {"conv1": "12 ms"}.'
        expect(marks, Mapping, "marks", "a mapping of the paths of nodes to what is said there", way)
        for path, mark in marks.items():
            expect(path, str, "a path of marks", "a string", way)
            expect(mark, (messages.NodeMark, str), f"marks[{path!r}]", "a text or a pn.NodeMark", way)
        self._marks = messages.Marks(
            {path: messages.NodeMark(mark) if isinstance(mark, str) else mark for path, mark in marks.items()}
        )
        self._views.tell(lambda: self._marks)

    def describe(self) -> str:
        """Return in at most 300 words of plain text what is on the screen."""
        shapes, resolved = self._analysis.known(refreshed=True)
        found = [f"Selected: {', '.join(self.selection) or 'nothing'}", *self.beside.lines()]
        found += [each.message for each in self.diagnostics]
        return described([*found, *self._graph.to_text(shapes=shapes, resolved=resolved).splitlines()])

    def to_svg(self, theme: ThemeName = "auto", *, within: str = "", fold: bool = False) -> str:
        """Draw the document as `NodeGraph.to_svg` does, with the shapes that the editor shows.

        Raises:
            UnknownNodeError: If nothing is at `within`.
            ValueError: If `theme` is unknown.
        """
        shapes, resolved = self._analysis.known(refreshed=True)
        return self._graph.to_svg(theme, within=within, shapes=shapes, resolved=resolved, fold=fold)

    def to_html(self, theme: ThemeName = "auto", *, within: str = "", fold: bool = False) -> str:
        """Draw it as `to_svg` does, as an HTML image with the graph as a list beneath it."""
        shapes, resolved = self._analysis.known(refreshed=True)
        return self._graph.to_html(theme, within=within, shapes=shapes, resolved=resolved, fold=fold)

    def to_png(self, theme: ThemeName = "light", *, within: str = "", fold: bool = False, scale: float = 2.0) -> bytes:
        """Draw it as `to_svg` does, as PNG, which needs the extra ``pnne_nb[png]``.

        Args:
            theme: ``"light"``, ``"dark"`` or ``"auto"``.
            within: Path of the Subgraph node whose inside to draw.
            fold: Whether what repeats in a row is drawn as one.
            scale: Pixels of the result for each pixel of the picture.

        Raises:
            UnknownNodeError: If nothing is at `within`.
            ArgumentError: If `theme` is unknown.
            PnneError: If the extra is not installed.
        """
        return png(self.to_svg("light" if theme == "auto" else theme, within=within, fold=fold), scale)

    def close(self) -> None:
        """Close the editor in the browser and release its model; the document stays.

        A cell that is run again closes the editor that it showed. Displaying a closed editor opens it again.
        """
        if self._release is not None:
            self.training = None
            if self._proof is not None:
                self._proof.stop()
            self._tasks.close()
            self._release()
            self._model.forget()
            self.beside.close()
        close_parts(self)
        super().close()

    @traitlets.observe("pictures")
    def _pictured(self, _change: object) -> None:
        if self._release is not None and (engine := self.training) is not None:
            self.training = None
            self.training = engine

    @traitlets.observe("read_only")
    def _opened_or_locked(self, _change: object) -> None:
        if self._release is not None:
            self._arranged_at = self._graph.version
            self._views.tell(self._snapshot)

    @traitlets.observe("selection", "asking")
    def _asked(self, _change: object) -> None:
        if self.look and self._release is not None:
            self.beside.follow()

    @traitlets.observe("views")
    def _left(self, _change: object) -> None:
        if not self.views:
            Displays.here().left(self)

    def _ipython_display_(self, **_: object) -> None:
        if self.comm is None:
            # ipywidgets marks a closed widget, which then has no MIME bundle.
            self.__dict__.pop("_repr_mimebundle_", None)
            for part in reversed(widget_tree(self)):
                part.open()
            self._follow()
            if self._proof is not None:
                self._proof.start()
        self._kept.show_under(self, lambda widget: isinstance(widget, GraphEditor) and widget.views > 0)

    # From the browser, on any thread

    def _answer(self, request: messages.Request) -> None:
        graph, id, client = self._graph, request.id, request.client
        if isinstance(request, open_views.ChangeRequest):
            self._change(request)
            return
        if isinstance(request, messages.Publish | StartExport | StartTraining):
            self._refuse_unproved()
        if isinstance(request, open_views.BlocksRequest):
            open_views.change_blocks(graph, request)
            self._views.tell(lambda: messages.Blocks(blocks.graph.state(), id, client))
            return
        if isinstance(request, ExportRequest):
            if isinstance(request, StartExport):
                self._refuse_changes()
            self._views.tell(
                self._tasks.answer(request, weights_of(self.training, is_imported=self._model.is_imported))
            )
            return
        if isinstance(request, TrainRequest):
            self._train(request)
            return
        match request:
            case messages.GetPreview(source=start, target=target):
                found = self._analysis.preview(start, target)
                self._views.tell(lambda: messages.Preview(id, client, found))
            case messages.RunToHere():
                tell = partial(self._views.conclude, request)
                explorer = self.beside.explorer
                example = (None if explorer is None else explorer.arguments()) or self._example
                self._tasks.run_to_here(request, self._model.latest, example, tell)
            case messages.Painted(tick=tick):
                if self._overlay is not None:
                    self._overlay.acknowledge(tick)
            case messages.HideTraining():
                self.training = None
            case messages.Sync(version=known):
                self._answer_opened_view(id, client, known)
            case messages.GetCatalog():
                self._views.tell(lambda: msgspec.structs.replace(_catalog(registry.revision), id=id, client=client))
            case messages.GetBundle():
                text = bundled("editor.js")
                self._views.tell(lambda: messages.Bundle(id, client, text))
            case messages.GetSource():
                shown = open_views.source(graph, id, client)
                self._views.tell(lambda: shown)
            case messages.GetSteps():
                self._views.tell(lambda: open_views.steps(graph, id, client))
            case _:
                assert_never(request)

    def _train(self, request: TrainRequest) -> None:
        if not isinstance(request, GetTrainChoices):
            self._refuse_changes()
        answer = self._tasks.train(request, self)
        if isinstance(request, StartTraining):
            with suppress(InspectionError):  # a model without layers has nothing to show on its nodes
                self.training = self.engine
        elif isinstance(request, ControlTraining) and request.action == "dashboard" and self.engine is not None:
            # As a cell would: the dashboard shows editors, and is not known here.
            self.show_below(sys.modules["pnne_nb"].TrainingDashboard(self.engine))
        self._views.tell(lambda: answer)

    def _answer_opened_view(self, id: int, client: str, known: int | None) -> None:
        GraphEditor._arrived = True
        self._views.tell(lambda: self._snapshot(id, client, known))
        if blocks:
            self._blocks_changed()
        if self._picture is not None:
            self._show_training(self._picture)
        if self._marks.marks:
            self._views.tell(lambda: self._marks)
        for event in self._tasks.export_events():
            self._show_export(event)
        self._analysis.request()

    def _change(self, request: open_views.ChangeRequest) -> None:
        self._refuse_changes()
        graph, id, client = self._graph, request.id, request.client
        if isinstance(request, messages.Arrange):
            changed = graph.graphs.get(request.graph)
            if changed is not None and len(changed.nodes) > QUICKLY_ARRANGED:
                self._arrange_later(request)
                return
        if not isinstance(request, messages.Edit):
            self._tasks.finish_arranging()
        with graph.asked_by(client, id):
            committed = open_views.change(graph, request)
        if not committed:
            # No observer will answer.
            self._views.tell(lambda: messages.Committed(graph.version, (), "Arrange", self._history(), client, id))

    def _arrange_later(self, request: messages.Arrange) -> None:
        """Answer a request at once, and arrange the graph when nothing else is to be done."""
        graph, client, views = self._graph, request.client, self._views

        def arrange() -> None:
            with graph.asked_by(client, None):
                open_views.change(graph, request)

        views.tell(lambda: messages.Committed(graph.version, (), "", self._history(), client, request.id))
        self._tasks.arrange(arrange, lambda error: views.reject(None, client, error))

    def _refuse_changes(self) -> None:
        if self.read_only:
            raise GraphError("The editor is read-only.")

    def _refuse_unproved(self) -> None:
        if self._proof is not None and self._proof.is_going_on:
            raise GraphError(
                "The import is still being compared with the original. Ask again when its badges have turned, or wait for "
                "that in a cell: editor.graph."
            )

    def _wait_for_proof(self) -> None:
        if self._proof is not None:
            self._proof.finish()

    # To every view

    def _proved(self) -> None:
        self.unproved = ""
        self._kept.changed()

    def _committed(self, done: Transaction) -> None:
        # The requesting view waits for the answer.
        if done.client is not None or not self._throttle.hold():
            history = messages.HistoryState(done.undo, done.redo)
            self._views.tell(
                lambda: messages.Committed(done.version, done.ops, done.label, history, done.client, done.request)
            )
        computes = not all(isinstance(op, LookOp) for op in done.ops)
        if computes:
            self._model.edited()
            self._tasks.edited()
        if done.client is not None:
            self._kept.changed()
        # Traits send only changes to the page.
        self.selection = still_there(self.selection, self._graph, done.ops)
        self.folded = still_there(self.folded, self._graph, done.ops)
        if computes:
            self._analysis.request()

    def _catch_up(self) -> None:
        self._views.tell(self._snapshot)

    def _derived(self, version: int, delta: messages.Derived, more: bool) -> None:  # as followers are called
        self._views.tell(lambda: messages.DerivedChanged(version, delta, more))
        if not more and self.beside.is_linked:
            # Not here, where the analysis waits: what is asked may wait for the analysis.
            threading.Thread(target=weakly(self._asked), args=(None,), name="pnne-asked", daemon=True).start()

    def _show_training(self, picture: messages.Training) -> None:
        had, self._picture = self._picture, picture if picture.layers or picture.pictures else None
        self._views.tell(lambda: picture)
        if picture.pictures or (had is not None and had.pictures):
            self._kept.changed()

    def _show_export(self, event: ExportState | ExportCheck, report: str = "") -> None:
        self._views.tell(lambda: event)
        if report:
            self._kept.add_report(report)

    def _type_added(self, spec: NodeSpec) -> None:
        self._views.tell(lambda: messages.NodeTypeAdded(node_type_state(spec)))
        self._analysis.request()

    def _blocks_changed(self, _done: Transaction | None = None) -> None:
        self._views.tell(lambda: messages.Blocks(blocks.graph.state()))

    def _snapshot(
        self, id: int | None = None, client: str | None = None, known: int | None = None
    ) -> messages.Snapshot:
        with self._graph.reading() as graph:
            # A read-only view cannot request an arrangement, and gets an arranged picture.
            is_known = known == graph.version != self._arranged_at and not self.read_only
            state = None if is_known else document_text(graph.state(arranged=self.read_only))
            return messages.Snapshot(graph.version, state, self._analysis.whole, self._history(), id, client)

    def _history(self) -> messages.HistoryState:
        return messages.HistoryState(self._graph.undo_label, self._graph.redo_label)


def _pictures_of(editor: GraphEditor | None) -> Mapping[str, str]:
    return {} if editor is None or editor._picture is None else editor._picture.pictures


def _end(endings: tuple[Callable[[], None], ...]) -> None:
    for end in endings:
        end()
