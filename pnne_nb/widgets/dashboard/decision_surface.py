"""`DecisionSurface`: what a training's model answers on a plane through its inputs, drawn while it trains."""

from __future__ import annotations

import colorsys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, final

import bqplot
import ipywidgets
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnne_nb.errors import ArgumentError, PnneError, expect, shown
from pnne_nb.process.subscribers import weakly
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import ALIVE, ENDED, Frame, StateFrame, StepFrame
from pnne_nb.widgets.dashboard.engine_view import keep_picture
from pnne_nb.widgets.host.displays import close_parts
from pnne_nb.widgets.host.images import Pixels, data_url, png
from pnne_nb.widgets.host.pump import Pacer, Pump
from pnne_nb.widgets.host.static_picture import Kept, KeptPicture, Pictured, Still
from pnne_nb.widgets.plots.figures import Figure, NumberAxis
from pnne_nb.widgets.plots.svg_chart import PALETTE, Chart, Ground, Panel, linear_ticks, scattered

WIDE, HIGH = 72, 48
"""Places of the plane at which the model is asked."""
HZ: Final = 10.0
"""Drawings a second."""
BUDGET: Final = 0.1
"""Share of a core's time for drawing; asking the model is most of it."""
MAX_POINTS: Final = 500
"""Most points that are drawn, evenly chosen."""
_FAINT, _STRONG = 25, 120
"""Opacity, of 255, where all answers are equally likely, and where one is certain."""

Floats = NDArray[np.floating[Any]]


class _Plane(NamedTuple):
    """A plane through the inputs, and where the examples lie in it.

    Attributes:
        origin: A point of the plane, `[features]`.
        axes: Two directions, `[2, features]`.
        points: Of the examples, `[n, 2]`, along the two directions.
        labels: Of the two directions.
        shape: Of one example, as the model takes it.
    """

    origin: Floats
    axes: Floats
    points: Floats
    labels: tuple[str, str]
    shape: tuple[int, ...]

    def box(self) -> tuple[Floats, Floats]:
        """Return the lowest and the highest corner that is drawn: the examples and a margin, up to round numbers."""
        low, high = self.points.min(0), self.points.max(0)
        margin = np.where(high > low, 0.05 * (high - low), 1.0)
        once = [linear_ticks(*sides) for sides in zip(low - margin, high + margin, strict=True)]
        ends = [linear_ticks(ticks[0], ticks[-1]) for ticks in once]  # as the axes will round them
        return np.array([ticks[0] for ticks in ends]), np.array([ticks[-1] for ticks in ends])

    def grid(self) -> Tensor:
        """Return inputs for all places, row by row from the top: `[HIGH * WIDE, *shape]`."""
        low, high = self.box()
        x, y = np.meshgrid(np.linspace(low[0], high[0], WIDE), np.linspace(high[1], low[1], HIGH))
        places = self.origin + np.stack([x.ravel(), y.ravel()], 1) @ self.axes
        return torch.as_tensor(places.reshape(-1, *self.shape), dtype=torch.float32)


