"""`to_script`: writes the training of an engine as one PyTorch script, or raises an error about what it cannot express."""

from __future__ import annotations

import ast
import os
import tomllib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset, default_collate

from pnne_nb.compiler import to_source
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.codegen.custom_source import CustomSource
from pnne_nb.compiler.module.pickled_model import graph_of
from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import CompileError, TrainingError, expect, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process import __version__
from pnne_nb.runtime.data.batches import as_batch
from pnne_nb.runtime.data.datasets import Rows
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, TensorSource
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.objective.losses import require_yes_and_no, target_for_loss
from pnne_nb.runtime.objective.metric_choices import names_of
from pnne_nb.runtime.objective.objective import WeighedLoss
from pnne_nb.runtime.setup.config import Config, is_plain
from pnne_nb.runtime.setup.models import trial_output
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.runtime.thread.thread import threads_for_training
from pnne_nb.runtime.training_graph.split import Collate

TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("template.toml").read_text(encoding="utf-8"))
"""The texts of a script, to be filled in."""


def to_script(engine: TrainingEngine, path: str | Path | None = None) -> str:
    """Return the whole training as one PyTorch script that runs without this package and gives the same losses.

    The script has the model's source, the data, loss, optimizer, scheduler, the loop with validation, and a checkpoint
    after each epoch. It needs torch, numpy and safetensors.

    Args:
        engine: It is not changed. If its model was given as a module, write the script before the training begins: the
            weights that it begins with are written beside the data.
        path: Where to write the script; its data is written beside it, as ``<name>.safetensors``. None writes nothing.

    Raises:
        TrainingError: Something is of code that a script cannot hold, or was changed on the way; the message names it.
        CompileError: A registered node type has no source.
        ArgumentError: An argument is of another kind.
    """
    expect(engine, TrainingEngine, "engine", "a TrainingEngine")
    expect(path, (str, os.PathLike, NoneType), "path", "the path of the script")
    file = Path("training.py" if path is None else path)
    config, recipe = engine.config, engine.recipe
    _require_plain(engine, config, recipe)
    graph = _document(recipe.model)
    tensors = {
        **_tensors(recipe, recipe.train, "train"),
        **(_tensors(recipe, recipe.val, "val") if recipe.val is not None else {}),
        **(_weights(engine, recipe) if _has_weights(engine) else {}),
    }
    text = _script(engine, config, recipe, to_source(graph), file)
    if path is not None:
        try:
            file.with_suffix(".safetensors").write_bytes(tensor_file.to_bytes(tensors))
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise TrainingError(f"{shown(str(file))} cannot be written: {error.strerror or error}.") from error
    return text


def _require_plain(engine: TrainingEngine, config: Config, recipe: Recipe) -> None:
    refused = {
        "step_function": (config.step_function is not None, "give a loss instead"),
        "stateful": (bool(config.stateful), "make an engine without it"),
        "restore_best_weights": (config.restore_best_weights, "make an engine without it, and keep best.ckpt"),
        "parameter_groups": (bool(config.parameter_groups), "make an engine with one group"),
        "loss=None": (config.loss is None, "name a loss"),
        'precision="16"': (config.precision == "16", 'make an engine with precision="bf16" or "32"'),
        'validate_every in "steps"': (recipe.validate_every.unit == "steps", "count in epochs"),
        f"the optimizer {type(recipe.optimizer).__name__}": (recipe.needs_closure, 'take another one, such as "AdamW"'),
        "layers with a device of their own": (recipe.scattered, "leave all of them on one device"),
    }
    for name, (is_used, instead) in refused.items():
        if is_used:
            raise TrainingError(f"A script cannot be written with {name}: {instead}.")
    if engine.edited or len(engine.history.cuts):
        raise TrainingError(
            "The graph was edited during the training, which a script would not repeat: make a new engine."
        )
    if any(is_lazy(tensor) for tensor in recipe.model.parameters()) or any(
        "Lazy" in type(module).__name__ for module in recipe.model.modules()
    ):
        raise TrainingError("Lazy layers take their sizes from data, which a script does not repeat: give them sizes.")
    plateau = recipe.schedule is not None and isinstance(recipe.schedule.scheduler, ReduceLROnPlateau)
    goal = recipe.goal.called(validates=recipe.val is not None)
    if (plateau or recipe.patience is not None) and goal not in ("val_loss", "train_loss"):
        what = "plateau" if plateau else "early stopping"
        raise TrainingError(f"The {what} depends on {goal}, which the script does not measure: leave out monitor.")
    if recipe.patience is not None and recipe.goal.more:
        raise TrainingError(f"The early stopping wants more {goal}, and the script less: leave out monitor.")


