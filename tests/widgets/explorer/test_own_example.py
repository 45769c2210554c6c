"""Files that are dropped on the strip: each becomes the example, or the strip says why it cannot."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.widgets.explorer.explorer import ModuleExplorer


class Two(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


def explorer_of(kind: str) -> ModuleExplorer:
    match kind:
        case "picture":
            return pn.ModuleExplorer(nn.Flatten(), torch.zeros(2, 1, 2, 2))
        case "colours":
            return pn.ModuleExplorer(nn.Flatten(), torch.zeros(2, 3, 2, 2))
        case "row":
            return pn.ModuleExplorer(nn.Linear(2, 3), pd.DataFrame({"length": [1.0, 2.0], "width": [3.0, 4.5]}))
        case "words":
            return pn.ModuleExplorer(nn.Embedding(3, 2), torch.tensor([[0, 1], [2, 2]]), tokenizer="abc")
        case _:
            return pn.ModuleExplorer(Two(), (torch.zeros(4, 2), torch.ones(4, 2)))


def saved(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def painted(*colour: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(buffer, "PNG")
    return buffer.getvalue()


def drop(explorer: ModuleExplorer, name: str, content: bytes | None) -> None:
    buffers = [] if content is None else [memoryview(content)]
    explorer._page._handle_custom_msg({"kind": "drop", "name": name}, buffers)


FITS: dict[str, tuple[str, str, bytes, Any]] = {
    "picture": ("picture", "a.PNG", painted(255, 255, 255), [[[[1.0, 1.0], [1.0, 1.0]]]]),
    "colours": ("colours", "a.png", painted(255, 0, 51), [[[[1.0] * 2] * 2, [[0.0] * 2] * 2, [[0.2] * 2] * 2]]),
    "an array alone": ("picture", "a.npz", saved(any=np.eye(2)[None]), [[[[1.0, 0.0], [0.0, 1.0]]]]),
    "a row": ("row", "a.csv", b"1.5, 2\n7, 8\n", [[1.5, 2.0]]),
    "a row with names": ("row", "a.csv", b"width,kind,length\n2,cat,1.5\n", [[1.5, 2.0]]),
    "a text": ("words", "a.txt", b"cab\n", [[2, 0, 1]]),
    "two arrays": ("two", "a.npz", saved(right=np.ones(2), left=np.zeros((1, 2))), ([[0.0, 0.0]], [[1.0, 1.0]])),
}


@pytest.mark.parametrize("case", FITS)
def test_a_file_becomes_the_example(case: str) -> None:
    kind, name, content, wanted = FITS[case]
    with closing(explorer_of(kind)) as explorer:
        drop(explorer, name, content)
        assert explorer._strip.own._said.value == ""
        assert explorer.example == -1
        own = explorer._alive().asked.examples.own
        parts = own if isinstance(own, tuple) else (own,)
        for part, numbers in zip(parts, wanted if isinstance(own, tuple) else (wanted,), strict=True):
            torch.testing.assert_close(part, torch.tensor(numbers))


BAD: Mapping[str, tuple[str, str, bytes | None, str]] = {
    "too large": (
        "row",
        "big.npy",
        None,
        "big.npy cannot be read here, or has more than 8 MB: explorer.bring(x) takes",
    ),
    "another kind": ("row", "a.pdf", b"", "a.pdf is no picture, array (.npy, .npz), table (.csv) or text (.txt)"),
    "no row": (
        "row",
        "a.png",
        painted(0, 0, 0),
        "a.png cannot be read as .png: an example has the shape [2], and no pixels",
    ),
    "damaged": ("picture", "a.png", b"nothing", "a.png cannot be read as .png: cannot identify image file"),
    "damaged arrays": ("two", "a.npz", b"PK nothing", "a.npz cannot be read as .npz: "),
    "empty": ("row", "a.csv", b"", "a.csv cannot be read as .csv: No columns to parse from file"),
    "words": (
        "row",
        "a.csv",
        b"length,width\n1,wide\n",
        "a.csv cannot be read as .csv: could not convert string to float",
    ),
    "only names": ("row", "a.csv", b"length,width\n", "a.csv cannot be read as .csv: index 0 is out of bounds"),
    "another shape": ("row", "a.csv", b"1,2,3", "a.csv has the shape [3], and an example [2]"),
    "two for one": ("row", "a.npz", saved(a=1, b=2), "a.npz has 2 arrays, and the model takes one"),
    "one for two": ("two", "a.npz", saved(left=np.ones(2)), "a.npz has no array right: it has left"),
    "one array for two": (
        "two",
        "a.npy",
        b"",
        "The model takes several inputs: an .npz with an array for each has them all",
    ),
    "unknown letters": ("words", "a.txt", b"xyz", "The tokenizer has no token &#x27;x&#x27;"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_told_in_place(case: str) -> None:
    kind, name, content, message = BAD[case]
    with closing(explorer_of(kind)) as explorer:
        before = explorer._strip._shown.value
        drop(explorer, name, content)
        assert message in explorer._strip.own._said.value
        assert explorer.example == 0
        assert explorer._strip._shown.value == before
