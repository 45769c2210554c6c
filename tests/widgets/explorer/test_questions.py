"""Questions in the panel, and what if: what is shown is what `pn.intervene`, `pn.attribute` and `pn.keep` give."""

from __future__ import annotations

import asyncio
import html
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import pnne_nb as pn
from pnne_nb.widgets.explorer.explorer import ModuleExplorer
from pnne_nb.widgets.explorer.questions import TABS
from pnne_nb.widgets.explorer.what_if import part_of
from tests.inspector.models import hooks_on
from tests.widgets.explorer.digits import digits

NET, X, Y = digits()
with torch.no_grad():
    CHOSEN = NET(X).argmax(1)
WRONG = int(torch.nonzero(CHOSEN != Y)[0])


@pytest.fixture
def explorer() -> Iterator[ModuleExplorer]:
    shown = pn.ModuleExplorer(NET, X, Y)
    shown.example = WRONG
    shown.select("1")
    yield shown
    shown.close()


def panel(explorer: ModuleExplorer) -> str:
    return " ".join(part.value for part in parts(explorer._panel) if isinstance(part, ipywidgets.HTML))


def parts(box: Any) -> Iterator[Any]:
    for child in getattr(box, "children", ()):
        yield child
        yield from parts(child)


def press(box: Any, words: str, at: int = 0) -> None:
    [part for part in parts(box) if isinstance(part, ipywidgets.Button) and part.description == words][at].click()


def test_units_say_what_the_answer_is_without_them(explorer: ModuleExplorer) -> None:
    explorer._tab.value = "Units"
    shown = panel(explorer)
    assert "8 units" in shown
    for unit in range(8):
        with pn.intervene(NET, {"1": pn.zero(channels=[unit])}), torch.no_grad():
            shares = NET(X[WRONG : WRONG + 1])[0].softmax(0)
        best = int(shares.argmax())
        said = f"without it: {best} {float(shares[best]):.1%}"
        row = next(
            part.value for part in parts(explorer._panel) if f"<strong>Unit {unit}<" in str(getattr(part, "value", ""))
        )
        assert said in row
        assert ("pnne-moved" in row) == (best != CHOSEN[WRONG])


def test_a_unit_is_switched_off_and_on_again(explorer: ModuleExplorer) -> None:
    explorer._tab.value = "Units"
    press(explorer._panel, "Switch off")
    strip = explorer._strip
    [row] = strip.what_if.rows
    unit = int(row.channels.value)
    with pn.intervene(NET, {"1": pn.zero(channels=[unit])}), torch.no_grad():
        shares = NET(X[WRONG : WRONG + 1])[0].softmax(0)
    assert strip.after is not None
    assert [one.place for one in strip.after.likely] == shares.argsort(descending=True)[:5].tolist()
    assert f"What if: 1, zero {unit}" in explorer.describe()
    row.kind.value = "scale"
    row.numbers[0].value = 1.0
    assert "Answer with the changes: " + str(strip.answer) in explorer.describe()
    row.kind.value = "mean"
    row.kind.value = "clamp"
    row.numbers[1].value = -2.0
    assert "low=-1.0 is not below high=-2.0" in strip._shown.value
    row.on.value = False
    assert "Answer with the changes" not in explorer.describe()
    press(row, "")
    assert strip.what_if.rows == []
    assert strip.what_if.layout.display == "none"
    assert hooks_on(NET) == 0


def test_channels_that_do_not_exist_are_told_at_the_example(explorer: ModuleExplorer) -> None:
    explorer._strip.what_if.add("1", "8")
    assert "The layer &#x27;1&#x27; has no channel 8: its channels are 0 to 7" in explorer._strip._shown.value
    explorer._strip.what_if.rows[0].channels.value = "3, x"
    assert "1: channels are numbers such as 3, 17" in explorer._strip._shown.value
    assert hooks_on(NET) == 0


PARTS: dict[str, Any] = {
    "": {}, "3": {"channels": 3}, "channels 0, 3": {"channels": [0, 3]}, "channel -1": {"channels": -1},
    "tokens 2": {"tokens": 2}, "Heads 0 of 4": {"heads": 0, "of": 4}, "units 3 1 2": {"units": [(3, 1, 2)]},
    "channels 3 dim 2": {"channels": 3, "dim": 2},
}  # fmt: skip


