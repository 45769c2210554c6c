"""`NextSteps`: the lines to type after a training, by its state."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final, final

from pnne_nb.telemetry.frames import TrainingState

_LOOK: Final = (
    "pn.diagnose(engine)                     # what is wrong, the most probable cause first",
    "pn.worst(engine)                        # the examples with the greatest loss",
    "pn.confusion(engine)                    # which classes are taken for which",
    "pn.ModuleExplorer(engine.model)         # what each layer does",
)
_AGAIN: Final = (
    "engine.set_optimizer(lr=1e-4)           # a lower rate",
    "engine.start()                          # as many epochs more; engine.wait() waits for the end",
)
_STEPS: Final[Mapping[TrainingState, Mapping[str, tuple[str, ...]]]] = {
    "idle": {"Train": ("engine.start()", "pn.TrainingDashboard(engine)            # buttons and curves")},
    "running": {
        "Watch": ("pn.TrainingDashboard(engine)            # buttons and curves", "engine.wait()"),
        "Halt": ("engine.pause()", "engine.stop()"),
    },
    "paused": {"Look": _LOOK[:3], "Go on": (*_AGAIN[:1], "engine.resume()", "engine.step()")},
    "failed": {
        "Look": ("engine.fault                            # where the NaN came from, if there was one", *_LOOK[:1]),
        "Go on": ("engine.rewind(2)                        # back before it", "engine.skip_batch()", *_AGAIN),
    },
    "stopped": {"Look": _LOOK, "Go on": _AGAIN},
    "finished": {
        "Look": _LOOK,
        "Try": ("engine.evaluate((X_test, y_test))", "engine.predict(X)", "pn.app(engine, X[:20])                  # as a page"),
        "Go on": _AGAIN,
        "Shrink": ("pn.quantize(engine)                     # int8 within a budget", "pn.compare_targets(engine)"),
        "Ship": ('pn.export(engine, "net.onnx")', 'pn.to_script(engine, "train.py")', 'engine.save_checkpoint("net.ckpt")'),
    },
}  # fmt: skip


@final
class NextSteps:
    """What can be done with a training in a state, as lines of code; a notebook shows them by purpose.

    Attributes:
        lines: By purpose, such as ``"Ship"``.
    """

    def __init__(self, state: TrainingState) -> None:
        self.lines = _STEPS[state]
        self._state = state

    def __repr__(self) -> str:
        parts = (f"{purpose}\n" + "\n".join(f"    {line}" for line in lines) for purpose, lines in self.lines.items())
        return f"The training is {self._state}.\n" + "\n".join(parts)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left;vertical-align:top'>{purpose}</th>"
            f"<td style='text-align:left'><pre style='margin:0'>{escape(chr(10).join(lines))}</pre></td></tr>"
            for purpose, lines in self.lines.items()
        )
        return f"<p>The training is {self._state}.</p><table><tbody>{rows}</tbody></table>"
