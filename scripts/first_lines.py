"""Runs what people type in their first hour, in the words of four libraries, and tells how much of it works or is answered.

A line of the table is an intent: the line that does it here, what holds afterwards, and lines that do the same in the words
of PyTorch, Keras, Lightning or fastai, and scikit-learn. A foreign line *works* if it runs and the intent's condition
holds; it is *answered* if it is refused with the words of the line that does it, and that line, run in its place, does. A
line that runs where the condition does not hold is *silently wrong*.

    python scripts/first_lines.py [word of an intent]
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle  # noqa: TID251  # people try it
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import joblib
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn

Outcome = Literal["works", "answered", "unanswered", "silently wrong", "answer fails"]


class Intent(NamedTuple):
    """What somebody wants, and how it is said.

    Attributes:
        name: In words.
        here: The line that does it.
        said: Part of that line, which an answer names; several, divided by ``|``.
        holds: A condition that is true afterwards.
        torch: Lines in the words of PyTorch, one a row; `keras`, `lightning` and `sklearn` likewise.
        keras: See `torch`.
        lightning: See `torch`.
        sklearn: See `torch`.
    """

    name: str
    here: str
    said: str
    holds: str = "True"
    torch: str = ""
    keras: str = ""
    lightning: str = ""
    sklearn: str = ""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield each foreign line with its dialect."""
        for dialect in ("torch", "keras", "lightning", "sklearn"):
            for line in getattr(self, dialect).strip().splitlines():
                yield dialect, line.strip()


WORD: Final = r"\w+"
TRAINED: Final = 'engine.state == "finished"'