def _document(model: nn.Module) -> NodeGraph:
    loaded, graph = loader.loaded_from(model), graph_of(model)
    if loaded is None or graph is None:
        raise TrainingError(
            f"{type(model).__name__} was not compiled from a graph, so its source is not known: import it with "
            "pn.from_module(net, args=...), and train what pn.compile(graph, reuse=net) gives."
        )
    if loaded.generated.opaque:
        raise TrainingError(f"The node {loaded.generated.opaque[0]!r} keeps a module, whose code a script cannot hold.")
    return graph


def _tensors(recipe: Recipe, source: BatchSource, name: str) -> dict[str, Tensor]:
    """Return the arrays of a source in the form for the loss, by their names in the data file."""
    reader: object = source
    if isinstance(source, DatasetSource) and source.template.collate_fn is default_collate:
        reader = source if source.template.drop_last else source.template.dataset
    match reader:
        case TensorSource(tensors=parts) | TensorDataset(tensors=parts) | Rows(parts=parts):
            found = parts
        case DatasetSource(template=template) if isinstance(template.collate_fn, Collate) and not template.drop_last:
            found = _drawn(template, name)
        case _:
            raise TrainingError(
                f"{name}_data is read by {type(reader).__name__}, whose code a script cannot hold: give the examples as "
                "arrays, such as (X, y)."
            )
    if len(found) < 2:  # an input and a target
        raise TrainingError(f"{name}_data has no target, which the loss compares with.")
    found = (*found[:-1], _target(recipe, found))
    return {f"{name}.{index:03}": part.detach().cpu().contiguous().clone() for index, part in enumerate(found)}


def _drawn(template: DataLoader[Any], name: str) -> tuple[Tensor, ...]:
    """Return all examples of a Dataset node, read one after another: inputs and the target."""
    data: Any = template.dataset
    fetch = getattr(data, "__getitems__", lambda indices: [data[index] for index in indices])
    once, again = (template.collate_fn(fetch(list(range(len(data))))) for _ in range(2))
    *inputs, targets = once
    if len(targets) != 1 or not all(isinstance(each, Tensor) for each in (*inputs, *targets)):
        raise TrainingError(f"{name}_data has more than tensors and one target, which a script does not read.")
    if not all(torch.equal(a, b) for a, b in zip((*inputs, *targets), (*again[:-1], *again[-1]), strict=True)):
        raise TrainingError(
            f"{name}_data gives other numbers each time that it is read, by code that a script cannot hold: take the random "
            "changes out of the dataset."
        )
    return (*inputs, *targets)


def _loss_of(config: Config, recipe: Recipe) -> tuple[Any, Any]:
    """Return the loss as it is chosen by name, and as the layer that computes it; of a training graph, its one loss layer."""
    if not isinstance(recipe.loss, WeighedLoss):
        return config.loss, recipe.loss
    layer, drawn = recipe.loss.alone
    if layer is None or drawn is None:
        raise TrainingError(
            "The losses of the training graph are several, are weighed, or other nodes come before or after them, which a "
            "script does not repeat: connect one loss layer to the model's output, the target and the optimizer."
        )
    return (drawn.type, dict(drawn.properties)), layer


def _target(recipe: Recipe, tensors: Sequence[Tensor]) -> Tensor:
    """Return the target `[N, ...]` in the form for the loss, which may depend on the model's output for one example."""
    *inputs, target = tensors
    one = as_batch((*(part[:1] for part in inputs), target[:1]), wants_target=True)
    output = trial_output(recipe.model, one, 0)
    taken = target_for_loss(recipe.loss, output, one.target)
    if taken is one.target:
        return target
    require_yes_and_no(target)
    return target.to(taken.dtype).reshape(-1, *taken.shape[1:])


def _has_weights(engine: TrainingEngine) -> bool:
    """Return whether a training began with weights that the seed does not give."""
    return engine.document is None or bool(engine.weights_of)