@pytest.mark.parametrize("text", PARTS)
def test_a_part_is_written_as_the_functions_take_it(text: str) -> None:
    assert pn.zero(**part_of("1", text)).part == pn.zero(**PARTS[text]).part


def test_a_patch_takes_a_part_from_another_example(explorer: ModuleExplorer) -> None:
    explorer._strip.what_if.values = [("1", "patch", "0, 3", 5)]
    with pn.intervene(NET, {"1": pn.patch(X[5:6], channels=[0, 3])}), torch.no_grad():
        shares = NET(X[WRONG : WRONG + 1])[0].softmax(0)
    assert explorer._strip.after is not None
    assert explorer._strip.after.likely[0].share == pytest.approx(float(shares.max()))
    assert "What if: 1, patch from example 5, 0, 3" in explorer.describe()
    explorer._strip.what_if.rows[0].numbers[0].value = 300
    assert "example must be a whole number from 0 to 299, not 300" in explorer._strip._shown.value


def test_units_are_counted_in_another_dimension(explorer: ModuleExplorer) -> None:
    rows = NET[:2](X).shape[2]
    explorer._tab.value = "Units"
    dimension = next(one for one in parts(explorer._panel) if getattr(one, "description", "") == "Dimension")
    assert dimension.value == 1
    dimension.value = 2
    assert f"{rows} units" in panel(explorer)
    press(explorer._panel, "Switch off")
    [(layer, _, where)] = explorer._strip.what_if.values
    unit = int(where.split()[1])
    assert (layer, where) == ("1", f"channels {unit} dim 2")
    with pn.intervene(NET, {"1": pn.zero(channels=unit, dim=2)}), torch.no_grad():
        best = int(NET(X[WRONG : WRONG + 1]).argmax())
    assert explorer._strip.after is not None
    assert explorer._strip.after.likely[0].place == best
    assert "dim=2" in explorer.ask("1", "Units", dim=2).code
    assert "units are counted in one of the dimensions 1 to 3, not 4" in explorer.ask("1", "Units", dim=4).html


def test_over_the_data(explorer: ModuleExplorer) -> None:
    explorer._strip.what_if.add("1", "0, 3")
    press(explorer._strip, "Over the data")
    with pn.intervene(NET, {"1": pn.zero(channels=[0, 3])}), torch.no_grad():
        after = NET(X)
    accuracy = [float((scores.argmax(1) == Y).float().mean()) for scores in (NET(X).detach(), after)]
    shown = explorer._strip.what_if._said.value
    assert f"<td>{accuracy[0]:.1%}</td><td>{accuracy[1]:.1%}</td>" in shown
    assert f"{float(nn.functional.cross_entropy(after, Y)):.4g}" in shown
    assert f"{int((after.argmax(1) != CHOSEN).sum())} of 300 answers change" in shown


def test_keep_is_one_undoable_edit_of_the_graph(explorer: ModuleExplorer) -> None:
    weights = {name: value.clone() for name, value in NET.state_dict().items()}
    explorer._strip.what_if.add("1", "0, 3")
    version = explorer.graph.version
    press(explorer._strip, "Keep in the graph")
    assert explorer.graph.version == version + 1
    changed = pn.compile(explorer.graph)
    with pn.intervene(NET, {"1": pn.zero(channels=[0, 3])}), torch.no_grad():
        torch.testing.assert_close(changed(X), NET(X))
    explorer.graph.undo()
    torch.testing.assert_close(pn.compile(explorer.graph)(X), NET(X))
    assert all(torch.equal(value, weights[name]) for name, value in NET.state_dict().items())
    explorer._strip.what_if.rows[0].kind.value = "mean"
    press(explorer._strip, "Keep in the graph")
    assert "cannot be kept in a graph: what can is pn.zero and pn.scale" in explorer._strip.what_if._said.value


def test_the_given_graph_is_the_one_that_is_changed() -> None:
    graph = pn.from_module(NET, args=(X[:2],))
    explorer = pn.ModuleExplorer(graph, X, Y)
    assert explorer.graph is graph
    explorer.close()


