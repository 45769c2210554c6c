"""A model as a page: what is typed or chosen is what the model is asked, and its answer is shown."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.widgets.shipping.app import MAX_FIELDS, ModelApp


class Two(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        return left + right, left - right


def classifier() -> nn.Module:
    net = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[9.0, 0.0], [0.0, 9.0], [-9.0, -9.0]]))
    return net


def test_an_example_is_chosen_and_its_numbers_typed() -> None:
    shown = pn.app(classifier(), torch.eye(2), labels=["a", "b", "c"], features=["east", "north"], title="Where <to>")
    assert repr(shown) == "ModelApp(input)"
    assert "Where &lt;to&gt;" in shown.children[0].value
    east, north = shown._fields["input"]
    assert [east.description, east.value, north.value] == ["east", 1.0, 0.0]
    assert shown._result.value.index("<th>a</th><td>100.0%") < shown._result.value.index("<th>b</th>")
    shown._chooser.value = 1
    assert [east.value, north.value] == [0.0, 1.0]
    assert "<th>b</th><td>100.0%" in shown._result.value
    north.value = -1.0
    assert "<th>c</th><td>100.0%" in shown._result.value
    shown.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_number_reads_as_it_was_written(dtype: torch.dtype) -> None:
    shown = pn.app(nn.Identity(), torch.tensor([[5.1, -0.2]], dtype=dtype), labels=["a", "b"])
    assert [field.value for field in shown._fields["input"]] == [5.1, -0.2]
    shown.close()


def test_only_chosen_inputs_and_outputs_are_shown() -> None:
    examples = {"left": torch.tensor([[3.0]]), "right": torch.tensor([[1.0]])}
    shown = pn.app(Two(), examples, inputs=["left"], outputs=["sum", "difference"])
    assert list(shown._fields) == ["left"]
    assert "<strong>sum</strong>" in shown._result.value
    assert "<td>4</td>" in shown._result.value
    shown._fields["left"][0].value = 5.0
    assert "<td>6</td>" in shown._result.value
    assert shown._chooser.layout.display == "none"
    shown.close()


def test_a_graph_names_its_outputs_and_pictures_are_shown() -> None:
    graph = pn.sequential("Flatten", ("Linear", {"out_features": 2}), input=("N", 1, 6, 6))
    shown = pn.app(graph, torch.rand(3, 1, 6, 6).numpy())
    [name] = [node.name for node in graph.nodes.values() if node.type == "Output"]
    assert f"<strong>{name}</strong>" in shown._result.value
    assert "data:image/png" in shown._pictures["input"].value
    assert shown._fields["input"] == []
    shown.close()


def test_a_training_and_an_engine_can_be_shown_and_what_fails_is_said() -> None:
    engine = pn.TrainingEngine(nn.Linear(2, 2), (torch.randn(8, 2), torch.zeros(8, dtype=torch.long)), epochs=1)
    for model in (engine, pn.InferenceEngine(nn.Linear(2, 2))):
        shown = pn.app(model, torch.zeros(1, 2))
        assert isinstance(shown, ModelApp)
        shown.close()
    shown = pn.app(nn.Linear(3, 2), torch.zeros(1, 2))
    assert 'role="alert"' in shown._result.value
    shown.close()
    wide = pn.app(nn.Linear(MAX_FIELDS + 1, 20), torch.zeros(1, MAX_FIELDS + 1))
    assert "10 more numbers" in wide._result.value
    assert f"{MAX_FIELDS + 1} numbers of float32" in wide._pictures["input"].value
    wide.close()


def test_bad_arguments_are_answered() -> None:
    with pytest.raises(pn.ArgumentError, match=r"examples must be a tensor, an array, or a mapping of them, not 3"):
        pn.app(nn.Linear(2, 2), 3)  # type: ignore[arg-type]  # what people pass
    with pytest.raises(pn.ArgumentError, match=r"examples holds no example: pass at least one"):
        pn.app(nn.Linear(2, 2), torch.zeros(0, 2))
    with pytest.raises(
        pn.ArgumentError, match=r"inputs names 'inpt', of which examples has none\. Did you mean 'input'\?"
    ):
        pn.app(nn.Linear(2, 2), torch.zeros(1, 2), inputs=["inpt"])


def test_what_is_shown_stays_as_tables_without_a_kernel() -> None:
    shown = pn.app(classifier(), torch.eye(2), labels=["a", "b", "c"], features=["east", "north"], title="Where to")
    html = shown.to_html()
    assert "Where to" in html
    assert "<th>east</th><td>1</td>" in html
    assert "<th>a</th><td>100.0%" in html
    shown.close()
