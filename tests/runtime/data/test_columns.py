"""Texts, sequences, pictures and numbers in columns: trained end to end, in words and drawn, and refused by name."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor, nn

import pnne_nb as pn

WORDS = "good nice fine great bad ugly poor awful".split()
VOCABULARY = {word: number for number, word in enumerate(["[PAD]", *WORDS])}
COUNT = 48


class Feature:
    """The classes of a column."""

    names = ("bad", "good")


class HubDataset:
    """A data set as Hugging Face makes it, where that is not installed: columns by name, rows by number."""

    def __init__(self, columns: Mapping[str, list[Any]], features: Mapping[str, Any]) -> None:
        self._columns, self.features = columns, features

    @property
    def column_names(self) -> list[str]:
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, column: str) -> list[Any]:
        return self._columns[column]

    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(dict(self._columns))


def hub(columns: Mapping[str, list[Any]], *, labels: bool = False) -> Any:
    """Return a data set of Hugging Face."""
    if importlib.util.find_spec("datasets") is None:
        return HubDataset(columns, {"label": Feature} if labels else {})
    import datasets  # type: ignore[import-not-found]  # noqa: PLC0415  # not installed everywhere

    made = datasets.Dataset.from_dict(dict(columns))
    return made.cast_column("label", datasets.ClassLabel(names=list(Feature.names))) if labels else made


def reviews(*, names: bool = False) -> dict[str, list[Any]]:
    """Texts of one to six good or bad words."""
    draws = np.random.default_rng(0)
    texts = [" ".join(draws.choice(WORDS[4 * (row % 2) :][:4], draws.integers(1, 7))) for row in range(COUNT)]
    return {"text": texts, "label": [Feature.names[1 - row % 2] if names else 1 - row % 2 for row in range(COUNT)]}


def split(text: str) -> list[int]:
    return [VOCABULARY[word] for word in text.split()]


class Coded:
    """A tokenizer with `encode`."""

    encode = staticmethod(split)


class Transformer:
    """A tokenizer as transformers has them."""

    pad_token_id = 0

    def __call__(self, texts: list[str], *, truncation: bool, max_length: int | None) -> dict[str, list[list[int]]]:
        return {"input_ids": [split(text)[: max_length if truncation else None] for text in texts]}


def fast() -> Tokenizer:
    made = Tokenizer(WordLevel(VOCABULARY, unk_token="[PAD]"))
    made.pre_tokenizer = Whitespace()
    made.enable_padding()
    return made


class Bag(nn.Module):
    """Scores the mean of the embeddings of tokens, or of vectors."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 8) if width is None else nn.Linear(width, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return scores `[n, 2]` of tokens `[n, t]` or vectors `[n, t, width]`."""
        kept = self.embed(x) * mask[..., None]
        scores: Tensor = self.head(kept.sum(1) / mask.sum(1, keepdim=True))
        return scores


def trained(net: nn.Module, data: Any, **options: Any) -> pn.TrainingEngine:
    adam = ("Adam", {"lr": 0.03})
    engine = pn.TrainingEngine(net, data, epochs=8, batch_size=8, device="cpu", optimizer=adam, **options)
    engine.start().wait()
    assert engine.history["loss"][-1] < engine.history["loss"][0] / 2
    return engine


@pytest.mark.parametrize(
    "tokenizer", [split, Coded(), Transformer(), fast()], ids=["function", "encode", "call", "fast"]
)
def test_texts_of_the_hub_are_trained_and_asked(tokenizer: Any) -> None:
    table = hub(reviews(), labels=True)
    data = pn.columns(table, {"text": ("x", "mask")}, "label", tokenizer=tokenizer)
    engine = trained(Bag(), data, val_data=0.25)
    said = "48 examples: text as x (1 to 6 long, filled up with 0 in a batch, where mask is 0), label as target (2 classes)"
    assert repr(data) == said
    assert said in repr(engine)
    assert engine.classes == Feature.names
    assert engine.evaluate(table)["accuracy"] == 1
    asked = engine.predict({"text": ["good fine", "ugly"]})
    assert asked.argmax(1).tolist() == [1, 0]
    assert torch.equal(engine.predict(["good fine", "ugly"]), asked)
    alone = engine.predict(["ugly"])
    assert torch.allclose(alone[0], asked[1], atol=1e-6), "what fills up a text counts for nothing"


def test_names_of_classes_in_a_mapping_and_in_a_list_of_examples() -> None:
    table = reviews(names=True)
    engine = trained(Bag(), pn.columns(table, {"text": ("x", "mask")}, "label", tokenizer=split), val_data=table)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    assert engine.evaluate(rows) == engine.evaluate(table)
    with pytest.raises(
        pn.TrainingError, match=r"target of the data has 'meh', which train_data has not. It has 'bad', 'good'"
    ):
        engine.evaluate({"text": ["good"], "label": ["meh"]})


