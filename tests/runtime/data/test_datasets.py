"""What Dataset nodes read: arrays, files, packaged data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, Subset

from pnne_nb.catalog.training_nodes import SOURCES
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.datasets import DatasetNode, Rows, register_dataset
from pnne_nb.runtime.data.image_folder import ImageFolder

ROWS = "a,b,kind\n1,2,cat\n3,4,dog\n5,6,cat\n7,8,ant\n"


def node(source: str, data: str = "", **settings: Any) -> DatasetNode:
    return DatasetNode("data", source, data, **settings)


def table(tmp_path: Path, text: str) -> str:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def parts(dataset: Dataset[Any]) -> tuple[torch.Tensor, ...]:
    assert isinstance(dataset, Rows)
    return dataset.parts


def test_arrays_become_tensors_of_the_types_that_layers_take() -> None:
    inputs, target = parts(node("variable", "x", target="y").open({"x": np.ones((3, 2)), "y": np.arange(3)}))
    assert (inputs.dtype, target.dtype) == (torch.float32, torch.int64)
    assert parts(node("variable", "both").open({"both": (inputs, target)}))[0].equal(inputs)


def test_splits_are_disjoint_and_repeatable() -> None:
    given = {"x": (torch.arange(10.0).unsqueeze(1), torch.arange(10))}
    train, val = (
        parts(node("variable", "x", split=split, fraction=0.7).open(given))[1].tolist()
        for split in ("train", "validation")
    )
    again = parts(node("variable", "x", split="train", fraction=0.7).open(given))[1].tolist()
    assert sorted(train + val) == list(range(10))
    assert (len(train), len(val)) == (7, 3)
    assert again == train
    other = parts(node("variable", "x", split="train", fraction=0.7, seed=1).open(given))[1].tolist()
    assert other != train


def test_standardizing_uses_the_train_part_only() -> None:
    generator = torch.Generator().manual_seed(0)
    given = {"x": (torch.randn(50, 3, generator=generator) * 5 + 2, torch.arange(50))}
    train = parts(node("variable", "x", split="train", standardize=True).open(given))[0]
    val = parts(node("variable", "x", split="validation", standardize=True).open(given))[0]
    assert train.mean(0).abs().max() < 1e-5
    assert (train.std(0, correction=0) - 1).abs().max() < 1e-5
    assert val.mean(0).abs().max() > 1e-3


def test_a_constant_column_stays_finite() -> None:
    given = {"x": (torch.ones(4, 1), torch.arange(4))}
    assert parts(node("variable", "x", standardize=True).open(given))[0].tolist() == [[0.0]] * 4


@pytest.mark.parametrize(
    ("sample", "shape"),
    [(None, (1, 8, 8)), (("N", 64), (64,)), (("N", 8, 8), (8, 8)), (("N", 1, 8, 8), (1, 8, 8)), (("N", 5), (1, 8, 8))],
)
def test_digits_are_laid_out_as_the_input_says(sample: Any, shape: tuple[int, ...]) -> None:
    inputs, target = parts(node("digits").open({}, sample))
    assert inputs.shape == (1797, *shape)
    assert (inputs.min().item(), inputs.max().item()) == (0, 1)
    assert set(target.tolist()) == set(range(10))


def test_tables_have_numbers_and_a_target(tmp_path: Path) -> None:
    inputs, target = parts(node("csv", table(tmp_path, ROWS)).open({}))
    assert inputs.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert target.tolist() == [1, 2, 1, 0], "classes in the order of their names"


def test_the_target_column_is_chosen_by_name(tmp_path: Path) -> None:
    path = table(tmp_path, "y,a\n1.5,2\n2.5,3\n")
    inputs, target = parts(node("csv", path, target="y").open({}))
    assert inputs.tolist() == [[2.0], [3.0]]
    assert target.tolist() == [[1.5], [2.5]], "one column, as a layer with one output gives"
    assert parts(node("csv", path).open({}))[1].dtype == torch.int64


def test_parquet_gives_what_the_same_table_as_text_gives(tmp_path: Path) -> None:
    import pandas as pd  # noqa: PLC0415  # late, as in the code under test

    text, binary = table(tmp_path, ROWS), str(tmp_path / "rows.parquet")
    pd.read_csv(text).to_parquet(binary)
    read, expected = parts(node("parquet", binary).open({})), parts(node("csv", text).open({}))
    assert all(torch.equal(a, b) for a, b in zip(read, expected, strict=True))


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (ROWS, "knd", r"data: The file '.*' has no column 'knd'\. Did you mean 'kind'\?"),
        ("a\n1\n", None, r"The file '.*' has no column besides the target 'a'"),
        ("a,b\n1,2\n,3\n", None, r"The file '.*' lacks values: a lacks 1 of 2 values"),
        ("a,b\n", None, r"is empty: there is no example in it"),
        ("", None, r"cannot be read: No columns to parse"),
    ],
)
def test_tables_that_cannot_be_trained_on(tmp_path: Path, text: str, target: str | None, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        node("csv", table(tmp_path, text), target=target).open({})


def pictures(folder: Path, size: tuple[int, int] = (4, 3)) -> str:
    for name, value in (("dog", 0), ("cat", 255)):
        (folder / name).mkdir(parents=True)
        Image.new("L", size, value).save(folder / name / "1.png")
    (folder / "cat" / "notes.txt").write_text("no picture", encoding="utf-8")
    return str(folder)


def test_pictures_lie_in_folders_by_class(tmp_path: Path) -> None:
    dataset = node("images", pictures(tmp_path / "pets")).open({})
    assert isinstance(dataset, ImageFolder)
    assert dataset.classes == ("cat", "dog")
    picture, number = dataset[0]
    assert (len(dataset), picture.shape, number) == (2, (3, 3, 4), 0)
    assert picture.eq(1).all()
    assert isinstance(node("images", pictures(tmp_path / "more"), split="train").open({}), Subset)


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"data: The folder '.*' has no pictures in folders by class"):
        node("images", str(tmp_path)).open({})


def test_what_was_registered_is_found_by_name() -> None:
    register_dataset("seven")(lambda: (torch.ones(7, 2), torch.ones(7)))
    assert len(parts(node("registered", "seven").open({}))[0]) == 7
    with pytest.raises(TrainingError, match=r"No dataset is registered as 'sevn'\. Did you mean 'seven'\?"):
        node("registered", "sevn").open({})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, r"'x' is a int: it must be a pair of arrays such as \(X, y\), or a Dataset"),
        ((torch.ones(3), torch.ones(4)), r"The parts of x have different numbers of examples: 3 and 4"),
        ((), r"x is empty"),
    ],
)
def test_variables_that_hold_no_examples(value: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        node("variable", "x").open({"x": value})


def test_a_dataset_without_length_is_not_split() -> None:
    class Endless(Dataset[int]):
        def __getitem__(self, index: int) -> int:
            return index

    with pytest.raises(TrainingError, match=r"define __len__ on Endless"):
        node("variable", "x", split="train").open({"x": Endless()})


def test_every_source_is_known() -> None:
    assert set(SOURCES) == {
        "digits", "iris", "wine", "breast_cancer", "diabetes", "variable", "images", "csv", "parquet", "registered",
    }  # fmt: skip
