"""Maps arguments as other libraries spell them to those of an engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Final

from pnne_nb.errors import ArgumentError, near

_LOSS: Final = 'loss="CrossEntropyLoss"'
_ADAMW: Final = 'optimizer=("AdamW", {"lr": 1e-3})'
_CHECKPOINTS: Final = 'checkpoint_dir="runs"'

_ELSEWHERE: Final = {
    "accelerator": 'device="cuda"',
    "accumulate_grad_batches": "accumulate=4",
    "amp": 'precision="bf16"',
    "callbacks": f'engine.on("epoch", function) once the engine is made; early_stopping=5 and {_CHECKPOINTS} are arguments',
    "checkpoint_path": _CHECKPOINTS,
    "clip_grad_norm": "grad_clip=1.0",
    "criterion": _LOSS,
    "dataset": "train_data=dataset",
    "default_root_dir": _CHECKPOINTS,
    "devices": 'device="cuda:0" for one; engine.launch(nproc=2) for several',
    "fp16": 'precision="16"',
    "gradient_accumulation_steps": "accumulate=4",
    "gradient_clip_val": "grad_clip=1.0",
    "learning_rate": _ADAMW,
    "logger": "engine.history.to_tensorboard(directory) after the training",
    "loss_fn": _LOSS,
    "loss_function": _LOSS,
    "lr": _ADAMW,
    "lr_scheduler": 'scheduler=("StepLR", {"step_size": 10})',
    "max_epochs": "epochs=5",
    "max_grad_norm": "grad_clip=1.0",
    "max_steps": "epochs=5; or engine.step(100)",
    "momentum": 'optimizer=("SGD", {"lr": 0.1, "momentum": 0.9})',
    "n_epochs": "epochs=5",
    "num_epochs": "epochs=5",
    "num_train_epochs": "epochs=5",
    "optim": 'optimizer="AdamW"',
    "patience": "early_stopping=5",
    "random_state": "seed=0",
    "resume_from_checkpoint": "pn.TrainingEngine.resume_from(path, ...)",
    "train_dataloader": "train_data=loader",
    "train_dataloaders": "train_data=loader",
    "train_dataset": "train_data=dataset",
    "train_loader": "train_data=loader",
    "training_data": "train_data=(X, y)",
    "val_dataloader": "val_data=loader",
    "val_dataloaders": "val_data=loader",
    "val_loader": "val_data=loader",
    "valid_data": "val_data=(X, y)",
    "validation_data": "val_data=(X, y)",
    "validation_split": "val_data=(X, y) with examples that you split off",
    "verbose": "pn.TrainingDashboard(engine); or engine.wait(), which shows a progress bar",
    "weight_decay": 'optimizer=("AdamW", {"lr": 1e-3, "weight_decay": 0.01})',
    "X": "train_data=(X, y)",
    "y": "train_data=(X, y)",
}
"""What to write instead, by how Keras, Lightning, transformers or skorch spell it."""


METHODS: Final = {
    **dict.fromkeys(("fit", "run", "train"), "engine.start(); engine.wait() waits for the end"),
    **dict.fromkeys(("evaluate", "test"), "engine.validate(), which needs val_data=(X, y)"),
    **dict.fromkeys(("load", "restore"), "pn.TrainingEngine.resume_from(path, ...), or engine.load_checkpoint(path)"),
    **dict.fromkeys(("parameters", "state_dict"), "engine.model.parameters() or engine.model.state_dict()"),
    **dict.fromkeys(("save", "save_model"), "engine.save_checkpoint(path), or pn.save(graph, engine.model, path)"),
    "add_callback": 'engine.on("epoch", function)',
    "compile": "pn.TrainingEngine(model, (X, y), loss=..., optimizer=...)",
    "losses": 'engine.history["loss"]',
    "lr": 'engine.history["learning_rate"]; engine.set_optimizer(lr=1e-4) changes it',
    "metrics": 'engine.history, such as engine.history["train_accuracy"]',
    "plot": "engine.history.plot()",
    "predict": "pn.InferenceEngine(engine.model).predict(X)",
    "register_callback": 'engine.on("epoch", function)',
    "summary": "pn.summary(engine.model, x), or engine.history.summary()",
}
"""What to write instead of methods that trainers of other libraries have."""


def refuse_unknown(given: Iterable[str], function: Callable[..., object]) -> None:
    """Refuse arguments that `function` does not have.

    Raises:
        ArgumentError: If there are any; of each, the message says how it is spelled here.
    """
    known = [name for name in inspect.signature(function).parameters if name != "unknown"]
    said = [_said(name, known) for name in given]
    if said:
        raise ArgumentError(" ".join(said))


def _said(name: str, known: Iterable[str]) -> str:
    meant = f" Write {_ELSEWHERE[name]}." if name in _ELSEWHERE else near(name, known)
    return f"TrainingEngine has no argument {name!r}.{meant}"
