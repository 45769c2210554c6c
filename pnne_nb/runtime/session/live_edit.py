"""Applies an edited graph to a halted training: unchanged layers keep their state, new layers start fresh.

A widened layer keeps its weights and its optimizer state (`compiler.weights.widen`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import torch
from torch import nn

from pnne_nb.compiler import compile as compile_graph
from pnne_nb.compiler.codegen.loader import take_place
from pnne_nb.compiler.weights.rename_log import remember
from pnne_nb.compiler.weights.reuse import READ, Former, WidenedReuse, former_path, typed_in, widenings
from pnne_nb.errors import TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.monitoring.history import EDITED
from pnne_nb.runtime.optim.optimizers import parameter_groups
from pnne_nb.runtime.setup.config import Config
from pnne_nb.runtime.setup.devices import placed_paths, settle
from pnne_nb.runtime.setup.models import input_shapes
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.runtime.thread.rng import key_of, seeded_globals
from pnne_nb.telemetry.frames import AnomalyFrame

Heirs: TypeAlias = Mapping[torch.Tensor, tuple[torch.Tensor, WidenedReuse]]
"""The tensors of layers that were made wider, by those that they had."""

MOMENTS = ("exp_avg", "momentum_buffer", "grad_avg")
"""What optimizers average of the gradients."""

SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "exp_inf", "square_avg", "sum", "acc_delta")
"""What they average of the gradients' squares, or of others that scale the steps."""


def follow_model(
    graph: NodeGraph, loop: TrainingLoop, config: Config, recipe: Recipe, former: Former
) -> AnomalyFrame | None:
    """Change the model in training to `graph`, its document, and continue with `recipe`; an error changes nothing.

    The model stays the same object, and so do its unchanged layers and parameters: optimizer state, hooks and
    probes keep their references. Layers that were renamed or moved have their `former` paths in it; see `former_path`.

    Returns:
        What happened, or None if the model computes what it did, under whatever names.

    Raises:
        CompileError: The graph is unfinished or wrong.
        TrainingError: The data or the optimizer does not fit what the graph has become.
    """
    model = loop.recipe.model
    written, layers = type(model).__module__, _leaves(model)
    with seeded_globals(key_of(config.seed, loop.steps)):
        new = compile_graph(graph, reuse=model)
    scattered = settle(new, recipe.device, placed_paths(graph))
    before = _tensors(model)
    wider = widenings(model, new, lambda path: former_path(path, former))
    _keep_modules(dict(model.named_modules(remove_duplicate=False)), new, former)
    _keep_tensors(model, new, former)
    after = _tensors(new)
    heirs = {before[widening.before]: (after[name], widening) for name, widening in wider.items()}
    groups = _new_groups(loop.recipe.optimizer, new, config)
    loop.adopt(msgspec.structs.replace(recipe, expected=input_shapes(graph), scattered=scattered))
    _fit_moments(loop.recipe.optimizer, heirs)
    _replace_groups(loop.recipe.optimizer, groups)
    others = _changed_layers(layers, _leaves(new), former)
    # Where nothing was renamed, what is written differs by what it says: other connections, functions between layers.
    rewired = not former and type(new).__module__ != written
    _become(model, new)
    remember(model, graph)
    loop.model_changed()
    old, now = ({id(tensor) for tensor in tensors.values()} for tensors in (before, after))
    fresh = [name for name, tensor in after.items() if id(tensor) not in old and name not in wider]
    gone = [name for name, tensor in before.items() if id(tensor) not in now]
    # What has another size is gone and fresh under one name, which says it.
    renewed = {*fresh, *(widening.before for widening in wider.values())}
    gone = [name for name in gone if name not in renewed]
    parts = _widened(wider, after)
    parts += [f"{', '.join(fresh)} start fresh"] * bool(fresh) + [f"{', '.join(gone)} are gone"] * bool(gone) + others
    if not parts and not rewired:
        loop.standing.renamed({name: _before(name, former) for name in model.state_dict()})
        return None
    loop.standing.forget()
    said = "; ".join(parts or ["other connections"])
    message = f"The graph was edited after step {loop.steps}: {said}; everything else trains on."
    return AnomalyFrame(step=loop.steps, kind=EDITED, message=message)


