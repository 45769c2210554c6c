"""What a training says of itself: its state and error, the live model, how far it is, what it was made of."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
from torch import nn

from pnne_nb.diagnosis.fault import Fault
from pnne_nb.diagnosis.judge import Judge
from pnne_nb.errors import AnswersNames, answers_misuse, no_attribute, require_settable
from pnne_nb.habits import Habits
from pnne_nb.runtime.data.sources import DatasetSource, TensorSource
from pnne_nb.runtime.data.tables import Given
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.monitoring.memory_estimate import MemoryNeeds, needs_of
from pnne_nb.runtime.objective.losses import LossChoice
from pnne_nb.runtime.session.evaluate import Evaluation, evaluate, predict
from pnne_nb.runtime.session.next_steps import NextSteps
from pnne_nb.runtime.session.session import Session
from pnne_nb.runtime.setup.config import Config
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import ProgressFrame, TrainingState

_DATA: Final = Habits("evaluation")
"""What to write instead of arguments that evaluation has in other libraries."""

_SETTINGS: Final = Habits("engine", "engine-settings")


class EngineState(metaclass=AnswersNames):
    """The half of a `TrainingEngine` that gives no commands."""

    device: torch.device
    channel: Channel
    history: History

    _elsewhere = Habits("engine")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loop, self._control, self._boundary = session.loop, session.control, session.boundary
        self._execution, self._reports = session.execution, session.reports
        self.device = self._loop.recipe.device
        self.channel = self._reports.channel
        self.history = self._reports.history

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, self._elsewhere)

        def __enter__(self) -> NoReturn:
            raise TypeError(
                "A training needs no with block. Write engine.start(); engine.wait(). To look at the model while it "
                "trains: with engine.paused() as model: ..."
            )

        def __exit__(self, *_: object) -> None: ...

        def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
            raise TypeError("An engine is no model. Write engine.start() to train, engine.predict(X) for outputs.")

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            "A training cannot be copied or pickled, because it runs. Write engine.save_checkpoint(path), and "
            "pn.TrainingEngine.resume_from(path, ...) to go on; copy.deepcopy(engine.model) is the model."
        )

    def __setattr__(self, name: str, value: object) -> None:
        require_settable(self, name, _SETTINGS)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        read, start = self._session.reader, self._session.start
        weights = (
            f", weights of {start}" if start else ", fresh weights" if self._session.live_source is not None else ""
        )
        data = f", data={read}" if read.tells else ""
        name = type(self._session.model).__name__
        train = self.recipe.train
        live = train.lives_on if isinstance(train, TensorSource) else None
        data += f", data live on {live}" if live is not None else ""
        return f"TrainingEngine({name}{weights}{data}, loss={self.loss_choice}, state={self.state!r})"

    def _repr_html_(self) -> str:
        progress = self.progress
        where = f"Epoch {min(progress.epoch, progress.epochs)} of {progress.epochs}, {progress.step} steps"
        failed = "" if self.error is None else f"<p>{escape(in_brief(self.error))}</p>"
        found = f"<p>{escape(verdict)}</p>" if (verdict := self.judge.verdict) else ""
        picture = self.history._repr_html_() if progress.step else ""
        return f"<p><code>{escape(repr(self))}</code></p><p>{where}</p>{failed}{found}{picture}"

    @property
    def loss_choice(self) -> LossChoice:
        """The name of the loss, and why it was chosen if none was given."""
        return self._session.loss_choice

    @property
    def weights_of(self) -> str:
        """What the training's first weights came from, in words; empty if they were drawn, or those of a given module."""
        return self._session.start

    @property
    def state(self) -> TrainingState:
        """``"idle"``, ``"running"``, ``"paused"``, ``"finished"``, ``"stopped"`` or ``"failed"``."""
        return self._control.state

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes in the order of their numbers, if the targets were given as names."""
        return self._session.reader.classes

    @property
    def checkpoint_dir(self) -> Path | None:
        """Where checkpoints are written, or None."""
        return self._session.checkpoint_dir

    @property
    def error(self) -> BaseException | None:
        """What made the training fail, or None."""
        return self._session.error

    @property
    def judge(self) -> Judge:
        """What finds faults while it trains; ``pn.diagnose(engine)`` lists them."""
        return self._reports.judge

    @property
    def model(self) -> nn.Module:
        """The live model; in a notebook cell, training waits from here to the end of the cell."""
        self._boundary.use()
        self._session.sync()
        return self._session.model

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The live optimizer; in a notebook cell, training waits from here to the end of the cell."""
        self._boundary.use()
        return self._loop.recipe.optimizer

    @property
    def epochs(self) -> int:
        """The last epoch that the training under way will make."""
        return self._session.announcer.last_epoch

    @property
    def module(self) -> nn.Module:
        """The live model without a turn at it: for the names of its layers, and for probes; do not run it."""
        return self._session.model

    @property
    def gradient_scale(self) -> float:
        """The factor that gradients have inside a backward pass: of the scaler with ``precision="16"``, otherwise 1."""
        return self._loop.recipe.precision.scale

    @property
    def waiting_for(self) -> str | None:
        """What a running training waits for between two steps or before the first one, in words, or None."""
        return self._execution.waiting_for

    @property
    def edited(self) -> bool:
        """Whether the graph says something else than what is in training: to resume after a pause takes it in."""
        source = self._session.live_source
        return source is not None and source.edited

    @property
    def progress(self) -> ProgressFrame:
        """How far training has come."""
        return self._session.announcer.progress

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that are plain values, as a file can keep them; functions and objects are left out."""
        return self.config.plain()

    @property
    def config(self) -> Config:
        """All arguments but for the model and the data."""
        return self._session.config

    @property
    def recipe(self) -> Recipe:
        """What the training works with, made of the arguments; it belongs to the training."""
        return self._loop.recipe

    @answers_misuse("engine.evaluate((X_test, y_test))", _DATA)
    def evaluate(self, data: Given | None = None) -> Evaluation:
        """Return loss and metrics of the model on `data`; a running training waits meanwhile, and goes on as if nothing was.

        Beside the metrics of the training there are, for targets that are quantities, R² and the mean absolute error, and
        what always answering the most frequent class, or the mean, would give.

        Args:
            data: In any form that `TrainingEngine` takes; None for its validation data, or without any its training data.

        Raises:
            TrainingError: Only the model or a step function knows how to compare, or the data cannot be read.
        """
        return evaluate(self._session, data)

    @answers_misuse("engine.predict(X)", _DATA | {"data": "engine.predict(X)"})
    def predict(self, data: Any) -> Any:
        """Return the outputs of the model in evaluation mode, joined on the CPU; a running training waits meanwhile.

        Args:
            data: The inputs `[N, ...]` as an array, several of them in a tuple, or by the names of ``forward``'s
                parameters; a Dataset or a DataLoader may have the target beside them, which is left out.

        Raises:
            TrainingError: The data is empty or cannot be read.
        """
        return predict(self._session, data)

    def next_steps(self) -> NextSteps:
        """Return what can be done now, as lines to type: look, try, go on, shrink, ship."""
        return NextSteps(self.state)

    def examples(self, count: int) -> Any:
        """Return the first `count` examples of the validation data, else of the training data, as one batch; None of a stream."""
        source = self.recipe.train if self.recipe.val is None else self.recipe.val
        return source.first(count) if isinstance(source, TensorSource | DatasetSource) else None

    @property
    def document(self) -> str | None:
        """The graph file of a training that makes its own weights of a graph; None if the model was given as a module."""
        return None if self._session.live_source is None else self._session.live_source.document

    @property
    def memory_needs(self) -> MemoryNeeds:
        """What the training takes of its device's memory, without running it; a start warns where there is less."""
        return needs_of(self._loop.recipe)

    @property
    def in_process(self) -> bool:
        """Whether the training was last started in a process of its own; `step` and a dashboard start it there again."""
        return self._execution.in_process

    @property
    def direct_buttons(self) -> str:
        """Where a page of this machine may halt the training's own process, whatever the kernel does; empty if nowhere."""
        return self._execution.executor.buttons

    @property
    def failed_at(self) -> str | None:
        """Path of the node, or of the layer, at which the training failed; None if it has not, or not at one."""
        return None if self.error is None else self._session.failed_at

    @property
    def fault(self) -> Fault | None:
        """Where the NaN or infinity was made that has ended the training, why, and what to do; None if none has."""
        return self._session.fault
