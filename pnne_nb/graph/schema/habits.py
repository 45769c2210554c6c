"""Suggests the names of this package for names of other libraries, of containers and of functions of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pnne_nb.errors import meant, near
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.habits import Habits

_ELSEWHERE: Final = Habits("types")
"""Types by their names in other libraries and by short names; in lower case, without underscores."""

_PROPERTIES: Final = Habits("properties")
"""Properties by their names in other libraries."""

_GRAPH_ARGUMENTS: Final = Habits("graph-arguments")
"""What to write instead of properties that no node has, and other libraries have in the same place."""

METHODS: Final = Habits("graph")
SETTINGS: Final = Habits("graph", "graph-settings")

_CONTAINERS: Final = {
    "sequential": (
        'A graph is drawn layer by layer: pn.sequential(*net, input=("N", 3)) draws those of a Sequential, graph.chain(...) '
        "appends, pn.from_module(net, args=(x,)) draws any module"
    ),
    "modulelist": "A graph is drawn layer by layer: add() each of them, or graph.chain(*layers) if they run one after another",
    "moduledict": "A graph is drawn layer by layer: add() each of them under its own name",
    "parameterlist": 'Each parameter is a node of its own: graph.add("Parameter", shape=(3, 4))',
    "parameterdict": 'Each parameter is a node of its own: graph.add("Parameter", shape=(3, 4))',
    "nodegraph": 'Draw both in one graph; graph.group([...], name="block") makes a nested graph of nodes',
    "module": "pn.from_module(net, args=(x,)) draws a module of yours; pn.register_node makes a node type of its class",
}


def instead_of(name: object, types: Mapping[str, NodeSpec]) -> str:
    """Return a sentence, after a space, that replaces an unknown type; "" if no name is near."""
    return habit(name, types) or near(name, types) if isinstance(name, str) else ""


def habit(name: str, types: Mapping[str, NodeSpec]) -> str:
    """Return the same only for names of other libraries and for other spellings of a name, without a guess."""
    plain = _plain(name)
    if plain in _CONTAINERS:
        return f" {_CONTAINERS[plain]}."
    lazy = name.removeprefix("Lazy")
    if lazy != name and lazy in types:
        sizes = ", ".join(prop.name for prop in types[lazy].inferable)
        return (
            f' Every {lazy} is lazy here: graph.add("{lazy}", ...) without {sizes or "sizes"}, which the data decides.'
        )
    found = [known for known in _ELSEWHERE.get(plain, "").split() if known in types]
    if found:
        return f" Write {_alternatives(found)}."
    same = [name] if name in types else _same(name, types)
    return f" Did you mean {' or '.join(map(repr, same))}?" if same else ""


def node_called(name: str, types: Mapping[str, NodeSpec]) -> str:
    """Return the line that adds a node of a layer that torch or another library has under that name; "" if none has."""
    capital = name[:1].isupper()  # `pn.functional` and `pn.data` are no layers
    found = [known for known in _ELSEWHERE.get(_plain(name), "").split() if known in types] or _same(name, types)
    if not capital or not found or (types[found[0]].kind == "function" and name.casefold() not in _ELSEWHERE):
        return ""
    spec = types[found[0]]
    argument = (
        f'{spec.category.lower()}="{spec.type}" of pn.TrainingEngine(net, (X, y)), or '
        if spec.kind == "training"
        else ""
    )
    return f' Write {argument}{_alternatives(found)}; pn.catalog["{found[0]}"] tells what it takes.'


def _same(name: str, types: Mapping[str, NodeSpec]) -> list[str]:
    same = [known for known in types if _plain(known) == _plain(name) and not known.endswith("_")]
    # If a layer and a function have the same name, the layer is meant.
    return [known for known in same if types[known].kind == "module"] or same


def property_habit(name: object, known: Iterable[str]) -> str:
    """Return a sentence, after a space, that replaces an unknown property of a node."""
    names = list(known)
    if name == "activation" and "nonlinearity" not in names:
        return ' An activation is a node of its own: graph.add("ReLU").'
    same = next(
        (own for own in (_PROPERTIES.get(name, "").split() if isinstance(name, str) else ()) if own in names), None
    )
    return f" Write {same}." if same else meant(name, names, _GRAPH_ARGUMENTS)


def layers_of(function: NodeSpec, types: Mapping[str, NodeSpec]) -> list[NodeSpec]:
    """Return the layers with the name of a function, apart from capitals and underscores: ``Conv2d`` for ``conv2d``.

    The layers of ``batch_norm`` add the number of dimensions.
    """
    if function.kind == "module":
        return []
    plain = _plain(function.type)
    named = [spec for spec in types.values() if spec.kind == "module" and _plain(spec.type) == plain]
    several = [name for name in _ELSEWHERE.get(plain, "").split() if name in types and _plain(name).startswith(plain)]
    return named[:1] or [types[name] for name in several if types[name].kind == "module"]


def meant_layer(layers: Iterable[NodeSpec]) -> str:
    """Return the question whether one of `layers` was meant instead of the function."""
    names = [spec.type for spec in layers]
    return f"Did you mean {f'the layer {names[0]}' if len(names) == 1 else 'a layer'}: {_alternatives(names)}?"


def is_container(name: str) -> bool:
    """Return whether torch has a container of that name; containers are no nodes."""
    return _plain(name) in _CONTAINERS


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


def _alternatives(names: list[str]) -> str:
    calls = [f'graph.add("{name}", ...)' for name in names]
    return calls[0] if len(calls) == 1 else f"{', '.join(calls[:-1])} or {calls[-1]}"