def _before(name: str, former: Former) -> str:
    """Return the former name of a tensor."""
    layer, _, own = name.rpartition(".")
    return ".".join(filter(None, (former_path(layer, former), own)))


def _widened(wider: Mapping[str, WidenedReuse], after: Mapping[str, torch.Tensor]) -> list[str]:
    """Return descriptions of widened layers, property by property."""
    found: dict[tuple[str, str], str] = {}
    for name, widening in wider.items():
        layer = name.rpartition(".")[0]
        for grown, (old, new) in widening.grown(after[name].shape).items():
            others = "start at zero" if grown in READ else "start fresh"
            found[layer, grown] = f"{layer} keeps the first {old} of {new} {grown}, the others {others}"
    return list(found.values())


def _leaves(model: nn.Module) -> dict[str, nn.Module]:
    layers = model.named_modules(remove_duplicate=False)
    return {path: layer for path, layer in layers if path and next(layer.children(), None) is None}


def _changed_layers(old: Mapping[str, nn.Module], new: Mapping[str, nn.Module], former: Former) -> list[str]:
    """Describe changes of layers without tensors: new, different and removed ones."""
    known = {id(layer) for layer in old.values()}
    kept = {id(layer) for layer in new.values()}
    came_from = {former_path(path, former): path for path in new}
    others = [path for before, path in came_from.items() if before in old and id(new[path]) not in known]
    fresh = [path for before, path in came_from.items() if before not in old]
    gone = [path for path, layer in old.items() if path not in came_from and id(layer) not in kept]
    silent = [
        ("other settings in {}", [path for path in others if _of_one_size(old, new, path, former)]),
        ("{} added", [path for path in fresh if not _tensors(new[path])]),
        ("{} removed", [path for path in gone if not _tensors(old[path])]),
    ]
    return [what.format(", ".join(names)) for what, names in silent if names]


def _of_one_size(old: Mapping[str, nn.Module], new: Mapping[str, nn.Module], path: str, former: Former) -> bool:
    before = old[former_path(path, former) or path]
    return [t.shape for t in _tensors(before).values()] == [t.shape for t in _tensors(new[path]).values()]


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {**parameters, **dict(model.named_buffers(remove_duplicate=False))}


def _keep_modules(old: Mapping[str, nn.Module], new: nn.Module, former: Former, above: str = "") -> None:
    """Replace layers of `new`, the module at the path `above`, by equal ones of `old`."""
    for name, fresh in list(new._modules.items()):
        if fresh is None:
            continue
        path = f"{above}.{name}" if above else name
        before = former_path(path, former)
        kept = None if before is None else old.get(before)
        unmoved = all(
            was == f"{before}{inner.removeprefix(path)}"
            for inner, was in former.items()
            if inner.startswith(f"{path}.")
        )
        if kept is not None and unmoved and type(kept) is type(fresh) and _description(kept) == _description(fresh):
            new._modules[name] = kept
        else:
            _keep_modules(old, fresh, former, path)


def _description(module: nn.Module) -> tuple[Any, ...]:
    """Return what distinguishes two modules of a type: their repr, tensors and settings."""
    shapes = tuple((name, tensor.shape) for name, tensor in _tensors(module).items())
    settings = tuple(
        (f"{path}.{name}", repr(value))
        for path, layer in module.named_modules()
        for name, value in vars(layer).items()
        if name != "training" and isinstance(value, bool | int | float | str | tuple | None)
    )
    values = tuple(
        (f"{path}.{name}", repr(tensor.tolist()))
        for path, layer in module.named_modules()
        for name in typed_in(type(layer))
        if isinstance(tensor := getattr(layer, name), torch.Tensor)
    )
    return repr(module), shapes, settings, values