def test_why_shows_each_method_with_its_gap(explorer: ModuleExplorer) -> None:
    explorer._tab.value = "Why"
    found = pn.attribute(NET, X[WRONG : WRONG + 1], int(CHOSEN[WRONG]))
    assert found.gap is not None
    assert "gap" not in panel(explorer)
    method = next(part for part in parts(explorer._panel) if getattr(part, "description", "") == "by")
    assert "captum.DeepLift" in method.options
    method.value = "integrated-gradients"
    assert f"Completeness gap {found.gap:.2g}" in panel(explorer)
    explorer.example = WRONG + 1
    explorer.example = WRONG
    assert f"Completeness gap {found.gap:.2g}" in panel(explorer), "the method stays"
    method = next(part for part in parts(explorer._panel) if getattr(part, "description", "") == "by")
    method.value = "occlusion"
    assert "data:image/png" in panel(explorer)
    assert "gap" not in panel(explorer)


def test_a_method_that_does_not_apply_says_why() -> None:
    net = nn.Sequential(nn.Linear(4, 3))
    explorer = pn.ModuleExplorer(net, torch.randn(5, 4))
    explorer.select("0")
    explorer._tab.value = "Why"
    next(part for part in parts(explorer._panel) if getattr(part, "description", "") == "by").value = "grad-cam"
    assert "InspectionError" in panel(explorer)
    explorer.close()


def test_a_number_is_explained(explorer: ModuleExplorer) -> None:
    explorer.select("0")
    explorer._tab.value = "Number"
    assert 'data-pnne-ask="value:0,0,1,2"' in panel(explorer)
    explorer._page._handle_custom_msg({"kind": "ask", "ask": "value:0,3,1,2"}, [])
    assert "0[0, 3, 1, 2] (Conv2d) = Σ input · weight + bias" in panel(explorer)
    explorer.select("3")
    explorer._page._handle_custom_msg({"kind": "ask", "ask": "value:0,99999"}, [])
    assert "InspectionError" in panel(explorer)


def test_strongest_examples_can_be_opened(explorer: ModuleExplorer) -> None:
    explorer._tab.value = "Units"
    press(explorer._panel, "Strongest")
    output = NET[:2](X[:256]).detach()
    first = next(part.value for part in parts(explorer._panel) if "<strong>Unit " in str(getattr(part, "value", "")))
    unit = int(first.removeprefix("<strong>Unit ").partition("<")[0])
    best = int(output[:, unit].amax((1, 2)).argmax())
    press(explorer._panel, str(best))
    assert explorer.example == best


def test_a_language_model_is_asked_at_its_last_token() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(4, 6), nn.Linear(6, 4)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embed(tokens))  # type: ignore[no-any-return]  # torch types the call of a module as Any

    explorer = pn.ModuleExplorer(Words(), torch.tensor([[0, 1, 3], [2, 2, 1]]), tokenizer="abc<")
    explorer.select("embed")
    explorer._tab.value = "Units"
    assert "Unit" in panel(explorer)
    assert "without it" in panel(explorer)
    explorer._tab.value = "Why"
    assert '">&lt;</span>' in panel(explorer)
    assert "embedding" in panel(explorer)
    explorer.close()


def asked(explorer: ModuleExplorer, page: str) -> None:
    """Press the first button of an output that another cell shows."""
    found = re.search(r'data-pnne-ask="([^"]+)"', page)
    assert found is not None
    explorer._page._handle_custom_msg({"kind": "ask", "ask": found[1]}, [])


def cell(page: str, true: int, predicted: int) -> str:
    return next(part for part in page.split("<td") if f":{true}:{predicted}" in part)


def test_a_cell_of_the_confusion_table_opens_its_examples(explorer: ModuleExplorer) -> None:
    true, predicted = int(Y[WRONG]), int(CHOSEN[WRONG])
    engine = pn.TrainingEngine(NET, (X, Y), epochs=1, device="cpu")
    for table in (pn.confusion(engine), pn.confusion(Y, CHOSEN)):
        explorer.example = 0
        asked(explorer, cell(table._repr_html_(), true, predicted))
        assert explorer.example == int(torch.nonzero((true == Y) & (predicted == CHOSEN))[0])
    worst = pn.worst(engine, 2)
    asked(explorer, worst._repr_html_().partition("<tbody>")[2])
    assert explorer.example == worst.indices[0]
    explorer.example = 5
    asked(explorer, cell(pn.confusion(Y.flip(0), CHOSEN.flip(0))._repr_html_(), true, predicted))
    assert explorer.example == 5, "other data"


