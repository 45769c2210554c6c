"""An example of a person's own: a text that is typed, a row that is edited in place, a file that is chosen or dropped."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, final
from zipfile import BadZipFile

import ipywidgets
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pnne_nb.errors import InspectionError
from pnne_nb.widgets.explorer.answers import Access, Asked, refused
from pnne_nb.widgets.host.displays import answer_while_busy

ENDS: Final = ".png,.jpg,.jpeg,.bmp,.gif,.webp,.npy,.npz,.csv,.txt"
"""Files that can be examples."""

ROW: Final = 32
"""Most numbers of a row that can be edited."""


@final
class OwnExample(ipywidgets.VBox):
    """Controls that make an example, of the kind of the data.

    Args:
        access: How it gets at the model.
        place: Returns the number of the example that is shown.
        bring: Shows an example.
    """

    def __init__(self, access: Access, place: Callable[[], int], bring: Callable[[object], None]) -> None:
        self._asked, self._place, self._bring = access.asked, place, bring
        self._filling = False
        self._text = ipywidgets.Text(
            continuous_update=False, style={"description_width": "auto"}, layout=ipywidgets.Layout(width="520px")
        )
        self._file = ipywidgets.FileUpload(
            description="Your own file", accept=ENDS, layout=ipywidgets.Layout(width="auto"),
            tooltip="A picture, an array (.npy, .npz), a row of a table (.csv) or a text (.txt); or drop it here",
        )  # fmt: skip
        self._said = ipywidgets.HTML()
        super().__init__([ipywidgets.HBox([self._text, self._file]), self._said])
        self._text.observe(lambda change: self._try(lambda: typed(self._asked(), change["new"])[None]), "value")
        self._file.observe(
            lambda change: self.drop(change["new"][0]["name"], bytes(change["new"][0]["content"])), "value"
        )
        for control in (self._text, self._file):
            answer_while_busy(control)

    def __repr__(self) -> str:
        return "OwnExample()"

    def follow(self) -> None:
        """Show the example of the data as text, to begin with."""
        given = alone(self._asked(), self._place())
        self._filling = True
        row = given is not None and given.is_floating_point() and given.dim() == 1 and len(given) <= ROW
        words = given is not None and not given.is_floating_point() and given.dim() == 1
        self._text.description = "Your own text" if words else "Edit the row"
        self._text.layout.display = "" if row or words else "none"
        if given is not None and row:
            self._text.value = ", ".join(f"{number:.6g}" for number in given.tolist())
        elif given is not None and words:
            with suppress(Exception):  # what does not fit is told where the example is shown
                self._text.value = self._words(given.tolist())
        self._filling = False

    def _words(self, ids: list[int]) -> str:
        asked = self._asked()
        if asked.texts is None:
            return " ".join(map(str, ids))
        # A tokenizer's own texts hold their spaces, a list of words does not.
        are_words = isinstance(asked.tokenizer, list | tuple) and any(len(word) > 1 for word in asked.tokenizer)
        return (" " if are_words else "").join(asked.texts(ids))

    def drop(self, name: str, content: bytes | None) -> None:
        """Show a file as the example, or why it is none; see `read`."""
        self._try(lambda: read(self._asked(), self._place(), name, content))

    def _try(self, make: Callable[[], object]) -> None:
        if self._filling:
            return
        try:
            self._said.value = ""
            self._bring(make())
        except Exception as error:  # noqa: BLE001  a tokenizer's own errors too
            self._said.value = refused(error)


def alone(asked: Asked, place: int) -> Tensor | None:
    """Return the only input of an example without its first dimension, or None where there are several."""
    inputs = asked.examples.cut([place]).inputs if asked.examples.given else None
    return inputs[0].detach().cpu() if isinstance(inputs, Tensor) and inputs.dim() > 1 and len(inputs) == 1 else None


def typed(asked: Asked, text: str) -> Tensor:
    """Return a text as tokens, or numbers with commas as a row.

    Raises:
        InspectionError: If it is empty, or no numbers where there is no tokenizer that encodes.
    """
    given, tokenizer = alone(asked, 0), asked.tokenizer
    if not text.strip():
        raise InspectionError("An example must not be empty.")
    if given is not None and not given.is_floating_point() and tokenizer is not None:
        if isinstance(tokenizer, str | list | tuple):
            parts = text if all(len(one) == 1 for one in tokenizer) else text.split()
            unknown = next((one for one in parts if one not in tokenizer), None)
            if unknown is not None:
                raise InspectionError(f"The tokenizer has no token {unknown!r}.")
            return torch.tensor([tokenizer.index(one) for one in parts], dtype=given.dtype)
        if hasattr(tokenizer, "encode"):
            found = tokenizer.encode(text)
            return torch.as_tensor(getattr(found, "ids", found), dtype=given.dtype)
    try:
        return torch.tensor([float(word) for word in text.replace(",", " ").split()]).to(
            torch.float32 if given is None else given.dtype
        )
    except ValueError:
        raise InspectionError(f"An example is numbers such as 5.1, 3.5, not {text!r}.") from None


def read(asked: Asked, place: int, name: str, content: bytes | None) -> object:
    """Return a file as an example, a batch of one: a picture, an array, a row of a table, or a text.

    Args:
        asked: The model with its examples.
        place: The example whose shape and type it gets.
        name: Name of the file, whose end says what it is.
        content: None if it was too large to be sent.

    Raises:
        InspectionError: If it has another shape, is damaged or of another kind, or Pillow is not installed.
    """
    if content is None:
        raise InspectionError(
            f"{name} cannot be read here, or has more than 8 MB: explorer.bring(x) takes any example."
        )
    inputs, end = asked.examples.cut([place]).inputs, name.rpartition(".")[2].lower()
    given, array = alone(asked, place), None
    try:
        match end:
            case "txt":
                return typed(asked, content.decode().rstrip("\n"))[None]
            case "npz":
                with np.load(io.BytesIO(content), allow_pickle=False) as file:
                    return _inputs(name, dict(file), inputs, asked.examples.names)
            case _ if given is None:
                raise InspectionError("The model takes several inputs: an .npz with an array for each has them all.")
            case "npy":
                array = np.load(io.BytesIO(content), allow_pickle=False)
            case "csv":
                array = _table(content, asked.examples.columns)
                array = array[0] if given.dim() == 1 else array
            case _ if f".{end}" in ENDS.split(","):
                array = _pixels(content, tuple(given.shape))
            case _:
                raise InspectionError(f"{name} is no picture, array (.npy, .npz), table (.csv) or text (.txt).")
    except (ValueError, OSError, IndexError, BadZipFile) as error:
        raise InspectionError(f"{name} cannot be read as .{end}: {error}") from error
    return _like(name, array, given[None])


def _like(name: str, array: Any, given: Tensor) -> Tensor:
    """Return an array in the type of the examples, a batch of one."""
    found = torch.from_numpy(np.asarray(array))
    if [size for size in found.shape if size != 1] != [size for size in given.shape if size != 1]:
        raise InspectionError(f"{name} has the shape {list(found.shape)}, and an example {list(given.shape[1:])}.")
    return found.reshape(given.shape).to(given.dtype)


def _inputs(name: str, arrays: dict[str, Any], inputs: Any, names: Sequence[str] | None) -> object:
    """Return arrays as the inputs of the same names; one alone may have any name."""
    if isinstance(inputs, Tensor):
        if len(arrays) != 1:
            raise InspectionError(f"{name} has {len(arrays)} arrays, and the model takes one.")
        return _like(name, next(iter(arrays.values())), inputs)
    named = names or [f"arr_{place}" for place in range(len(inputs))]  # as np.savez calls them
    wanted = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(named, inputs, strict=False))
    if lacking := [one for one in wanted if one not in arrays]:
        raise InspectionError(f"{name} has no array {', '.join(lacking)}: it has {', '.join(arrays) or 'none'}.")
    found = {one: _like(f"{one} in {name}", arrays[one], value) for one, value in wanted.items()}
    return found if isinstance(inputs, Mapping) else tuple(found.values())


def _table(content: bytes, columns: Sequence[str]) -> Any:
    """Return the numbers of a table `[rows, columns]`; if it has names of columns, those of the data."""
    frame = pd.read_csv(io.BytesIO(content), header=None, dtype=str, skipinitialspace=True)
    names = frame.iloc[0].tolist()
    if pd.to_numeric(frame.iloc[0], errors="coerce").isna().any():
        frame = frame.iloc[1:].set_axis(names, axis=1)
        frame = frame[list(columns)] if columns and set(columns) <= set(names) else frame
    return frame.to_numpy(np.float64)


def _pixels(content: bytes, shape: tuple[int, ...]) -> Any:
    """Return a picture in the size of the data, from 0 to 1."""
    try:
        from PIL import Image  # noqa: PLC0415  # an extra
    except ImportError:
        raise InspectionError("Pictures are read by Pillow: pip install pillow, or choose a file .npy.") from None
    if len(shape) < 2:
        raise ValueError(f"an example has the shape {list(shape)}, and no pixels")
    mode, (high, wide) = ("RGB" if len(shape) == 3 and shape[0] == 3 else "L"), shape[-2:]
    with Image.open(io.BytesIO(content)) as image:
        pixels = np.asarray(image.convert(mode).resize((wide, high)), np.float32) / 255
    pixels = pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels
    return pixels.reshape(shape) if pixels.size == math.prod(shape) else pixels
