"""Reads the properties of a layer's node back from the attributes of a torch layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrize import is_parametrized

from pnne_nb.catalog.tables import overrides
from pnne_nb.compiler.codegen.loader import loaded_from
from pnne_nb.compiler.importing.draft.source_lines import module_at, with_line, written_at
from pnne_nb.graph.schema.property_types import check, holds_tensor
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec, Property

_SCALARS = (bool, int, float, str, tuple, type(None))
_CALLED = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_LOADED = (
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip

ONLY_WATCHES = "only_watches"
"""The name of an attribute that is true for hooks that change neither arguments nor results, such as those of a training."""


def layer_spec(module: nn.Module) -> NodeSpec | None:
    """Return the node type of exactly the class of `module`, or None."""
    spec = registry.get(type(module).__name__)
    return spec if spec is not None and spec.kind == "module" and spec.torch is type(module) else None


def described(layer: object) -> tuple[str, dict[str, object]] | None:
    """Return the type and the properties of a layer's node; None if there is no such type."""
    spec = layer_spec(layer) if isinstance(layer, nn.Module) else None
    properties = None if spec is None else read_properties(layer, spec)  # type: ignore[arg-type]  # a module, then
    return None if spec is None or properties is None else (spec.type, properties)


def obstacle(module: nn.Module) -> str:
    """Return why a module must stay opaque whatever its code does; empty if nothing forbids an import."""
    hooks = [hook for name in _CALLED for hook in (getattr(module, name, None) or {}).values()]
    hooks += [h for name in _LOADED for h in (getattr(module, name, None) or {}).values() if not _is_torchs(h)]
    hooks = [hook for hook in hooks if not getattr(hook, ONLY_WATCHES, False)]
    if hooks:
        names = ", ".join(dict.fromkeys(str(getattr(h, "__qualname__", type(h).__qualname__)) for h in hooks))
        lines = "; ".join(dict.fromkeys(filter(None, map(written_at, hooks))))
        return f"it has hooks, which a graph cannot represent ({names}{f': {lines}' if lines else ''})"
    if isinstance(module, torch.jit.ScriptModule):
        return with_line("it is a scripted module, which has no Python code", module_at(module))
    if "_orig_mod" in module._modules:
        return "torch.compile has compiled it; its _orig_mod, the module that it was made from, can be imported"
    if "forward" in vars(module):
        return with_line("its forward method was replaced on the instance", module_at(module))
    return ""


def is_extensible(module: nn.Module) -> bool:
    """Return whether a generated class can inherit from a module's class, with nodes around its calls."""
    cls: Any = type(module)
    if isinstance(module, torch.jit.ScriptModule) or loaded_from(module) is not None:
        return False  # it runs compiled or generated code
    if is_parametrized(module):
        return False  # torch has made the class for this one module, and refuses to save it
    try:
        type(cls)(cls.__name__, (_Drawn, cls), {})
    except Exception:  # noqa: BLE001  # a class may refuse in any way
        return False
    return True


class _Drawn(nn.Module):
    """Takes the place of a generated class."""


def _is_torchs(hook: object) -> bool:
    """Return whether a hook only reads files of older versions of torch, as that of weight normalization does."""
    return str(getattr(getattr(hook, "hook", hook), "__module__", "")).startswith("torch.nn.utils.")


def read_properties(module: nn.Module, spec: NodeSpec) -> dict[str, object] | None:
    """Return constructor arguments as properties, without defaults; None if the layer does not keep one."""
    found: dict[str, object] = {}
    try:
        special = _special_properties(module, spec)
        for prop in spec.properties:
            if prop.role != "init":
                continue
            value = special[prop.name] if prop.name in special else _read(module, prop)
            value = _as_written(module, prop.name, value)
            stored = check(prop.type, value)
            if prop.required or type(stored) is not type(prop.default) or stored != prop.default:
                found[prop.name] = stored
    except (AttributeError, KeyError, ValueError, IndexError):
        return None
    return found