def test_a_table_opens_the_examples_of_a_data_set() -> None:
    class Pairs(Dataset[Any]):
        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return X[index], int(Y[index])

    explorer = pn.ModuleExplorer(NET, Pairs())
    asked(explorer, cell(pn.confusion(Y, CHOSEN)._repr_html_(), int(Y[WRONG]), int(CHOSEN[WRONG])))
    assert (int(Y[explorer.example]), int(CHOSEN[explorer.example])) == (int(Y[WRONG]), int(CHOSEN[WRONG]))
    explorer.close()


def test_a_unit_shows_its_histogram_its_weights_and_what_it_reads(explorer: ModuleExplorer) -> None:
    explorer.select("0")
    explorer._tab.value = "Units"
    assert panel(explorer).count('alt="Histogram of unit') == 8
    press(explorer._panel, "Weakest")
    assert "Weights of unit" in panel(explorer)
    first = next(part.value for part in parts(explorer._panel) if "<strong>Unit " in str(getattr(part, "value", "")))
    unit = int(first.removeprefix("<strong>Unit ").partition("<")[0])
    output = NET[0](X[:256]).detach()[:, unit].flatten(1).amax(1)
    weakest = output.topk(9, largest=False).indices.tolist()
    assert [
        int(part.description) for part in parts(explorer._panel) if getattr(part, "description", "").isdigit()
    ] == weakest
    assert panel(explorer).count('alt="In ') == 9
    press(explorer._panel, "Weakest")
    assert "Weights of unit" not in panel(explorer)
    press(explorer._panel, "Why")
    assert "taken at the input" in panel(explorer)


def test_a_number_says_what_it_depends_on(explorer: ModuleExplorer) -> None:
    explorer.select("0")
    explorer._tab.value = "Number"
    explorer._page._handle_custom_msg({"kind": "ask", "ask": "value:0,3,1,2"}, [])
    assert "depends on input: 9 of 64 values, [0, 0, 1–3, 2–4]" in panel(explorer)


def test_functions_are_asked_as_layers_are() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.relu(self.first(x)) + x)  # type: ignore[no-any-return]

    own, x = Residual(), torch.randn(6, 4)
    net = pn.compile(pn.from_module(own, args=(x,)))
    explorer = pn.ModuleExplorer(net, x)
    explorer.select("add")
    assert "<h3>add</h3>" in panel(explorer)
    for tab, said in (("Units", "4 units"), ("Why", "counts for"), ("Number", "value:0,3")):
        explorer._tab.value = tab
        assert said in panel(explorer), tab
    explorer._tab.value = "Number"
    explorer._page._handle_custom_msg({"kind": "ask", "ask": "value:0,3"}, [])
    assert "add[0, 3] (add) = " in panel(explorer)
    explorer._tab.value = "Units"
    press(explorer._panel, "Switch off the layer")
    assert explorer._strip.after is not None
    explorer.close()


def test_what_is_selected_in_the_drawing_is_selected_in_the_tree() -> None:
    graph = pn.from_module(NET, args=(X[:2],))
    explorer = pn.ModuleExplorer(graph, X, Y)
    explorer.select("3")
    editor = explorer.show_in(pn.GraphEditor(graph))
    assert editor.selection == ("3",)
    editor.selection = ("1",)
    assert explorer.selected == "1"
    explorer.select("4")
    assert editor.selection == ("4",)
    assert editor.look
    editor.selection = ("nothing",)
    assert explorer.selected == ""
    assert "nothing is no layer" in explorer._said.value
    explorer.select("4")
    press(explorer, "Show in the drawing")
    below = explorer._drawing._below
    assert below is not None
    assert below.graph is graph
    assert below.selection == ("4",)
    press(explorer, "Show in the drawing")
    assert explorer._drawing._below is None
    with pytest.raises(pn.ArgumentError, match="editor must be a GraphEditor, or None"):
        explorer.show_in(graph)  # type: ignore[arg-type]
    explorer.close()
    editor.selection = ("0",)
    editor.close()


