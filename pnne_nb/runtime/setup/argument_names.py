"""Maps arguments as other libraries spell them to those of an engine."""

from __future__ import annotations

from typing import Final

ARGUMENTS: Final = {
    **dict.fromkeys(("accelerator", "gpus", "no_cuda", "use_cpu", "use_cuda"), 'device="cpu", or device="cuda"'),
    **dict.fromkeys(
        ("accumulate_grad_batches", "accumulation_steps", "grad_accum", "gradient_accumulation_steps"), "accumulate=4"
    ),
    **dict.fromkeys(("amp", "autocast", "bf16", "dtype", "half", "mixed_precision"), 'precision="bf16"'),
    **dict.fromkeys(
        """
        checkpoint_path default_root_dir dirname enable_checkpointing model_dir output_dir save_dir
        """.split(),
        'checkpoint_dir="runs"',
    ),
    **dict.fromkeys(
        ("class_weights", "label_weights", "weight", "weights"),
        'loss=("CrossEntropyLoss", {"weight": "balanced"}), or a tensor as "weight"',
    ),
    **dict.fromkeys(
        ("clip_grad", "clip_grad_norm", "clipnorm", "gradient_clip", "gradient_clip_val", "max_grad_norm", "max_norm"),
        "grad_clip=1.0",
    ),
    **dict.fromkeys(("criterion", "loss_fn", "loss_func", "loss_function"), 'loss="CrossEntropyLoss"'),
    **dict.fromkeys(
        ("data", "datamodule", "training_data", "X", "x_train", "y", "y_train"),
        'train_data=(X, y); with a table, target="label"',
    ),
    **dict.fromkeys(("dataset", "train_dataset", "train_ds"), "train_data=dataset"),
    **dict.fromkeys(
        ("enable_progress_bar", "progress_bar", "verbose"),
        "pn.TrainingDashboard(engine); or engine.wait(), which shows a progress bar",
    ),
    **dict.fromkeys(("eta", "eta0", "learning_rate", "lr", "solver"), 'optimizer=("AdamW", {"lr": 1e-3})'),
    **dict.fromkeys(
        ("epoch", "max_epochs", "max_iter", "n_epochs", "n_iter", "num_epochs", "num_train_epochs"), "epochs=5"
    ),
    **dict.fromkeys(("module", "net"), "model=net"),
    **dict.fromkeys(("random_seed", "random_state", "rng", "seed_everything"), "seed=0"),
    **dict.fromkeys(("dls", "eval_data", "eval_set", "test_data", "valid_data", "validation_data"), "val_data=(X, y)"),
    **dict.fromkeys(("train_dataloader", "train_dataloaders", "train_dl", "train_loader"), "train_data=loader"),
    **dict.fromkeys(
        ("eval_loader", "val_dataloader", "val_dataloaders", "val_dl", "val_loader", "valid_dl", "valid_loader"),
        "val_data=loader",
    ),
    **dict.fromkeys(("eval_dataset", "val_dataset", "val_ds"), "val_data=dataset"),
    **dict.fromkeys(
        ("test_size", "val_split", "valid_pct", "validation_fraction", "validation_split"),
        "val_data=0.2, a share that is split off by seed and class",
    ),
    **dict.fromkeys(("batch", "bs"), "batch_size=64"),
    **dict.fromkeys(("dep_var", "label", "y_names"), 'target="label"'),
    **dict.fromkeys(
        ("callbacks", "cbs"),
        'engine.on("epoch", function) once the engine is made; early_stopping=5 and checkpoint_dir="runs" are arguments',
    ),
    **dict.fromkeys(("devices", "n_jobs"), 'device="cuda:0" for one; engine.launch(nproc=2) for several'),
    "fp16": 'precision="16"',
    "logger": "engine.history.to_tensorboard(directory) after the training",
    **dict.fromkeys(
        ("decay", "lr_policy", "lr_schedule", "lr_scheduler", "sched"), 'scheduler=("StepLR", {"step_size": 10})'
    ),
    "max_lr": 'scheduler=("OneCycleLR", {"max_lr": 0.01})',
    "max_steps": "epochs=5; or engine.step(100)",
    "momentum": 'optimizer=("SGD", {"lr": 0.1, "momentum": 0.9})',
    **dict.fromkeys(("opt_func", "optim"), 'optimizer="AdamW"'),
    **dict.fromkeys(("early_stop", "n_iter_no_change", "patience"), "early_stopping=5"),
    **dict.fromkeys(
        ("compute_metrics", "scorers", "scoring"), 'metrics=("accuracy", "f1"), and loss="CrossEntropyLoss"'
    ),
    **dict.fromkeys(("ckpt_path", "resume_from_checkpoint"), "pn.TrainingEngine.resume_from(path, net, (X, y))"),
    **dict.fromkeys(
        ("warmup", "warmup_ratio", "warmup_steps"), 'scheduler=("LinearLR", {"start_factor": 0.1, "total_iters": 5})'
    ),
    **dict.fromkeys(
        ("alpha", "kernel_regularizer", "l2", "wd", "weight_decay"),
        'optimizer=("AdamW", {"lr": 1e-3, "weight_decay": 0.01})',
    ),
}
"""What to write instead, by how Keras, Lightning, transformers or skorch spell it."""