def _weights(engine: TrainingEngine, recipe: Recipe) -> dict[str, Tensor]:
    if engine.progress.step:
        given = "The model was given as a module" if engine.document is None else f"It began with {engine.weights_of}"
        raise TrainingError(
            f"{given}, and the weights that it began with are gone: write the script before the training begins, or train a "
            "drawn graph, whose weights come from the seed."
        )
    if engine.document is None and not all(module.training for module in recipe.model.modules()):
        raise TrainingError("Parts of the model are in eval mode, which a script would not repeat: call model.train().")
    state = recipe.model.state_dict()
    return {f"model.{name}": value.detach().cpu().contiguous().clone() for name, value in state.items()}


def _script(engine: TrainingEngine, config: Config, recipe: Recipe, source: str, file: Path) -> str:
    custom: dict[str, object] = {}
    loss, layer = _loss_of(config, recipe)
    criterion = _made("loss", loss, "nn", "", custom)
    optimizer = _made("optimizer", config.optimizer, "torch.optim", _TRAINABLE, custom)
    scheduler, by_step, by_epoch = _schedule(config, recipe, custom)
    carried = _carried(custom)
    head, body = _split(source)
    future = "from __future__ import annotations\n\n" if head.startswith("from __future__") or carried.future else ""
    is_short = config.precision == "bf16"
    weights = ""
    if _has_weights(engine):
        frozen = [name for name, one in recipe.model.named_parameters() if not one.requires_grad]
        weights = (
            '    begin = {name.removeprefix("model."): data[name] for name in data if name.startswith("model.")}\n'
        )
        weights += "    model.load_state_dict(begin)\n"
        weights += "".join(f"    model.get_parameter({name!r}).requires_grad_(False)\n" for name in frozen)
    count, last = recipe.validate_every.count, "epoch == EPOCHS"
    names = names_of(recipe.metrics)
    left_out = f" Its metrics ({', '.join(names)}) are left out." if names else ""
    head_text = TEXTS["head"].format(
        title=type(recipe.model).__name__,
        file=file.name,
        version=__version__,
        torch=torch.__version__,
        left_out=left_out,
    )
    lines = [line for line in [*head.splitlines(), *carried.imports] if not line.startswith("from __future__")]
    extra = [line for line in dict.fromkeys(lines) if line and line not in TEXTS["imports"].splitlines()]
    settings = TEXTS["settings"].format(
        data=f"{file.stem}.safetensors",
        checkpoint=f"{file.stem}.pt",
        device=str(recipe.device),
        seed=config.seed,
        epochs=engine.epochs,
        batch_size=_batch_size(recipe.train, config),
        val_batch_size=_batch_size(recipe.val, config),
        shuffle=recipe.train.shuffle if isinstance(recipe.train, DatasetSource) else config.shuffle,
        accumulate=config.accumulate,
        grad_clip=config.grad_clip,
    )
    loop = TEXTS["loop"].format(
        autocast=f"torch.autocast(DEVICE.type, torch.bfloat16, enabled={is_short})",
        weight_of=_weight_of(layer),
        moved=".movedim(-1, 1)" if engine.loss_choice.over else "",
        settles=_ending(recipe, TEXTS["settles"]),
        ends_early=_ending(recipe, TEXTS["ends_early"]),
        threads=threads_for_training(),
        model=f"{[each.name for each in ast.parse(source).body if isinstance(each, ast.ClassDef)][-1]}()",
        weights=weights,
        criterion=criterion,
        optimizer=optimizer,
        scheduler=scheduler,
        every_step=by_step,
        every_epoch=by_epoch,
        due=f" and (epoch % {count} == 0 or {last})" if count > 1 else "" if count else f" and {last}",
    )
    imports = TEXTS["imports"] + "".join(f"{line}\n" for line in extra)
    deterministic = "\n\ntorch.use_deterministic_algorithms(True)\n" if config.deterministic else ""
    custom_text = "".join(f"{line}\n" for line in carried.text)
    return head_text + future + imports + settings + deterministic + custom_text + body + loop