@final
class DecisionSurface(Figure, Kept, Pictured):
    """What the model of a training answers on a plane through its inputs; it moves while the model trains.

    Each place has the colour of the answer there, and more of it the surer the answer is. The dots are the examples, in
    the colour of their target. Inputs that span no axis have their mean everywhere.

    Args:
        engine: The training. It waits while its model is asked, a tenth of its time at most.
        data: The examples ``(X, y)``: inputs `[N, ...]` with at least two numbers each, and a target for each.
        inputs: The numbers of the two inputs that span the plane, or ``"pca"``: the plane of the examples' two principal
            components. None takes both of two inputs, and the principal components of more.
        height: In pixels.

    Raises:
        ArgumentError: Something else was given; the message says what and why.
    """

    _engine: TrainingEngine | None = None  # also of one that was refused

    def __init__(
        self, engine: TrainingEngine, data: Any, *, inputs: Sequence[int] | str | None = None, height: int = 330
    ) -> None:
        expect(engine, TrainingEngine, "engine", "a TrainingEngine", "Write pn.DecisionSurface(engine, (X, y)).")
        features, self._targets = _examples(data, engine.classes)
        self._plane = _plane_of(features, inputs)
        self._grid = self._plane.grid()
        try:
            pixels, self._columns = self._answers(engine)
        except RuntimeError as error:
            if isinstance(error, PnneError):
                raise
            raise ArgumentError(
                "The model does not take the points between the examples, which are real numbers: tokens and other whole "
                f"numbers span no surface. It said: {str(error).splitlines()[0]}"
            ) from error
        low, high = self._plane.box()
        x, y = (NumberAxis(label, vertical=up) for label, up in zip(self._plane.labels, (False, True), strict=True))
        for axis, ends in zip((x, y), np.stack([low, high], 1), strict=True):
            axis.fit(ends)
        scales = {"x": x.scale, "y": y.scale}
        # bqplot shows another picture, and no other value of the same one: two take turns.
        self._pictures = [ipywidgets.Image(value=png(pixels), format="png") for _ in range(2)]
        ground = bqplot.Image(
            image=self._pictures[0], scales=scales, x=[low[0], high[0]], y=[low[1], high[1]], pixelated=False
        )
        dots = bqplot.Scatter(
            x=self._plane.points[:, 0],
            y=self._plane.points[:, 1],
            scales=scales,
            colors=[_hex(colour) for colour in self._colours_of_targets()],
            default_size=30,
            stroke="white",
        )
        self._engine = engine
        super().__init__([ground, dots], [x.axis, y.axis], top=36, height=height)
        self.title = _title(engine)
        self.add_class("pnne-figure")
        self._kept = KeptPicture(lambda: "the decision surface", self.to_html)
        self._channel = Channel(8)
        self._pump = Pump(self._channel, self, Pacer(HZ, budget=BUDGET))
        removals = [engine.on(kind, weakly(self._hear), waits=False) for kind in ("step", "state")]
        self._release = weakref.finalize(self, self._pump.release, *removals, self._kept.close)
        if engine.state in ALIVE:
            self._pump.start()

    def __repr__(self) -> str:
        return "DecisionSurface()"

    def still(self) -> Still:
        """Return the surface as it is now.

        Raises:
            RuntimeError: It was closed.
        """
        engine = self._engine
        if engine is None:
            raise RuntimeError("The surface was closed. DecisionSurface(engine, data) makes another one.")
        (low, high), (pixels, _) = self._plane.box(), self._answers(engine)
        colours = self._colours_of_targets()
        names = engine.classes or range(self._columns)
        lines = []
        for colour in dict.fromkeys(map(tuple, colours.tolist())):
            x, y = self._plane.points[(colours == colour).all(1)].T
            number = self._palette().tolist().index(list(colour)) if self._are_classes else -1
            label = f"class {names[number]}" if number >= 0 and self._columns <= len(PALETTE) else ""
            lines.append(scattered(label, x, y, _hex(np.array(colour))))
        ground = Ground(data_url(pixels), (float(low[0]), float(high[0])), (float(low[1]), float(high[1])))
        panel = Panel(self._plane.labels[1], self._plane.labels[0], lines, counts=False, ground=ground)
        return Chart(_title(engine), [panel], [f"{len(self._plane.points)} examples."]).still()

    def close(self) -> None:
        """Stop drawing and close all its widgets; the training continues."""
        if self._engine is None:
            return
        self._engine = None
        self._release()
        self._pump.join(5.0)
        close_parts(self._pictures[1])
        self._pictures[1].close()
        super().close()

    def _hear(self, frame: StepFrame | StateFrame) -> None:
        self._channel.put(frame)
        self._pump.start()
        if isinstance(frame, StateFrame):
            keep_picture(self._kept, frame)

    # The pump's thread

    def take(self, frames: Sequence[Frame]) -> bool:
        """Return whether the training has ended."""
        return any(isinstance(frame, StateFrame) and frame.state in ENDED for frame in frames)

    def stale(self) -> bool:
        """Return False: frames report every change."""
        return False

    def draw(self, tick: int, *, watched: bool) -> None:  # noqa: ARG002  bqplot tells nothing of a browser
        """Ask the model and send its answers."""
        engine = self._engine
        if engine is None:
            return
        try:
            pixels, _ = self._answers(engine)
        except (PnneError, RuntimeError) as error:
            # An edit can take away what the plane is made of.
            self.title = f"The network no longer takes these examples: {str(error).splitlines()[0]}"
            return
        self._pictures.reverse()
        self._pictures[0].value = png(pixels)
        self.marks[0].image = self._pictures[0]
        self.title = _title(engine)
        # A page does not say when it has painted a figure of bqplot; a picture is small, and a pause follows it.
        self._pump.acknowledge(tick)

    @property
    def _are_classes(self) -> bool:
        return not np.issubdtype(self._targets.dtype, np.floating)

    def _answers(self, engine: TrainingEngine) -> tuple[Pixels, int]:
        """Return the picture of the answers, and the number of classes.

        Raises:
            ArgumentError: The model does not give a number, or scores of classes, for each example.
        """
        given = engine.predict(self._grid)
        if not isinstance(given, Tensor) or given.dim() not in (1, 2):
            form = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ArgumentError(
                f"A surface shows one answer for each example, a number or scores; the model gives {form}."
            )
        answers = given.float().numpy().reshape(len(given), -1)
        shares = _shares(answers, engine.loss_choice.name, self._targets)
        if self._are_classes and not set(self._targets.tolist()) <= set(range(shares.shape[1])):
            raise ArgumentError(
                f"y has classes from {self._targets.min()} to {self._targets.max()}, and the model gives "
                f"{shares.shape[1]} scores, of the classes 0 to {shares.shape[1] - 1}."
            )
        self._columns = shares.shape[1]
        return _painted(shares, self._palette()), self._columns

    def _palette(self) -> NDArray[np.uint8]:
        return palette(self._columns)

    def _colours_of_targets(self) -> NDArray[np.uint8]:
        colours = self._palette()
        if self._are_classes:
            of_classes: NDArray[np.uint8] = colours[self._targets]
            return of_classes
        share = _scaled(self._targets, self._targets)[:, None]
        first, second = colours[:2].astype(float)
        blended: NDArray[np.uint8] = ((1 - share) * first + share * second).round().astype(np.uint8)
        return blended