INTENTS: Final = (
    # Training
    Intent(
        "train to the end",
        "engine.start(); engine.wait()",
        "engine.start()",
        TRAINED,
        torch="engine.train()\nengine.run()\nengine.start().wait()\nengine()\nengine.train_loop()",
        keras="engine.fit()\nengine.fit(X, y)\nengine.fit(X, y, epochs=1)\nengine.train_model()",
        lightning="engine.fit(loader)\nengine.fit_one_cycle(1)\nengine.fine_tune(1)\nengine.launch_training()",
        sklearn="engine.fit(X.numpy(), y.numpy())\nengine.partial_fit(X, y)\nengine.fit_transform(X, y)",
    ),
    Intent(
        "train in a with block",
        "engine.start(); engine.wait()",
        "engine.start()",
        TRAINED,
        torch="with engine: engine.wait()\nwith engine as e: e.wait()",
    ),
    Intent(
        "train one step",
        "engine.step()",
        "engine.step()",
        "engine.progress.step == 1",
        torch="engine.step()\nengine.train_step()\nengine.training_step()",
        keras="engine.train_on_batch(X, y)\nengine.train_step((X, y))",
        lightning="engine.training_step((X, y), 0)\nengine.one_batch(0, (X, y))",
        sklearn="",
    ),
    Intent(
        "halt",
        "engine.start(); engine.stop()",
        "engine.stop()",
        'engine.state in ("stopped", "finished")',
        torch="engine.start(); engine.cancel()\nengine.start(); engine.terminate()\nengine.start(); engine.close()\nengine.start(); engine.kill()",
        keras="engine.start(); engine.stop_training = True\nengine.start(); engine.stop_training()",
        lightning="engine.start(); engine.should_stop = True\nengine.start(); engine.interrupt()\nengine.start(); engine.shutdown()",
        sklearn="engine.start(); engine.abort()",
    ),
    Intent(
        "more epochs",
        "engine.start(); engine.wait(); engine.start(); engine.wait()",
        "engine.start()",
        "len(engine.history.epochs) == 2",
        torch="engine.start(); engine.wait(); engine.start(); engine.wait()",
        keras="engine.start(); engine.wait(); engine.fit(epochs=2)",
        lightning="engine.start(); engine.wait(); engine.fit(1)",
        sklearn="engine.start(); engine.wait(); engine.partial_fit(X, y)",
    ),
    Intent(
        "epochs at the start",
        "engine = pn.TrainingEngine(net, (X, y), epochs=2); engine.start(); engine.wait()",
        "epochs=",
        "len(engine.history.epochs) == 2",
        torch="engine.start(num_epochs=2)\nengine.start(n_epochs=2)",
        keras="engine.start(epochs=2)",
        lightning="engine.start(max_epochs=2)\nengine.start(2)",
        sklearn="engine.start(max_iter=2)\nengine = pn.TrainingEngine(net, (X, y), max_iter=2)",
    ),
    # Arguments of the engine
    Intent(
        "set the learning rate",
        'engine = pn.TrainingEngine(net, (X, y), optimizer=("AdamW", {"lr": 0.01}))',
        'optimizer=|Write lr|("AdamW", {"lr":',
        "engine.recipe.optimizer.param_groups[0]['lr'] == 0.01",
        torch="engine = pn.TrainingEngine(net, (X, y), optimizer=torch.optim.AdamW(net.parameters(), lr=0.01))\n"
        "engine = pn.TrainingEngine(net, (X, y), optimizer=torch.optim.AdamW(lr=0.01))\n"
        "engine = pn.TrainingEngine(net, (X, y), optimizer=lambda p: torch.optim.AdamW(p, lr=0.01))\n"
        "engine = pn.TrainingEngine(net, (X, y), optimizer=partial(torch.optim.AdamW, lr=0.01))\n"
        "engine = pn.TrainingEngine(net, (X, y), lr=0.01)",
        keras="engine = pn.TrainingEngine(net, (X, y), learning_rate=0.01)\n"
        'engine = pn.TrainingEngine(net, (X, y), optimizer="AdamW", learning_rate=0.01)\n'
        'engine = pn.TrainingEngine(net, (X, y), optimizer=("AdamW", dict(learning_rate=0.01)))',
        lightning="engine = pn.TrainingEngine(net, (X, y), base_lr=0.01)\nengine = pn.TrainingEngine(net, (X, y), opt_func=torch.optim.AdamW, lr=0.01)\n"
        'engine = pn.TrainingEngine(net, (X, y), optimizer={"name": "AdamW", "lr": 0.01})',
        sklearn="engine = pn.TrainingEngine(net, (X, y), learning_rate_init=0.01)\nengine = pn.TrainingEngine(net, (X, y), eta0=0.01)\n"
        "engine = pn.TrainingEngine(net, (X, y), optimizer__lr=0.01)\nengine = pn.TrainingEngine(net, (X, y), solver='adam')",
    ),
    Intent(
        "change the learning rate",
        "engine.step(); engine.set_optimizer(lr=0.01)",
        "engine.set_optimizer(",
        "engine.recipe.optimizer.param_groups[0]['lr'] == 0.01",
        torch="engine.step(); engine.optimizer.param_groups[0]['lr'] = 0.01\nengine.step(); engine.set_lr(0.01)\nengine.step(); engine.lr = 0.01",
        keras="engine.step(); engine.optimizer.learning_rate = 0.01; engine.step()\nengine.step(); engine.optimizer.lr = 0.01; engine.step()\nengine.step(); engine.optimizer.learning_rate.assign(0.01)",
        lightning="engine.step(); engine.learning_rate = 0.01\nengine.step(); engine.hparams.lr = 0.01",
        sklearn="engine.step(); engine.set_params(lr=0.01)",
    ),
    Intent(
        "cross entropy",
        'engine = pn.TrainingEngine(net, (X, y), loss="CrossEntropyLoss")',
        "CrossEntropyLoss",
        '"CrossEntropyLoss" in repr(engine)',
        torch="engine = pn.TrainingEngine(net, (X, y), loss=nn.CrossEntropyLoss())\nengine = pn.TrainingEngine(net, (X, y), criterion=nn.CrossEntropyLoss())\n"
        "engine = pn.TrainingEngine(net, (X, y), loss=nn.CrossEntropyLoss)\nengine = pn.TrainingEngine(net, (X, y), loss_fn=F.cross_entropy)",
        keras='engine = pn.TrainingEngine(net, (X, y), loss="sparse_categorical_crossentropy")\nengine = pn.TrainingEngine(net, (X, y), loss="categorical_crossentropy")',
        lightning="engine = pn.TrainingEngine(net, (X, y), loss_func=nn.CrossEntropyLoss())\nengine = pn.TrainingEngine(net, (X, y), loss='cross_entropy')",
        sklearn='engine = pn.TrainingEngine(net, (X, y), loss="log_loss")\nengine = pn.TrainingEngine(net, (X, y), scoring="accuracy")',
    ),
    Intent(
        "squared error",
        'engine = pn.TrainingEngine(one, (X, t), loss="MSELoss")',
        "MSELoss",
        '"MSELoss" in repr(engine)',
        torch="engine = pn.TrainingEngine(one, (X, t), loss=nn.MSELoss())\nengine = pn.TrainingEngine(one, (X, t), loss='mse_loss')",
        keras="engine = pn.TrainingEngine(one, (X, t), loss='mse')\nengine = pn.TrainingEngine(one, (X, t), loss='mean_squared_error')",
        lightning="engine = pn.TrainingEngine(one, (X, t), loss='MSELossFlat')",
        sklearn="engine = pn.TrainingEngine(one, (X, t), loss='squared_error')",
    ),
    Intent(
        "validation data",
        "engine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.start(); engine.wait()",
        "val_data=",
        '"val_loss" in engine.history',
        torch="engine = pn.TrainingEngine(net, loader, loader); engine.start(); engine.wait()\nengine = pn.TrainingEngine(net, loader, val_loader=loader)\n"
        "engine = pn.TrainingEngine(net, train_loader=loader, val_loader=loader)\nengine = pn.TrainingEngine(net, (X, y), eval_data=(X, y))",
        keras="engine = pn.TrainingEngine(net, (X, y), validation_data=(X, y))\nengine = pn.TrainingEngine(net, (X, y), validation_split=0.2)",
        lightning="engine = pn.TrainingEngine(net, train_dataloaders=loader, val_dataloaders=loader)\nengine = pn.TrainingEngine(net, (X, y), valid_dl=loader)\n"
        "engine = pn.TrainingEngine(net, (X, y), valid_pct=0.2)\nengine = pn.TrainingEngine(net, dls=loader)\nengine = pn.TrainingEngine(net, train_ds=loader, eval_dataset=loader)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), validation_fraction=0.2)\nengine = pn.TrainingEngine(net, (X, y), test_size=0.2)\nengine = pn.TrainingEngine(net, (X, y), eval_set=(X, y))",
    ),
    Intent(
        "training data",
        "engine = pn.TrainingEngine(net, (X, y))",
        "(X, y)",
        "engine.recipe is not None",
        torch="engine = pn.TrainingEngine(net, TensorDataset(X, y))\nengine = pn.TrainingEngine(net, loader)\nengine = pn.TrainingEngine(net, [(a, b) for a, b in zip(X, y)])",
        keras="engine = pn.TrainingEngine(net, X, y)\nengine = pn.TrainingEngine(net, x=X, y=y)\nengine = pn.TrainingEngine(net, x_train=X, y_train=y)",
        lightning="engine = pn.TrainingEngine(net, datamodule=loader)\nengine = pn.TrainingEngine(loader, net)",
        sklearn="engine = pn.TrainingEngine(net, X.tolist(), y.tolist())\nengine = pn.TrainingEngine(net, (X.tolist(), y.tolist()))\n"
        "engine = pn.TrainingEngine(net, (pd.DataFrame(X.numpy()), pd.Series(y.numpy())))\nengine = pn.TrainingEngine((X, y), net)",
    ),
    Intent(
        "a table with its target",
        'engine = pn.TrainingEngine(net, df, target="label")',
        "target=",
        "engine.recipe is not None",
        torch='engine = pn.TrainingEngine(net, df, target="label")',
        keras='engine = pn.TrainingEngine(net, df, label="label")',
        lightning='engine = pn.TrainingEngine(net, df, y_names="label")\nengine = pn.TrainingEngine(net, df, dep_var="label")\nengine = pn.TrainingEngine(net, df)',
        sklearn='engine = pn.TrainingEngine(net, df, y="label")\nengine = pn.TrainingEngine(net, df, target_column="label")\nengine = pn.TrainingEngine(net, df.drop(columns="label"), df["label"])\nengine = pn.TrainingEngine(net, (df.drop(columns="label"), df["label"]))',
    ),
    Intent(
        "epochs",
        "engine = pn.TrainingEngine(net, (X, y), epochs=2)",
        "epochs=",
        "engine.config.epochs == 2",
        torch="engine = pn.TrainingEngine(net, (X, y), num_epochs=2)",
        keras="engine = pn.TrainingEngine(net, (X, y), epochs=2)\nengine = pn.TrainingEngine(net, (X, y), nb_epoch=2)",
        lightning="engine = pn.TrainingEngine(net, (X, y), max_epochs=2)\nengine = pn.TrainingEngine(net, (X, y), n_epoch=2)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), n_iter=2)\nengine = pn.TrainingEngine(net, (X, y), max_iter=2)",
    ),
    Intent(
        "batch size",
        "engine = pn.TrainingEngine(net, (X, y), batch_size=8)",
        "batch_size=",
        "engine.config.batch_size == 8",
        torch="engine = pn.TrainingEngine(net, (X, y), batch_size=8)\nengine = pn.TrainingEngine(net, (X, y), batchsize=8)",
        keras="engine = pn.TrainingEngine(net, (X, y), batch=8)",
        lightning="engine = pn.TrainingEngine(net, (X, y), bs=8)\nengine = pn.TrainingEngine(net, (X, y), per_device_train_batch_size=8)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), iterator_train__batch_size=8)",
    ),
    Intent(
        "a schedule",
        'engine = pn.TrainingEngine(net, (X, y), scheduler=("StepLR", {"step_size": 1}))',
        "scheduler=",
        "engine.recipe.schedule is not None",
        torch="engine = pn.TrainingEngine(net, (X, y), lr_scheduler=torch.optim.lr_scheduler.StepLR)\nengine = pn.TrainingEngine(net, (X, y), scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1))\n"
        "engine = pn.TrainingEngine(net, (X, y), scheduler=torch.optim.lr_scheduler.StepLR(step_size=1))\nengine = pn.TrainingEngine(net, (X, y), sched='StepLR')",
        keras="engine = pn.TrainingEngine(net, (X, y), lr_schedule='cosine')\nengine = pn.TrainingEngine(net, (X, y), decay=0.1)",
        lightning="engine = pn.TrainingEngine(net, (X, y), lr_scheduler_type='cosine')\nengine = pn.TrainingEngine(net, (X, y), warmup_ratio=0.1)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), lr_policy='StepLR')",
    ),
    Intent(
        "early stopping",
        "engine = pn.TrainingEngine(net, (X, y), early_stopping=3)",
        "early_stopping=",
        "engine.config.early_stopping == 3",
        torch="engine = pn.TrainingEngine(net, (X, y), patience=3)",
        keras="engine = pn.TrainingEngine(net, (X, y), callbacks=['EarlyStopping'])",
        lightning="engine = pn.TrainingEngine(net, (X, y), cbs=['EarlyStoppingCallback'])\nengine = pn.TrainingEngine(net, (X, y), early_stopping_patience=3)\nengine = pn.TrainingEngine(net, (X, y), early_stop_callback=3)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), n_iter_no_change=3)\nengine = pn.TrainingEngine(net, (X, y), early_stopping=True)\nengine = pn.TrainingEngine(net, (X, y), early_stopping_rounds=3)",
    ),
    Intent(
        "metrics",
        'engine = pn.TrainingEngine(net, (X, y), metrics=("accuracy", "f1"))',
        "metrics=|'accuracy'",
        "len(engine.recipe.metrics) == 2",
        torch='engine = pn.TrainingEngine(net, (X, y), metrics=["accuracy", "f1"])\nengine = pn.TrainingEngine(net, (X, y), metric="f1")',
        keras='engine = pn.TrainingEngine(net, (X, y), metrics=["acc", "f1_score"])',
        lightning='engine = pn.TrainingEngine(net, (X, y), compute_metrics=print)\nengine = pn.TrainingEngine(net, (X, y), metrics="accuracy")',
        sklearn='engine = pn.TrainingEngine(net, (X, y), scorers=["f1"])\nengine = pn.TrainingEngine(net, (X, y), eval_metric="f1")',
    ),
    Intent(
        "clip gradients",
        "engine = pn.TrainingEngine(net, (X, y), grad_clip=1.0)",
        "grad_clip=",
        "engine.config.grad_clip == 1.0",
        torch="engine = pn.TrainingEngine(net, (X, y), clip_grad_norm=1.0)\nengine = pn.TrainingEngine(net, (X, y), clip_grad=1.0)\nengine = pn.TrainingEngine(net, (X, y), max_norm=1.0)",
        keras="engine = pn.TrainingEngine(net, (X, y), clipnorm=1.0)\nengine = pn.TrainingEngine(net, (X, y), global_clipnorm=1.0)",
        lightning="engine = pn.TrainingEngine(net, (X, y), gradient_clip_val=1.0)\nengine = pn.TrainingEngine(net, (X, y), gradient_clip=1.0)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), gradient_clip_value=1.0)",
    ),
    Intent(
        "weights of classes",
        'engine = pn.TrainingEngine(net, (X, y), loss=("CrossEntropyLoss", {"weight": "balanced"}))',
        '"weight":',
        "engine.recipe.loss.weight is not None",
        torch="engine = pn.TrainingEngine(net, (X, y), loss=nn.CrossEntropyLoss(weight=torch.ones(3)))\nengine = pn.TrainingEngine(net, (X, y), weight=torch.ones(3))",
        keras="engine = pn.TrainingEngine(net, (X, y), class_weight={0: 1.0, 1: 1.0, 2: 1.0})\nengine = pn.TrainingEngine(net, (X, y), class_weights=[1, 1, 1])",
        lightning="engine = pn.TrainingEngine(net, (X, y), label_weights='balanced')",
        sklearn='engine = pn.TrainingEngine(net, (X, y), class_weight="balanced")',
    ),
    Intent(
        "a seed",
        "engine = pn.TrainingEngine(net, (X, y), seed=3)",
        "seed=",
        "engine.config.seed == 3",
        torch="engine = pn.TrainingEngine(net, (X, y), manual_seed=3)",
        keras="engine = pn.TrainingEngine(net, (X, y), rng=3)\npn.set_random_seed(3)",
        lightning="engine = pn.TrainingEngine(net, (X, y), seed_everything=3)\npn.seed_everything(3)\npn.set_seed(3)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), random_state=3)",
    ),
    Intent(
        "a device",
        'engine = pn.TrainingEngine(net, (X, y), device="cpu")',
        "device=",
        "engine.device.type == 'cpu'",
        torch="engine = engine.to('cpu')\nengine = pn.TrainingEngine(net, (X, y), device=torch.device('cpu'))",
        keras="engine = engine.cpu()",
        lightning="engine = pn.TrainingEngine(net, (X, y), accelerator='cpu')\nengine = pn.TrainingEngine(net, (X, y), no_cuda=True)\nengine = pn.TrainingEngine(net, (X, y), use_cpu=True)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), use_cuda=False)\nengine = pn.TrainingEngine(net, (X, y), n_jobs=1)",
    ),
    Intent(
        "accumulate",
        "engine = pn.TrainingEngine(net, (X, y), accumulate=2)",
        "accumulate=",
        "engine.config.accumulate == 2",
        torch="engine = pn.TrainingEngine(net, (X, y), accumulation_steps=2)\nengine = pn.TrainingEngine(net, (X, y), grad_accum=2)",
        keras="engine = pn.TrainingEngine(net, (X, y), gradient_accumulation_steps=2)",
        lightning="engine = pn.TrainingEngine(net, (X, y), accumulate_grad_batches=2)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), accumulate_gradients=2)",
    ),
    Intent(
        "mixed precision",
        'engine = pn.TrainingEngine(net, (X, y), precision="bf16")',
        "precision=",
        "engine.config.precision == 'bf16'",
        torch="engine = pn.TrainingEngine(net, (X, y), amp=True)\nengine = pn.TrainingEngine(net, (X, y), use_amp=True)\nengine = pn.TrainingEngine(net, (X, y), dtype=torch.bfloat16)\nengine = pn.TrainingEngine(net, (X, y), autocast=True)",
        keras="engine = pn.TrainingEngine(net, (X, y), mixed_precision=True)\nengine = pn.TrainingEngine(net, (X, y), precision='mixed_bfloat16')",
        lightning="engine = pn.TrainingEngine(net, (X, y), precision='bf16-mixed')\nengine = pn.TrainingEngine(net, (X, y), bf16=True)\nengine.to_fp16()",
        sklearn="engine = pn.TrainingEngine(net, (X, y), half=True)",
    ),
    Intent(
        "checkpoints",
        'engine = pn.TrainingEngine(net, (X, y), checkpoint_dir="runs")',
        "checkpoint_dir=",
        "str(engine.checkpoint_dir).endswith('runs')",
        torch='engine = pn.TrainingEngine(net, (X, y), save_dir="runs")\nengine = pn.TrainingEngine(net, (X, y), output_dir="runs")',
        keras="engine = pn.TrainingEngine(net, (X, y), callbacks=['ModelCheckpoint'])",
        lightning='engine = pn.TrainingEngine(net, (X, y), default_root_dir="runs")\nengine = pn.TrainingEngine(net, (X, y), enable_checkpointing=True)\nengine = pn.TrainingEngine(net, (X, y), model_dir="runs")',
        sklearn='engine = pn.TrainingEngine(net, (X, y), dirname="runs")',
    ),
    Intent(
        "weight decay",
        'engine = pn.TrainingEngine(net, (X, y), optimizer=("AdamW", {"weight_decay": 0.1}))',
        "weight_decay",
        "engine.recipe.optimizer.param_groups[0]['weight_decay'] == 0.1",
        torch="engine = pn.TrainingEngine(net, (X, y), weight_decay=0.1)",
        keras="engine = pn.TrainingEngine(net, (X, y), kernel_regularizer='l2')",
        lightning="engine = pn.TrainingEngine(net, (X, y), wd=0.1)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), alpha=0.1)\nengine = pn.TrainingEngine(net, (X, y), l2=0.1)",
    ),
    # Looking at a training
    Intent(
        "the loss right after the start",
        'engine.start(); engine.wait(); engine.history["loss"][-1]',
        "engine.wait()",
        TRAINED,
        torch='engine.start(); engine.history["loss"][-1]; engine.wait()\nengine.start(); engine.wait(); engine.history["loss"][-1]',
    ),
    Intent(
        "the loss of the last step",
        'engine.start(); engine.wait(); float(engine.history["loss"][-1])',
        'history["loss"]',
        TRAINED,
        torch="engine.start(); engine.wait(); engine.loss.item()\nengine.start(); engine.wait(); engine.running_loss",
        keras='engine.start(); engine.wait(); engine.history.history["loss"]',
        lightning='engine.start(); engine.wait(); engine.callback_metrics["loss"]\nengine.start(); engine.wait(); engine.logged_metrics\nengine.start(); engine.wait(); engine.recorder.losses',
        sklearn='engine.start(); engine.wait(); engine.loss_\nengine.start(); engine.wait(); engine.loss_curve_\nengine.start(); engine.wait(); engine.history[-1]\nengine.start(); engine.wait(); engine.history[:, "loss"]',
    ),
    Intent(
        "a table of the history",
        "engine.start(); engine.wait(); frame = engine.history.to_frame()",
        "engine.history.to_frame()",
        "len(frame) == 1 and 'train_loss' in frame",
        torch="engine.start(); engine.wait(); frame = pd.DataFrame(engine.history)\nengine.start(); engine.wait(); frame = pd.DataFrame(engine.history.to_dict())\nengine.start(); engine.wait(); frame = pd.DataFrame(dict(engine.history))",
        keras="engine.start(); engine.wait(); frame = pd.DataFrame(engine.history.history)",
        lightning="engine.start(); engine.wait(); frame = engine.history.to_pandas()\nengine.start(); engine.wait(); frame = engine.history.df()\nengine.start(); engine.wait(); frame = engine.history.to_df()",
        sklearn="engine.start(); engine.wait(); frame = pd.DataFrame.from_dict(engine.history)\nengine.start(); engine.wait(); frame = engine.cv_results_",
    ),
    Intent(
        "plot the history",
        "engine.step(); shown = engine.history.plot()",
        "history.plot(",
        "shown is not None",
        torch='engine.step(); shown = plt.plot(engine.history["loss"])\nengine.step(); shown = engine.plot()\nengine.step(); shown = engine.plot_loss()\nengine.step(); shown = engine.plot_losses()',
        keras='engine.step(); shown = engine.history.plot(["loss", "learning_rate"])\nengine.step(); shown = pn.plot_history(engine.history)',
        lightning="engine.step(); shown = engine.recorder.plot_loss()\nengine.step(); shown = pn.plot_loss(engine)\nengine.step(); shown = engine.history.show()\nengine.step(); shown = engine.history.plot_loss()",
        sklearn='engine.step(); shown = pn.plot(engine)\nengine.step(); shown = pn.plot(engine.history)\nengine.step(); shown = engine.history.plot(x="step", y="loss")',
    ),
    Intent(
        "watch it",
        "shown = pn.TrainingDashboard(engine)",
        "pn.TrainingDashboard(engine)",
        "shown.comm is not None",
        torch="shown = engine.dashboard()\nshown = pn.watch(engine)\nshown = pn.Dashboard(engine)\nshown = pn.SummaryWriter()",
        keras="shown = pn.TensorBoard(engine)\nshown = pn.show(engine)\nshown = engine.show()",
        lightning="shown = pn.monitor(engine)\nshown = pn.ProgressBar(engine)\nshown = pn.ShowGraphCallback(engine)\nshown = pn.wandb(engine)\nshown = pn.live(engine)",
        sklearn="shown = pn.LearningCurveDisplay(engine)\nshown = pn.TrainingDashboard(engine=engine)\nshown = pn.TrainingDashboard(net)",
    ),
    Intent(
        "what to do each epoch",
        'seen = []; engine.on("epoch", seen.append); engine.start(); engine.wait()',
        'engine.on("epoch"',
        "len(seen) == 1",
        torch='seen = []; engine.register_hook(seen.append)\nseen = []; engine.add_event_handler("epoch", seen.append)\nseen = []; engine.on("epoch")(seen.append); engine.start(); engine.wait()',
        keras='seen = []; engine.add_callback(seen.append)\nseen = []; engine.on("epoch_end", seen.append)\nseen = []; engine.on("on_epoch_end", seen.append)\nseen = []; engine.on_epoch_end(seen.append)\nseen = []; pn.Callback()\nseen = []; pn.LambdaCallback(seen.append)',
        lightning='seen = []; engine.add_cb(seen.append)\nseen = []; engine.on_train_epoch_end = seen.append\nseen = []; engine.callbacks.append(seen.append)\nseen = []; engine.on("after_epoch", seen.append)',
        sklearn='seen = []; engine.on_epoch_end = seen.append\nseen = []; pn.EpochScoring("accuracy")',
    ),
    Intent(
        "wait in a cell",
        "engine.start(); engine.wait()",
        "engine.wait()",
        TRAINED,
        torch="engine.start(); engine.join()\nengine.start(); engine.synchronize()",
        keras="engine.start(); engine.result()",
        lightning="engine.start(); engine.block()\nengine.start(); engine.wait_until_done()",
        sklearn="engine.start(); engine.get()",
    ),
    # Evaluating
    Intent(
        "evaluate",
        "figures = engine.evaluate((X, y))",
        "engine.evaluate(",
        "0 <= figures['accuracy'] <= 1",
        torch="figures = engine.eval()\nfigures = engine.test((X, y))\nfigures = engine.evaluate(loader)\nfigures = engine.evaluate(X, y)\nfigures = pn.evaluate(engine, (X, y))",
        keras="figures = engine.evaluate(X, y, verbose=0)\nfigures = engine.test_on_batch(X, y)\nfigures = engine.evaluate(x=X, y=y)",
        lightning="figures = engine.test(dataloaders=loader)\nfigures = engine.get_preds()\nfigures = engine.validate(dataloaders=loader)\nfigures = engine.evaluate(eval_dataset=loader)",
        sklearn="figures = engine.score(X, y)\nfigures = pn.cross_val_score(engine, X, y)\nfigures = pn.accuracy_score(y, engine)\nfigures = pn.classification_report(y, engine)",
    ),
    Intent(
        "predict",
        "p = engine.predict(X)",
        "engine.predict(",
        "p.shape == (24, 3)",
        torch="p = engine(X)\np = engine.forward(X)\np = engine.model(X)\np = engine.model.eval()(X)\np = engine.infer(X)\np = pn.predict(engine, X)",
        keras="p = engine.predict(X, batch_size=8)\np = engine.predict_on_batch(X)\np = engine.predict(X, verbose=0)\np = engine.call(X)",
        lightning="p = engine.predict(dataloaders=X)\np = engine.get_preds(dl=X)\np = engine.predict_step(X, 0)",
        sklearn="p = engine.predict(X.numpy())\np = engine.predict(X.tolist())\np = engine.decision_function(X)\np = engine.transform(X)\np = engine.predict(pd.DataFrame(X.numpy()))",
    ),
    Intent(
        "predict one example",
        "p = engine.predict(X[:1])",
        "X[:1]",
        "p.shape == (1, 3)",
        torch="p = engine.predict(X[0])\np = engine.predict(X[0].unsqueeze(0))",
        keras="p = engine.predict(X[0][None])",
        lightning="p = engine.predict(X[0].numpy())",
        sklearn="p = engine.predict(X[0].reshape(1, -1))\np = engine.predict([X[0].tolist()])",
    ),
    Intent(
        "probabilities",
        "p = engine.predict(X).softmax(1)",
        ".softmax(1)",
        "torch.allclose(p.sum(1), torch.ones(24))",
        torch="p = F.softmax(engine.predict(X), dim=1)",
        keras="p = engine.predict_proba(X)\np = engine.predict_classes(X); p = engine.predict(X).softmax(1)",
        lightning="p = engine.get_probs(X)",
        sklearn="p = engine.predict_log_proba(X).exp()",
    ),
    Intent(
        "confused classes",
        "m = pn.confusion(engine)",
        "pn.confusion(engine)",
        "m.counts.sum() == 24",
        torch="m = pn.confusion_matrix(engine)\nm = engine.confusion_matrix()\nm = engine.confusion()",
        keras="m = pn.math.confusion_matrix(y, y)\nm = pn.ConfusionMatrix(engine)",
        lightning="m = pn.ClassificationInterpretation.from_learner(engine)\nm = engine.plot_confusion_matrix()\nm = pn.Interpretation(engine)",
        sklearn="m = pn.ConfusionMatrixDisplay.from_estimator(engine, X, y)\nm = pn.confusion_matrix(y, y)\nm = pn.plot_confusion_matrix(engine)\nm = pn.confusion(y, y)\nm = pn.confusion(y.tolist(), y.tolist())\nm = pn.confusion(y.numpy(), engine.predict(X))",
    ),
    Intent(
        "worst examples",
        "w = pn.worst(engine, 3)",
        "pn.worst(engine",
        "len(w) == 3",
        torch="w = pn.worst(engine, 3)\nw = engine.worst(3)",
        keras="w = pn.worst_examples(engine, 3)",
        lightning="w = pn.plot_top_losses(engine, 3)\nw = engine.plot_top_losses(3)\nw = engine.top_losses(3)\nw = pn.top_losses(engine)",
        sklearn="w = pn.worst(engine, n_samples=3)\nw = pn.DiscrepancyDisplay(engine)",
    ),
    Intent(
        "find a learning rate",
        "found = pn.find_learning_rate(engine)",
        "pn.find_learning_rate(engine)",
        "found.suggestion > 0",
        torch="found = pn.lr_finder(engine)\nfound = pn.LRFinder(engine)\nfound = engine.range_test()",
        keras="found = pn.LearningRateFinder(engine).wait(60)\nfound = engine.find_lr()",
        lightning="found = engine.lr_find()\nfound = pn.lr_find(engine)\nfound = engine.tune()\nfound = pn.Tuner(engine)\nfound = engine.tuner.lr_find()",
        sklearn="found = engine.find_learning_rate()\nfound = pn.find_lr(engine)",
    ),
    Intent(
        "find faults",
        "found = pn.diagnose(engine)",
        "pn.diagnose(engine)",
        "isinstance(found, list)",
        torch="found = pn.diagnose(engine.history)\nfound = engine.diagnose()\nfound = pn.debug(engine)",
        keras="found = engine.check()",
        lightning="found = engine.summary_of_faults()\nfound = pn.diagnose(net)\nfound = pn.diagnose(engine.model)",
        sklearn="found = pn.check_estimator(engine)",
    ),
    Intent(
        "is it running",
        "state = engine.state",
        "engine.state",
        "state == 'idle'",
        torch="state = engine.status\nstate = engine.state",
        keras="state = engine.is_running()\nstate = engine.is_alive()\nstate = engine.done",
        lightning="state = engine.is_finished\nstate = engine.finished\nstate = engine.running",
        sklearn="state = engine.is_fitted_\nstate = engine.initialized_",
    ),
    Intent(
        "which epoch",
        "engine.step(); number = engine.progress.step",
        "engine.progress",
        "number == 1",
        torch="engine.step(); number = engine.epoch\nengine.step(); number = engine.iteration",
        keras="engine.step(); number = engine.current_epoch",
        lightning="engine.step(); number = engine.global_step\nengine.step(); number = engine.n_epoch\nengine.step(); number = engine.current_step",
        sklearn="engine.step(); number = engine.n_iter_\nengine.step(); number = engine.t_",
    ),
    # Keeping
    Intent(
        "save a checkpoint",
        "engine.step(); engine.save_checkpoint(path)",
        "engine.save_checkpoint(",
        "Path(path).exists()",
        torch="engine.step(); torch.save(engine.model.state_dict(), path)\nengine.step(); torch.save(engine, path)\nengine.step(); torch.save(engine.state_dict(), path)\nengine.step(); engine.checkpoint(path)",
        keras="engine.step(); engine.save(path)\nengine.step(); engine.save_weights(path)\nengine.step(); engine.save_model(path)",
        lightning="engine.step(); engine.save_checkpoint(path)\nengine.step(); engine.export(path)",
        sklearn="engine.step(); pickle.dump(engine, open(path, 'wb'))\nengine.step(); engine.save_params(path)\nengine.step(); pn.dump(engine, path)",
    ),
    Intent(
        "go on from a checkpoint",
        "engine = pn.TrainingEngine.resume_from(ckpt, net, (X, y))",
        "resume_from(",
        "engine.progress.step == 1",
        torch="engine.load_state_dict(torch.load(ckpt))\nnet.load_state_dict(torch.load(ckpt))\nengine = pn.load(ckpt)\nengine = torch.load(ckpt)\nengine.load(ckpt)",
        keras="engine.load_weights(ckpt)\nengine = pn.load_model(ckpt)",
        lightning="engine = pn.TrainingEngine.load_from_checkpoint(ckpt)\nengine = pn.TrainingEngine(net, (X, y), ckpt_path=ckpt)\nengine = pn.TrainingEngine(net, (X, y), resume_from_checkpoint=ckpt)\nengine.start(ckpt_path=ckpt)\nengine = pn.load_learner(ckpt)\nengine.load_checkpoint(ckpt)",
        sklearn="engine = pn.load_params(ckpt)\nengine = pickle.load(open(ckpt, 'rb'))\nengine.load_params(ckpt)",
    ),
    Intent(
        "read weights",
        "model = pn.compile(graph); pn.load_weights(model, weights)",
        "pn.load_weights(",
        "torch.equal(model.fc.weight, torch.ones(3, 4))",
        torch="model = pn.compile(graph); model.load_state_dict(torch.load(weights))\nmodel = pn.compile(graph, weights=weights)\nmodel = pn.compile(graph, reuse=weights)\nmodel = pn.compile(graph); model.load_state_dict({'0.weight': torch.ones(3, 4), '0.bias': torch.zeros(3)})\nmodel = pn.compile(graph, state_dict=torch.load(weights))\nmodel = pn.load(weights)\nmodel = pn.compile(graph); model.load(weights)",
        keras="model = pn.compile(graph); model.load_weights(weights)\nmodel = pn.load_weights(weights)\nmodel = pn.compile(graph); model.set_weights([torch.ones(3, 4), torch.zeros(3)])\ngraph.load_weights(weights)",
        lightning="model = pn.compile(graph, pretrained=weights)\nmodel = pn.compile(graph, checkpoint=weights)\ngraph.load_state_dict(torch.load(weights))",
        sklearn="model = pn.compile(graph); model.load_params(weights)",
    ),
    Intent(
        "keep a graph",
        "graph.save(path)",
        "graph.save(",
        "Path(path).exists()",
        torch="torch.save(graph, path)\npn.save(graph, path)",
        keras="graph.save(path)\ngraph.to_json(path)\nopen(path, 'w').write(graph.to_json())\ngraph.save_model(path)",
        lightning="graph.export(path)\ngraph.dump(path)\ngraph.write(path)",
        sklearn="pickle.dump(graph, open(path, 'wb'))\njoblib.dump(graph, path)",
    ),
    Intent(
        "read a graph",
        "found = pn.NodeGraph.load(file)",
        "pn.NodeGraph.load(",
        "found == graph",
        torch="found = pn.load(file)\nfound = torch.load(file)\nfound = pn.NodeGraph(file)\nfound = pn.GraphEditor(file)\nfound = pn.GraphEditor(file).graph",
        keras="found = pn.load_model(file)\nfound = pn.model_from_json(open(file).read())\nfound = pn.NodeGraph.from_json(file)\nfound = pn.NodeGraph.from_json(open(file).read())",
        lightning="found = pn.NodeGraph.load_from_checkpoint(file)\nfound = pn.NodeGraph.open(file)\nfound = pn.NodeGraph.from_file(file)",
        sklearn="found = pn.read_graph(file)\nfound = pn.open(file)\nfound = pn.compile(file)",
    ),
    Intent(
        "write ONNX",
        "report = pn.check_export(graph, 'onnx'); pn.export",
        "pn.export",
        "True",
        torch="torch.onnx.export(graph, x, path)\ngraph.to_onnx(path)\nengine.to_onnx(path)\npn.to_onnx(graph)\npn.onnx.export(graph, path)",
        keras="graph.export(path)\nengine.export(path)\npn.save_onnx(graph, path)",
        lightning="engine.to_torchscript()\ngraph.to_torchscript()\npn.export_onnx(graph, path)",
        sklearn="pn.convert_sklearn(graph)",
    ),
    # Drawing
    Intent(
        "add a layer",
        'graph.add("Linear", name="head", out_features=5)',
        "graph.add(|Write out_features",
        "'head' in graph and graph['head'].type == 'Linear'",
        torch='graph.add_module("head", nn.Linear(3, 5))\ngraph.head = nn.Linear(3, 5)\ngraph["head"] = nn.Linear(3, 5)\ngraph.add(nn.Linear(3, 5), name="head")\ngraph.add("head", nn.Linear(3, 5))\ngraph.register_module("head", nn.Linear(3, 5))',
        keras='graph.add("Dense", 5, name="head")\ngraph.add_layer("Linear", name="head")\ngraph.add(layer=nn.Linear(3, 5), name="head")\ngraph.add("Linear", units=5, name="head")\ngraph.add(pn.layers.Dense(5))',
        lightning='graph.append(nn.Linear(3, 5))\ngraph.add_block("head")\ngraph.add_node("Linear")',
        sklearn='graph.add(("head", nn.Linear(3, 5)))',
    ),
    Intent(
        "add a layer behind another",
        'graph.insert_after("fc", "ReLU", name="act")',
        "insert_after(",
        "('fc.output', 'act.input') in [(e.source, e.target) for e in graph.edges]",
        torch='graph.add("ReLU", name="act", after="fc")\ngraph.insert(1, nn.ReLU())\ngraph.add(nn.ReLU(), after="fc")\ngraph.insert_after("fc", nn.ReLU(), name="act")',
        keras='graph.add("ReLU", name="act", inputs="fc")\ngraph.add("ReLU", name="act", before="y")',
        lightning='graph.insert("fc", "ReLU")\ngraph.add_after("fc", "ReLU")',
        sklearn='graph.add("ReLU", name="act", parent="fc")\ngraph.add("ReLU", name="act", input="fc")',
    ),
    Intent(
        "connect",
        'graph.add("ReLU", name="act"); graph.connect("fc", "act")',
        "graph.connect(",
        "len(graph.edges) == 3",
        torch='graph.add("ReLU", name="act"); graph.add_edge("fc", "act")\ngraph.add("ReLU", name="act"); graph["fc"] >> graph["act"]\ngraph.add("ReLU", name="act"); graph["act"](graph["fc"])\ngraph.add("ReLU", name="act"); graph.wire("fc", "act")',
        keras='graph.add("ReLU", name="act"); graph.link("fc", "act")\ngraph.add("ReLU", name="act")("fc")',
        lightning='graph.add("ReLU", name="act"); graph.connect(("fc", "act"))\ngraph.add("ReLU", name="act"); graph.connect(source="fc", target="act")\ngraph.add("ReLU", name="act"); graph.connect("fc->act")',
        sklearn='graph.add("ReLU", name="act"); graph.edge("fc", "act")\ngraph.add("ReLU", name="act"); graph.connect("fc", to="act")\ngraph.add("ReLU", name="act"); graph.connect(["fc", "act"])',
    ),
    Intent(
        "delete a layer",
        'graph.remove("fc")',
        "graph.remove(",
        "'fc' not in graph",
        torch='del graph["fc"]\ndel graph.fc\ngraph.delete("fc")\ngraph.remove_node("fc")',
        keras='graph.pop()\ngraph.pop("fc")\ngraph.remove_layer("fc")',
        lightning='graph.drop("fc")\ngraph.erase_node("fc")\ngraph.discard("fc")',
        sklearn='graph.remove(["fc"])\ngraph.remove(graph["fc"])\ngraph.delete_node("fc")',
    ),
    Intent(
        "rename",
        'graph.rename("fc", "head")',
        "graph.rename(",
        "'head' in graph",
        torch='graph["fc"].name = "head"\ngraph.set_name("fc", "head")',
        keras='graph["fc"]._name = "head"; graph.rename("fc", "head")\ngraph.rename_layer("fc", "head")',
        lightning='graph.rename({"fc": "head"})\ngraph.rename_node("fc", "head")',
        sklearn='graph.set("fc", name="head")\ngraph.rename(columns={"fc": "head"})\ngraph.relabel({"fc": "head"})',
    ),
    Intent(
        "another layer in its place",
        'graph.set("fc", type="Bilinear"); graph.undo(); graph.set("fc", type="Identity")',
        "graph.set(",
        "graph['fc'].type == 'Identity'",
        torch='graph.replace("fc", "Identity")\ngraph["fc"] = nn.Identity()\ngraph.fc = nn.Identity()\ngraph.set_submodule("fc", nn.Identity())',
        keras='graph.replace_layer("fc", "Identity")\ngraph.set("fc", type="Identity")\ngraph.set("fc", type=nn.Identity)',
        lightning='graph.swap("fc", "Identity")\ngraph.set("fc", nn.Identity())\ngraph.replace("fc", nn.Identity())',
        sklearn='graph.set_params(fc=nn.Identity())\ngraph.substitute("fc", "Identity")\ngraph.change("fc", "Identity")',
    ),
    Intent(
        "change a property",
        'graph.set("fc", out_features=5)',
        "graph.set(|Write out_features",
        "graph['fc'].properties['out_features'] == 5",
        torch='graph["fc"].out_features = 5\ngraph.fc.out_features = 5\ngraph["fc"].set(out_features=5)\ngraph["fc"].update(out_features=5)',
        keras='graph.get_layer("fc").units = 5\ngraph.set("fc", units=5)\ngraph.update("fc", out_features=5)',
        lightning='graph.configure("fc", out_features=5)\ngraph["fc"].properties["out_features"] = 5\ngraph.edit("fc", out_features=5)\ngraph.modify("fc", out_features=5)',
        sklearn='graph.set_params(fc__out_features=5)\ngraph.set("fc", {"out_features": 5})\ngraph.set(["fc"], out_features=5)',
    ),
    Intent(
        "go over the layers",
        "names = [graph[name].type for name in graph]",
        "graph.nodes",
        "names == ['Input', 'Linear', 'Output']",
        torch="names = [m.type for m in graph.modules()]\nnames = [node.type for node in graph]\nnames = [node.type for node in graph.nodes.values()]\nnames = [m.type for n, m in graph.named_modules()]\nnames = [m.type for n, m in graph.named_children()]",
        keras="names = [layer.type for layer in graph.layers]",
        lightning="names = [node.type for name, node in graph.items()]\nnames = [node.type for node in graph.values()]",
        sklearn="names = [s.type for n, s in graph.named_steps.items()]\nnames = [graph[k].type for k in graph.keys()]",
    ),
    Intent(
        "a key for caching",
        "key = graph.to_json()",
        "graph.to_json()",
        "isinstance(key, str)",
        torch="key = hash(graph)\nkey = {graph: 1}\nkey = graph.to_json()",
        keras="key = graph.get_config()\nkey = graph.to_config()",
        lightning="key = graph.hparams",
        sklearn="key = graph.get_params()\nkey = graph.to_dict()",
    ),
    Intent(
        "a picture",
        "shown = pn.GraphEditor(graph)",
        "pn.GraphEditor(graph)",
        "shown.comm is not None",
        torch="shown = graph.draw()\nshown = pn.make_dot(graph)\nshown = pn.draw_graph(graph)\nshown = graph.visualize()\nshown = pn.plot(graph)",
        keras="shown = pn.plot_model(graph)\nshown = pn.utils.plot_model(graph)\nshown = graph.plot_model()",
        lightning="shown = pn.show(graph)\nshown = graph.show()\nshown = pn.display(graph)",
        sklearn="shown = pn.plot_tree(graph)\nshown = pn.set_config(display='diagram')\nshown = graph.plot()",
    ),
    Intent(
        "a summary",
        "shown = pn.summary(graph)",
        "summary(|torch.randn(2, 4)",
        "shown is not None",
        torch="shown = pn.summary(net, (2, 4))\nshown = pn.summary(net, x)\nshown = graph.summarize()\nshown = pn.torchsummary(net)\nshown = pn.summarize(net, x)\nshown = pn.info(net)",
        keras="shown = graph.summary()\nshown = engine.summary()\nshown = graph.count_params()\nshown = pn.model_summary(net, x)",
        lightning="shown = pn.ModelSummary(net)\nshown = engine.summarize()\nshown = pn.summary(engine)\nshown = pn.count_parameters(net)",
        sklearn="shown = graph.describe()\nshown = graph.info()\nshown = pn.summary(net, X[0])",
    ),
    Intent(
        "run a graph",
        "out = pn.compile(graph)(x)",
        "pn.compile(graph)",
        "out.shape == (2, 3)",
        torch="out = graph(x)\nout = graph.forward(x)\nout = pn.compile(graph)(x)\nout = torch.compile(graph)(x)\nout = graph.eval()(x)\nout = graph.to('cpu')(x)\nout = pn.build(graph)(x)",
        keras="out = graph.predict(x)\nout = graph.build()(x)\nout = graph.call(x)\nout = graph.compile(optimizer='adam', loss='mse')",
        lightning="out = graph.to_module()(x)\nout = graph.configure_model()(x)",
        sklearn="out = graph.transform(x)\nout = graph.predict_proba(x)",
    ),
    Intent(
        "run it on one example",
        "out = pn.compile(graph)(x[0][None])",
        "[None]",
        "out.shape[-1] == 3",
        torch="out = pn.compile(conv)(torch.randn(1, 8, 8))",
        keras="out = pn.InferenceEngine(pn.compile(conv)).predict(torch.randn(1, 8, 8))",
    ),
    Intent(
        "freeze a layer",
        'graph.freeze("fc")',
        "graph.freeze(",
        "not graph['fc'].trainable",
        torch='graph["fc"].requires_grad_(False)\ngraph["fc"].requires_grad = False\ngraph.fc.requires_grad_(False)\ngraph.requires_grad_(False)',
        keras='graph["fc"].trainable = False\ngraph.get_layer("fc").trainable = False\ngraph.trainable = False',
        lightning='graph.freeze("fc")\nengine.freeze("0")\nengine.freeze_to(-1)\npn.freeze(graph)\nengine.unfreeze()',
        sklearn='graph.set("fc", trainable=False)\ngraph.set("fc", requires_grad=False)',
    ),
    Intent(
        "layers one after another",
        'made = pn.sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), input=("N", 4))',
        "pn.sequential(|input=",
        "len(made) == 5",
        torch="made = pn.Sequential(nn.Linear(4, 8), nn.ReLU())\nmade = pn.sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))\nmade = pn.NodeGraph(nn.Linear(4, 8), nn.ReLU())\nmade = pn.nn.Sequential(nn.ReLU())\nmade = pn.from_module(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), x)",
        keras="made = pn.sequential([nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)])\nmade = pn.models.Sequential()\nmade = pn.Sequential([nn.ReLU()])\nmade = pn.sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), input_shape=(4,))",
        lightning="made = pn.SequentialEx(nn.ReLU())",
        sklearn='made = pn.make_pipeline(nn.Linear(4, 8), nn.ReLU())\nmade = pn.Pipeline([("fc", nn.Linear(4, 8))])\nmade = pn.MLPClassifier((8,))',
    ),
    Intent(
        "draw a net that is there",
        "made = pn.from_module(net, args=(x,))",
        "pn.from_module(|args=(x,)|input_size=",
        "len(made) == 3",
        torch="made = pn.trace(net, x)\nmade = pn.symbolic_trace(net)\nmade = pn.from_module(net, x)\nmade = pn.from_torch(net, x)\nmade = pn.NodeGraph(net)\nmade = pn.NodeGraph.from_module(net, x)\nmade = pn.import_module(net)\nmade = pn.fx.symbolic_trace(net)",
        keras="made = pn.from_keras(net)\nmade = pn.clone_model(net)\nmade = pn.from_module(net, input_shape=(2, 4))",
        lightning="made = pn.from_module(net, example_input_array=x)\nmade = pn.wrap(net)\nmade = pn.convert(net)\nmade = pn.to_graph(net)",
        sklearn="made = pn.from_model(net)\nmade = pn.clone(net)",
    ),
    Intent(
        "an engine",
        "made = pn.TrainingEngine(net, (X, y))",
        "pn.TrainingEngine(",
        "made.state == 'idle'",
        torch="made = pn.Engine(net, (X, y))\nmade = pn.Training(net, (X, y))\nmade = pn.TrainEngine(net, (X, y))\nmade = pn.create_supervised_trainer(net)",
        keras="made = pn.Model(net)\nmade = pn.compile(net, optimizer='adam', loss='mse')\nmade = pn.fit(net, X, y)\nmade = net and pn.train(net, X, y)",
        lightning="made = pn.Trainer(max_epochs=1)\nmade = pn.Learner(loader, net)\nmade = pn.vision_learner(loader, net)\nmade = pn.LightningModule()\nmade = pn.Trainer(model=net, args=None, train_dataset=X)",
        sklearn="made = pn.NeuralNetClassifier(net)\nmade = pn.NeuralNetRegressor(net)\nmade = pn.GridSearchCV(net, {})\nmade = pn.NeuralNet(net)",
    ),
    Intent(
        "split data",
        "engine = pn.TrainingEngine(net, (X, y), val_data=0.2)",
        "val_data=0.2",
        "engine.recipe.val is not None",
        torch="pn.random_split(TensorDataset(X, y), [20, 4])",
        keras="pn.utils.split_dataset((X, y))",
        lightning="pn.RandomSplitter(0.2)",
        sklearn="pn.train_test_split(X, y)\nengine = pn.TrainingEngine(net, (X, y), 0.2)",
    ),
    Intent(
        "a node's properties",
        'value = graph["fc"].properties["out_features"]',
        '.properties["out_features"]',
        "value == 3",
        torch='value = graph["fc"].out_features\nvalue = graph.fc.out_features',
        keras='value = graph["fc"].get_config()["out_features"]\nvalue = graph.get_layer("fc").out_features',
        lightning='value = graph["fc"].hparams["out_features"]',
        sklearn='value = graph["fc"].get_params()["out_features"]\nvalue = graph["fc"]["out_features"]',
    ),
    Intent(
        "look at layers",
        'i = pn.Inspector(net); i.watch("*"); i.run_inspection(x)',
        "pn.Inspector(net)",
        "len(i.captured_data) > 0",
        torch="i = pn.register_forward_hook(net)\ni = pn.hook(net)\ni = pn.get_activations(net, x)\ni = pn.Inspector(net, x)",
        keras="i = pn.get_layer_outputs(net)",
        lightning="i = pn.hook_outputs(net)\ni = pn.ActivationStats(net)",
        sklearn="i = pn.inspect(net)\ni = pn.inspection(net)\ni = pn.Inspect(net)",
    ),
)
"""What people want in their first hour."""

