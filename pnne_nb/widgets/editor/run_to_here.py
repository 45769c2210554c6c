"""Runs one example up to a chosen port, and describes the tensor there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from torch import Tensor, nn

from pnne_nb.compiler.analysis.example_inputs import example_inputs
from pnne_nb.compiler.analysis.run_to_port import RunFragment, compile_to_port, run_fragment
from pnne_nb.errors import CompileError
from pnne_nb.export.subject.example_batches import first_batch
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inspector.statistics.histogram import INSPECTION_SAMPLE, histograms
from pnne_nb.inspector.statistics.sampling import measurable, sample, to_host
from pnne_nb.protocol.messages import RunToHere, SeenTensor, ValueHistogram
from pnne_nb.widgets.editor.export_dialog import Lend
from pnne_nb.widgets.host.images import coloured, data_url, grid, tiles_of

FEW: Final = 12
"""Most values that are printed."""

SMALLEST_PICTURE: Final = 4
"""Least rows and columns of a tensor that is shown as a picture."""

MAPS: Final = 16
"""Most feature maps in one picture."""

WIDTH: Final = 288
"""Approximate width of a picture in pixels."""

Example = tuple[tuple[Any, ...], Mapping[str, Any]]


def seen_at(
    graph: NodeGraph, lend: Lend, request: RunToHere, latest: nn.Module | None, example: Example | None
) -> SeenTensor:
    """Run up to the port of a request, and return its value.

    Args:
        graph: The document.
        lend: Gives the model whose weights are copied, and data if there is a training.
        request: The request, which names the port.
        latest: The model whose weights are used while the document has errors.
        example: The arguments of a call, or None.

    Raises:
        CompileError: If there is no such port, or no example to run.
    """
    version = graph.version
    with lend() as lent:
        # A waiting training continues as soon as the weights are copied.
        fragment = compile_to_port(graph, request.port, latest if lent.model is None else lent.model)
    args, whence = _inputs(graph, fragment, lent.data, example)
    facts = [whence, *_fresh_weights(fragment, has_model=not (lent.model is None and latest is None))]
    return described(
        run_fragment(fragment, args), SeenTensor(request.id, request.client, version, None, "", "", tuple(facts))
    )


def _inputs(
    graph: NodeGraph, fragment: RunFragment, data: object, example: Example | None
) -> tuple[tuple[Any, ...], str]:
    """Return values for the fragment's Inputs, and a sentence about their source."""
    every = [node.name for node in graph.nodes.values() if node.type == "Input"]
    wanted = [node.name for node in fragment.graph.nodes.values() if node.type == "Input"]
    batch = first_batch(data, every)
    if batch is not None and all(name in every for name in wanted):
        given = dict(zip(every, batch, strict=True))
        return tuple(given[name] for name in wanted), "The first examples of the training's data, in eval mode."
    if example is not None:
        positional, named = example
        given = {**dict(zip(every, positional, strict=False)), **named}
        if len(positional) <= len(every) and all(name in given for name in wanted):
            return tuple(given[name] for name in wanted), "The example that the editor was given, in eval mode."
    try:
        made = example_inputs(fragment.graph, fragment.model)
    except CompileError as error:
        raise CompileError(
            "There is no example to run. Give every Input a shape, or give the editor an example from Python: "
            f"editor.example = (x,). {error}",
            error.diagnostics,
        ) from None
    return made, "A made-up example of the shapes that the Inputs have, in eval mode."


def _fresh_weights(fragment: RunFragment, *, has_model: bool) -> list[str]:
    if not fragment.fresh:
        return []
    if not has_model:
        return ["The weights are as initialised."]
    first, *more = dict.fromkeys(name.rpartition(".")[0] or name for name in fragment.fresh)
    others = f" and of {len(more)} more" if more else ""
    return [f"The weights of {first}{others} are as initialised: no model has them yet."]


def described(value: object, seen: SeenTensor) -> SeenTensor:
    """Return `seen` with the description of a value.

    Shape:
        - value: `[*]`, if it is a tensor.
    """
    if not isinstance(value, Tensor):
        return msgspec.structs.replace(seen, dtype=type(value).__name__, text=repr(value)[:500])
    seen = msgspec.structs.replace(
        seen, shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch."), text=_text(value)
    )
    if not measurable(value) or value.numel() == 0:
        return seen
    [array] = to_host([sample(value, INSPECTION_SAMPLE)])
    finite = array[np.isfinite(array)].astype(np.float64)
    [histogram] = histograms([value])
    left_out = len(array) - len(finite)
    statistics = {"not finite": float(left_out)} if left_out else {}
    if finite.size:
        measured = {"mean": finite.mean(), "std": finite.std(), "min": finite.min(), "max": finite.max()}
        statistics |= {name: float(number) for name, number in measured.items()}
        statistics["zeros"] = float((finite == 0).mean())
    picture, caption = _picture(value)
    return msgspec.structs.replace(
        seen,
        statistics=statistics,
        histogram=ValueHistogram(
            float(histogram.edges[0]), float(histogram.edges[-1]), tuple(histogram.counts.tolist()), left_out
        ),
        picture=picture,
        caption=caption,
    )


def _text(value: Tensor) -> str:
    if not 0 < value.numel() <= FEW or not measurable(value):
        return ""
    numbers = value.detach().cpu().flatten().tolist()
    return ", ".join(f"{number:.4g}" if isinstance(number, float) else str(number) for number in numbers)


def _picture(value: Tensor) -> tuple[str, str]:
    """Return the first example of `[n, c, h, w]` or `[n, h, w]` as a picture, with what it shows; else nothing."""
    if value.dim() not in (3, 4) or min(value.shape[-2:]) < SMALLEST_PICTURE:
        return "", ""
    first = value[0]
    if first.dim() == 2:
        pixels = grid(tiles_of(first[None]), signed=True, width=WIDTH)
        return data_url(pixels), "The first example, blue below 0 and red above"
    if len(first) == 3:  # red, green, blue
        step = max(1, max(first.shape[1:]) // WIDTH)
        pixels = coloured(np.asarray(first[:, ::step, ::step].detach().float().cpu()))
        return data_url(pixels), "The first example in colour"
    tiles = tiles_of(first, count=MAPS, largest=64)
    some = f"{len(tiles)} of " if len(tiles) < len(first) else ""
    counted = "" if len(first) == 1 else f", {some}{len(first)} channels"
    return data_url(grid(tiles, signed=False, width=WIDTH)), f"The first example{counted}"
