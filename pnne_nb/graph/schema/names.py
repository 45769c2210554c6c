"""Checks the names of nodes and definitions, and chooses names for new nodes."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container

from pnne_nb.errors import IllegalNameError, shown

MAX_LENGTH = 100
"""Characters in a name."""

# What `dir(torch.nn.Module())` holds, frozen here because the core imports no torch; a test compares the two.
# Names with two leading underscores are refused altogether.
MODULE_ATTRIBUTES = frozenset(
    """
    T_destination _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
    _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _get_backward_hooks _get_backward_pre_hooks _get_name _is_full_backward_hook _load_from_state_dict
    _load_state_dict_post_hooks _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules
    _named_members _non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook
    _register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks
    _state_dict_pre_hooks _version _wrapped_call_impl add_module apply bfloat16 buffers call_super_init children
    compile cpu cuda double dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter
    get_submodule half ipu load_state_dict modules mtia named_buffers named_children named_modules
    named_parameters parameters register_backward_hook register_buffer register_forward_hook
    register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule
    share_memory state_dict to to_empty train training type xpu zero_grad
    """.split()
)

RESERVED = MODULE_ATTRIBUTES | frozenset(keyword.kwlist) | {"self", "torch", "nn", "F"}

NODE_NAME = re.compile(r"[A-Za-z0-9_]+")
# Torch writes these acronyms in mixed case, and without an underscore in its function names: relu, prelu, silu.
_ACRONYMS = re.compile(r"(PRe|RRe|Re|Si)LU")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def check_name(name: object) -> str:
    """Return `name` if a node may have it.

    Raises:
        IllegalNameError: If it is not a text of letters, digits and underscores, or is reserved.
    """
    text = check_identifier(name)
    if text in RESERVED or text.startswith("__"):
        raise IllegalNameError(
            f"A node cannot be named {text!r}: the name means something in Python or in an nn.Module. "
            f"Try {text.strip('_')!r} with a number, such as {text.strip('_') + '1'!r}."
        )
    return text


def check_identifier(name: object) -> str:
    """Return `name` if it consists of 1 to 100 letters, digits and underscores.

    Raises:
        IllegalNameError: If it does not.
    """
    if not isinstance(name, str) or not NODE_NAME.fullmatch(name):
        raise IllegalNameError(f"{shown(name)} is not a legal name: use letters A-Z a-z, digits and underscores.")
    if len(name) > MAX_LENGTH:
        raise IllegalNameError(f"The name {name[:20] + '…'!r} is longer than {MAX_LENGTH} characters.")
    return name


def split_path(path: object) -> tuple[str, str, str]:
    """Return the path of a node's graph, the last dot, and the node's own name; the first two are empty at the root.

    Raises:
        IllegalNameError: If `path` is not a text.
    """
    return path.rpartition(".") if isinstance(path, str) else ("", "", check_identifier(path))


def stem_of(type: str) -> str:
    """Return the stem of the numbered names of a type's nodes, in lower case: ``"max_pool2d"`` for ``"MaxPool2d"``."""
    text = _ACRONYMS.sub(lambda match: match[0].capitalize(), type)
    stem = re.sub(r"[^a-z0-9_]", "_", _WORD_START.sub("_", text).lower())[: MAX_LENGTH - 10]
    return f"{stem}_" if stem[-1:].isdigit() else stem or "node"


def numbered(stem: str, taken: Container[str], first: int = 1) -> str:
    """Return the first free, legal name of `stem` with a number from `first` on."""
    stem = stem.lstrip("_") if stem.startswith("__") else stem
    number = first
    while f"{stem}{number}" in taken or f"{stem}{number}" in RESERVED:
        number += 1
    return f"{stem}{number}"


def free_name(name: str, taken: Container[str], first: int = 2) -> str:
    """Return `name` itself if it is free and legal, else the first such name with a number from `first` on."""
    if name not in taken and name not in RESERVED and not name.startswith("__"):
        return name
    return numbered(f"{name}_" if name[-1:].isdigit() else name, taken, first)