def test_a_text_is_cut_and_a_model_without_a_mask_is_said_to_be_told_nothing() -> None:
    data = pn.columns(reviews(), {"text": "x"}, "label", tokenizer=split, length=3)
    assert "text as x (1 to 3 long, filled up with 0 in a batch, which no mask tells the model)" in repr(data)
    assert data[0]["x"].tolist() == split(reviews()["text"][0])[:3]


def test_sequences_of_several_lengths_are_filled_up() -> None:
    draws = np.random.default_rng(0)
    rows = [draws.normal(row % 2, 0.3, (2 + row % 5, 3)).tolist() for row in range(COUNT)]
    data = pn.columns({"X": rows, "y": [row % 2 for row in range(COUNT)]}, {"X": ("x", "mask")}, "y")
    trained(Bag(3), data, val_data=0.25)
    alike = pn.columns({"X": [[1, 2], [3, 4]]}, {"X": "x"})
    assert repr(alike) == "2 examples: X as x"
    assert alike[1]["x"].tolist() == [3, 4]


def test_sequences_of_targets_are_filled_up_with_what_the_loss_leaves_out() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 2))

        def forward(self, x: Tensor) -> Tensor:
            scores: Tensor = self.net(x)
            return scores.movedim(2, 1)

    tokens = [split(text) for text in reviews()["text"]]
    tags = [[int(one > 4) for one in row] for row in tokens]
    data = pn.columns({"tokens": tokens, "tags": tags}, {"tokens": "x"}, "tags")
    assert "tags as target (1 to 6 long, filled up with -100 in a batch, which the loss ignores)" in repr(data)
    trained(Tagger(), data, loss="CrossEntropyLoss", metrics=())


def test_pictures_numbers_and_quantities() -> None:
    shades = [row % 4 * 60 for row in range(COUNT)]
    table: dict[str, list[Any]] = {
        "image": [Image.new("RGB", (4, 4), (shade, 0, 0)) for shade in shades],
        "weight": [shade / 200 for shade in shades],
        "kind": list(range(COUNT)),
        "price": [shade / 100 for shade in shades],
    }

    class Priced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 1)

        def forward(self, image: Tensor, weight: Tensor) -> Tensor:
            price: Tensor = self.head(torch.cat([image.mean((2, 3)), weight], 1))
            return price

    data = pn.columns(hub(table), {"image": "image", "weight": "weight"}, "price")
    assert data[1]["image"].shape == (3, 4, 4)
    assert float(data[1]["image"][0, 0, 0]) == pytest.approx(60 / 255)
    assert trained(Priced(), data, val_data=0.25).loss_choice.name == "MSELoss"
    assert pn.columns(table, {"kind": "x"})[5]["x"] == 5


def test_a_table_of_the_hub_and_a_mapping_of_lists_are_read_as_data_frames() -> None:
    columns: Any = {
        "area": [float(row) for row in range(8)],
        "town": ["Ulm", "Bonn"] * 4,
        "price": [row / 8 for row in range(8)],
    }
    for table in (hub(columns), columns):
        engine = pn.TrainingEngine(nn.Linear(3, 1), table, target="price", epochs=1, device="cpu")
        assert "price from 3 inputs (1 columns of numbers, town as 2)" in repr(engine)
        engine.step()
        assert engine.predict(table).shape == (8, 1)
        engine.stop()


def drawing(
    data: str, target: str | None, first: tuple[str, dict[str, Any]], *rest: tuple[str, dict[str, Any]]
) -> pn.NodeGraph:
    """Draw a training on a variable of the notebook."""
    graph = pn.NodeGraph("training")
    graph.add("Dataset", "data", source="variable", data=data, target=target)
    graph.add("DataLoader", "loader", batch_size=8, shuffle=True)
    nodes = [graph.add(type, f"layer{place}", **given) for place, (type, given) in enumerate((first, *rest))]
    graph.add("CrossEntropyLoss", "loss")
    graph.add("Adam", "optimizer", lr=0.03)
    graph.connect("data", "loader")
    graph.connect("loader.input", nodes[0])
    for source, end in itertools.pairwise(nodes):
        graph.connect(source, end)
    graph.connect(nodes[-1], "loss.input")
    graph.connect("loader.target", "loss.target")
    graph.connect("loss", "optimizer")
    return graph