def test_a_point_of_the_projection_opens_its_example(explorer: ModuleExplorer) -> None:
    explorer._tab.value = "Projection"
    dots = next(part for part in parts(explorer._panel) if hasattr(part, "marks")).marks[0]
    found = pn.project(NET, X[:256], "1")
    assert dots.x.tolist() == pytest.approx(found.points[:, 0].tolist())
    dots._handle_custom_msgs(dots, {"event": "element_click", "data": {"index": 7}})
    assert explorer.example == 7
    assert next(part for part in parts(explorer._panel) if hasattr(part, "marks")).marks[0].selected.tolist() == [7]


def test_layers_are_coloured_by_their_difference(explorer: ModuleExplorer) -> None:
    other = pn.ModuleExplorer(NET, X, Y)
    torch.manual_seed(1)
    second = nn.Sequential(*list(NET)[:4], nn.Linear(72, 10))
    found = other.compare(second)
    assert found.first == "4"
    assert "The first layer that differs is 4." in other._said.value
    heats = {box.key: box.heat for box in other._map.picture.boxes if box.heat is not None}
    assert heats["3"] == 0
    assert heats["4"] > 0.5
    assert other.compare(data=X[1:2]).first == "0"
    other.close()


def test_a_language_model_shows_its_heads_its_lens_and_goes_on() -> None:
    from tests.inspector.questions.nets import made  # noqa: PLC0415

    case = made("text transformer")
    explorer = pn.ModuleExplorer(case.net, case.data, tokenizer="abcdefghi")
    explorer.select("1")
    explorer._tab.value = "Sequence"
    assert panel(explorer).count("<figcaption>1.layers") == 2
    assert "scope='col'>" in panel(explorer)
    assert "if it stopped after each block" in panel(explorer)
    press(explorer._panel, "Go on")
    assert "Step by step" in panel(explorer) or "TrainingError" in panel(explorer)
    explorer.close()


MADE = datetime(2024, 1, 1, tzinfo=UTC)


def test_an_example_of_ones_own_is_typed_edited_or_read_from_a_file(explorer: ModuleExplorer) -> None:
    own = X[3:4] * 0.5
    explorer.bring(own)
    assert explorer.example == -1
    assert "Your own example" in explorer.describe()
    with torch.no_grad():
        best = int(NET(own).argmax())
    assert explorer._strip.answer is not None
    assert explorer._strip.answer.likely[0].place == best
    for tab in ("Layer", "Units", "Why", "Number", "Projection"):
        explorer._tab.value = tab
        assert "finding" not in panel(explorer), tab
    explorer.example = 4
    assert explorer.example == 4
    buffer = io.BytesIO()
    np.save(buffer, X[9, 0].numpy()[None])
    explorer._strip.own._file.value = (
        {"name": "nine.npy", "content": buffer.getvalue(), "type": "", "size": 1, "last_modified": MADE},
    )
    assert explorer.example == -1
    explorer._strip.own._file.value = (
        {"name": "bad.npy", "content": b"nothing", "type": "", "size": 1, "last_modified": MADE},
    )
    assert "alert" in explorer._strip.own._said.value
    rows = pn.ModuleExplorer(nn.Linear(3, 2), torch.randn(5, 3))
    rows._strip.own._text.value = "1, 2.5, -1"
    assert rows._alive().asked.examples.own.tolist() == [[1.0, 2.5, -1.0]]
    rows._strip.own._text.value = "1, x"
    assert "An example is numbers such as" in rows._strip.own._said.value
    rows._strip.own._text.value = "1"
    assert "The model failed on this example" in rows._strip._shown.value
    rows.close()


def test_a_text_of_ones_own_is_tokenised() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(4, 6), nn.Linear(6, 4)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embed(tokens))  # type: ignore[no-any-return]

    explorer = pn.ModuleExplorer(Words(), torch.tensor([[0, 1, 3], [2, 2, 1]]), tokenizer="abcd")
    assert explorer._strip.own._text.value == "abd"
    explorer._strip.own._text.value = "ddcba"
    assert explorer._alive().asked.examples.own.tolist() == [[3, 3, 2, 1, 0]]
    explorer._strip.own._text.value = "xyz"
    assert "The tokenizer has no token &#x27;x&#x27;" in explorer._strip.own._said.value
    explorer.close()