def palette(classes: int) -> NDArray[np.uint8]:
    """Return a colour for each class, `[classes, 3]`: those of the plots, or as many hues."""
    if classes <= len(PALETTE):
        return np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in PALETTE[:classes]], np.uint8)
    hues = [colorsys.hls_to_rgb(index / classes, 0.45, 0.7) for index in range(classes)]
    return np.array([[round(255 * part) for part in hue] for hue in hues], np.uint8)


def _title(engine: TrainingEngine) -> str:
    step = engine.progress.step
    return f"Answers after {step:,} step{'' if step == 1 else 's'}"


def _hex(colour: NDArray[np.uint8]) -> str:
    return "#" + "".join(f"{int(part):02x}" for part in colour)


def _examples(data: Any, classes: Sequence[str] | None) -> tuple[Floats, NDArray[Any]]:
    """Return inputs `[n, ...]` and targets `[n]`, at most `MAX_POINTS`; classes as whole numbers, quantities as floats.

    Raises:
        ArgumentError: `data` is no such pair.
    """
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ArgumentError(f"data must be the examples (X, y), not {shown(data)}.")
    features, targets = (np.asarray(part) for part in data)
    if features.ndim < 2 or features[0].size < 2 or not np.issubdtype(features.dtype, np.number):
        raise ArgumentError(
            f"X must hold two numbers or more of each example, [N, ...], not {features.dtype} {list(features.shape)}."
        )
    if targets.size != len(features):
        raise ArgumentError(f"y must hold one target of each example: X has {len(features)}, and y {targets.size}.")
    chosen = np.linspace(0, len(features) - 1, min(MAX_POINTS, len(features))).round().astype(int)
    features, targets = features[chosen].astype(np.float64), targets.ravel()[chosen]
    if targets.dtype.kind in "UO":
        given = set(targets.tolist())
        names = list(classes) if classes and given <= set(classes) else sorted(given)
        targets = np.array([names.index(name) for name in targets.tolist()])
    if not (np.isfinite(features).all() and np.isfinite(targets).all()):
        raise ArgumentError("A NaN or an infinity has no place in the plane. Leave such examples out.")
    if set(targets.tolist()) <= {0, 1}:
        targets = targets.astype(np.int64)
    return features, targets


