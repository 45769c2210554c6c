"""Maps arguments as other libraries spell them to those of an engine."""

from __future__ import annotations

from typing import Final

ARGUMENTS: Final = {
    **dict.fromkeys(("accelerator", "gpus"), 'device="cuda"'),
    **dict.fromkeys(("accumulate_grad_batches", "gradient_accumulation_steps"), "accumulate=4"),
    **dict.fromkeys(("amp", "mixed_precision"), 'precision="bf16"'),
    **dict.fromkeys(("checkpoint_path", "default_root_dir"), 'checkpoint_dir="runs"'),
    **dict.fromkeys(
        ("class_weight", "class_weights"), 'loss=("CrossEntropyLoss", {"weight": torch.tensor([1.0, 2.0])})'
    ),
    **dict.fromkeys(("clip_grad_norm", "clipnorm", "gradient_clip_val", "max_grad_norm"), "grad_clip=1.0"),
    **dict.fromkeys(("criterion", "loss_fn", "loss_function"), 'loss="CrossEntropyLoss"'),
    **dict.fromkeys(("data", "training_data", "X", "y"), "train_data=(X, y)"),
    **dict.fromkeys(("dataset", "train_dataset", "train_ds"), "train_data=dataset"),
    **dict.fromkeys(
        ("enable_progress_bar", "progress_bar", "verbose"),
        "pn.TrainingDashboard(engine); or engine.wait(), which shows a progress bar",
    ),
    **dict.fromkeys(("learning_rate", "lr"), 'optimizer=("AdamW", {"lr": 1e-3})'),
    **dict.fromkeys(("max_epochs", "n_epochs", "num_epochs", "num_train_epochs"), "epochs=5"),
    **dict.fromkeys(("module", "net"), "model=net"),
    **dict.fromkeys(("random_seed", "random_state"), "seed=0"),
    **dict.fromkeys(("test_data", "valid_data", "validation_data"), "val_data=(X, y)"),
    **dict.fromkeys(("train_dataloader", "train_dataloaders", "train_loader"), "train_data=loader"),
    **dict.fromkeys(("val_dataloader", "val_dataloaders", "val_loader", "valid_loader"), "val_data=loader"),
    **dict.fromkeys(("val_dataset", "val_ds"), "val_data=dataset"),
    **dict.fromkeys(("val_split", "validation_split"), "val_data=(X, y) with examples that you split off"),
    "bs": "batch_size=64",
    "callbacks": 'engine.on("epoch", function) once the engine is made; early_stopping=5 and checkpoint_dir="runs" are arguments',
    "devices": 'device="cuda:0" for one; engine.launch(nproc=2) for several',
    "fp16": 'precision="16"',
    "logger": "engine.history.to_tensorboard(directory) after the training",
    "lr_scheduler": 'scheduler=("StepLR", {"step_size": 10})',
    "max_lr": 'scheduler=("OneCycleLR", {"max_lr": 0.01})',
    "max_steps": "epochs=5; or engine.step(100)",
    "momentum": 'optimizer=("SGD", {"lr": 0.1, "momentum": 0.9})',
    "optim": 'optimizer="AdamW"',
    "patience": "early_stopping=5",
    "resume_from_checkpoint": "pn.TrainingEngine.resume_from(path, ...)",
    "warmup_steps": 'scheduler=("LinearLR", {"start_factor": 0.1, "total_iters": 5})',
    "weight_decay": 'optimizer=("AdamW", {"lr": 1e-3, "weight_decay": 0.01})',
}
"""What to write instead, by how Keras, Lightning, transformers or skorch spell it."""


METHODS: Final = {
    **dict.fromkeys(("fit", "run", "train", "train_model"), "engine.start(); engine.wait() waits for the end"),
    **dict.fromkeys(("score", "test"), "engine.evaluate((X_test, y_test)), or engine.validate() for the val_data"),
    "predict_proba": "engine.predict(X).softmax(1)",
    **dict.fromkeys(("export", "to_onnx"), 'pn.export(engine, "net.onnx")'),
    **dict.fromkeys(
        ("freeze", "unfreeze"),
        'graph.freeze("layer1") before the engine is made; then, with engine.paused() as model: '
        'model.get_submodule("layer1").requires_grad_(False)',
    ),
    **dict.fromkeys(("cancel", "interrupt", "abort"), "engine.stop()"),
    **dict.fromkeys(("is_running", "running", "status"), "engine.state"),
    **dict.fromkeys(
        ("current_epoch", "epoch", "global_step", "step_count"), "engine.progress, which has epoch and step"
    ),
    **dict.fromkeys(("lr_scheduler", "scheduler"), 'scheduler=("StepLR", {"step_size": 10}) when the engine is made'),
    **dict.fromkeys(("set_learning_rate", "set_lr"), "engine.set_optimizer(lr=1e-4)"),
    **dict.fromkeys(("criterion", "loss"), 'engine.loss_choice for its name, engine.history["loss"] for its values'),
    **dict.fromkeys(("load", "restore"), "pn.TrainingEngine.resume_from(path, ...), or engine.load_checkpoint(path)"),
    **dict.fromkeys(("parameters", "state_dict"), "engine.model.parameters() or engine.model.state_dict()"),
    **dict.fromkeys(("save", "save_model"), "engine.save_checkpoint(path), or pn.save(graph, engine.model, path)"),
    "add_callback": 'engine.on("epoch", function)',
    "best_model": "engine.model, with restore_best_weights=True when the engine is made",
    "compile": "pn.TrainingEngine(model, (X, y), loss=..., optimizer=...)",
    "dashboard": "pn.TrainingDashboard(engine)",
    "fit_one_cycle": 'scheduler=("OneCycleLR", {"max_lr": 0.01}) when the engine is made, then engine.start()',
    "join": "engine.wait()",
    "losses": 'engine.history["loss"]',
    "lr": 'engine.history["learning_rate"]; engine.set_optimizer(lr=1e-4) changes it',
    "lr_find": "engine.set_optimizer(lr=1e-4) to change the learning rate; there is no search for one",
    "metrics": 'engine.history, such as engine.history["train_accuracy"]',
    "plot": "engine.history.plot()",
    "register_callback": 'engine.on("epoch", function)',
    "reset": "pn.TrainingEngine(model, (X, y)): a new engine begins from the start",
    "summary": "pn.summary(engine.model, x), or engine.history.summary()",
}
"""What to write instead of methods that trainers of other libraries have."""

SETTINGS: Final = METHODS | {
    **{
        name: f"{name}=... when the engine is made"
        for name in """
        accumulate batch_size checkpoint_dir device early_stopping epochs grad_clip loss metrics precision scheduler seed
        shuffle train_data val_data
        """.split()
    },
    **dict.fromkeys(
        ("learning_rate", "lr", "optimizer"), "engine.set_optimizer(lr=1e-4), or optimizer=... when it is made"
    ),
    "model": "pn.TrainingEngine(model, (X, y)): an engine keeps its model, which may be changed in place",
}
"""What to write instead of setting an attribute."""
