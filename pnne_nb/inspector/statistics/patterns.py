"""Selects layers by name patterns: wildcards over dotted module paths, exclusions, module types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import nn

from pnne_nb.errors import ArgumentError, LayerNotFoundError, near, shown

Patterns = str | Sequence[str]
"""One pattern or several. `*`, `?` and `[…]` as in `fnmatch`, and `*` also spans dots; ``"!…"`` takes away."""

ModuleTypes = type[nn.Module] | tuple[type[nn.Module], ...]

EVERYTHING = "*"

QuantityT = TypeVar("QuantityT")


def layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return every submodule once, by its first path; the model itself, as ``""``, only if it has no submodule."""
    found = {name: module for name, module in model.named_modules() if name}
    return found or {"": model}


def leaf_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the layers that contain no other layer."""
    return {name: module for name, module in layers(model).items() if not any(module.children())}


def first_paths(model: nn.Module) -> dict[str, str]:
    """Return the first path of the same module for every path; modules that appear twice have several."""
    first: dict[int, str] = {}
    return {path: first.setdefault(id(module), path) for path, module in model.named_modules(remove_duplicate=False)}


def match_layers(
    model: nn.Module, patterns: Patterns = EVERYTHING, *, exclude: Patterns = (), types: ModuleTypes | None = None
) -> dict[str, nn.Module]:
    """Return the layers whose path matches, in the model's order.

    A module that appears twice in the model is returned once, under its first path, if any of its paths matches.

    Args:
        model: The module to search.
        patterns: At least one of them must match. If all start with ``"!"``, they take away from ``"*"``.
        exclude: Layers that match one of these are left out, as with ``"!…"`` among `patterns`.
        types: Only layers of these types.

    Raises:
        LayerNotFoundError: If no layer is left, or if a pattern without ``"!"`` matches no path at all.
        ArgumentError: If a pattern is no text, or a type no class.
    """
    wanted, unwanted = _split(patterns)
    unwanted += _listed(exclude)
    kinds = types if isinstance(types, tuple) else () if types is None else (types,)
    for kind in kinds:
        if not isinstance(kind, type):
            raise ArgumentError(f"types holds {shown(kind)}: give classes of layers, such as torch.nn.Conv2d.")
    aliases = {path: first for path, first in first_paths(model).items() if path}
    # The model itself is not one of its layers, unless it is asked for by name or has no submodule.
    if not aliases or "" in wanted:
        aliases[""] = ""
    chosen: set[str] = set()
    for pattern in wanted:
        hits = {first for path, first in aliases.items() if _fits(path, pattern)}
        if not hits:
            raise LayerNotFoundError(f"No layer matches {pattern!r}.{near_layers(pattern, aliases)}")
        chosen |= hits
    chosen -= {first for path, first in aliases.items() if any(_fits(path, pattern) for pattern in unwanted)}
    modules = dict(model.named_modules())
    matched = {
        path: module for path, module in modules.items() if path in chosen and (not kinds or isinstance(module, kinds))
    }
    if not matched:
        which = " or ".join(kind.__name__ for kind in kinds)
        asked = ", ".join(repr(pattern) for pattern in (*wanted, *(f"!{pattern}" for pattern in unwanted)))
        present = ", ".join(sorted({type(module).__name__ for path, module in modules.items() if path}))
        raise LayerNotFoundError(
            f"No layer matches {asked}{f' and is a {which}' if which else ''}."
            f" The model has layers of the types {present or type(model).__name__}."
        )
    return matched


def resolve_watch(model: nn.Module, watch: Mapping[str, Iterable[QuantityT]]) -> dict[str, tuple[QuantityT, ...]]:
    """Return the layers that match any pattern, each with the quantities of all its patterns.

    Args:
        model: The module to search.
        watch: Quantities by pattern.

    Raises:
        LayerNotFoundError: If a pattern matches nothing.
    """
    first = first_paths(model)
    resolved: dict[str, dict[QuantityT, None]] = {}
    for pattern, quantities in watch.items():
        wanted = dict.fromkeys(quantities)
        for name in (first[pattern],) if pattern in first else match_layers(model, pattern):
            resolved.setdefault(name, {}).update(wanted)
    return {name: tuple(resolved[name]) for name in dict.fromkeys(first.values()) if name in resolved}


def own_parameters(model: nn.Module) -> Iterator[tuple[str, str, nn.Parameter]]:
    """Yield (layer, name, parameter) for the own parameters of each layer; shared ones once, at the first."""
    seen: set[int] = set()
    for layer, module in model.named_modules():
        # Live frames ask for this ten times a second: `named_parameters` takes three times as long.
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                yield layer, name, parameter


def _listed(patterns: object) -> list[str]:
    listed = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(listed, Sequence) or not all(isinstance(pattern, str) for pattern in listed):
        raise ArgumentError(
            f'{shown(patterns)} is no pattern of layers: give a text such as "encoder.*", or a list of texts.'
        )
    return list(listed)


def _split(patterns: Patterns) -> tuple[list[str], list[str]]:
    listed = _listed(patterns)
    if not listed:
        raise LayerNotFoundError('No pattern was given; "*" matches every layer.')
    wanted = [pattern for pattern in listed if not pattern.startswith("!")]
    unwanted = [pattern[1:] for pattern in listed if pattern.startswith("!")]
    return (wanted or [EVERYTHING], unwanted)


def _fits(path: str, pattern: str) -> bool:
    # A literal path matches even if it contains wildcard characters.
    return path == pattern or fnmatchcase(path, pattern)


def near_layers(pattern: str, paths: Iterable[str]) -> str:
    """Return the layers that may be meant by a pattern without a match, or else some of those that there are."""
    known = [path for path in paths if path]
    # The pattern without its wildcards is the word that may be misspelt.
    literal = pattern.replace("*", "").strip(".")
    parts = sorted({part for path in known for part in path.split(".")})
    hint = near(pattern, known) or near(literal, known) or near(literal, parts)
    some = ", ".join(repr(path) for path in known[:8])
    listing = f" The layers are {some}{', …' if len(known) > 8 else ''}." if known else " The model has no submodule."
    return hint or listing