def test_texts_and_tables_are_trained_as_drawn() -> None:
    embedded = ("Embedding", {"num_embeddings": 9, "embedding_dim": 8, "padding_idx": 0})
    texts = drawing("reviews", None, embedded, ("mean", {"dim": 1}), ("Linear", {"out_features": 2}))
    data = pn.columns(hub(reviews(), labels=True), {"text": "x"}, "label", tokenizer=split)
    frame = pd.DataFrame({"a": np.arange(COUNT) / COUNT, "town": ["Ulm", "Bonn"] * (COUNT // 2)}).assign(
        kind=[0, 1] * (COUNT // 2)
    )
    table = drawing("frame", "kind", ("Linear", {"out_features": 2}))
    for graph, given in ((texts, {"reviews": data}), (table, {"frame": frame})):
        engine = pn.TrainingEngine.from_graph(graph, given, epochs=12, device="cpu")
        assert engine.start().wait(60)
        assert engine.history["loss"][-1] < engine.history["loss"][0] / 2
    with pytest.raises(pn.TrainingError, match=r"data: The table 'frame' has no column 'kid'\. Did you mean 'kind'\?"):
        pn.TrainingEngine.from_graph(drawing("frame", "kid", ("Linear", {"out_features": 2})), {"frame": frame})


GIVEN = reviews()


@pytest.mark.parametrize(
    ("data", "arguments", "options", "message"),
    [
        (GIVEN, ({"txt": "x"}, "label"), {}, r"no column 'txt'. Did you mean 'text'\? Its columns are text, label"),
        (GIVEN, ({"text": "x"}, "lable"), {"tokenizer": split}, r"no column 'lable'. Did you mean 'label'\?"),
        (GIVEN, ({"text": "x"},), {}, r"The column text of the data holds texts: give tokenizer="),
        ({"text": []}, ({"text": "x"},), {}, "The column text of the data is empty"),
        ({"text": ["a", None, ""]}, ({"text": "x"},), {}, "lacks 2 of 3 values, the first in row 1. Leave such rows out"),
        ({"a": [1, 2], "b": [1]}, ({"a": "x"}, "b"), {}, "columns of the data have different lengths: 2, 1"),
        ({"a": [[[1], [2, 3]]]}, ({"a": "x"},), {}, "holds lists of lists of several lengths, first in row 0"),
        ({"a": [[[1, 2]], [[1]]]}, ({"a": "x"},), {}, r"entries have several shapes: \(2,\) in row 0, \(1,\) in row 1"),
        ({"a": [Image.new("L", (2, 2)), Image.new("RGB", (3, 2))]}, ({"a": "x"},), {}, "forms L 2×2, RGB 3×2: make them alike"),
        ({"train": hub(GIVEN)}, ({"text": "x"},), {}, r"has the parts train: give one of them, data\['train'\]"),
        (5, ({"text": "x"},), {}, "The data is a int, which has no columns"),
        (GIVEN, ({"label": ("x", "mask")},), {}, "has no sequences, and so no mask: write {'label': 'x'}"),
        (GIVEN, ("text",), {}, "inputs must be the names of the model's inputs by column"),
        (GIVEN, ({},), {}, "inputs names no column. Write pn.columns"),
        (GIVEN, ({"text": 3},), {}, r"inputs\['text'\] must be a name, or the names of sequence and mask, not 3"),
        (GIVEN, ({"text": "x"},), {"length": 0}, "length must be the most tokens of a text, at least 1, not 0"),
        (GIVEN, ({"text": "x"},), {"tokenizer": 3}, "tokenizer must have encode, or be a function of a text, not 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(data: Any, arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(pn.PnneError, match=message):
        pn.columns(data, *arguments, **options)


class Stream:
    """A data set of the hub that is read as it comes."""

    column_names = ("text",)


def test_streams_texts_without_columns_and_tables_without_a_target_name_the_line() -> None:
    with pytest.raises(pn.TrainingError, match=r"a stream without a length. .*pn\.columns\(list\(stream\.take"):
        pn.columns(Stream(), {"text": "x"})
    with pytest.raises(pn.TrainingError, match=r"which is no number.*of texts, pn\.columns\("):
        pn.TrainingEngine(Bag(), (GIVEN["text"], GIVEN["label"]))
    with pytest.raises(pn.TrainingError, match=r"say which column is the target, as in target='label'.*pn\.columns\("):
        pn.TrainingEngine(Bag(), hub(GIVEN))
    other = pn.columns({"text": ["good"] * 2, "label": ["a", "b"]}, {"text": ("x", "mask")}, "label", tokenizer=split)
    named = pn.columns(reviews(names=True), {"text": ("x", "mask")}, "label", tokenizer=split)
    turned = hub({"text": ["good", "bad"], "label": [0, 1]}, labels=True)
    known = pn.columns(reviews(names=True), {"text": "x"}, "label", tokenizer=split).read(turned)
    assert [int(known[row]["target"]) for row in range(2)] == [0, 1], "by name, not by number"
    assert "target" not in known.read(hub({"text": ["good"], "label": [-1]}, labels=True))[0]
    with pytest.raises(pn.TrainingError, match=r"val_data has the classes 'a', 'b', and train_data has 'bad', 'good'"):
        pn.TrainingEngine(Bag(), named, val_data=other)