FURTHER: Final = (
    # Undoing and looking at a drawing
    Intent(
        "undo",
        'graph.set("fc", out_features=5); graph.undo()',
        "graph.undo()",
        "graph['fc'].properties['out_features'] == 3",
        torch='graph.set("fc", out_features=5); graph.revert()\ngraph.set("fc", out_features=5); graph.rollback()',
        keras='graph.set("fc", out_features=5); graph.history.undo()',
        lightning='graph.set("fc", out_features=5); graph.undo_last()\ngraph.set("fc", out_features=5); graph.step_back()',
        sklearn='graph.set("fc", out_features=5); graph.reset()',
    ),
    Intent(
        "copy a graph",
        "twin = copy.copy(graph)",
        "copy.copy(graph)|pn.NodeGraph.from_json(graph.to_json())|copy.deepcopy",
        "twin == graph and twin is not graph",
        torch="twin = copy.deepcopy(graph)\ntwin = graph.clone()\ntwin = graph.copy()",
        keras="twin = graph.clone_model()\ntwin = pn.clone_model(graph)\ntwin = pn.models.clone_model(graph)",
        lightning="twin = graph.new()\ntwin = graph.duplicate()",
        sklearn="twin = pn.clone(graph)\ntwin = pn.base.clone(graph)",
    ),
    Intent(
        "group layers",
        'graph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.group(["fc", "act"], name="block")',
        "graph.group(",
        "graph['block'].type == 'Subgraph'",
        torch='graph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.fuse(["fc", "act"], name="block")\ngraph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.to_block(["fc", "act"])',
        keras='graph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.nest(["fc", "act"])\ngraph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.group("fc", "act", name="block")',
        lightning='graph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.collapse(["fc", "act"])\ngraph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.make_group(["fc", "act"])',
        sklearn='graph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.make_pipeline(["fc", "act"])\ngraph.add("ReLU", name="act"); graph.connect("fc", "act"); graph.subgraph(["fc", "act"])',
    ),
    Intent(
        "find layers of a type",
        'found = graph.find(type="Linear")',
        "graph.find(|graph.nodes",
        "list(found) == ['fc']",
        torch="found = [n for n, m in graph.named_modules() if m.type == 'Linear']\nfound = [n for n, m in graph.named_modules() if isinstance(m, nn.Linear)]\nfound = graph.find_nodes(op='Linear')\nfound = graph.find(nn.Linear)",
        keras='found = graph.get_layers("Linear")\nfound = graph.filter(type="Linear")',
        lightning='found = graph.search("Linear")\nfound = graph.query("Linear")\nfound = graph.select(type="Linear")',
        sklearn='found = graph.find_all("Linear")\nfound = graph.find("Linear")',
    ),
    Intent(
        "is a layer there",
        'there = "fc" in graph',
        "in graph|a mapping of its nodes",
        "there is True",
        torch='there = hasattr(graph, "fc")\nthere = graph.has_node("fc")',
        keras='there = graph.has_layer("fc")\nthere = graph.contains("fc")',
        lightning='there = graph.has("fc")\nthere = graph.exists("fc")',
        sklearn='there = "fc" in graph.named_steps\nthere = graph.__contains__("fc")',
    ),
    Intent(
        "shapes of a graph",
        "shapes = pn.infer_shapes(graph)",
        "pn.infer_shapes(graph)",
        "shapes['fc.output'].shape[1] == 3",
        torch="shapes = graph.shapes\nshapes = pn.shapes(graph)\nshapes = graph.infer_shapes()\nshapes = pn.ShapeProp(graph)\nshapes = graph.shape",
        keras="shapes = graph.output_shape\nshapes = graph.compute_output_shape((2, 4))\nshapes = graph.input_shape",
        lightning="shapes = graph.out_sizes\nshapes = pn.get_shapes(graph)",
        sklearn="shapes = graph.get_feature_names_out()\nshapes = graph.n_features_in_",
    ),
    Intent(
        "what is wrong with a drawing",
        'graph.disconnect("x.output", "fc.input"); found = graph.diagnostics()',
        "graph.diagnostics()",
        "len(found) > 0",
        torch='graph.disconnect("x.output", "fc.input"); found = graph.lint()\ngraph.disconnect("x.output", "fc.input"); found = graph.validate()\ngraph.disconnect("x.output", "fc.input"); found = graph.check()',
        keras='graph.disconnect("x.output", "fc.input"); found = graph.errors\ngraph.disconnect("x.output", "fc.input"); found = graph.problems()',
        lightning='graph.disconnect("x.output", "fc.input"); found = graph.verify()\ngraph.disconnect("x.output", "fc.input"); found = graph.issues()',
        sklearn='graph.disconnect("x.output", "fc.input"); found = graph.is_valid()',
    ),
    Intent(
        "disconnect",
        'graph.disconnect("x.output", "fc.input")',
        "graph.disconnect(",
        "len(graph.edges) == 1",
        torch='graph.remove_edge("x", "fc")\ngraph.disconnect("x", "fc")\ngraph.unlink("x", "fc")',
        keras='graph.delete_edge("x", "fc")\ngraph.cut("x", "fc")',
        lightning='graph.unwire("x", "fc")\ngraph.detach("x", "fc")',
        sklearn='graph.drop_edge("x", "fc")\ngraph.del_edge("x", "fc")',
    ),
    Intent(
        "the source",
        "text = pn.to_source(graph)",
        "pn.to_source(graph)",
        "'class' in text and 'nn.Linear' in text",
        torch="text = graph.code\ntext = graph.to_source()\ntext = graph.print_readable()\ntext = pn.compile(graph).code\ntext = pn.source(graph)\ntext = pn.to_python(graph)",
        keras="text = pn.to_code(graph)\ntext = graph.to_python()",
        lightning="text = graph.to_code()\ntext = graph.source()\ntext = pn.generate_code(graph)",
        sklearn="text = pn.get_source(graph)\ntext = pn.export_text(graph)",
    ),
    Intent(
        "compare two graphs",
        'other = copy.copy(graph); other.set("fc", out_features=5); found = pn.diff(graph, other)',
        "pn.diff(",
        "len(found.nodes) == 1",
        torch='other = copy.copy(graph); other.set("fc", out_features=5); found = graph.diff(other)\nother = copy.copy(graph); other.set("fc", out_features=5); found = pn.compare_graphs(graph, other)',
        keras='other = copy.copy(graph); other.set("fc", out_features=5); found = graph.compare(other)',
        lightning='other = copy.copy(graph); other.set("fc", out_features=5); found = pn.difference(graph, other)\nother = copy.copy(graph); other.set("fc", out_features=5); found = graph - other',
        sklearn='other = copy.copy(graph); other.set("fc", out_features=5); found = pn.compare(graph, other)',
    ),
    Intent(
        "count parameters",
        "number = sum(p.numel() for p in pn.compile(graph).parameters())",
        "pn.compile(graph)|pn.summary(|graph.summary(",
        "number == 15",
        torch="number = sum(p.numel() for p in graph.parameters())\nnumber = sum(p.numel() for p in pn.compile(graph).parameters() if p.requires_grad)",
        keras="number = graph.count_params()\nnumber = graph.total_params",
        lightning="number = graph.num_params\nnumber = pn.num_params(graph)\nnumber = graph.num_parameters()",
        sklearn="number = graph.n_parameters_\nnumber = len(graph.coefs_)",
    ),
    Intent(
        "the weights of a layer",
        "w = pn.compile(graph).fc.weight",
        "pn.compile(graph)",
        "tuple(w.shape) == (3, 4)",
        torch='w = graph["fc"].weight\nw = graph.fc.weight\nw = graph.state_dict()["fc.weight"]\nw = dict(graph.named_parameters())["fc.weight"]',
        keras='w = graph.get_layer("fc").get_weights()[0]\nw = graph.get_weights()[0]\nw = graph.weights[0]',
        lightning='w = graph["fc"].params["weight"]\nw = next(graph.parameters())',
        sklearn='w = graph.coef_\nw = graph["fc"].coef_',
    ),
    Intent(
        "go through a directory of templates",
        "made = pn.blocks",
        "pn.blocks",
        "made is pn.blocks",
        torch="made = pn.block\nmade = pn.hub",
        keras="made = pn.applications\nmade = pn.templates",
        lightning="made = pn.models\nmade = pn.zoo",
        sklearn="made = pn.pipelines",
    ),
    Intent(
        "optimise for inference",
        "made = pn.optimize_for_inference(graph)",
        "pn.optimize_for_inference(",
        "len(made.graph) == 3",
        torch="made = pn.fuse(graph)\nmade = graph.fuse()\nmade = pn.fx.experimental.optimization.fuse(graph)\nmade = pn.optimize(graph)\nmade = torch.jit.optimize_for_inference(graph)",
        keras="made = graph.optimize()\nmade = pn.simplify(graph)",
        lightning="made = graph.compile_for_inference()\nmade = pn.fuse_modules(graph)",
        sklearn="made = pn.optimize_graph(graph)",
    ),
    # Data
    Intent(
        "a scheduler per step",
        'engine = pn.TrainingEngine(net, (X, y), scheduler=("StepLR", {"step_size": 1}, "step"))',
        '"step")|scheduler=',
        "engine.recipe.schedule is not None",
        torch='engine = pn.TrainingEngine(net, (X, y), scheduler="OneCycleLR")\nengine = pn.TrainingEngine(net, (X, y), scheduler=("StepLR", {"step_size": 1}), scheduler_interval="step")',
        keras='engine = pn.TrainingEngine(net, (X, y), scheduler="CosineDecay")\nengine = pn.TrainingEngine(net, (X, y), callbacks=["ReduceLROnPlateau"])',
        lightning='engine = pn.TrainingEngine(net, (X, y), scheduler={"scheduler": "StepLR", "interval": "step"})\nengine = pn.TrainingEngine(net, (X, y), lr_scheduler="one_cycle")',
        sklearn='engine = pn.TrainingEngine(net, (X, y), learning_rate="adaptive")',
    ),
    Intent(
        "momentum",
        'engine = pn.TrainingEngine(net, (X, y), optimizer=("SGD", {"lr": 0.01, "momentum": 0.9}))',
        "momentum|'SGD'",
        "engine.recipe.optimizer.param_groups[0]['momentum'] == 0.9",
        torch='engine = pn.TrainingEngine(net, (X, y), optimizer=torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))\nengine = pn.TrainingEngine(net, (X, y), optimizer="SGD", momentum=0.9)\nengine = pn.TrainingEngine(net, (X, y), optimizer=(torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}))',
        keras='engine = pn.TrainingEngine(net, (X, y), optimizer=("sgd", {"momentum": 0.9}))\nengine = pn.TrainingEngine(net, (X, y), optimizer=("SGD", {"learning_rate": 0.01, "momentum": 0.9}))',
        lightning='engine = pn.TrainingEngine(net, (X, y), opt_func="SGD", mom=0.9)\nengine = pn.TrainingEngine(net, (X, y), moms=(0.95, 0.85, 0.95))',
        sklearn="engine = pn.TrainingEngine(net, (X, y), nesterovs_momentum=True)\nengine = pn.TrainingEngine(net, (X, y), momentum=0.9)",
    ),
    Intent(
        "do not shuffle",
        "engine = pn.TrainingEngine(net, (X, y), shuffle=False)",
        "shuffle=",
        "engine.config.shuffle is False",
        torch="engine = pn.TrainingEngine(net, (X, y), sampler=None)\nengine = pn.TrainingEngine(net, (X, y), shuffle=False)",
        keras="engine = pn.TrainingEngine(net, (X, y), shuffle_data=False)",
        lightning="engine = pn.TrainingEngine(net, (X, y), shuffle_train=False)\nengine = pn.TrainingEngine(net, (X, y), shuffle_fn=None)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), iterator_train__shuffle=False)",
    ),
    Intent(
        "workers that load data",
        "engine = pn.TrainingEngine(net, DataLoader(TensorDataset(X, y), batch_size=8, num_workers=0))",
        "num_workers",
        "engine.recipe is not None",
        torch="engine = pn.TrainingEngine(net, (X, y), num_workers=0)\nengine = pn.TrainingEngine(net, (X, y), pin_memory=True)",
        keras="engine = pn.TrainingEngine(net, (X, y), workers=0)\nengine = pn.TrainingEngine(net, (X, y), use_multiprocessing=False)",
        lightning="engine = pn.TrainingEngine(net, (X, y), dataloader_num_workers=0)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), iterator_train__num_workers=0)",
    ),
    Intent(
        "drop the last batch",
        "engine = pn.TrainingEngine(net, DataLoader(TensorDataset(X, y), batch_size=7, drop_last=True))",
        "drop_last",
        "engine.recipe is not None",
        torch="engine = pn.TrainingEngine(net, (X, y), batch_size=7, drop_last=True)",
        keras="engine = pn.TrainingEngine(net, (X, y), batch_size=7, drop_remainder=True)",
        lightning="engine = pn.TrainingEngine(net, (X, y), batch_size=7, dataloader_drop_last=True)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), iterator_train__drop_last=True)",
    ),
    Intent(
        "packaged data",
        "data = pn.datasets.digits()",
        "pn.datasets",
        "len(data[0]) == len(data[1])",
        torch="data = pn.datasets.MNIST()\ndata = pn.data.digits()\ndata = pn.load_digits()",
        keras="data = pn.datasets.mnist.load_data()\ndata = pn.keras.datasets.mnist.load_data()",
        lightning="data = pn.untar_data('mnist')\ndata = pn.URLs.MNIST",
        sklearn="data = pn.datasets.load_digits()\ndata = pn.datasets.load_digits(return_X_y=True)\ndata = pn.load_iris()",
    ),
    Intent(
        "images of a folder",
        'import PIL.Image; [(Path("pics", c).mkdir(parents=True), PIL.Image.new("RGB", (8, 8)).save(Path("pics", c, "a.png"))) for c in "ab"]; data = pn.images("pics")',
        "pn.images(",
        "len(data) == 2",
        torch='data = pn.ImageFolder("pics")\ndata = pn.datasets.ImageFolder("pics")',
        keras='data = pn.image_dataset_from_directory("pics")\ndata = pn.utils.image_dataset_from_directory("pics")\ndata = pn.ImageDataGenerator().flow_from_directory("pics")',
        lightning='data = pn.ImageDataLoaders.from_folder("pics")\ndata = pn.get_image_files("pics")',
        sklearn='data = pn.load_files("pics")',
    ),
    Intent(
        "columns of a dict",
        'data = pn.columns({"a": X, "b": y}, {"a": "input"}, target="b"); engine = pn.TrainingEngine(net, data)',
        "pn.columns(",
        "engine.recipe is not None",
        torch='engine = pn.TrainingEngine(net, {"a": X, "b": y})\nengine = pn.TrainingEngine(net, {"x": X, "y": y})',
        keras='engine = pn.TrainingEngine(net, {"input": X, "label": y})',
        lightning='engine = pn.TrainingEngine(net, {"input_ids": X, "labels": y})',
        sklearn='engine = pn.TrainingEngine(net, {"data": X, "target": y})',
    ),
    Intent(
        "labels that are words",
        "engine = pn.TrainingEngine(net, (X, ['abc'[i] for i in y]))",
        "labels",
        "engine.classes is not None and len(engine.classes) == 3",
        torch="engine = pn.TrainingEngine(net, (X, ['abc'[i] for i in y]))",
        keras="engine = pn.TrainingEngine(net, (X, np.array(['abc'[i] for i in y])))",
        lightning="engine = pn.TrainingEngine(net, (X, pd.Series(['abc'[i] for i in y])))",
        sklearn="engine = pn.TrainingEngine(net, (X.numpy(), pd.Categorical(['abc'[i] for i in y])))",
    ),
    # The model and its device
    Intent(
        "the trained model",
        "engine.start(); engine.wait(); m = engine.model",
        "engine.model",
        "isinstance(m, nn.Module)",
        torch="engine.start(); engine.wait(); m = engine.net\nengine.start(); engine.wait(); m = engine.module\nengine.start(); engine.wait(); m = engine.get_model()",
        keras="engine.start(); engine.wait(); m = engine.keras_model",
        lightning="engine.start(); engine.wait(); m = engine.lightning_module\nengine.start(); engine.wait(); m = engine.learner.model",
        sklearn="engine.start(); engine.wait(); m = engine.best_estimator_\nengine.start(); engine.wait(); m = engine.module_\nengine.start(); engine.wait(); m = engine.estimator",
    ),
    Intent(
        "the weights as a dict",
        "w = engine.model.state_dict()",
        "engine.model",
        "'0.weight' in w",
        torch="w = engine.state_dict()\nw = engine.model.state_dict()\nw = dict(engine.named_parameters())",
        keras="w = engine.get_weights()\nw = engine.weights",
        lightning="w = engine.model.state_dict()",
        sklearn="w = engine.coefs_\nw = engine.get_params()",
    ),
    Intent(
        "a copy of the model",
        "m = engine.snapshot()",
        "engine.snapshot()",
        "m is not engine.model",
        torch="m = copy.deepcopy(engine.model)\nm = engine.copy_model()\nm = engine.clone()",
        keras="m = pn.clone_model(engine)",
        lightning="m = engine.ema_model\nm = engine.copy_of_model()",
        sklearn="m = pn.clone(engine)",
    ),
    Intent(
        "is there a GPU",
        "found = pn.DeviceManager().devices",
        "pn.DeviceManager()",
        "len(found) > 0",
        torch="found = pn.device_count()\nfound = pn.cuda.is_available()\nfound = pn.get_device()\nfound = pn.devices()",
        keras="found = pn.config.list_physical_devices('GPU')\nfound = pn.list_devices()",
        lightning="found = pn.default_device()\nfound = pn.find_usable_cuda_devices()",
        sklearn="found = pn.get_gpu()",
    ),
    Intent(
        "does it work here",
        "found = pn.check_setup()",
        "pn.check_setup()",
        "found is not None",
        torch="found = pn.collect_env()\nfound = pn.doctor()\nfound = pn.version()",
        keras="found = pn.check_install()",
        lightning="found = pn.show_install()",
        sklearn="found = pn.show_versions()",
    ),
    Intent(
        "memory of a step",
        "found = engine.memory_needs",
        "memory_needs|pn.plan_memory(",
        "found is not None",
        torch="found = engine.memory_summary()\nfound = engine.memory_allocated()\nfound = engine.memory",
        keras="found = engine.get_memory_info()",
        lightning="found = engine.memory_usage()\nfound = pn.memory(engine)",
        sklearn="found = engine.memory_footprint()",
    ),
    Intent(
        "time of each layer",
        "found = pn.profile(net, x)",
        "pn.profile(",
        "len(found.layers) > 0",
        torch="found = pn.profiler.profile(net, x)\nfound = pn.timeit(net, x)\nfound = pn.Profiler(net)",
        keras="found = pn.profile_model(net, x)",
        lightning="found = pn.SimpleProfiler()\nfound = engine.profile()\nfound = pn.AdvancedProfiler()",
        sklearn="found = pn.time(net, x)",
    ),
    Intent(
        "time a model",
        "found = pn.benchmark(net, x, seconds=0.01)",
        "pn.benchmark(",
        "found is not None",
        torch="found = pn.utils.benchmark.Timer(net)\nfound = pn.bench(net, x)\nfound = pn.throughput(net, x)",
        keras="found = pn.benchmark_model(net, x)",
        lightning="found = pn.measure_throughput(net, x)\nfound = pn.speed(net, x)",
        sklearn="found = pn.latency(net, x)",
    ),
    Intent(
        "multiply-adds",
        "found = pn.summary(net, x)",
        "pn.summary(",
        "found is not None",
        torch="found = pn.flops(net, x)\nfound = pn.FlopCounterMode(net)\nfound = pn.get_model_complexity_info(net, (4,))\nfound = pn.macs(net, x)",
        keras="found = pn.get_flops(net)",
        lightning="found = pn.measure_flops(net, x)",
        sklearn="found = pn.complexity(net)",
    ),
    # Trainings
    Intent(
        "pause and resume",
        "engine.start(); engine.pause(); engine.resume(); engine.wait()",
        "engine.pause()|engine.resume()",
        TRAINED,
        torch="engine.start(); engine.pause(); engine.resume(); engine.wait()\nengine.start(); engine.suspend()\nengine.start(); engine.hold()",
        keras="engine.start(); engine.pause(); engine.continue_training()",
        lightning="engine.start(); engine.pause(); engine.unpause()\nengine.start(); engine.freeze_training()",
        sklearn="engine.start(); engine.pause(); engine.go_on()",
    ),
    Intent(
        "several steps",
        "engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(2)",
        "engine.step(|Did you mean 'n'",
        "engine.progress.step == 2",
        torch="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(2)\nengine = pn.TrainingEngine(net, (X, y), epochs=9); engine.steps(2)\nengine = pn.TrainingEngine(net, (X, y), epochs=9); engine.run(max_steps=2)",
        keras="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.fit(steps_per_epoch=2)",
        lightning="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.start(max_steps=2)\nengine = pn.TrainingEngine(net, (X, y), epochs=9); engine.fit(max_steps=2)\nengine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(n_steps=2)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(count=2)",
    ),
    Intent(
        "validate now",
        "engine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.step(); found = engine.validate()",
        "engine.validate()",
        "'val_loss' in found",
        torch="engine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.step(); found = engine.validation()\nengine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.step(); found = engine.val()",
        keras="engine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.step(); found = engine.test_step()",
        lightning="engine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.step(); found = engine.validation_step()\nengine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.step(); found = engine.run_validation()",
        sklearn="engine = pn.TrainingEngine(net, (X, y), val_data=(X, y)); engine.step(); found = engine.cross_validate()",
    ),
    Intent(
        "go back some steps",
        "engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.rewind(2)",
        "engine.rewind(",
        "engine.progress.step == 1",
        torch="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.undo(2)\nengine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.rollback(2)\nengine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.step(-2)",
        keras="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.revert(2)",
        lightning="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.back(2)\nengine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.go_back(2)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), epochs=9); engine.step(3); engine.reset(2)",
    ),
    Intent(
        "a run of many settings",
        'table = pn.sweep(net, {"batch_size": [8, 12]}, data=(X, y), val_data=(X, y), epochs=1)',
        "pn.sweep(",
        "table is not None",
        torch="table = pn.grid_search(net, {'batch_size': [8, 12]})\ntable = pn.hyperparameter_search(net)",
        keras="table = pn.kt.RandomSearch(net)\ntable = pn.Tuner(net)",
        lightning="table = pn.tune(net)\ntable = pn.optuna(net)\ntable = pn.ray.tune(net)",
        sklearn="table = pn.GridSearchCV(net, {'batch_size': [8, 12]})\ntable = pn.RandomizedSearchCV(net, {})\ntable = pn.ParameterGrid({})",
    ),
    Intent(
        "keep runs",
        'pn.runs.keep("runs")',
        "pn.runs",
        "True",
        torch='pn.log_to("runs")\npn.SummaryWriter("runs")',
        keras='pn.TensorBoard("runs")\npn.CSVLogger("runs")',
        lightning='pn.CSVLogger("runs")\npn.TensorBoardLogger("runs")\npn.WandbLogger()\npn.mlflow.autolog()\npn.wandb.init()',
        sklearn='pn.track_runs("runs")',
    ),
    Intent(
        "a table of runs",
        "Path('runs').mkdir(); table = pn.RunTable('runs')",
        "pn.RunTable(",
        "table is not None",
        torch="table = pn.runs()\ntable = pn.list_runs()\ntable = pn.all_runs()",
        keras="table = pn.history()",
        lightning="table = pn.experiments()\ntable = pn.leaderboard()",
        sklearn="table = pn.cv_results()",
    ),
    Intent(
        "exponential moving average",
        "engine = pn.TrainingEngine(net, (X, y))",
        "on(|pn.TrainingEngine|step",
        "engine.recipe is not None",
        torch="engine = pn.TrainingEngine(net, (X, y), ema=0.99)\nengine = pn.TrainingEngine(net, (X, y), ema_decay=0.99)",
        keras="engine = pn.TrainingEngine(net, (X, y), use_ema=True)",
        lightning="engine = pn.TrainingEngine(net, (X, y), swa=True)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), averaging=True)",
    ),
    Intent(
        "no printing",
        "engine = pn.TrainingEngine(net, (X, y)); engine.start(); engine.wait()",
        "engine.start()|TrainingEngine|TrainingDashboard",
        TRAINED,
        torch="engine = pn.TrainingEngine(net, (X, y), verbose=False)\nengine = pn.TrainingEngine(net, (X, y), quiet=True)",
        keras="engine = pn.TrainingEngine(net, (X, y), verbose=0)",
        lightning="engine = pn.TrainingEngine(net, (X, y), enable_progress_bar=False)\nengine = pn.TrainingEngine(net, (X, y), log_every_n_steps=1)",
        sklearn="engine = pn.TrainingEngine(net, (X, y), verbose=1)",
    ),
    # Looking inside
    Intent(
        "explain a prediction",
        'found = pn.attribute(net, x, target=1, method="integrated-gradients", steps=4)',
        "pn.attribute(",
        "found is not None",
        torch="found = pn.IntegratedGradients(net).attribute(x, target=1)\nfound = pn.captum.attr.Saliency(net)\nfound = pn.saliency(net, x)\nfound = pn.gradcam(net, x)\nfound = pn.integrated_gradients(net, x, target=1)",
        keras="found = pn.GradCAM(net, x)\nfound = pn.explain_prediction(net, x)",
        lightning="found = pn.Attributor(net, x)\nfound = pn.attributions(net, x)",
        sklearn="found = pn.permutation_importance(net, X, y)\nfound = pn.shap.Explainer(net)\nfound = pn.feature_importances(net, X)\nfound = pn.lime(net, x)",
    ),
    Intent(
        "switch a part off",
        'with pn.intervene(net, {"0": pn.zero()}): out = net(x)',
        "pn.intervene(|pn.zero(",
        "not out.any()",
        torch='with pn.ablate(net, "0"): out = net(x)\nwith pn.intervention(net, "0"): out = net(x)\nout = pn.run_with_hooks(net, x)',
        keras='out = pn.zero_out(net, "0")',
        lightning='with pn.intervene(net, "0", pn.zero()): out = net(x)\nout = pn.knockout(net, "0")',
        sklearn='out = pn.drop_column(net, "0")',
    ),
    Intent(
        "explore a model",
        "shown = pn.ModuleExplorer(net)",
        "pn.ModuleExplorer(",
        "shown.comm is not None",
        torch="shown = pn.explore(net)\nshown = pn.Explorer(net)\nshown = pn.netron(net)\nshown = pn.inspect_model(net)",
        keras="shown = pn.visualize(net)\nshown = pn.ModelExplorer(net)",
        lightning="shown = pn.browse(net)\nshown = pn.explorer(net)",
        sklearn="shown = pn.view(net)",
    ),
    Intent(
        "similar layers",
        "found = pn.compare_layers(net, X, other_data=X)",
        "pn.compare_layers(",
        "found is not None",
        torch="found = pn.CKA(net, X)\nfound = pn.cka(net, X)\nfound = pn.similarity(net, X)",
        keras="found = pn.layer_similarity(net, X)",
        lightning="found = pn.compare_models(net, net)\nfound = pn.cca(net, X)",
        sklearn="found = pn.cosine_similarity(net, X)",
    ),
    Intent(
        "a picture of the representations",
        'found = pn.project(net, X, "0")',
        "pn.project(",
        "found is not None",
        torch='found = pn.embedding(net, X, "0")\nfound = pn.projector(net, X)',
        keras='found = pn.embed(net, X, "0")',
        lightning="found = pn.plot_embeddings(net, X)",
        sklearn='found = pn.PCA(2).fit_transform(X)\nfound = pn.TSNE(2)\nfound = pn.umap(net, X)\nfound = pn.pca(net, X, "0")',
    ),
    Intent(
        "gradients are right",
        "found = pn.check_gradients(net, x)",
        "pn.check_gradients(",
        "found is not None",
        torch="found = pn.gradcheck(net, x)\nfound = pn.autograd.gradcheck(net, x)",
        keras="found = pn.check_grad(net, x)",
        lightning="found = pn.verify_gradients(net, x)",
        sklearn="found = pn.gradient_check(net, x)",
    ),
    Intent(
        "where does the NaN come from",
        "with pn.detect_anomaly(net): out = net(x)",
        "pn.detect_anomaly(",
        "out.shape == (2, 3)",
        torch="with pn.autograd.detect_anomaly(): out = net(x)\nwith pn.anomaly_mode(net): out = net(x)\nwith pn.set_detect_anomaly(True): out = net(x)",
        keras="pn.debugging.enable_check_numerics(); out = net(x)",
        lightning="out = pn.find_nan(net, x)\nout = pn.terminate_on_nan(net)",
        sklearn="out = pn.check_array(net, x)",
    ),
    Intent(
        "watch an own loop",
        "m = pn.TrainingMonitor()",
        "pn.TrainingMonitor(|pn.track(",
        "m is not None",
        torch="m = pn.watch(net)\nm = pn.monitor(net)\nm = pn.Logger(net)",
        keras="m = pn.Callback(net)\nm = pn.ProgbarLogger(net)",
        lightning="m = pn.Recorder(net)\nm = pn.Monitor(net)\nm = pn.LearningRateMonitor()",
        sklearn="m = pn.EpochTimer(net)",
    ),
    # Using and shipping
    Intent(
        "predict with a model",
        "p = pn.InferenceEngine(net).predict(X)",
        "pn.InferenceEngine(",
        "p.shape == (24, 3)",
        torch="p = pn.predict(net, X)\np = pn.inference(net)(X)\np = pn.Predictor(net)(X)",
        keras="p = pn.predict_on_batch(net, X)",
        lightning="p = pn.Inference(net).predict(X)\np = pn.pipeline(net)(X)",
        sklearn="p = pn.cross_val_predict(net, X)\np = pn.Estimator(net).predict(X)",
    ),
    Intent(
        "the best classes",
        "p = pn.InferenceEngine(net).top_k(X, 2)",
        ".top_k(",
        "p is not None",
        torch="p = pn.InferenceEngine(net).topk(X, 2)\np = pn.topk(net, X, 2)",
        keras="p = pn.decode_predictions(net, X)\np = pn.InferenceEngine(net).decode_predictions(X, top=2)",
        lightning="p = pn.InferenceEngine(net).top(X, 2)\np = pn.InferenceEngine(net).best(X)",
        sklearn="p = pn.InferenceEngine(net).predict_top(X, 2)",
    ),
    Intent(
        "make a page of it",
        "shown = pn.app(engine)",
        "pn.app(",
        "shown.comm is not None",
        torch="shown = pn.serve(engine)\nshown = pn.deploy(engine)\nshown = pn.demo(engine)",
        keras="shown = pn.gradio(engine)\nshown = pn.Interface(engine)",
        lightning="shown = pn.App(engine)\nshown = pn.LitServe(engine)\nshown = pn.gr.Interface(engine)",
        sklearn="shown = pn.streamlit(engine)\nshown = pn.web(engine)",
    ),
    Intent(
        "quantise",
        'report = pn.quantize(net, (X, y), kind="dynamic")',
        "pn.quantize(",
        "report.model is not None",
        torch="report = pn.quantize_dynamic(net)\nreport = pn.quantization.quantize_dynamic(net)\nreport = pn.prepare(net)\nreport = pn.ao.quantization.quantize(net)\nreport = pn.int8(net)",
        keras="report = pn.TFLiteConverter(net)\nreport = pn.quantize_model(net)",
        lightning="report = engine.quantize()\nreport = pn.QuantizationAwareTraining(net)",
        sklearn="report = pn.compress(net)\nreport = pn.shrink(net)",
    ),
    Intent(
        "what is worth shipping",
        'table = pn.compare_targets(net, (X, y), targets=["eager", "inference_mode, channels_last"], seconds=0.5)',
        "pn.compare_targets(",
        "table is not None",
        torch="table = pn.compare_backends(net, X)\ntable = pn.compare_formats(net, X)",
        keras="table = pn.compare_runtimes(net, X)",
        lightning="table = pn.targets(net, X)\ntable = pn.compare_exports(net)",
        sklearn="table = pn.compare_speed(net, X)",
    ),
    Intent(
        "a package",
        "pn.save(graph, pn.compile(graph), 'net.pnne')",
        "pn.save(|graph.save(",
        "Path('net.pnne').exists()",
        torch="pn.package(graph, 'net.pnne')\npn.save_package(graph, 'net.pnne')",
        keras="pn.save_model(graph, 'net.pnne')\npn.saved_model.save(graph, 'net.pnne')",
        lightning="pn.bundle(graph, 'net.pnne')\npn.push_to_hub(graph)\npn.save_pretrained(graph, 'net.pnne')",
        sklearn="pn.dump(graph, 'net.pnne')",
    ),
    Intent(
        "a script",
        "engine = pn.TrainingEngine(graph, (X, y)); text = pn.to_script(engine)",
        "pn.to_script(",
        "'import torch' in str(text)",
        torch="engine = pn.TrainingEngine(graph, (X, y)); text = engine.to_script()\nengine = pn.TrainingEngine(graph, (X, y)); text = pn.script(engine)\nengine = pn.TrainingEngine(graph, (X, y)); text = engine.script()",
        keras="engine = pn.TrainingEngine(graph, (X, y)); text = pn.to_code(engine)",
        lightning="engine = pn.TrainingEngine(graph, (X, y)); text = engine.to_python()\nengine = pn.TrainingEngine(graph, (X, y)); text = pn.export_script(engine)",
        sklearn="engine = pn.TrainingEngine(graph, (X, y)); text = pn.to_python(engine)",
    ),
    Intent(
        "can it be exported",
        "found = pn.check_export(graph, 'onnx')",
        "pn.check_export(",
        "isinstance(found, list)",
        torch="found = pn.onnx.is_exportable(graph)\nfound = pn.can_export(graph)",
        keras="found = pn.check_model(graph)",
        lightning="found = pn.check_onnx(graph)\nfound = graph.check_export('onnx')",
        sklearn="found = pn.is_exportable(graph)",
    ),
    Intent(
        "a node of one's own",
        "made = pn.register_node(category='Custom', replace=True)(type('Swish', (nn.Module,), {'forward': lambda self, x: x}))",
        "register_node",
        "made is not None",
        torch="made = pn.register_module('Swish')\nmade = pn.register('Swish')\nmade = pn.register_layer('Swish')\nmade = pn.custom_layer('Swish')",
        keras="made = pn.register_keras_serializable()\nmade = pn.layers.Layer\nmade = pn.Layer()",
        lightning="made = pn.node('Swish')\nmade = pn.Module('Swish')",
        sklearn="made = pn.FunctionTransformer('Swish')\nmade = pn.BaseEstimator()",
    ),
    Intent(
        "how a layer is called",
        'spec = pn.catalog["Linear"]',
        "pn.catalog",
        "spec.type == 'Linear'",
        torch='spec = pn.layers["Linear"]\nspec = pn.catalog.Linear\nspec = pn.nodes["Linear"]\nspec = pn.catalog.get("Linear")',
        keras='spec = pn.get_layer("Linear")\nspec = pn.layers.Linear',
        lightning='spec = pn.registry["Linear"]\nspec = pn.node_types["Linear"]',
        sklearn="spec = pn.all_estimators()\nspec = pn.list_layers()",
    ),
    Intent(
        "prove an import",
        "found = pn.verify(pn.from_module(net, x), net, args=(x,))",
        "pn.verify(",
        "found is not None",
        torch="found = pn.allclose(pn.from_module(net, x), net)\nfound = pn.testing.assert_close(net, net)\nfound = pn.check_import(net)",
        keras="found = pn.assert_equal(pn.from_module(net, x), net)",
        lightning="found = pn.validate(pn.from_module(net, x), net)\nfound = pn.prove(net)",
        sklearn="found = pn.check_equal(net, net)",
    ),
)
"""What people want in the hour after it."""


