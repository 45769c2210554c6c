"""An example of a person's own: a text that is typed, a row that is edited in place, a file that is chosen."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, final

import ipywidgets
import numpy as np
import torch
from torch import Tensor

from pnne_nb.errors import InspectionError
from pnne_nb.widgets.explorer.answers import Access, Asked
from pnne_nb.widgets.host.displays import answer_while_busy

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
            description="Your own file", accept=".npy,.png,.jpg,.jpeg,.bmp", layout=ipywidgets.Layout(width="auto"),
            tooltip="A picture, or an array (.npy) of the shape of an example",
        )  # fmt: skip
        self._said = ipywidgets.HTML()
        super().__init__([ipywidgets.HBox([self._text, self._file]), self._said])
        self._text.observe(lambda change: self._try(lambda: typed(self._asked(), change["new"])), "value")
        self._file.observe(lambda change: self._try(lambda: self._read(change["new"])), "value")
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
        picture = given is not None and given.is_floating_point() and given.dim() in (2, 3)
        self._text.description = "Your own text" if words else "Edit the row"
        self._text.layout.display = "" if row or words else "none"
        self._file.layout.display = "" if picture else "none"
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

    def _read(self, files: Any) -> Tensor:
        given = alone(self._asked(), self._place())
        assert given is not None  # or there would be no button
        return as_example(files[0]["name"], bytes(files[0]["content"]), tuple(given.shape)).to(given.dtype)

    def _try(self, make: Callable[[], Tensor]) -> None:
        if self._filling:
            return
        try:
            self._said.value = ""
            self._bring(make()[None])
        except Exception as error:  # noqa: BLE001  a tokenizer's own errors too
            said = html.escape(f"{type(error).__name__}: {error}")
            self._said.value = f'<div class="pnne-finding" role="alert">{said}</div>'


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


def as_example(name: str, content: bytes, shape: tuple[int, ...]) -> Tensor:
    """Return a file as an example: an array as it is, a picture in the size of the data, from 0 to 1.

    Raises:
        InspectionError: If the array has another shape, or Pillow is not installed.
    """
    if name.lower().endswith(".npy"):
        found = torch.from_numpy(np.load(io.BytesIO(content), allow_pickle=False)).float()
    else:
        try:
            from PIL import Image  # noqa: PLC0415  # an extra
        except ImportError:
            raise InspectionError("Pictures are read by Pillow: pip install pillow, or choose a file .npy.") from None
        mode, (high, wide) = ("RGB" if len(shape) == 3 and shape[0] == 3 else "L"), shape[-2:]
        with Image.open(io.BytesIO(content)) as image:
            pixels = np.asarray(image.convert(mode).resize((wide, high)), np.float32) / 255
        found = torch.from_numpy(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels)
        found = found.reshape(shape) if found.numel() == torch.Size(shape).numel() else found
    if tuple(found.shape) != shape:
        raise InspectionError(f"{name} has the shape {list(found.shape)}, and an example {list(shape)}.")
    return found