def test_what_if_over_the_data_can_be_cancelled(explorer: ModuleExplorer) -> None:
    what_if = explorer._strip.what_if
    what_if.add("1", "0")

    async def pressed() -> None:
        press(explorer._strip, "Over the data")
        await asyncio.sleep(0)
        assert "0 of 2 batches" in what_if._said.value
        press(explorer._strip, "Cancel")
        assert what_if._said.value.count("Cancelled.") == 1
        press(explorer._strip, "Over the data")
        for _ in range(9):
            await asyncio.sleep(0)
        assert "answers change" in what_if._said.value

    asyncio.run(pressed())
    assert what_if._data.description == "Over the data"


CHOICES: dict[str, dict[str, Any]] = {
    "Layer": {}, "Units": {"changes": [("0", "scale", "1, 2", 0.5)]}, "Why": {"method": "occlusion", "answer": 4},
    "Number": {"number": (0, 3, 1, 2)}, "Projection": {}, "Sequence": {},
}  # fmt: skip


@pytest.mark.parametrize("question", TABS)
def test_a_card_keeps_an_answer_with_the_code_that_makes_it_again(explorer: ModuleExplorer, question: str) -> None:
    explorer.ask("1", "Why", example=WRONG)
    place = explorer._strip.answer.likely[1].place if explorer._strip.answer is not None else 0
    chosen = CHOICES[question] | ({"answer": place} if question == "Why" else {})
    card = explorer.ask("1", question, example=WRONG, **chosen)
    page = card._repr_html_()
    assert f"<strong>{question}: 1</strong>" in page
    assert html.escape(card.code) in page
    assert all(word not in page for word in ("<button", "<script", "<svg", "pnne-explorer"))
    assert all(" alt=" in image for image in re.findall("<img[^>]*>", page))
    assert len(re.findall("<img", page)) >= {"Layer": 4, "Units": 9, "Why": 2, "Projection": 2}.get(question, 1)
    explorer.example = 0
    explorer._strip.what_if.clear()
    explorer.select("0")
    again = eval(card.code, {"explorer": explorer})
    assert again == card


def test_a_description_says_what_the_tab_shows(explorer: ModuleExplorer) -> None:
    explorer.ask("0", "Number", example=WRONG, number=(0, 3, 1, 2))
    said = explorer.describe()
    assert "\nNumber:\nClick a number, and its formula is shown.\nChannel: 0\n" in said
    assert "\n0[0, 3, 1, 2] (Conv2d) = Σ input · weight + bias = " in said
    assert "\ndepends on input: 9 of 64 values, [0, 0, 1–3, 2–4]\n" in said
    explorer.ask("1", "Units")
    assert "\nUnits:\n8 units , none dead or saturated\n" in explorer.describe()
    assert explorer.describe().count("without it: ") == 8
    assert "Units:" not in explorer.ask("1").html


def test_the_button_keeps_a_card_under_the_cell(explorer: ModuleExplorer, tmp_path: Path) -> None:
    before = explorer._kept._bundle()["text/html"]
    explorer._tab.value = "Why"
    press(explorer, "Keep")
    kept = explorer._kept._bundle()["text/html"]
    assert 'class="pnne-kept"' in before
    assert 'class="pnne-kept"' not in kept, "the output is not hidden while the widget is live"
    assert kept.count('class="pnne-card"') == 1
    assert kept.endswith(explorer.ask("1", "Why", example=WRONG)._repr_html_())
    torch.save(NET.state_dict(), tmp_path / "net.pt")
    explorer.checkpoint = tmp_path / "net.pt"
    explorer.bring(X[:1])
    code = explorer.ask("", "Layer").code
    assert code.startswith(
        f"explorer.checkpoint = {str(tmp_path / 'net.pt')!r}\nexplorer.bring(x)  # an example of your own\n"
    )


@pytest.mark.parametrize(
    ("question", "chosen", "message"),
    [
        ("Whi", {}, "ask takes one of Layer, Units, Why, Number, Projection, Sequence, with dim= .* not 'Whi'"),
        ("Why", {"number": 3}, "not 'Why' with number="),
    ],
)
def test_a_question_that_does_not_exist(
    explorer: ModuleExplorer, question: str, chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(pn.ArgumentError, match=message):
        explorer.ask("1", question, **chosen)
    with pytest.raises(pn.LayerNotFoundError, match="no layer '12'"):
        explorer.ask("12")