def _keep_tensors(old: nn.Module, new: nn.Module, former: Former) -> None:
    """Replace the copies in `new` by the parameters and buffers of `old`."""
    known = _tensors(old)
    for prefix, module in new.named_modules(remove_duplicate=False):
        own = {**module._parameters, **module._buffers}
        for name, fresh in own.items():
            before = former_path(f"{prefix}.{name}" if prefix else name, former)
            kept = None if before is None else known.get(before)
            if kept is None or fresh is None or kept is fresh or kept.shape != fresh.shape:
                continue
            if name not in typed_in(type(module)):
                setattr(module, name, kept)


def _new_groups(optimizer: torch.optim.Optimizer, new: nn.Module, config: Config) -> list[list[torch.Tensor]]:
    """Return the new parameters of each of the optimizer's groups; an error if the groups cannot be told."""
    if isinstance(optimizer, torch.optim.LBFGS):
        (group,) = optimizer.param_groups
        if list(map(id, parameter_groups(new, {}))) == list(map(id, group["params"])):
            return [group["params"]]
        raise TrainingError(
            "LBFGS remembers all parameters as one, and the edit adds or removes some: undo it, or make a new engine."
        )
    if isinstance(config.optimizer, torch.optim.Optimizer):
        living = {id(parameter) for parameter in new.parameters()}
        groups = [[p for p in group["params"] if id(p) in living] for group in optimizer.param_groups]
        known = {id(parameter) for group in groups for parameter in group}
        groups[0] += [p for p in new.parameters() if p.requires_grad and id(p) not in known]
        return groups
    try:
        made = parameter_groups(new, config.parameter_groups or {})
    except TrainingError as error:
        raise TrainingError(
            f"The edited graph cannot be trained: {error} Undo the edit, or make a new engine."
        ) from error
    groups = [group["params"] for group in made] if isinstance(made[0], dict) else [made]
    if len(groups) != len(optimizer.param_groups):
        raise TrainingError(
            f"The edited graph has {len(groups)} parameter groups, the optimizer {len(optimizer.param_groups)}: "
            f"parameter_groups no longer fits. Undo the edit, or make a new engine."
        )
    return groups


def _fit_moments(optimizer: torch.optim.Optimizer, heirs: Heirs) -> None:
    """Fit the optimizer state of a parameter to the wider one that replaces it, if its form allows that.

    Moments of new units start as after no steps, means of squares at their mean: at zero, the first steps were too large.
    """
    for old, (heir, widening) in heirs.items():
        state: dict[str, Any] = optimizer.state.get(old) or {}
        sized = {key for key, value in state.items() if isinstance(value, torch.Tensor) and value.dim()}
        if state and sized <= {*MOMENTS, *SQUARES} and all(state[key].shape == old.shape for key in sized):
            optimizer.state[heir] = {
                key: _fitted(key, value, heir, widening) if key in sized else value for key, value in state.items()
            }


def _fitted(key: str, moment: torch.Tensor, heir: torch.Tensor, widening: WidenedReuse) -> torch.Tensor:
    fresh = heir.new_full(heir.shape, moment.mean().item() if key in SQUARES else 0.0, dtype=moment.dtype)
    corner = tuple(slice(0, size) for size in widening.shape)
    fresh[corner] = moment
    return fresh


def _replace_groups(optimizer: torch.optim.Optimizer, groups: list[list[torch.Tensor]]) -> None:
    for group, members in zip(optimizer.param_groups, groups, strict=True):
        group["params"] = members
    living = {id(parameter) for members in groups for parameter in members}
    for parameter in list(optimizer.state):
        if id(parameter) not in living:
            del optimizer.state[parameter]


def _become(old: nn.Module, new: nn.Module) -> None:
    """Turn the root `old` into an instance of the class of `new`, with the layers and tensors of `new`."""
    hooks = {name: value for name, value in vars(old).items() if name.endswith("_hooks") or "_hooks_" in name}
    kept: dict[str, Any] = dict(hooks)
    kept.update((name, vars(old)[name]) for name in ("train", "_is_full_backward_hook") if name in vars(old))
    mode = old.training
    vars(old).clear()
    vars(old).update(vars(new))
    vars(old).update(kept)
    old.training = mode
    take_place(old, new)
