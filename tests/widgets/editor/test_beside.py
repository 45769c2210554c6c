"""What is shown beside a selected node: the explorer's panel, for layers and functions, of the model as it is now."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn


class Added(nn.Module):
    """Calls two functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        return self.second(torch.relu(self.first(x)) + 1.0)  # type: ignore[no-any-return]  # torch types calls as Any


NET, X, Y = Added(), torch.randn(20, 3), torch.arange(20) % 2


def settle() -> None:
    """Wait for what an edit has started."""
    for name in ("pnne-derivation", "pnne-asked"):
        for thread in threading.enumerate():
            if thread.name == name:
                thread.join()


def test_layers_and_functions_are_asked_of_the_model_as_it_is_now() -> None:
    editor = pn.GraphEditor(NET, data=X, target=Y, labels=["no", "yes"])
    assert editor.look != ""
    for name in ("first", "relu", "add"):
        editor.selection = (name,)
        assert editor.explorer.selected == name
    card = editor.explorer.ask("relu", "Number", number=(0, 1))
    assert "relu[0, 1] (relu) = " in card.html
    assert "Target: no" in editor.describe()
    assert "relu: relu" in editor.describe()
    editor.graph.set("second", bias=False)
    settle()
    assert editor.explorer.flow.layers["second"].parameters == 8
    editor.graph.disconnect("relu.output", "add.input")
    settle()
    editor.selection = ("first",)
    assert "model before the last edit" in editor.explorer._said.value
    editor.selection = ("x",)
    assert editor.explorer.selected == ""
    editor.close()


def test_all_views_of_a_model_show_one_example() -> None:
    editor, explorer = pn.GraphEditor(NET, data=X, target=Y), pn.ModuleExplorer(NET, X, Y)
    explorer.example = 17
    assert editor.example == 17
    editor.example = 5
    assert explorer.example == 5
    with pytest.raises(pn.ArgumentError, match="example must be a whole number from 0 to 19, not 20"):
        editor.example = 20
    explorer.close()
    editor.close()


def test_data_that_do_not_fit_are_told_at_the_place() -> None:
    with pytest.raises(pn.ArgumentError, match="target has 20 entries, and data has 5 examples"):
        pn.GraphEditor(NET, data=X[:5], target=Y)
    with pytest.raises(pn.ArgumentError, match=r"labels.* belong to data: write pn.GraphEditor\(net, data=x"):
        pn.GraphEditor(NET, args=(X,), labels=["no", "yes"])
    graph = pn.from_module(NET, args=(X,))
    editor = pn.GraphEditor(graph, data=X, target=Y, labels=["no"])
    editor.selection = ("first",)
    assert editor.beside._box is not None
    [said] = editor.beside._box.children
    assert "labels has 1 names" in said.value
    editor.close()