@contextlib.contextmanager
def names(wanted: str) -> Iterator[dict[str, Any]]:
    """Yield what the cells before have defined, in an empty working directory; a checkpoint only if `wanted` speaks of it."""
    X, y = torch.randn(24, 4, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 3  # noqa: N806  # as people write
    graph = pn.NodeGraph(name="net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="fc", out_features=3)
    graph.add("Output", name="y")
    graph.connect("x", "fc", "y")
    net = nn.Sequential(nn.Linear(4, 3))
    conv = pn.sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3), input=("N", 1, 8, 8))
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        other = pn.TrainingEngine(nn.Sequential(nn.Linear(4, 3)), (X, y), epochs=1, device="cpu")
        engine = pn.TrainingEngine(net, (X, y), epochs=1, device="cpu")
        graph.save("g.pnne.json")
        torch.save({"fc.weight": torch.ones(3, 4), "fc.bias": torch.zeros(3)}, "w.pt")
        if "ckpt" in wanted:
            other.step()
            other.save_checkpoint("made.ckpt")
            other.stop()
        given: dict[str, Any] = {}
        try:
            given |= {
                "copy": copy, "torch": torch, "nn": nn, "np": np, "pd": pd, "F": F,
                "Path": Path, "partial": partial, "pickle": pickle, "joblib": joblib,
                "plt": _Pyplot, "pn": pn, "X": X, "y": y, "t": torch.randn(24, 1), "x": X[:2], "X_test": X, "y_test": y, "net": net,
                "one": nn.Linear(4, 1), "graph": graph, "conv": conv, "engine": engine, "loader": DataLoader(TensorDataset(X, y), 8),
                "DataLoader": DataLoader, "TensorDataset": TensorDataset, "df": pd.DataFrame(X.numpy(), columns=list("abcd")).assign(label=y.numpy()),
                "path": "made.new", "ckpt": "made.ckpt", "weights": "w.pt", "file": "g.pnne.json",
            }  # fmt: skip
            yield given
        finally:
            for made in (engine, *given.values()):  # a line may have made another one
                if isinstance(made, pn.TrainingEngine):
                    made.stop()
            pn.runs.keep(None)
            os.chdir(before)


