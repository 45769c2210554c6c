"""`History`: the measurements of a training, in bounded memory."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from pnne_nb.errors import ArgumentError, UnknownSeriesError, answers_misuse, choose, near, no_attribute, shown
from pnne_nb.habits import Habits
from pnne_nb.process.fork import fork_safe
from pnne_nb.runtime.monitoring.tensorboard import write_scalars
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, Frame, MemoryFrame, NormsFrame, StepFrame
from pnne_nb.telemetry.plot_hook import installed_plots
from pnne_nb.telemetry.series import Series

if TYPE_CHECKING:
    import pandas as pd

ANOMALIES_KEPT = 1000
EDITED = "graph-edited"
"""Kind of the event that says that the graph was edited in the middle of a training."""


@final
class _NothingYet(np.ndarray[Any, np.dtype[np.float64]]):
    """The values of a series that has none; the first and the last of them are answered."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | np.integer):
            raise IndexError("Nothing has been measured yet. Write engine.wait(), or engine.step(), before it.")
        return super().__getitem__(key)


@final
class History(Mapping[str, NDArray[np.float64]]):
    """Metrics by name as arrays: ``history["loss"]`` over steps, ``history["val_loss"]`` over epochs.

    Over steps there are ``"loss"`` and ``"learning_rate"``; at some of the steps ``"gradient_norm"`` (of all
    gradients together, before clipping), ``"memory"`` (bytes in use by tensors on the accelerators, or by the
    process where there is none; then ``"process_memory"`` beside it), with scaled gradients ``"loss_scale"``, and
    what a step function records.
    Of a very long training they keep the extremes of equal stretches. Over epochs there are ``"train_loss"``,
    ``"val_loss"`` and the metrics, all of them in full. `steps` tells where the values of a name belong. Safe to
    read from any thread at any time.

    Args:
        capacity: Points kept at most for each name over steps.
    """

    def __init__(self, capacity: int = 1 << 16) -> None:
        self._lock = fork_safe(threading.Lock())
        self._capacity = capacity
        self._series = {"loss": Series(capacity), "learning_rate": Series(capacity)}
        self._epochs: dict[str, array[float]] = {}
        self._epoch_numbers = array("q")
        self._epoch_steps = array("q")
        self._anomalies: list[AnomalyFrame] = []
        self._total_steps = 0
        self._skipped_steps = 0
        self._seconds = 0.0

    # Of mappings, equality is that of their values, and whether two arrays are equal is no yes or no.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, which people keep to compare runs while the training goes on."""
        return {"capacity": self._capacity, "recorded": self.state_dict()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Become what `__getstate__` was taken from."""
        History.__init__(self, state["capacity"])
        self.load_state_dict(state["recorded"])

    def __repr__(self) -> str:
        with self._lock:
            steps, epochs = self._total_steps, len(set(self._epoch_numbers))
        return f"History({steps} steps, {epochs} epochs: {', '.join(self)})"

    def record(self, frame: StepFrame | EpochFrame | AnomalyFrame | MemoryFrame) -> None:
        """Record a frame."""
        if isinstance(frame, StepFrame):
            self.record_step(frame)
            return
        with self._lock:
            match frame:
                case MemoryFrame():
                    self._record_memory(frame)
                case EpochFrame():
                    self._record_epoch(frame)
                case AnomalyFrame():
                    self._anomalies.append(frame)
                    del self._anomalies[:-ANOMALIES_KEPT]

    def record_step(self, frame: StepFrame) -> None:
        """Record a step."""
        step = frame.step
        with self._lock:
            self._series["loss"].append(step, frame.loss)
            self._series["learning_rate"].append(step, frame.learning_rate)
            if frame.gradient_norm is not None:
                self._over_steps("gradient_norm").append(step, frame.gradient_norm)
            if frame.loss_scale is not None:
                self._over_steps("loss_scale").append(step, frame.loss_scale)
            if frame.logged is not None:
                for name, value in frame.logged.items():
                    self._over_steps(name).append(step, value)
            self._skipped_steps += frame.skipped
            self._total_steps, self._seconds = step, frame.seconds

    def _record_memory(self, frame: MemoryFrame) -> None:
        if frame.devices:
            self._over_steps("memory").append(frame.step, sum(device.allocated for device in frame.devices.values()))
            self._over_steps("process_memory").append(frame.step, frame.process)
        else:
            self._over_steps("memory").append(frame.step, frame.process)

    def _over_steps(self, name: str) -> Series:
        if name not in self._series:
            self._series[name] = Series(self._capacity)
        return self._series[name]

    def _record_epoch(self, frame: EpochFrame) -> None:
        before = len(self._epoch_numbers)
        for name in frame.metrics:
            if name not in self._epochs:
                self._epochs[name] = array("d", [float("nan")] * before)
        at = frame.epoch, frame.step
        if before and at == (self._epoch_numbers[-1], self._epoch_steps[-1]):
            # The same moment, told in parts: a hand-written loop validates after its epoch.
            for name, value in frame.metrics.items():
                self._epochs[name][-1] = value
            return
        self._epoch_numbers.append(frame.epoch)
        self._epoch_steps.append(frame.step)
        for name, values in self._epochs.items():
            values.append(frame.metrics.get(name, float("nan")))

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """Return the values of `name`, one for each step or epoch that is kept.

        Raises:
            UnknownSeriesError: There is no such name.
        """
        if not isinstance(name, str):
            raise UnknownSeriesError(
                f'The history has values by name, not by {shown(name)}. Write engine.history["loss"][-1] for the last loss, or '
                "engine.history.to_frame() for a table."
            )
        values = self.points(name)[1]
        return values if len(values) else values.view(_NothingYet)

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        """Refuse ``pd.DataFrame(engine.history)``, which would be a column of names."""
        raise TypeError(
            "The series of a history have different lengths. Write engine.history.to_frame() for the epochs, or "
            'engine.history.to_frame("steps"); engine.history["loss"] is an array.'
        )

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter([*self._series, *self._epochs])

    def __len__(self) -> int:
        with self._lock:
            return len(self._series) + len(self._epochs)

    def steps(self, name: str = "loss") -> NDArray[np.int64]:
        """Return the optimizer steps at which the values of `name` were measured.

        Raises:
            UnknownSeriesError: There is no such name.
        """
        return self.points(name)[0]

    def points(self, name: str = "loss") -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the steps and values of `name` together, because they may grow between two separate reads.

        Raises:
            UnknownSeriesError: There is no such name.
        """
        with self._lock:
            if name in self._series:
                steps, values, _ = self._series[name].points()
                return np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64)
            if name in self._epochs:
                return np.array(self._epoch_steps, dtype=np.int64), np.array(self._epochs[name], dtype=np.float64)
        raise self._unknown(name)

    def _unknown(self, name: object) -> UnknownSeriesError:
        said, meant = name if isinstance(name, str) else "", near(name, self)
        if not self._epochs and said.startswith(("train_", "val_")):
            meant = " An epoch has to end first: engine.wait()."
            if said.startswith("val_"):
                meant += " If nothing is validated, give val_data=(X, y) to the engine."
        elif said.startswith("val_") and not any(one.startswith("val_") for one in self):
            meant = " Nothing was validated: give val_data=(X, y) to the engine."
        return UnknownSeriesError(f"The history has no {shown(name)}; it has {', '.join(self)}.{meant}")

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            own = {} if name.startswith("_") or name not in self else {name: f'engine.history["{name}"]'}
            pictures = {form: f"history.plot().{form}()" for form in ("to_svg", "to_png", "to_html")}
            raise no_attribute(self, name, Habits("history") | pictures | own)

    @property
    def nbytes(self) -> int:
        """Memory that the recorded values take, in bytes."""
        with self._lock:
            over_steps = sum(16 * len(series) for series in self._series.values())
            return over_steps + 8 * len(self._epoch_numbers) * (2 + len(self._epochs))

    @property
    def epochs(self) -> NDArray[np.int64]:
        """The numbers of the epochs that the metrics over epochs belong to."""
        with self._lock:
            return np.array(self._epoch_numbers, dtype=np.int64)

    @property
    def anomalies(self) -> list[AnomalyFrame]:
        """The anomalies, oldest first; at most the last 1000."""
        with self._lock:
            return list(self._anomalies)

    @property
    def cuts(self) -> NDArray[np.int64]:
        """The steps after which the graph was edited: values before and after belong to different models."""
        with self._lock:
            return np.array([frame.step for frame in self._anomalies if frame.kind == EDITED], dtype=np.int64)

    def epoch_frames(self) -> list[EpochFrame]:
        """Return the metrics over epochs as the frames that they came in."""
        with self._lock:
            rows = zip(self._epoch_numbers, self._epoch_steps, strict=True)
            return [
                EpochFrame(epoch, step, {name: values[row] for name, values in self._epochs.items()})
                for row, (epoch, step) in enumerate(rows)
            ]

    def frames(self) -> list[Frame]:
        """Losses, gradient norms, metrics and anomalies as frames, for ``pn.diagnose``.

        What a frame of a step has beside its loss and learning rate is 0: the history keeps only the values.
        """
        steps, losses = self.points("loss")
        rates = dict(zip(*(array.tolist() for array in self.points("learning_rate")), strict=True))
        norms = zip(*self.points("gradient_norm"), strict=True) if "gradient_norm" in self else ()
        return [
            *(NormsFrame(int(step), {}, float(total)) for step, total in norms),
            *(
                StepFrame(step, 0, loss, rates.get(step, math.nan), 0, 0.0)
                for step, loss in zip(steps.tolist(), losses.tolist(), strict=True)
            ),
            *self.epoch_frames(),
            *self.anomalies,
        ]

    @property
    def skipped_steps(self) -> int:
        """Number of steps that did not change the parameters, because a scaled gradient overflowed."""
        with self._lock:
            return self._skipped_steps

    def summary(self) -> dict[str, Any]:
        """Return the last value of each name, the least loss of an epoch, steps made and skipped, seconds spent.

        Under ``"anomalies"`` stands the list of what went wrong, in words.
        """
        last = {name: self._last(name, values) for name, values in self.items() if len(values)}
        best = {
            f"best_{name}": float(np.nanmin(self[name]))
            for name in ("train_loss", "val_loss")
            if name in self and not np.isnan(self[name]).all()
        }
        with self._lock:
            return {
                **last,
                **best,
                "steps": float(self._total_steps),
                "skipped_steps": float(self._skipped_steps),
                "seconds": self._seconds,
                "anomalies": [f"step {found.step}: {found.message}" for found in self._anomalies],
            }

    def _last(self, name: str, values: NDArray[np.float64]) -> float:
        # Over epochs, NaN means "not measured there", as for the training loss in the middle of an epoch.
        measured = values if name in self._series else values[~np.isnan(values)]
        return float(measured[-1]) if len(measured) else float("nan")

    def to_frame(self, over: Literal["epochs", "steps"] = "epochs") -> pd.DataFrame:
        """Return a pandas table: one row for each epoch, or for each recorded step.

        Args:
            over: ``"epochs"`` gives the metrics, indexed by epoch; ``"steps"`` everything else, indexed by step,
                with NaN where it was not measured.

        Raises:
            ArgumentError: Another `over`.
        """
        choose(over, ("epochs", "steps"), "over")
        import pandas as pd  # noqa: PLC0415  # it takes half a second, and most trainings never make a table

        if over == "epochs":
            columns: dict[str, Any] = {"step": self.steps("train_loss")} if "train_loss" in self else {}
            columns |= {name: self[name] for name in self if name not in self._series}
            return pd.DataFrame(columns, index=pd.Index(self.epochs, name="epoch"))
        points = {name: self.points(name) for name in self if name not in self._epochs}
        series = {name: pd.Series(values, index=steps) for name, (steps, values) in points.items()}
        columns = {name: values[~values.index.duplicated()] for name, values in series.items()}
        return pd.DataFrame(columns).rename_axis(index="step")

    @answers_misuse('engine.history.plot("loss")')
    def plot(self, *names: str | Sequence[str] | History, log: bool = False, labels: Sequence[str] = ()) -> object:
        """Draw the loss and the metrics as a picture, which stays in a saved notebook.

        Args:
            names: Of the series to draw, also in a list; the loss and every metric by default. Training and validation of one
                metric share a panel. The histories of other trainings are drawn over this one: ``a.history.plot(b.history)``.
            log: Whether the vertical axes are logarithmic.
            labels: What to call each training in the legend, this one first; ``run 1``, ``run 2`` by default.

        Returns:
            The picture, which shows itself in a notebook, with ``to_svg(theme)`` and ``to_html(theme)``.

        Raises:
            UnknownSeriesError: There is no such name.
            ArgumentError: There are not as many labels as trainings.
        """
        others = [name for name in names if isinstance(name, History)]
        if labels and len(labels) != len(others) + 1:
            raise ArgumentError(
                f"labels must name each of the {len(others) + 1} trainings, this one first, not {shown(labels)}."
            )
        listed = [[name] if isinstance(name, str) else name for name in names if not isinstance(name, History)]
        chosen = tuple(name for part in listed for name in part)
        return installed_plots().history(self, chosen, log=log, beside=others, labels=labels)

    def _repr_html_(self) -> str:
        with self._lock:
            measured = self._total_steps > 0
        html: str = installed_plots().history(self, ()).to_html() if measured else f"<pre>{escape(repr(self))}</pre>"
        return html

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    @property
    def over_epochs(self) -> frozenset[str]:
        """The names of the series over epochs; all others are over steps."""
        with self._lock:
            return frozenset(self._epochs)

    def to_csv(self, path: str | Path, over: Literal["epochs", "steps"] = "epochs") -> None:
        """Write the table of `to_frame` as a CSV file."""
        self.to_frame(over).to_csv(path)

    def to_tensorboard(self, directory: str | Path) -> Path:
        """Write everything over steps as an event file for TensorBoard, which is the extra ``pnne_nb[tensorboard]``.

        Args:
            directory: What ``tensorboard --logdir`` is given, or a directory in it, whose name is the run's.

        Returns:
            The file.

        Raises:
            TrainingError: TensorBoard is not installed.
        """
        # NaN over epochs means "not measured", over steps a loss that was no number.
        return write_scalars(
            Path(directory),
            (
                (name, int(step), value)
                for name in self
                for step, value in zip(*self.points(name), strict=True)
                if name in self._series or not np.isnan(value)
            ),
        )

    def cut(self, step: int, epoch: int) -> None:
        """Forget everything after `step`, to which the training has returned; the rest of `epoch` comes again."""
        with self._lock:
            for series in self._series.values():
                series.cut(step)
            rows = zip(self._epoch_numbers, self._epoch_steps, strict=True)
            kept = [row for row, (number, at) in enumerate(rows) if number < epoch or at < step]
            for name, values in self._epochs.items():
                self._epochs[name] = array("d", [values[row] for row in kept])
            self._epoch_numbers = array("q", [self._epoch_numbers[row] for row in kept])
            self._epoch_steps = array("q", [self._epoch_steps[row] for row in kept])
            self._total_steps = min(self._total_steps, step)

    def state_dict(self) -> dict[str, Any]:
        """Return the complete history in plain types."""
        with self._lock:
            return {
                "series": {name: _as_tensors(series.state_dict()) for name, series in self._series.items()},
                "epochs": {name: values.tolist() for name, values in self._epochs.items()},
                "epoch_numbers": self._epoch_numbers.tolist(),
                "epoch_steps": self._epoch_steps.tolist(),
                "anomalies": msgspec.json.encode(self._anomalies).decode(),
                "total_steps": self._total_steps,
                "skipped_steps": self._skipped_steps,
                "seconds": self._seconds,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        with self._lock:
            self._series = {}
            for name, saved in state["series"].items():
                self._over_steps(name).load_state_dict({**saved, **{key: saved[key].tolist() for key in _COLUMNS}})
            self._epochs = {name: array("d", saved) for name, saved in state["epochs"].items()}
            self._epoch_numbers = array("q", state["epoch_numbers"])
            self._epoch_steps = array("q", state["epoch_steps"])
            self._anomalies = msgspec.json.decode(state["anomalies"], type=list[AnomalyFrame])
            self._total_steps, self._seconds = state["total_steps"], state["seconds"]
            self._skipped_steps = state["skipped_steps"]


_COLUMNS = {"steps": torch.int64, "values": torch.float64}


def _as_tensors(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a series for a checkpoint, with columns as tensors `[points]`."""
    return {**state, **{key: torch.tensor(state[key], dtype=dtype) for key, dtype in _COLUMNS.items()}}
