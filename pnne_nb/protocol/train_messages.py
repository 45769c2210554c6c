"""Messages of the Train form: what a graph can be trained on, and the training that was started there."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from pnne_nb.protocol.base_message import Answer, ViewRequest

DataKind = Literal["variable", "dataset", "drawn"]
"""A variable of the kernel, a set of ``pn.datasets``, or the Dataset nodes of the graph."""


class GetTrainChoices(ViewRequest, frozen=True, tag="getTrainChoices"):
    """Send what the graph can be trained on, as `TrainChoices`."""


class StartTraining(ViewRequest, frozen=True, tag="startTraining"):
    """Train the graph, as `TrainState` says then.

    Attributes:
        kind: What the data is.
        data: The name of the variable or data set; empty if it is drawn.
        loss: The name of a loss; empty lets the data decide.
        optimizer: The name of an optimizer.
        learning_rate: Its learning rate.
        precision: ``"32"``, ``"bf16"`` or ``"16"``.
        epochs: Passes over the data.
    """

    kind: DataKind
    data: str = ""
    loss: str = ""
    optimizer: str = "AdamW"
    learning_rate: float = 1e-3
    epochs: int = 5
    precision: str = "32"


class ControlTraining(ViewRequest, frozen=True, tag="controlTraining"):
    """Pause, resume or stop the training, show its dashboard under the editor, or only look; answered by `TrainState`."""

    action: Literal["pause", "resume", "stop", "dashboard", "look"]


class DataChoice(msgspec.Struct, frozen=True, rename="camel"):
    """Data that the graph can be trained on.

    Attributes:
        text: What it is, in words.
    """

    kind: DataKind
    name: str
    text: str


class ModuleChoice(msgspec.Struct, frozen=True, rename="camel"):
    """A module of the notebook, which an empty editor offers to begin with.

    Attributes:
        text: Its class.
        line: The code that opens it, on an example or a size that its first layer takes.
    """

    name: str
    text: str
    line: str


class TrainChoices(Answer, frozen=True, tag="trainChoices"):
    """Answer to `GetTrainChoices`: what the notebook has for the editor.

    Attributes:
        widget: The editor's id in the outputs of the notebook.
    """

    data: tuple[DataChoice, ...]
    losses: tuple[str, ...]
    optimizers: tuple[str, ...]
    modules: tuple[ModuleChoice, ...] = ()
    widget: str = ""


class TrainState(Answer, frozen=True, tag="trainState"):
    """Answer to `StartTraining` and `ControlTraining`: how far the training is; without a state, there is none.

    Attributes:
        loss: The latest loss of a step.
        losses: Some of the losses before, for a small picture.
        text: What else is to be said: the loss that was chosen, or why the training failed.
        line: The code that shows its dashboard, by the names of the notebook; empty if it has none for the editor.
        widget: The editor's id in the outputs of the notebook.
    """

    state: str = ""
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    loss: float | None = None
    losses: tuple[float, ...] = ()
    text: str = ""
    line: str = ""
    widget: str = ""


TrainRequest: TypeAlias = GetTrainChoices | StartTraining | ControlTraining
TrainEvent: TypeAlias = TrainChoices | TrainState