def _plane_of(features: Floats, inputs: object) -> _Plane:
    """Return the plane that `inputs` names.

    Raises:
        ArgumentError: There are no such inputs.
    """
    flat = features.reshape(len(features), -1)
    count, mean = flat.shape[1], flat.mean(0)
    shape = features.shape[1:]
    if inputs == "pca" or (inputs is None and count > 2):
        _, _, directions = np.linalg.svd(flat - mean, full_matrices=False)
        axes = np.zeros((2, count))
        axes[: min(2, len(directions))] = directions[:2]
        # A direction has no sign of its own: the largest share of it is positive.
        axes *= np.sign(axes[[0, 1], np.abs(axes).argmax(1)])[:, None]
        return _Plane(mean, axes, (flat - mean) @ axes.T, ("principal component 1", "principal component 2"), shape)
    chosen: list[Any] = [0, 1] if inputs is None else list(inputs) if isinstance(inputs, Iterable) else []
    if len(chosen) != 2 or not all(one in range(count) for one in chosen) or chosen[0] == chosen[1]:
        raise ArgumentError(
            f'inputs must be two different numbers from 0 to {count - 1}, or "pca", not {shown(inputs)}.'
        )
    axes = np.eye(count)[chosen]
    origin = np.where(axes.any(0), 0.0, mean)
    return _Plane(origin, axes, flat[:, chosen], (f"input {chosen[0]}", f"input {chosen[1]}"), shape)


def _shares(answers: Floats, loss: str, targets: NDArray[Any]) -> Floats:
    """Return how much each place belongs to each class, `[n, classes]`; of quantities, to the lowest and the highest."""
    if answers.shape[1] > 1:
        raised = np.exp(answers - answers.max(1, keepdims=True))
        softmax: Floats = raised / raised.sum(1, keepdims=True)
        return softmax
    if np.issubdtype(targets.dtype, np.floating):
        second = _scaled(answers, targets)
    else:
        second = answers if loss == "BCELoss" else 1 / (1 + np.exp(-answers.clip(-50, 50)))
    return np.concatenate([1 - second, second], 1)


def _scaled(values: Floats, targets: Floats) -> Floats:
    """Return how far each value lies between the lowest and the highest target, 0 to 1."""
    low, high = targets.min(), targets.max()
    share: Floats = ((values - low) / ((high - low) or 1.0)).clip(0, 1)
    return share


def _painted(shares: Floats, colours: NDArray[np.uint8]) -> Pixels:
    """Return `[HIGH, WIDE, 4]` pixels: the colour of the leading class, the fainter the less it leads."""
    shares = np.nan_to_num(shares)
    least = 1 / shares.shape[1]
    lead = ((shares.max(1) - least) / (1 - least)).clip(0, 1)
    pixels = np.zeros((len(shares), 4), np.uint8)
    pixels[:, :3] = colours[shares.argmax(1)]
    pixels[:, 3] = (_FAINT + lead * (_STRONG - _FAINT)).round()
    return pixels.reshape(HIGH, WIDE, 4)
