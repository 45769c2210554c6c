"""`ModuleExplorer`: shows a module as a graph whose layers open, with the details of each layer."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import ipywidgets
from torch import Tensor, nn

from pnne_nb.compiler import from_module
from pnne_nb.errors import InspectionError, LayerNotFoundError, expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inference.inference_engine import InferenceEngine
from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.representations.compare_layers import LayerComparison, compare_layers
from pnne_nb.inspector.statistics.patterns import near_layers
from pnne_nb.inspector.tools.dataflow import Flow
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.subscribers import weakly
from pnne_nb.protocol.control_messages import Move
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.objective.losses import Loss
from pnne_nb.runtime.session.waiting import Started
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.explorer.answers import Access, Asked
from pnne_nb.widgets.explorer.drawing import Drawing
from pnne_nb.widgets.explorer.layer_map import LayerMap, Search
from pnne_nb.widgets.explorer.page import ExplorerPage
from pnne_nb.widgets.explorer.panel import CSS, facts, kept_html, overview_html, text_of, widgets_of
from pnne_nb.widgets.explorer.questions import TABS, Questions, check_question
from pnne_nb.widgets.explorer.runs import ModelInUseError, Runs, Weights, subject_of
from pnne_nb.widgets.explorer.static_graph import graph_svg
from pnne_nb.widgets.explorer.strip import Strip
from pnne_nb.widgets.explorer.wide_questions import answered
from pnne_nb.widgets.host.cell_events import watch_cells
from pnne_nb.widgets.host.displays import answer_while_busy, button, close_parts, close_whole
from pnne_nb.widgets.host.examples import OWN, Examples, require_place
from pnne_nb.widgets.host.static_picture import Card, Kept, KeptPicture, Pictured, Still

_UNFINISHED: Final = "The graph has errors: what is shown here is the model before the last edit."
_NOT_ASKED: Final = "is no layer of this model. pn.GraphEditor(net, data=x) asks its functions and operators, too."


@final
class ModuleExplorer(ipywidgets.VBox, Kept, Pictured):
    """The layers of a module, the data flow between them, and the details of each layer.

    A click on a layer shows its shapes, parameters and time, statistics and histograms, filters, feature maps and
    attention maps; a click on a container also opens or closes it. Colours show the type, the time or the parameters of
    layers. The module is not changed.

    With `data`, a strip above shows one example, its target and the likeliest answers. Its examples can be browsed in the
    order of their loss, from the least confident answer, or mistakes only, and filtered by the true and the predicted class.

    Args:
        net: Any module; a graph is compiled, with the weights that belong to it. Of an editor, its model and its example;
            what is selected in one is selected in the other. Of a training, its model, with its validation data (else its
            training data), its classes and its loss. Of an `InferenceEngine`, its copy of the model.
        data: Examples: a tensor, an array or a table, a tuple of arguments, a mapping of keyword arguments, a ``Dataset`` or a
            ``DataLoader``; the first dimension counts them. A pair ``(x, y)`` for a model with one argument ends with the
            target. The module runs in evaluation mode for answers, and in its own for shapes, times and the layers' outputs,
            which come from the first 256.
        target: The targets, one for each example.
        labels: Names of the classes.
        tokenizer: Has ``decode`` or ``convert_ids_to_tokens``, is a function of ids, or the texts in the order of their ids.
        loss: As `TrainingEngine` takes it, or a function of output and target; by default, what the targets suggest. With it,
            gradients are shown too.
        inspector: An inspector whose last run is shown for the layers that it captured; its watch list is not changed.
        args: An earlier name of `data`.
        loss_fn: An earlier name of `loss`.

    Raises:
        InspectionError: If `inspector` is about another module, hooks cannot see the layers of `net`, ``forward`` does not
            take the data, labels or tokenizer do not fit, or a cell in another thread may be using `net`.
        ArgumentError: If `net` is not a module, `inspector` not an `Inspector`, or there are more or fewer targets than
            examples.
    """

    _runs: Runs | None = None
    """None before the constructor ends, and after `close`."""
    _questions: Questions | None = None

    def __init__(
        self,
        net: nn.Module | NodeGraph | GraphEditor | TrainingEngine | Started | InferenceEngine,
        data: object = None,
        target: object = None,
        labels: Sequence[str] | None = None,
        tokenizer: Any = None,
        loss: Loss = None,
        *,
        inspector: Inspector | None = None,
        args: object = None,
        loss_fn: Callable[..., Tensor] | None = None,
    ) -> None:
        if data is None and isinstance(net, GraphEditor) and net.asks is not None:
            own = net.asks
            data, target, labels, tokenizer = (
                own["data"],
                own["target"],
                labels or own["labels"],
                tokenizer or own["tokenizer"],
            )
            loss = own["loss"] if loss is None else loss
        subject = subject_of(net, data, labels, loss)
        module, self._drawn, data, labels, loss = subject.net, subject.graph, subject.data, subject.labels, subject.loss
        if isinstance(data, Inspector):  # an earlier order: net, inspector, args
            inspector, data, args, target = data, *((target, None, None) if args is None else (args, None, target))
        expect(inspector, Inspector | None, "inspector", "an Inspector, or None", "It was made by pn.Inspector(net).")
        if inspector is not None and uncompiled(inspector.net) is not uncompiled(module):
            raise InspectionError(
                "This inspector is about another module: pass ModuleExplorer(inspector.net, inspector=inspector)."
            )
        self._reads = labels, tokenizer, loss if loss is not None else loss_fn
        self._editor = subject.editor
        watch_cells()
        runs = Runs(
            self._asked(uncompiled(module), data if data is not None else args, target),
            Inspector(module) if inspector is None else inspector,
        )
        self._lock = fork_safe(threading.RLock())
        flow = runs.flow()
        with runs.alone():
            runs.asked.check()
        self._runs = runs
        self._page = ExplorerPage(self._move, self._ask, self._drop)
        self._said = ipywidgets.HTML("", layout=ipywidgets.Layout(margin="0"))
        self._kept = KeptPicture(lambda: "the module", self.to_html)
        owner = lambda: self._alive().findings(), lambda: self._page.theme
        self._map = LayerMap(flow, *owner, self._clicked, self._kept.changed, self._say)
        self._weights = Weights(subject.engine, self._turn)
        self._search = Search(lambda: self.flow, self.select, self._say)
        buttons = (
            button("Open", "", lambda: self.toggle(self.selected)),
            button("Close all", "", self._close_all),
            button("Refresh", "Read weights and run the input again", self.refresh),
            button("Show in the drawing", "", self._draw),
            button("Keep", "Keep the answer as a card under this cell", lambda: self._kept.add_card(self._card())),
        )
        self._open_button = buttons[0]
        self._drawing = Drawing(lambda: self.graph, self)
        inset = ipywidgets.Layout(
            flex="1 1 45%", height="600px", min_width="0", padding="0 0 0 14px", overflow="hidden auto"
        )
        self._panel = ipywidgets.VBox()
        self._panel.add_class("pnne-explorer-panel")
        self._tab = ipywidgets.ToggleButtons(options=TABS, style={"button_width": "auto"})
        self._tab.add_class("pnne-colours")
        beside = ipywidgets.VBox([self._tab, self._panel], layout=inset)
        controls = self._search, self._map.colour, self._weights, *buttons
        bar = ipywidgets.HBox(controls, layout=ipywidgets.Layout(flex_flow="row wrap"))
        body = ipywidgets.HBox([self._map, beside], layout=ipywidgets.Layout(width="100%"))
        self._access = Access(lambda: self._alive().asked, self._alone, lambda: self.graph)
        self._strip = Strip(self._access, self._show)
        css, tree = ipywidgets.HTML(CSS), button("Show in the tree", "", self._show_tree)
        tree.layout.align_self = "flex-start"
        super().__init__([css, bar, self._search.hits, self._said, self._strip, body, self._drawing, self._page])
        self.look = ipywidgets.VBox([css, tree, self._said, self._strip, self._tab, self._panel, self._page])
        for one in (self, self.look):
            one.add_class("pnne-explorer")
        self._page.observe(self._map.mark, "theme")
        self._tab.observe(lambda _change: self._show(), "value")
        answer_while_busy(self._tab)
        self._map.rebuild()
        self._show()
        if subject.editor is not None:
            self._drawing.link(subject.editor)

    def __repr__(self) -> str:
        return "ModuleExplorer()"

    def still(self) -> Still:
        """Return the shown layers, the facts of the selected one, and the findings.

        Raises:
            InspectionError: The explorer was closed.
        """
        with self._lock:
            runs, picture, marks, chosen = self._alive(), self._map.picture, self._map.marks(), self.selected
            net = type(runs.net).__name__
            said = [f"{net}: {self.flow.layers[''].parameters:,} parameters"]
            said += [f"Weights: {self._weights.label}"] if self.checkpoint else []
            said += [*self._strip.lines(), *(facts(self.flow, chosen) if chosen else [])]
            tab = self._tab.value if self._questions is not None else TABS[0]
            shown = [f"{tab}:", *text_of(kept_html(self._panel.children))] if tab != TABS[0] else []
            said += [f"{found.layer}: {found.kind.replace('-', ' ')}: {found.reason}" for found in runs.findings()]
        layers = [", ".join(box.label.splitlines()) for box in picture.boxes if box.key in self.flow.layers]
        alternative = f"Structure of {net}: {len(layers)} layers are shown. {' '.join(said[1:])}".strip()
        return Still(said[0], alternative, [*said, *shown, *layers], partial(graph_svg, picture, marks, chosen, said))

    @property
    def flow(self) -> Flow:
        """The layers and links of the module."""
        return self._map.flow

    @property
    def selected(self) -> str:
        """Path of the layer whose details are shown; ``""`` is the model itself."""
        return self._map.chosen

    @property
    def shown(self) -> tuple[str, ...]:
        """Paths of the layers in the graph, open ones included."""
        return self._map.shown

    @property
    def graph(self) -> NodeGraph:
        """The drawn graph in which changes are kept: the one given, or what `pn.from_module` makes of the module.

        Raises:
            CompileError: If the module cannot be imported.
        """
        if self._drawn is None:
            now = self._alive().now
            self._drawn = from_module(now.net, *now.asked.examples.call(now.net))
        return self._drawn

    @property
    def example(self) -> int:
        """The number of the example that is shown; it can be set.

        Raises:
            ArgumentError: When set to anything but a whole number from 0 to the number of examples less 1.
        """
        return self._strip.example

    @example.setter
    def example(self, place: int) -> None:
        self._strip.choose(require_place(place, self._alive().asked.examples.count))

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint whose weights are asked, or None for those of now; it can be set to a path.

        Raises:
            ArgumentError: When set to a file without weights.
            InspectionError: When set to one of another network.
        """
        return self._alive().path

    @checkpoint.setter
    def checkpoint(self, path: str | Path | None) -> None:
        with self._lock:
            now = self._alive().now
            self._runs = now.at(Path(path)) if path else now
            self._strip.forget()
            self._show()

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments of a call with the current example, or None without data."""
        asked = self._alive().asked
        return asked.examples.call(asked.net, self.example) if asked.examples.given else None

    def bring(self, inputs: object) -> None:
        """Show an example of your own, as the model takes it: a batch of one. None goes back to the data."""
        self._strip.bring(inputs)

    def show_in(self, editor: GraphEditor | None = None) -> GraphEditor:
        """Show the selected layer in the drawing; from now on, what is selected in one is selected in the other.

        Args:
            editor: An editor of the module's graph; None for a new one of `graph`.
        """
        shown = self._drawing.link(editor)
        self._drawing.point_out(self.selected)
        return shown

    def compare(self, other: nn.Module | str | Path | None = None, *, data: object = None) -> LayerComparison:
        """Colour layers by how much their outputs for the shown example differ from those of another model or example.

        Args:
            other: Another model, or a checkpoint or file of weights, as for `pn.compare_layers`.
            data: Another example, as the model takes it.
        """
        inputs = self._alive().asked.examples.cut([self.example]).inputs
        found: LayerComparison = self._alone(lambda: compare_layers(self._alive().net, inputs, other, other_data=data))
        with self._lock:
            self._map.differ(found.differences)
        self._say("No layer differs." if found.first is None else f"The first layer that differs is {found.first}.")
        return found

    def select(self, path: str) -> None:
        """Show the details of a layer, and open the layers around it.

        Raises:
            LayerNotFoundError: If there is no such layer.
        """
        self._require(path)
        with self._lock:
            self._map.choose(path)
            self._show()
            self._drawing.point_out(path)

    def ask(
        self,
        path: str,
        question: str = TABS[0],
        *,
        example: int | None = None,
        changes: Sequence[tuple[Any, ...]] | None = None,
        **chosen: Any,
    ) -> Card:
        """Ask a layer, show the answer, and return it as a card, which stays in the notebook.

        Args:
            path: The layer.
            question: ``"Layer"``, ``"Units"``, ``"Why"``, ``"Number"``, ``"Projection"`` or ``"Sequence"``.
            example: As `example`; None for the one that is shown.
            changes: Rows of what if, such as ``("1", "scale", "0, 3", 0.5)``: layer, kind, channels and numbers. None for those
                that are there.
            **chosen: ``dim=`` (of the output, in which units are counted) for ``"Units"``, ``method=`` and ``answer=`` (a class)
                for ``"Why"``, ``number=`` (an index) for ``"Number"``.

        Raises:
            ArgumentError: If there is no such question, choice, example or change.
            LayerNotFoundError: If there is no such layer, here or in `changes`.
        """
        check_question(question, chosen)
        self._require(path)
        with self._lock:
            if example is not None:
                self.example = example
            if changes is not None:
                self._strip.what_if.values = changes
            if "answer" in chosen and self._strip.answer is not None:
                chosen["answer"] = require_place(chosen["answer"], len(self._strip.answer.scores), "answer")
            self._access.settings.update(chosen)
            self._tab.value = question
            self.select(path)
            if self._questions is not None and "number" in chosen:
                self._questions.explain(chosen["number"])
            self._access.work.finish()
            return self._card()

    def _card(self) -> Card:
        with self._lock:
            path, question = self.selected, self._tab.value if self._tab.layout.display == "" else TABS[0]
            own, asked = self.example == OWN, {} if self._questions is None else self._questions.chosen
            given: dict[str, Any] = {} if own or not self._alive().asked.examples.given else {"example": self.example}
            given |= {"changes": changes} if (changes := self._strip.what_if.values) else {}
            code = [f"explorer.checkpoint = {str(self.checkpoint)!r}"] if self.checkpoint else []
            code += ["explorer.bring(x)  # an example of your own"] if own else []
            code += [
                f"explorer.ask({path!r}, {question!r}{''.join(f', {k}={v!r}' for k, v in (given | asked).items())})"
            ]
            said = [f"Weights: {self._weights.label}"] if self.checkpoint else []
            said += self._strip.what_if.lines()
            words = "".join(f"<div>{html.escape(line)}</div>" for line in said)
            answer = f"{CSS.replace('.pnne-explorer', '.pnne-card')}{words}{self._strip._shown.value}"
            return Card(f"{question}: {path or 'the model'}", "\n".join(code), answer + kept_html(self._panel.children))

    def toggle(self, path: str) -> None:
        """Open a closed layer or close an open one; a leaf layer does not change.

        Raises:
            LayerNotFoundError: If there is no such layer.
        """
        self._require(path)
        with self._lock:
            self._map.toggle(path)
            self._show_buttons()

    def refresh(self) -> None:
        """Read the weights and run the input again."""
        with self._lock:
            self._alive().forget()
            self._strip.forget()
            self._show()

    def show_input(self, args: object, target: object = None) -> None:
        """Use other data; see the class for the arguments."""
        with self._lock:
            before = self._alive().now
            self._use(Runs(self._asked(before.net, args, target), before.inspector))
            self._strip.use()
            self._show()

    def _use(self, runs: Runs) -> None:
        """Ask another model, or the same about other data."""
        flow = runs.flow()
        self._runs = runs
        if self.selected not in flow.layers:
            self._map.chosen = ""
        self._map.use(flow)
        self._strip.forget()

    def close(self) -> None:
        """Close all its widgets and release the module."""
        if self._runs is None:
            return
        self._kept.close()
        with self._lock:
            self._runs = None
            self._access.work.stop()
            self._empty(self._panel)
            close_parts(self)
            close_whole(self.look)
            super().close()

    # Gestures

    def _clicked(self, key: str) -> None:
        with self._lock:
            if key not in self.flow.layers:
                return
            if key == self.selected and self.flow.layers[key].children:
                self.toggle(key)
            else:
                self.select(key)

    def _move(self, move: Move) -> None:
        """Move the selection by a key."""
        with self._lock:
            if self._runs is None:
                return
            path = self._map.step(move)
            if path is not None:
                self.select(path)
            self._show_buttons()
            self._page.told = self._map.told()

    def _close_all(self) -> None:
        with self._lock:
            self._map.close_all()
            self._show_buttons()

    def _turn(self) -> None:
        """Ask the checkpoint that was chosen by the slider, or stay where the explorer is."""
        try:
            self.checkpoint = self._weights.value or None
            self._say("")
        except Exception as error:  # noqa: BLE001  shown where it was provoked
            self._weights.look(self.checkpoint)
            self._say(f"{type(error).__name__}: {error}")

    def follow(self, selection: Sequence[str]) -> None:
        """Show what is selected in a drawing: a layer, a function, or with anything else the model.

        After an edit of the editor that is explored, its model is asked as it is now.
        """
        with self._lock:
            if self._runs is None:
                return
            edited = None if self._editor is None else self._editor.model
            again = edited is not None and uncompiled(edited) is not self._runs.now.net
            if edited is not None and again:
                self._use(Runs(self._runs.now.asked.of(edited), Inspector(edited)))
            [path] = selection if len(selection) == 1 else [self.selected]
            known = path in self.flow.layers
            wrong = self._editor is not None and edited is None
            self._say(_UNFINISHED if wrong else "" if known else f"{path} {_NOT_ASKED}")
            if again or (path if known else "") != self.selected:
                self.select(path if known else "")

    def _show_tree(self) -> None:
        """Bring the map to where it can be seen: below the editor whose own explorer this is, or in its cell."""
        if self._editor is not None:
            self._editor.show_below(self)
        self._page.send({"kind": "show"})

    def _draw(self) -> None:
        """Show the drawing below, or hide it."""
        try:
            self._drawing.toggle()
            self._drawing.point_out(self.selected)
        except Exception as error:  # noqa: BLE001  a module that cannot be drawn says why
            self._say(f"{type(error).__name__}: {error}")

    # Details

    def _show(self) -> None:
        if self._runs is None:
            return
        self._show_buttons()
        self._weights.look(self.checkpoint)
        self._access.work.stop()
        self._empty(self._panel)
        self._questions = None
        self._tab.layout.display = "" if self.selected and self._alive().asked.examples.given else "none"
        if not self.selected:
            self._panel.children = (ipywidgets.HTML(overview_html(self.flow)),)
        elif self._tab.value == TABS[0] or not self._alive().asked.examples.given:
            self._panel.children = tuple(
                widgets_of(self._alive().details(self.flow, self.selected, self.example, self._show))
            )
        else:
            self._questions = Questions(self._access, self.selected, self.example, self._strip.answer)
            self._panel.children = tuple(answered(self._tab.value, self._questions, self._strip, self._count_in))

    def _count_in(self, dim: int) -> None:
        """Count the units of the layer in another dimension."""
        self._access.settings["dim"] = dim
        self._show()

    def _ask(self, ask: str) -> None:
        """Answer what was pressed in the page: a number of the panel, or a cell of a table about the same data."""
        with self._lock, suppress(ValueError):  # a page may send anything
            match ask.split(":"):
                case "value", place if self._questions is not None:
                    self._questions.explain(tuple(map(int, place.split(","))))
                case "pair", key, true, predicted if self._runs is not None and self._strip.is_of(key):
                    self._strip.pair(int(true), int(predicted))
                    self._page.send({"kind": "show"})
                case "example", key, place if self._runs is not None and self._strip.is_of(key):
                    self.example = int(place)
                    self._page.send({"kind": "show"})
                case _:
                    pass

    def _drop(self, name: str, content: bytes | None) -> None:
        with self._lock:
            if self._runs is not None:
                self._strip.own.drop(name, content)

    def _show_buttons(self) -> None:
        layer = self.flow.layers[self.selected]
        self._open_button.disabled = not self.selected or not layer.children
        self._open_button.description = "Close" if self.selected and self.selected in self._map.opened else "Open"

    # The rest

    def _say(self, text: str) -> None:
        said = html.escape(text, quote=False)
        self._said.value = f'<span class="pnne-quiet" role="status">{said}</span>' if text else ""

    def _require(self, path: str) -> None:
        self._alive()
        expect(path, str, "path", "the path of a layer", "explorer.flow.layers lists them.")
        if path not in self.flow.layers:
            raise LayerNotFoundError(f"The model has no layer {path!r}.{near_layers(path, self.flow.layers)}")

    def _asked(self, net: nn.Module, data: object, target: object) -> Asked:
        labels, tokenizer, loss = self._reads
        return Asked(net, Examples(net, data, target, free=loss is not None), labels, tokenizer, loss)

    def _alone(self, ask: Callable[[], Any]) -> Any:
        """Call `ask` when no cell and no training uses the model; show the answer later if a cell does."""
        try:
            with self._alive().alone():
                return ask()
        except ModelInUseError:
            cells.at_end(weakly(self._strip.refresh))
            cells.at_end(weakly(self._show))
            raise

    def _alive(self) -> Runs:
        if self._runs is None:
            raise InspectionError("The explorer was closed. ModuleExplorer(net) makes another one.")
        return self._runs

    @staticmethod
    def _empty(box: ipywidgets.Box) -> None:
        children = box.children
        box.children = ()
        for child in children:
            close_whole(child)
