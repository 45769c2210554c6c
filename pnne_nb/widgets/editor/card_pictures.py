"""`CardPictures`: what the layers of a training give, as small pictures for their cards."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import home_of, to_device
from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.compiler.codegen.loader import loaded_from
from pnne_nb.errors import ExportError, InspectionError
from pnne_nb.export.subject.example_batches import first_batch
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inspector.capture.hooks import primary_tensor
from pnne_nb.inspector.capture.preserve import hooked_run
from pnne_nb.inspector.statistics.patterns import layers
from pnne_nb.widgets.host.images import Array, data_url, grid, tiles_of

WIDE, HIGH = 32, 22
"""Places of the plane at which a network of two inputs is asked."""

TILES: Final = 8
"""Most units or channels in one picture, four in a row."""

MOST: Final = 64
"""Most nodes with a picture."""

EXAMPLES: Final = 500
"""Most examples whose inputs the plane covers."""

_SMALLEST: Final = 3  # rows and columns of a channel that is a picture
_WIDTH: Final = 160  # pixels of four tiles, about

Lend = Callable[[], AbstractContextManager[nn.Module]]


@final
class CardPictures:
    """Asks the model of a training, between two steps, what its layers give.

    A network with one Input of two numbers is asked all over the plane that its examples cover: a tile is a unit, white
    where it gives 0, red above and blue below, on its own scale. Any other network is asked about its first example: a tile
    is a channel of it, or of a layer's ``[n, c, h, w]``, from dark to bright.

    Args:
        lend: Gives the model while the training waits.
        data: The first examples of the training as a batch, or None.
        graph: The document.
        place: The prefix of the model's node paths in it.

    Raises:
        InspectionError: There are no examples to ask with.
    """

    def __init__(self, lend: Lend, data: Any, graph: NodeGraph, place: str) -> None:
        self._lend = lend
        self._graph = graph
        self._place = place
        block = graph[place.removesuffix(".")].definition if place else None
        self._inputs = [node.name for node in graph.graphs[block or ""].nodes.values() if node.type == "Input"]
        try:
            batch = first_batch(data, self._inputs, EXAMPLES)
        except ExportError as error:
            raise InspectionError(str(error)) from error
        if batch is None:
            raise InspectionError("The training's data is a stream, which has no first examples.")
        self._is_plane = len(batch) == 1 and batch[0].shape[1:] == (2,) and batch[0].is_floating_point()
        self._args = (_plane(batch[0]),) if self._is_plane else tuple(part[:1] for part in batch)

    def draw(self) -> dict[str, str]:
        """Return a picture as the address of a PNG for each node that gives one, by path; the training waits meanwhile.

        Raises:
            Exception: What the model raises.
        """
        found: dict[str, Array] = {}

        def see(name: str, output: object) -> None:
            tensor = primary_tensor(output)
            path = f"{self._place}{name}"
            if name and tensor is not None and path not in found and len(found) < MOST and path in self._graph:
                tiles = self._tiles(tensor)
                if tiles is not None:
                    found[path] = tiles

        def stepped(step: NodeExecution) -> None:
            see(step.node, dict(step.outputs))

        with self._lend() as model, hooked_run(model, grad=False) as hooks, ExitStack() as following:
            model.eval()
            for name, module in layers(model).items():
                hooks.on_output(module, partial(see, name))
            if loaded_from(model) is not None:  # functions have no hooks
                following.enter_context(stepping(model, stepped))
            home = home_of(model)
            args = self._args if home is None else to_device(self._args, home)
            for name, given in zip(self._inputs, () if self._is_plane else args, strict=False):
                see(name, given)
            model(*args)
        return {self._graph[path].path: _drawn(tiles, signed=self._is_plane) for path, tiles in found.items()}

    def why_none(self) -> str:
        """Return why no node gives a picture."""
        given = ", ".join(str(["N", *part.shape[1:]]).replace("'", "") for part in self._args)
        return (
            f"The network takes {given}, and none of its layers gives images. Pictures are of networks with one Input of two "
            "numbers, [N, 2], and of layers that give [N, channels, height, width]."
        )

    def _tiles(self, output: Tensor) -> Array | None:
        """Return the first units or channels of an output as `[n, h, w]`; None if they are no pictures."""
        if self._is_plane:
            units = output.reshape(len(output), -1) if output.dim() in (1, 2) else output[:0]
            if len(units) != HIGH * WIDE or not units.shape[1]:
                return None
            return tiles_of(units.T[:TILES].reshape(-1, HIGH, WIDE))
        if output.dim() != 4 or min(output.shape[2:]) < _SMALLEST or not output.shape[1]:
            return None
        return tiles_of(output[0], count=TILES, largest=WIDE)


def rows(pictures: Mapping[str, str]) -> str:
    """Return pictures as HTML, each with the path of its node, for a notebook that is read without a kernel."""
    return "".join(
        f'<figure style="display:inline-block;margin:6px 12px 0 0"><img alt="What {html.escape(path)} gives" src="{address}" '
        f'style="height:56px;image-rendering:pixelated"><figcaption>{html.escape(path)}</figcaption></figure>'
        for path, address in pictures.items()
    )


def _plane(examples: Tensor) -> Tensor:
    """Return inputs `[HIGH * WIDE, 2]` all over the plane that examples `[n, 2]` cover, row by row from the top."""
    known = examples[examples.isfinite().all(1)]
    low, high = (known.amin(0), known.amax(0)) if len(known) else (-torch.ones(2), torch.ones(2))
    margin = torch.where(high > low, 0.05 * (high - low), torch.ones(2))
    (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
    x, y = torch.meshgrid(torch.linspace(left, right, WIDE), torch.linspace(top, bottom, HIGH), indexing="xy")
    return torch.stack([x.flatten(), y.flatten()], 1).to(examples.dtype)


def _drawn(tiles: Array, *, signed: bool) -> str:
    if signed:
        largest = np.abs(np.where(np.isfinite(tiles), tiles, 0)).max((1, 2), keepdims=True)
        tiles = tiles / np.where(largest > 0, largest, 1)
    return data_url(grid(tiles, signed=signed, width=_WIDTH, columns=min(4, len(tiles))))