METHODS: Final = {
    **dict.fromkeys(
        "fine_tune fit fit_transform launch_training partial_fit run train train_model".split(),
        "engine.start(); engine.wait() waits for the end",
    ),
    **dict.fromkeys(("one_batch", "train_on_batch", "train_step", "training_step"), "engine.step()"),
    **dict.fromkeys(
        ("eval", "score", "test", "test_on_batch"),
        "engine.evaluate((X_test, y_test)), or engine.validate() for the val_data",
    ),
    **dict.fromkeys(("get_probs", "predict_proba"), "engine.predict(X).softmax(1)"),
    **dict.fromkeys(("cpu", "cuda", "to"), 'pn.TrainingEngine(net, (X, y), device="cpu"): an engine keeps its device'),
    **dict.fromkeys(("bf16", "fp16", "half"), 'pn.TrainingEngine(net, (X, y), precision="bf16")'),
    "predict_log_proba": "engine.predict(X).log_softmax(1), or engine.predict(X).softmax(1)",
    "predict_classes": "engine.predict(X).argmax(1), or engine.predict(X).softmax(1)",
    **dict.fromkeys(
        ("call", "decision_function", "forward", "get_preds", "infer", "predict_on_batch", "predict_step", "transform"),
        "engine.predict(X); engine.evaluate((X, y)) has the metrics",
    ),
    **dict.fromkeys(
        ("export", "to_onnx", "to_torchscript"),
        'pn.export(engine, "net.onnx"); engine.save_checkpoint(path) for going on',
    ),
    **dict.fromkeys(
        ("freeze", "unfreeze"),
        'graph.freeze("layer1") before the engine is made; then, with engine.paused() as model: '
        'model.get_submodule("layer1").requires_grad_(False)',
    ),
    **dict.fromkeys(("abort", "cancel", "close", "interrupt", "kill", "shutdown", "terminate"), "engine.stop()"),
    **dict.fromkeys(
        ("done", "finished", "fitted", "initialized", "is_alive", "is_running", "running", "status"), "engine.state"
    ),
    **dict.fromkeys(
        ("current_epoch", "current_step", "epoch", "global_step", "iteration", "n_epoch", "n_iter", "step_count", "t"),
        "engine.progress, which has epoch and step",
    ),
    **dict.fromkeys(("lr_scheduler", "scheduler"), 'scheduler=("StepLR", {"step_size": 10}) when the engine is made'),
    **dict.fromkeys(("hparams", "set_learning_rate", "set_lr", "set_params"), "engine.set_optimizer(lr=1e-4)"),
    **dict.fromkeys(("criterion", "loss"), 'engine.loss_choice for its name, engine.history["loss"] for its values'),
    **dict.fromkeys(
        ("load", "load_from_checkpoint", "load_params", "load_state_dict", "load_weights", "restore"),
        "pn.TrainingEngine.resume_from(path, ...), or engine.load_checkpoint(path)",
    ),
    **dict.fromkeys(
        ("parameters", "state_dict"),
        "engine.model.parameters() or engine.model.state_dict(); engine.save_checkpoint(path) keeps all of it",
    ),
    **dict.fromkeys(
        ("checkpoint", "save", "save_model", "save_params", "save_weights"),
        "engine.save_checkpoint(path), or pn.save(graph, engine.model, path)",
    ),
    **dict.fromkeys(
        ("add_callback", "add_cb", "add_event_handler", "callbacks", "epoch_end", "register_callback", "register_hook"),
        'engine.on("epoch", function)',
    ),
    "best_model": "engine.model, with restore_best_weights=True when the engine is made",
    "compile": "pn.TrainingEngine(model, (X, y), loss=..., optimizer=...)",
    **dict.fromkeys(("dashboard", "show"), "pn.TrainingDashboard(engine)"),
    "fit_one_cycle": 'scheduler=("OneCycleLR", {"max_lr": 0.01}) when the engine is made, then engine.start()',
    **dict.fromkeys(("block", "get", "join", "result", "synchronize"), "engine.wait()"),
    **dict.fromkeys(
        ("callback_metrics", "logged_metrics", "loss_curve", "losses", "running_loss"), 'engine.history["loss"]'
    ),
    **dict.fromkeys(
        ("cv_results", "recorder"), 'engine.history["loss"], engine.history.plot() and engine.history.to_frame()'
    ),
    **{
        name: f"pn.{name}(engine)"
        for name in ("app", "confusion", "diagnose", "find_learning_rate", "quantize", "worst")
    },
    **dict.fromkeys(("check", "summary_of_faults"), "pn.diagnose(engine)"),
    "lr": 'engine.history["learning_rate"]; engine.set_optimizer(lr=1e-4) changes it',
    "metrics": 'engine.history, such as engine.history["train_accuracy"]',
    **dict.fromkeys(("plot", "plot_loss", "plot_losses"), "engine.history.plot()"),
    "reset": "pn.TrainingEngine(model, (X, y)): a new engine begins from the start",
    **dict.fromkeys(("summarize", "summary"), "pn.summary(engine.model, x), or engine.history.summary()"),
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
    **dict.fromkeys(("should_stop", "stop_training"), "engine.stop()"),
    **dict.fromkeys(
        ("learning_rate", "lr", "optimizer"), "engine.set_optimizer(lr=1e-4), or optimizer=... when it is made"
    ),
    "model": "pn.TrainingEngine(model, (X, y)): an engine keeps its model, which may be changed in place",
}
"""What to write instead of setting an attribute."""
