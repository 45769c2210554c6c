"""``pn.sequential``: a document of layers that run one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pnne_nb.errors import ArgumentError, answers_misuse, shown
from pnne_nb.graph.document import NodeGraph

_INPUT: Final = 'input=("N", 4)'


@answers_misuse(
    f'pn.sequential("ReLU", nn.Linear(4, 3), {_INPUT})',
    dict.fromkeys(("in_shape", "input_dim", "input_shape", "input_size", "shape"), _INPUT),
    layers=f"pn.sequential(*layers, {_INPUT})",
)
def sequential(
    *layers: object, input: Sequence[int | str] | Mapping[str, object] | None = None, name: str = "Model"
) -> NodeGraph:
    """Make a document of layers that run one after another, from an Input ``x`` to an Output ``y``.

    ::

        graph = pn.sequential(
            ("conv1", nn.Conv2d(3, 16, 3)),
            nn.ReLU(),
            nn.Flatten(),
            ("Linear", {"name": "fc", "out_features": 10}),  # in_features is inferred
            input=("N", 3, 32, 32),
        )

    Args:
        layers: As for `NodeGraph.chain`.
        input: Shape of the Input, with names for sizes that may vary (``"N"``: any batch size); or its properties, as in
            ``{"shape": ("N", 64), "dtype": "int64", "name": "tokens"}``. None: any shape.
        name: The document's name.

    Raises:
        GraphError: If a layer is not legal, or does not fit the one before; see `NodeGraph.add` and `NodeGraph.connect`.
        ArgumentError: If `input` is neither a shape nor a mapping.
    """
    if len(layers) == 1 and isinstance(layers[0], list):
        raise ArgumentError("pn.sequential takes layers, not a list of them: pn.sequential(*layers, input=...).")
    match input:
        case None:
            properties: dict[str, object] = {}
        case Mapping():
            properties = dict(input)
        case str() | bytes():
            raise ArgumentError(_not_a_shape(input))
        case Sequence():
            properties = {"shape": tuple(input)}
        case _:
            raise ArgumentError(_not_a_shape(input))
    graph = NodeGraph(name)
    graph.chain(("Input", {"name": "x", **properties}), *layers, ("Output", {"name": "y"}))
    return graph


def _not_a_shape(input: object) -> str:
    return f'input must be the shape of the input, such as ("N", 3, 32, 32), not {shown(input)}.'
