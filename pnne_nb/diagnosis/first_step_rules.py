"""Finds faults of a training's model, loss and options in its first step.

Each rule tells a fact that holds for every step: outputs that are probabilities already, a normalisation that sees too few
examples. `scripts/fault_rules.py` measures how often they are right, and how often they accuse a healthy training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis.finding import Finding

FAR: Final = 4.0
"""How many times the loss of guessing a first loss may be; usual initialisations stay below twice."""
FEW: Final = 4
"""Examples of a batch whose statistics are too noisy for batch norm (Wu and He 2018, arXiv:1803.08494)."""
DECAY: Final = 0.5
"""Weight decay that is called large where it is apart from the gradient (AdamW): 0.01 to 0.3 are usual."""
L2: Final = 0.1
"""The same where it is added to the gradient (SGD, Adam): 1e-5 to 0.01 are usual."""
MOMENTUM: Final = 0.995
"""Momentum that is called large: it averages over 200 steps."""
CLIPPED: Final = 300.0
"""How many times the largest allowed norm a gradient may be."""
_TOUCHED: Final = 20
"""Different values of a target that look like classes, at most."""
_SEVERAL: Final = 4
"""Different floats that look like numbers of classes, at least; fewer may be grades."""
_AS_OFTEN: Final = 5
"""How many times as often as the rarest the most frequent of them occurs, at most."""
_EACH: Final = 20
"""Examples of each of them, at least."""
_ADDING: Final = (
    torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.Adamax, torch.optim.ASGD,
)  # fmt: skip
"""Optimizers that add weight decay to the gradient; those that can do either say which."""
_DISTANCES: Final = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)
"""Losses that compare number with number, and take shapes that differ."""
_DISTANCE_FUNCTIONS: Final = tuple(
    getattr(nn.functional, name) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
)
DROPPED: Final = 0.9
"""Share of dropped values that is called large: 0.1 to 0.5 are usual."""
_FEW_PICTURES: Final = 2
"""The same as `FEW` for pictures, of which batch norm counts every pixel: those of one picture are much alike."""


def first_step_faults(
    model: nn.Module,
    loss: Any,
    output: Any,
    target: Any,
    value: float,
    optimizer: torch.optim.Optimizer | None,
    clip: tuple[float, float] | None,
    function: str = "",
) -> list[Finding]:
    """Return the faults, the most probable cause first.

    Args:
        model: What is trained, in training mode.
        loss: The loss function.
        output: Of the model: tensors `[N, C, ...]` for classes; others are not looked at.
        target: What it is compared with.
        value: The loss.
        optimizer: What moves the parameters, or None if it is not known.
        clip: The norm of the gradients, and what it is clipped to, or None without clipping.
        function: Name of the autograd function that has made the output, or "".
    """
    found = [*_of_layers(model, output), *_of_weights(model), *_of_options(optimizer, clip)]
    if isinstance(output, Tensor) and output.is_floating_point():
        found = [
            *_of_bits(loss, output, target, function),
            *_of_outputs(loss, output.detach(), target, value, function),
            *found,
        ]
    return found


def spread(loss: Any, output: Any, target: Any) -> list[Finding]:
    """Return a finding if a loss spreads each output over several targets.

    Torch only warns of it, in the thread that trains; the training goes on, towards something else than what was meant.

    Args:
        loss: The loss function.
        output: `[N, ...]`, or anything else.
        target: `[N, ...]`, or anything else.
    """
    elementwise = type(loss) in _DISTANCES or any(loss is one for one in _DISTANCE_FUNCTIONS)
    if not (elementwise and isinstance(output, Tensor) and isinstance(target, Tensor)) or output.shape == target.shape:
        return []
    name = getattr(loss, "__name__", type(loss).__name__)
    shapes = tuple(output.shape), tuple(target.shape)
    both = np.broadcast_shapes(*shapes)
    sizes = ", ".join(map(str, (-1, *shapes[0][1:])))
    alike = output.numel() == target.numel()
    return [
        Finding(
            "spread-targets",
            None,
            f"{name} compares the model's output {shapes[0]} with the target {shapes[1]}, both spread to {both}: "
            "outputs are compared with targets of other examples.",
            f"Give the targets the output's shape: y.reshape({sizes})." if alike else "Give both the same shape.",
            (("outputs", output.numel()), ("targets", target.numel()), ("comparisons", math.prod(both))),
        )
    ]


def _of_outputs(loss: Any, output: Tensor, target: Any, value: float, function: str) -> Iterator[Finding]:
    crosses = isinstance(loss, nn.CrossEntropyLoss) or loss is nn.functional.cross_entropy
    if crosses and output.dim() > 1 and output.shape[1] > 1:
        axis = _softmax_axis(output)
        if axis is not None:
            over = "" if axis == 1 else f" over dimension {axis}, which counts examples,"
            yield Finding(
                "softmax-before-loss",
                None,
                f"The outputs are probabilities already: they went through a softmax{over} and the loss applies another one.",
                "Return the scores without softmax; apply it after the training, where probabilities are wanted.",
                (
                    ("smallest output", float(output.min())),
                    ("largest output", float(output.max())),
                    ("sum of the outputs", float(output.double().sum(axis).mean())),
                ),
            )
        elif function.startswith("ReluBackward"):
            yield Finding(
                "relu-before-loss",
                None,
                "The scores went through a ReLU: none of them can fall below 0, and a class whose score is 0 gets no gradient.",
                "Return the scores of the last layer as they are, without an activation behind it.",
                (("smallest output", float(output.min())), ("largest output", float(output.max()))),
            )
        elif value > FAR * math.log(output.shape[1]) + 1 and getattr(loss, "reduction", "mean") != "sum":
            yield Finding(
                "first-loss-high",
                None,
                f"The first loss is {value:.3g}, and guessing among {output.shape[1]} classes costs "
                f"{math.log(output.shape[1]):.3g}.",
                "Look at the scale of the inputs and of the initial weights, of the last layer above all.",
                (("first loss", value), ("loss of guessing", math.log(output.shape[1]))),
            )
    yield from classes_under_distance(loss, target)


def classes_under_distance(loss: Any, target: Any) -> Iterator[Finding]:
    """Yield a finding if a loss measures distances between what looks like numbers of classes.

    Args:
        loss: The loss function.
        target: Of a batch or of all data, `[N, ...]`: a few whole numbers, or floats that are all of 0, 1, ..., about as often.
    """
    if not isinstance(loss, _DISTANCES) or not isinstance(target, Tensor) or target.is_complex():
        return
    if target.dtype == torch.bool:
        return
    frequent = Counter(target.flatten()[:1000].tolist())
    if len(frequent) > _TOUCHED:
        return
    if target.is_floating_point():
        # Floats are quantities, unless they count the classes from 0 on; counts and ratings are rarer at one end.
        consecutive = sorted(frequent) == [float(number) for number in range(len(frequent))]
        counts = [*frequent.values(), 0][: max(1, len(frequent))]
        if not consecutive or len(frequent) < _SEVERAL or min(counts) < _EACH or min(counts) * _AS_OFTEN < max(counts):
            return
    yield Finding(
        "classes-under-distance",
        None,
        f"{type(loss).__name__} measures distances between numbers, and the targets are a few whole numbers: classes 0 and "
        "9 are no further apart than 0 and 1.",
        'For classes, let the model return a score for each and use loss="CrossEntropyLoss"; make counts floats.',
        tuple((f"targets that are {each:g}", count) for each, count in frequent.most_common(4)),
    )


def _of_bits(loss: Any, output: Tensor, target: Any, function: str) -> Iterator[Finding]:
    if not (isinstance(loss, nn.BCEWithLogitsLoss) or loss is nn.functional.binary_cross_entropy_with_logits):
        return
    # Scores may lie between 0 and 1 by chance, so that what made them decides.
    if function.startswith("SigmoidBackward"):
        yield Finding(
            "sigmoid-before-loss",
            None,
            "The outputs are probabilities already: they went through a sigmoid and the loss applies another one.",
            "Return the scores without sigmoid; apply it after the training, where probabilities are wanted.",
            (("smallest output", float(output.detach().min())), ("largest output", float(output.detach().max()))),
        )
    if isinstance(target, Tensor) and target.is_floating_point() and target.numel():
        low, high = map(float, torch.aminmax(target.detach()))
        if low < 0 or high > 1:
            yield Finding(
                "targets-out-of-range",
                None,
                f"BCEWithLogitsLoss takes targets between 0 and 1, and these go from {low:.4g} to {high:.4g}.",
                "Make them 0 and 1: (y > 0).float() of -1 and 1; a loss of quantities is MSELoss.",
                (("smallest target", low), ("largest target", high)),
            )


def _softmax_axis(output: Tensor) -> int | None:
    if bool((output < 0).any()) or bool((output > 1).any()):
        return None
    for axis in (1, 0):
        sums = output.double().sum(axis)
        if output.shape[axis] > 1 and bool(((sums - 1).abs() < 1e-3).all()):
            return axis
    return None


def _of_layers(model: nn.Module, output: Any) -> Iterator[Finding]:
    examples = output.shape[0] if isinstance(output, Tensor) and output.dim() else 0
    norms = [(path, each) for path, each in model.named_modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]
    # Whoever trains has called train(): what is in eval mode now was put there by the model's own code.
    # A frozen one is there on purpose.
    still = [path for path, each in norms if not each.training and each.track_running_stats and _is_trained(each)]
    if still:
        yield Finding(
            "batch-norm-in-eval",
            still[0],
            f"It normalises with its running statistics while the model trains{_others(still)}, and those do not change.",
            "Call train() on it, or leave out the eval() in the model's code.",
            (("in eval mode", len(still)), ("batch norms", len(norms))),
        )
    # Of pictures, batch norm counts every pixel; and one example of numbers alone is refused by torch.
    flat = [
        path
        for path, each in norms
        if 1 < examples <= (FEW if isinstance(each, nn.BatchNorm1d) else _FEW_PICTURES) and each.training
    ]
    if flat:
        yield Finding(
            "tiny-batch-norm",
            flat[0],
            f"It normalises over {examples} examples, whose mean and variance are mostly noise.",
            "Raise batch_size, or use GroupNorm or LayerNorm, which do not depend on it.",
            (("examples in the batch", examples), ("usual, at least", 16)),
        )
    yield from _of_frozen_norms(norms)
    yield from _of_dropout(model)
    layers = [
        (path, any(each.requires_grad for each in layer.parameters(recurse=False)))
        for path, layer in model.named_modules()
        if any(True for _ in layer.parameters(recurse=False)) and not _counts_on(layer)
    ]
    trained = [index for index, (_, trains) in enumerate(layers) if trains]
    # A frozen beginning is what fine-tuning has, and several frozen layers at the end are a network that only judges.
    last = trained[-1] if trained else 0
    frozen = [path for path, trains in layers[trained[0] : last] if not trains] if trained else []
    if trained and last == len(layers) - 2:
        frozen.append(layers[-1][0])
    if frozen:
        yield Finding(
            "frozen-layer",
            frozen[0],
            f"Its parameters do not require gradients, and layers before it are trained{_others(frozen)}.",
            "Set requires_grad_(True), unless it is frozen on purpose.",
            (("layers that are frozen", len(frozen)), ("layers with parameters", len(layers))),
        )


def _counts_on(layer: nn.Module) -> bool:
    """Return whether `layer` is a batch norm that is frozen and whose statistics move."""
    if not isinstance(layer, nn.modules.batchnorm._BatchNorm) or not (layer.affine and layer.track_running_stats):
        return False
    # With a momentum of 0, they stay.
    return layer.training and layer.momentum != 0 and not _is_trained(layer)


def _is_trained(layer: nn.Module) -> bool:
    parameters = list(layer.parameters())
    return not parameters or any(one.requires_grad for one in parameters)


def _of_frozen_norms(norms: list[tuple[str, nn.modules.batchnorm._BatchNorm]]) -> Iterator[Finding]:
    moving = [path for path, each in norms if _counts_on(each)]
    if moving:
        yield Finding(
            "frozen-norm-moves",
            moving[0],
            f"Its weights are frozen, and its running statistics go on changing{_others(moving)}: validation sees another layer "
            "than the one that was frozen.",
            f'Freeze the statistics too: graph.freeze("{moving[0]}", eval_mode=True), or let the train() of the model keep it '
            "in eval mode.",
            (("frozen, with statistics that move", len(moving)), ("batch norms", len(norms))),
        )


def _of_dropout(model: nn.Module) -> Iterator[Finding]:
    drops = [(path, each.p) for path, each in model.named_modules() if isinstance(each, nn.modules.dropout._DropoutNd)]
    large = [(path, share) for path, share in drops if share >= DROPPED]
    if large:
        path, share = large[0]
        yield Finding(
            "dropout-dominates",
            path,
            f"It drops {share:.0%} of its inputs{_others([path for path, _ in large])}: hardly anything gets through.",
            f"p is the share that is dropped, not the one that is kept: use p={1 - share:.2g}, or 0.1 to 0.5.",
            (("share that is dropped", share), ("usual, at most", 0.5)),
        )


def _of_weights(model: nn.Module) -> Iterator[Finding]:
    """Layers of zeros that get no gradient: one whose gradient is not 0 leaves 0, as the last of a residual branch does."""
    still = [
        path
        for path, layer in model.named_modules()
        for weight in (getattr(layer, "weight", None),)
        if isinstance(weight, nn.Parameter) and weight.dim() > 1 and weight.layout == torch.strided
        if weight.grad is not None and weight.grad.layout == torch.strided
        if not weight.detach().any() and not weight.grad.any()
    ]
    if still:
        yield Finding(
            "zero-weights",
            still[0],
            f"Its weights are all 0, and so is their gradient{_others(still)}: they stay 0.",
            "Initialise it with random numbers, or look at what loaded or reset it.",
            (("weights that are 0", 1.0), ("all", 1.0)),
        )


def _of_options(optimizer: torch.optim.Optimizer | None, clip: tuple[float, float] | None) -> Iterator[Finding]:
    options = {} if optimizer is None else optimizer.param_groups[0]
    decay = float(options.get("weight_decay") or 0.0)
    apart = options.get("decoupled_weight_decay", not isinstance(optimizer, _ADDING))
    betas = options.get("betas")
    momentum = float(betas[0]) if betas else float(options.get("momentum") or 0.0)
    if decay >= (DECAY if apart else L2):
        yield Finding(
            "weight-decay-dominates",
            None,
            f"weight_decay is {decay:g}: it pulls the weights to 0 faster than most losses pull them elsewhere.",
            f"Use {0.01 if apart else 0.001:g} or less.",
            (("weight_decay", decay), ("usual, at most", 0.1 if apart else 0.01)),
        )
    if momentum >= MOMENTUM:
        yield Finding(
            "momentum-dominates",
            None,
            f"The momentum is {momentum:g}: a step is a mean over about {1 / max(1 - momentum, 1e-9):,.0f} steps, and "
            "overshoots for as long.",
            "Use 0.9.",
            (("steps that are averaged", 1 / max(1 - momentum, 1e-9)), ("usual", 10)),
        )
    if clip is not None and clip[0] > CLIPPED * clip[1]:
        yield Finding(
            "clipping-dominates",
            None,
            f"The norm of the gradients is {clip[0]:.3g}, and grad_clip allows {clip[1]:g}: next to nothing is left of them.",
            "Raise grad_clip to about the usual norm (history['gradient_norm']), or scale the data.",
            (("norm of the gradients", clip[0]), ("grad_clip", clip[1])),
        )


def _others(paths: list[str]) -> str:
    return f", and {len(paths) - 1} other layer{'s' * (len(paths) > 2)} too" if len(paths) > 1 else ""