def difference(original: nn.Module, rebuilt: nn.Module) -> str:
    """Return the scalar attribute or tensor in which a rebuilt layer differs; empty if there is none."""
    if type(original) is not type(rebuilt):
        return f"it is a {type(original).__name__}, and not a {type(rebuilt).__name__}"
    if _tensors(original) != _tensors(rebuilt):
        return "its parameters and buffers differ from those of a newly constructed layer"
    for name, value in vars(original).items():
        if name.startswith("_") or name == "training" or not (isinstance(value, _SCALARS) or callable(value)):
            continue
        other = vars(rebuilt).get(name)
        if isinstance(value, nn.Module) or hasattr(value, "_fields"):
            continue  # quantization keeps its settings in a named tuple
        # beta=100, which a document holds as 100.0, and a torch.Size
        alike = type(other) is type(value) or {type(other), type(value)} in ({int, float}, {tuple, torch.Size})
        if not alike or other != value:
            return f"its attribute {name} is {value!r}, and {other!r} in a new one"
    for (name, child), (other_name, other_child) in zip(
        original.named_children(), rebuilt.named_children(), strict=False
    ):
        if name != other_name:
            return f"its submodule {name} is not part of a newly constructed layer"
        if reason := obstacle(child) or difference(child, other_child):
            return f"{name}: {reason}"
    return ""


def _tensors(module: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return [(name, tuple(tensor.shape)) for name, tensor in named]


def _read(module: nn.Module, prop: Property) -> Any:
    name = prop.name
    value = getattr(module, name)
    if holds_tensor(prop.type):
        return value
    if isinstance(value, Tensor) or (name == "bias" and value is None):
        return value is not None
    if name == "bias" and not isinstance(value, bool):
        raise AttributeError(name)
    return value


def _as_written(module: nn.Module, name: str, value: Any) -> Any:
    """Return ``3`` for the ``(3, 3)`` that a convolution makes of it."""
    axes = isinstance(module, _ConvNd) and name in overrides.PER_AXIS
    shape = isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and len(value) == 1 if name == "normalized_shape" else False
    return value[0] if (axes or shape) and isinstance(value, tuple) and len(set(value)) == 1 else value


_ACTIVATIONS = {torch.nn.functional.relu: "relu", torch.nn.functional.gelu: "gelu"}


def _layer_values(layer: nn.Module) -> dict[str, Any]:
    attention: Any = layer.self_attn
    first: Any = layer.linear1
    return {
        "d_model": attention.embed_dim,
        "nhead": attention.num_heads,
        "dim_feedforward": first.out_features,
        "dropout": attention.dropout,
        "activation": _ACTIVATIONS[layer.activation],  # type: ignore[index]  # torch does not say
        "layer_norm_eps": layer.norm1.eps,  # type: ignore[union-attr]  # torch does not say
        "batch_first": attention.batch_first,
        "norm_first": layer.norm_first,
        "bias": first.bias is not None,
    }


def _special_properties(module: nn.Module, spec: NodeSpec) -> dict[str, Any]:
    """Return arguments that a layer does not keep in attributes of the same name."""
    if spec.parts:
        layers: Any = module.layers
        norm = {"norm": module.norm is not None} if spec.property_named("norm") else {}
        return {**_layer_values(layers[0]), **norm}
    if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        return _layer_values(module)
    if isinstance(module, nn.MultiheadAttention):
        same_k, same_v = module.kdim == module.embed_dim, module.vdim == module.embed_dim
        return {
            "bias": module.in_proj_bias is not None,
            "add_bias_kv": module.bias_k is not None,
            "kdim": None if same_k else module.kdim,
            "vdim": None if same_v else module.vdim,
        }
    if isinstance(module, nn.PairwiseDistance):
        return {"p": module.norm}
    if isinstance(module, nn.AdaptiveLogSoftmaxWithLoss):
        return {"cutoffs": module.cutoffs[:-1]}  # the last is the number of classes
    return {}
