"""`NextSteps`: the lines to type after a training, by its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, final

from pnne_nb.telemetry.frames import TrainingState


class Step(NamedTuple):
    """A line of code, what it gives, and its button below a dashboard; a line that needs more than ``engine`` has none."""

    line: str
    about: str = ""
    button: str = ""

    def __str__(self) -> str:
        return f"{self.line:<39} # {self.about}" if self.about else self.line


_LOOK: Final = (
    Step("pn.diagnose(engine)", "what is wrong, the most probable cause first"),
    Step("pn.worst(engine)", "the examples with the greatest loss", "Worst examples"),
    Step("pn.confusion(engine)", "which classes are taken for which", "Confusion"),
    Step("pn.ModuleExplorer(engine)", "what each layer does, and why an answer came out", "Explorer"),
)
_AGAIN: Final = (
    Step("pn.LearningRateFinder(engine)", "the rate of the fastest fall, and no trace is left", "Find a rate"),
    Step("engine.set_optimizer(lr=0.1 * engine.optimizer.param_groups[0]['lr'])", "a tenth of the rate", "Lower rate"),
    Step("engine.start()", "as many epochs more; engine.wait() waits for the end", "More epochs"),
)
_STEPS: Final[Mapping[TrainingState, Mapping[str, tuple[Step, ...]]]] = {
    "idle": {
        "Train": (
            Step("engine.start()"),
            Step("engine.start(process=True)", "in a process of its own, whatever cells do", "Start in a process"),
            Step("pn.TrainingDashboard(engine)", "buttons and curves"),
        ),
        "Prepare": (
            _AGAIN[0],
            Step("engine.memory_needs", "what a step takes of the device, and what is free", "Memory"),
            Step("pn.plan_memory(engine.model, engine.examples(8)[:-1], training=True)", "by node", "Memory plan"),
            Step("pn.profile(engine.snapshot(), engine.examples(8)[:-1])", "the time of each layer", "Profile"),
        ),
        "Change": (
            Step("engine.set_optimizer(weight_decay=0.1)", "options of the optimizer, also while it trains"),
            Step('pn.TrainingEngine(net, data, optimizer="SGD", precision="bf16")', "another optimizer, bfloat16"),
            Step("pn.GraphEditor(pn.from_module(engine.model, engine.examples(8)[:-1]))", "its graph", "Draw it"),
        ),
    },
    "running": {
        "Watch": (Step("pn.TrainingDashboard(engine)", "buttons and curves"), Step("engine.wait()")),
        "Halt": (Step("engine.pause()"), Step("engine.stop()")),
    },
    "paused": {"Look": _LOOK[:3], "Go on": (*_AGAIN[:2], Step("engine.resume()"), Step("engine.step()"))},
    "failed": {
        "Look": (Step("engine.fault", "where the NaN came from, if there was one", "Fault"), *_LOOK[:1]),
        "Go on": (Step("engine.rewind(2)", "back before it"), Step("engine.skip_batch()"), *_AGAIN),
    },
    "stopped": {"Look": _LOOK, "Go on": _AGAIN},
    "finished": {
        "Look": _LOOK,
        "Try": (
            Step("engine.evaluate((X_test, y_test))"),
            Step("engine.evaluate()", "loss and metrics, beside the simplest answer", "Evaluate"),
            Step("engine.predict(X)"),
            Step("pn.app(engine)", "a page to try it", "App"),
        ),
        "Go on": _AGAIN,
        "Shrink": (
            Step("pn.quantize(engine)", "int8 within a budget"),
            Step("pn.QuantizationEditor(engine)", "the same with a switch for each node", "Quantise"),
            Step("pn.TargetDashboard(engine)", "the forms to ship it in, timed", "Compare forms"),
        ),
        "Ship": (
            Step('pn.export(engine, "net.onnx")', "a file for another runtime, proved", "ONNX file"),
            Step('pn.to_script(engine, "train.py")', "the training as one PyTorch script", "Script"),
            Step('pn.save(graph, engine.model, "net.pnne")', "a package of graph and weights"),
            Step('engine.save_checkpoint("net.ckpt")', "to go on from", "Checkpoint"),
        ),
    },
}


@final
class NextSteps:
    """What can be done with a training in a state, as lines of code.

    Attributes:
        lines: By purpose, such as ``"Ship"``.
        steps: The same with what each line gives.
    """

    def __init__(self, state: TrainingState) -> None:
        self.steps = _STEPS[state]
        self.lines = {purpose: tuple(map(str, steps)) for purpose, steps in self.steps.items()}
        self._state = state

    def __repr__(self) -> str:
        parts = (f"{purpose}\n" + "\n".join(f"    {line}" for line in lines) for purpose, lines in self.lines.items())
        return f"The training is {self._state}.\n" + "\n".join(parts)
