"""Fuses batch normalisation into the weights of the layer before it, for inference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import final

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot
from pnne_nb.compiler.passes.equivalence import Promise
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite, borrowed, consumers, remove, rewire
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.compiler.shapes.infer import infer_shapes
from pnne_nb.errors import ArgumentError
from pnne_nb.graph.model.node import inside

PAIRS = {
    "Conv1d": "BatchNorm1d",
    "Conv2d": "BatchNorm2d",
    "Conv3d": "BatchNorm3d",
    "ConvTranspose1d": "BatchNorm1d",
    "ConvTranspose2d": "BatchNorm2d",
    "ConvTranspose3d": "BatchNorm3d",
    "Linear": "BatchNorm1d",
}
"""Which normalisation can go into which layer."""


@final
class FuseBatchNorm(Pass):
    """Fuses batch normalisation into the convolution or linear layer before it, for inference.

    The weights are torch's own sums (``torch.nn.utils.fusion``). The normalisation's node and its keys in
    ``state_dict`` go; the layer gets a bias. An activation behind it stays a node: eager PyTorch has no kernel for the
    three together (``TorchCompiler(backend="inductor")`` makes one). Where nothing else needs what it is given, it
    works in place, which is what there is to gain: a tensor less, and up to a fifth of the time on a CPU.

    The gain is measured. On a CPU it is worth while for convolutions, and small models may gain nothing: the
    report says so.

    Args:
        layers: Node types to fuse into; all that can be if None.
    """

    promise = Promise(modes=("eval",), outputs=1e-4, gradients=None)
    timed = True

    def __init__(self, layers: Iterable[str] | None = None) -> None:
        self._layers = frozenset(PAIRS if layers is None else layers)
        if unknown := sorted(map(str, self._layers - PAIRS.keys())):
            raise ArgumentError(f"Nothing can be fused into {', '.join(unknown)}: layers are among {', '.join(PAIRS)}.")

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        ranks = {path: len(spec.shape) for path, spec in infer_shapes(subject.graph).items()}
        names = Counter(id(tensor) for _, tensor in subject.model.named_parameters(remove_duplicate=False))
        for graph, snapshot in subject.snapshots.items():
            lent = borrowed(subject, graph) | {name for name, node in snapshot.nodes.items() if node.shares is not None}
            removed = []
            for name, node in snapshot.nodes.items():
                source = snapshot.wires.get(name, NO_WIRES).get("input")
                if source is None or PAIRS.get(snapshot.nodes[source.node].type) != node.type:
                    continue
                if snapshot.nodes[source.node].type not in self._layers:
                    continue
                layer = source.node
                why = _unfit(subject, graph, snapshot, layer, name, lent, ranks)
                if not why and names[id(subject.module(subject.paths(graph, layer)[0]).weight)] > 1:
                    why = f"another layer has the weight of {layer} too"
                if why:
                    done.skipped.update(dict.fromkeys(subject.paths(graph, name), why))
                    continue
                for prefix in subject.prefixes[graph]:
                    first, norm = subject.module(f"{prefix}{layer}"), subject.module(f"{prefix}{name}")
                    assert isinstance(norm, _BatchNorm)
                    held = subject.module_path(f"{prefix}{layer}")
                    done.tensors[f"{held}.weight"], done.tensors[f"{held}.bias"] = fused_weights(first, norm)
                    said = f"{prefix}{name} is in the weights of {prefix}{layer}"
                    done.changes.append(Change("fused", (f"{prefix}{layer}", f"{prefix}{name}"), said))
                subject.graph.set(f"{subject.prefixes[graph][0]}{layer}", bias=True)
                _overwrite(subject, graph, snapshot, layer, name, lent, done)
                rewire(subject, graph, {f"{name}.output": f"{layer}.output"})
                removed.append(name)
            remove(subject, graph, removed)
        fused = [change.nodes for change in done.changes if change.what == "fused"]
        layers = {subject.module(layer) for layer, _ in fused}
        norms = {subject.module(norm) for _, norm in fused}
        before = _numbers(subject.model.state_dict().values())
        gone = _numbers(tensor for norm in norms for tensor in norm.state_dict().values())
        bare = (layer for layer in layers if getattr(layer, "bias", None) is None)
        added = sum(layer.get_parameter("weight").shape[0] for layer in bare)
        done.gains.append(Gain("numbers in state_dict", before, before - gone + added))
        return done


def _overwrite(
    subject: PassSubject, id: str, snapshot: GraphSnapshot, layer: str, norm: str, lent: set[str], done: Rewrite
) -> None:
    """Let the activation behind a fused layer work in place, if it alone gets what that gives."""
    users = consumers(subject, id, norm)
    node = snapshot.nodes[users[0][0]] if len(users) == 1 else None
    if node is None or node.name in lent or node.spec.category != "Activation":
        return
    prop = node.spec.property_named("inplace")
    if prop is None or node.properties.get("inplace") is True or node.properties.get("checkpoint") is True:
        return
    subject.graph.set(f"{subject.prefixes[id][0]}{node.name}", inplace=True)
    for path, before in zip(subject.paths(id, node.name), subject.paths(id, layer), strict=True):
        done.changes.append(
            Change("set in place", (path,), f"it overwrites what {before} gives: eager PyTorch has no kernel for both")
        )


def _numbers(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def fused_weights(layer: nn.Module, norm: _BatchNorm) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight and bias of a layer that equals `layer` and `norm` in evaluation mode.

    Shape:
        - Linear: `[out, in]` and `[out]`.
        - Convolution: `[out, in / groups, *kernel]` and `[out]`; transposed: `[in, out / groups, *kernel]` and `[out]`.
    """
    mean, var = norm.running_mean, norm.running_var
    assert mean is not None, "looked at before"
    assert var is not None, "looked at before"
    scale = norm.weight if norm.affine else torch.ones_like(mean)
    shift = norm.bias if norm.affine else torch.zeros_like(mean)
    if isinstance(layer, nn.Linear):
        return fuse_linear_bn_weights(layer.weight, layer.bias, mean, var, norm.eps, scale, shift)
    assert isinstance(layer, _ConvNd)
    if not isinstance(layer, _ConvTransposeNd):
        return fuse_conv_bn_weights(layer.weight, layer.bias, mean, var, norm.eps, scale, shift)
    # torch's sum does not know groups: the weight of each has its own inputs along the first axis.
    groups = layer.groups
    biases = layer.bias.chunk(groups) if layer.bias is not None else (None,) * groups
    each = zip(layer.weight.chunk(groups), biases, *(t.chunk(groups) for t in (mean, var, scale, shift)), strict=True)
    parts = [fuse_conv_bn_weights(w, b, m, v, norm.eps, by, plus, transpose=True) for w, b, m, v, by, plus in each]
    return torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])


def _unfit(
    subject: PassSubject, id: str, snapshot: GraphSnapshot, layer: str, norm: str, lent: set[str], ranks: dict[str, int]
) -> str:
    """Say why a normalisation cannot go into the layer before it, or return an empty string."""
    users = {node for node, _ in consumers(subject, id, layer)}
    if users != {norm}:
        return f"{layer} also feeds {', '.join(sorted(users - {norm}))}"
    if inside(snapshot.nodes[layer]) != inside(snapshot.nodes[norm]):
        return f"{layer} and it run in different contexts"
    if layer in lent or norm in lent:
        return "its module, or that of the layer before it, is used by several nodes"
    for path, before in zip(subject.paths(id, norm), subject.paths(id, layer), strict=True):
        module = subject.module(path)
        if not isinstance(module, _BatchNorm) or module.running_mean is None or module.running_var is None:
            return "it keeps no statistics: what it does depends on each batch"
        if snapshot.nodes[layer].type == "Linear" and ranks.get(f"{before}.output") != 2:
            return f"{layer} gives more than two axes, or a number that is not known, and it normalises another than the last"
    return ""