class _Pyplot:
    """Stands for matplotlib, which is not needed here."""

    @staticmethod
    def plot(values: Any) -> list[float]:
        return [float(value) for value in values]


class Trial(NamedTuple):
    """What came of a line."""

    intent: str
    dialect: str
    line: str
    outcome: Outcome
    message: str


def tried(intent: Intent, dialect: str, line: str) -> Trial:
    """Run a foreign line, and where it is refused the line that does it here."""
    with names(line) as given:
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                exec(line, given)
            if eval(intent.holds, given):
                return Trial(intent.name, dialect, line, "works", "")
            said = " ".join(str(each.message) for each in told)
            return Trial(intent.name, dialect, line, "silently wrong", said)
        except Exception as error:  # noqa: BLE001  # anything that a person would read
            message = f"{type(error).__name__}: {error}"
    if not any(
        said in message or f"Did you mean {re.findall(WORD, said)[-1]!r}" in message for said in intent.said.split("|")
    ):
        return Trial(intent.name, dialect, line, "unanswered", message)
    with names(intent.here) as given:
        try:
            exec(intent.here, given)
            held = bool(eval(intent.holds, given))
        except Exception as error:  # noqa: BLE001
            return Trial(intent.name, dialect, line, "answer fails", f"{type(error).__name__}: {error}")
    return Trial(intent.name, dialect, line, "answered" if held else "answer fails", message)


def main(word: str = "") -> int:
    """Run the lines of the intents that `word` is in, print what is not right, and the shares."""
    trials = []
    for intent in INTENTS + FURTHER:
        if word and not re.search(word, intent.name):
            continue
        for dialect, line in intent.lines():
            with contextlib.redirect_stderr(io.StringIO()):
                trial = tried(intent, dialect, line)
            trials.append(trial)
            if trial.outcome not in {"works", "answered"}:
                print(f"{trial.outcome}: {trial.intent} ({dialect}): {line}\n    {trial.message}", flush=True)
    counts: Mapping[str, int] = Counter(trial.outcome for trial in trials)
    good = counts["works"] + counts["answered"]
    print(f"{len(trials)} lines: {dict(counts)}; {good / max(1, len(trials)):.1%} work or are answered")
    return 0 if good == len(trials) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