def _made(what: str, choice: Any, module: str, first: str, custom: dict[str, object]) -> str:
    """Return the expression that makes a loss, optimizer or scheduler of torch's `module`, with `first` before the options.

    What the user has defined is put into `custom` by its name.
    """
    match choice:
        case (str() | type() as kind, Mapping() as options):
            pass
        case str() | type() as kind:
            options = {}
        case types.FunctionType() if choice.__name__.isidentifier():
            custom[choice.__name__] = choice
            return f"{choice.__name__}({first})" if first else choice.__name__
        case _:
            raise TrainingError(
                f"The {what} {shown(choice)} is an object, which a script cannot make: give its name with its arguments, "
                f"such as {_EXAMPLES[what]}, or a function defined with def."
            )
    for name, value in options.items():
        if not is_plain(value):
            raise TrainingError(f"The argument {name} of the {what} is {shown(value)}, which is no plain value.")
    named = ", ".join(
        [*([first] if first else []), *(f"{name}={_plain(name, value)}" for name, value in options.items())]
    )
    if isinstance(kind, str):
        return f"{module}.{kind}({named})"
    own = getattr(getattr(torch, "nn" if module == "nn" else "optim"), kind.__name__, None)
    if own is kind:
        return f"{module}.{kind.__name__}({named})"
    custom[kind.__name__] = kind
    return f"{kind.__name__}({named})"


_EXAMPLES = {
    "loss": '("CrossEntropyLoss", {"label_smoothing": 0.1})',
    "optimizer": '("AdamW", {"lr": 1e-3})',
    "scheduler": '("StepLR", {"step_size": 3})',
}


def _plain(name: str, value: Any) -> str:
    is_tensor = name in ("weight", "pos_weight") and isinstance(value, (list, tuple))
    return f"torch.tensor({list(value)!r}, dtype=torch.float32)" if is_tensor else repr(value)


_TRAINABLE = "[one for one in model.parameters() if one.requires_grad]"


def _schedule(config: Config, recipe: Recipe, custom: dict[str, object]) -> tuple[str, str, str]:
    """Return the expression that makes the scheduler, and the lines that step it after each step and each epoch."""
    if recipe.schedule is None:
        return "None", "", ""
    choice: Any = config.scheduler
    match choice:
        case (*given, "epoch" | "step"):
            choice = given[0] if len(given) == 1 else tuple(given)
    kind = type(recipe.schedule.scheduler).__name__
    options: dict[str, Any] = dict(choice[1]) if isinstance(choice, tuple) else {}
    scheduler: Any = recipe.schedule.scheduler
    is_plateau = isinstance(scheduler, ReduceLROnPlateau)
    if kind == "OneCycleLR" and not callable(choice) and not {"epochs", "steps_per_epoch"} & options.keys():
        choice = (kind, {**options, "total_steps": scheduler.total_steps})
    if is_plateau and not callable(choice):
        choice = (kind, {"mode": scheduler.mode, **options})
    text = _made("scheduler", choice, "torch.optim.lr_scheduler", "optimizer", custom)
    if recipe.schedule.every == "step":
        return text, f"            scheduler.step({'loss' if is_plateau else ''})\n", ""
    if not is_plateau:
        return text, "", "        scheduler.step()\n"
    goal = recipe.goal.called(validates=recipe.val is not None)
    return text, "", f'        scheduler.step(history["{goal}"][-1])\n'


def _carried(custom: Mapping[str, object]) -> CustomSource:
    try:
        return CustomSource(custom, {})
    except CompileError as error:
        raise TrainingError(f"Something of yours cannot be written into the script: {error.message}") from error


def _ending(recipe: Recipe, text: str) -> str:
    """Return a part of the script that exists only with early stopping."""
    if recipe.patience is None:
        return ""
    goal = recipe.goal.called(validates=recipe.val is not None)
    return text.format(patience=recipe.patience, min_delta=recipe.goal.min_delta, goal=goal)


def _weight_of(loss: object) -> str:
    reduction = getattr(loss, "reduction", None)
    if isinstance(loss, nn.Module) and reduction == "sum":
        return TEXTS["sum_weight"]
    if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) and reduction == "mean":
        return TEXTS["class_weight"]
    return TEXTS["plain_weight"]


def _batch_size(source: BatchSource | None, config: Config) -> int:
    return source.batch_size if isinstance(source, TensorSource | DatasetSource) else config.batch_size


def _split(source: str) -> tuple[str, str]:
    tree = ast.parse(source)
    ends = [each.end_lineno or 0 for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    count = max(ends, default=0)
    lines = source.splitlines(keepends=True)
    return "".join(lines[:count]), "".join(lines[count:])
