"""Data frames, files of them, names of classes, and a share for validation: trained end to end, and refused by name."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import pnne_nb as pn
from pnne_nb.runtime.data.tables import TableReader, part_of

COLOURS = ["red", "green", "blue"]


def houses(count: int = 60) -> pd.DataFrame:
    draws = np.random.default_rng(0)
    area, colour = draws.uniform(20, 200, count), draws.integers(0, 3, count)
    return pd.DataFrame(
        {
            "area": area,
            "rooms": draws.integers(1, 6, count),
            "colour": np.array(COLOURS)[colour],
            "garden": draws.integers(0, 2, count).astype(bool),
            "price": area / 100 + colour,
        }
    )


def trained(net: nn.Module, data: Any, **options: Any) -> pn.TrainingEngine:
    engine = pn.TrainingEngine(net, data, epochs=1, batch_size=16, device="cpu", **options)
    engine.start().wait()
    return engine


def test_a_data_frame_is_trained_and_asked() -> None:
    table = houses()
    engine = trained(nn.Linear(6, 1), table, target="price", val_data=0.25)
    assert "price from 6 inputs (3 columns of numbers, colour as 3)" in repr(engine)
    assert engine.loss_choice.name == "MSELoss"
    assert len(engine.history["val_loss"]) == 1
    inputs = np.column_stack(
        [table.area, table.rooms, *(table.colour == each for each in sorted(COLOURS)), table.garden]
    ).astype("float32")
    with torch.no_grad():
        wanted = engine.module(torch.from_numpy(inputs))
    assert torch.allclose(engine.predict(table.drop(columns="price")), wanted)
    assert torch.allclose(engine.predict(table[list(reversed(table.columns))]), wanted), "columns by name, in any order"
    assert engine.evaluate(table)["mae"] == pytest.approx(
        float(np.abs(wanted[:, 0].numpy() - table.price).mean()), rel=1e-4
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_is_its_table(tmp_path: Path, suffix: str) -> None:
    table = houses()
    path = tmp_path / f"houses.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    torch.manual_seed(0)
    from_file = trained(nn.Linear(6, 1), path, target="price")
    torch.manual_seed(0)
    from_frame = trained(nn.Linear(6, 1), table, target="price")
    assert np.array_equal(from_file.history["loss"], from_frame.history["loss"])
    assert trained(nn.Linear(6, 1), str(path), target="price").state == "finished"


@pytest.mark.parametrize("make", [np.array, list, pd.Series, pd.Categorical], ids=lambda make: make.__name__)
def test_names_of_classes_are_numbered_and_kept(make: Any) -> None:
    x = np.random.default_rng(0).normal(size=(30, 4)).astype("float32")
    names = [COLOURS[place % 3] for place in range(30)]
    engine = trained(nn.Linear(4, 3), (x, make(names)), val_data=(x[:6], make(names[:6])))
    assert engine.classes == ("blue", "green", "red")
    assert engine.loss_choice.name == "CrossEntropyLoss"
    assert list(pn.confusion(engine).labels) == ["blue", "green", "red"]
    assert "data=3 classes" in repr(engine)
    with pytest.raises(
        pn.TrainingError, match=r"The target of data has 'pink', which train_data has not. It has 'blue'"
    ):
        engine.evaluate((x[:2], make(["red", "pink"])))


def test_a_target_column_of_texts_gives_classes() -> None:
    engine = trained(nn.Linear(4, 3), houses(), target="colour", val_data=0.3)
    assert engine.classes == ("blue", "green", "red")
    assert {"loss", "accuracy", "guessing_accuracy"} == set(engine.evaluate(houses(20)))


def test_a_resumed_training_reads_its_table_in_the_same_way(tmp_path: Path) -> None:
    table, net = houses(), nn.Linear(6, 1)
    engine = pn.TrainingEngine(
        net, table, target="price", val_data=0.2, epochs=2, device="cpu", checkpoint_dir=tmp_path
    )
    engine.step(1)
    engine.stop()
    again = pn.TrainingEngine.resume_from(tmp_path, nn.Linear(6, 1), train_data=table, val_data=0.2)
    for one in (engine, again):
        one.start().wait()
    assert np.array_equal(engine.history["loss"], again.history["loss"])


@pytest.mark.parametrize(
    ("change", "target", "message"),
    [
        (lambda t: t, None, "train_data is a table: say which column is the target, as in target='price'. Its columns are area"),
        (lambda t: t, "prize", "train_data has no column 'prize'. Did you mean 'price'?"),
        (lambda t: t[["price"]], "price", "no column besides the target"),
        (lambda t: t.assign(area=t.area.where(t.area > 60)), "price", r"area lacks \d+ of 60 values.*df\['area'\].median()"),
        (lambda t: t.assign(colour=t.colour.where(t.colour != "red")), "price", r"colour lacks .*mode\(\)\[0\]"),
        (lambda t: t.assign(day=pd.Timestamp("2026-01-01")), "price", "day of train_data holds times.*dayofyear"),
        (
            lambda t: pd.concat([t] * 3, ignore_index=True).assign(name=[f"house {n}" for n in range(180)]),
            "price",
            "name of train_data holds 180 different texts in 180 rows",
        ),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_refused_with_the_line_to_write(change: Any, target: Any, message: str) -> None:
    with pytest.raises(pn.TrainingError, match=message):
        pn.TrainingEngine(nn.Linear(6, 1), change(houses()), target=target)


def test_other_data_that_does_not_fit_the_table_is_refused() -> None:
    engine = pn.TrainingEngine(nn.Linear(6, 1), houses(), target="price", device="cpu")
    with pytest.raises(pn.TrainingError, match="data has no column rooms, which train_data has"):
        engine.predict(houses().drop(columns="rooms"))
    with pytest.raises(pn.TrainingError, match=r"colour of data has 'pink', which train_data has not. It has 'blue'"):
        engine.predict(houses().assign(colour="pink"))
    plain = pn.TrainingEngine(nn.Linear(4, 1), (torch.randn(8, 4), torch.randn(8, 1)), device="cpu")
    with pytest.raises(pn.TrainingError, match="data is a table, and train_data is none"):
        plain.evaluate(houses())


def test_files_and_generators_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(pn.TrainingError, match=re.escape("a file of data ends in .csv or .parquet")):
        pn.TrainingEngine(nn.Linear(4, 1), "houses.xlsx", target="price")
    with pytest.raises(pn.TrainingError, match=r"houses\.csv cannot be read: .*No such file"):
        pn.TrainingEngine(nn.Linear(4, 1), tmp_path / "houses.csv", target="price")
    with pytest.raises(pn.TrainingError, match=re.escape("train_data=list(batches), or an IterableDataset")):
        pn.TrainingEngine(nn.Linear(4, 1), (each for each in [(torch.zeros(2, 4), torch.zeros(2, 1))]))  # type: ignore[arg-type]  # that is what is refused


def test_a_share_is_stratified_and_repeats() -> None:
    y = np.repeat([0, 1, 2], [40, 8, 2])
    x = np.arange(50.0)
    (kept, _), (held, held_y) = part_of((x, y), 0.25, seed=3)
    assert np.bincount(held_y).tolist() == [10, 2, 1]
    assert sorted([*kept, *held]) == x.tolist()
    assert np.array_equal(part_of((x, y), 0.25, seed=3)[1][0], held)
    assert not np.array_equal(part_of((x, y), 0.25, seed=4)[1][0], held)
    train, val = part_of(TensorDataset(torch.arange(10.0)), 0.2, seed=0)
    assert (len(train), len(val)) == (8, 2)
    by_name, _ = part_of({"x": x, "y": y}, 0.2, seed=0)
    assert set(by_name) == {"x", "y"}


@pytest.mark.parametrize(
    ("data", "share", "message"),
    [
        ((torch.zeros(4, 2), torch.zeros(4, 1)), 1.5, "must be a share between 0 and 1"),
        ((torch.zeros(4, 2), torch.zeros(4, 1)), 0.01, "leaves one part empty"),
        ([(torch.zeros(2), 0.0)] * 4, 0.5, "cannot split a list"),
    ],
)
def test_a_share_that_cannot_be_is_refused(data: Any, share: float, message: str) -> None:
    with pytest.raises(pn.TrainingError, match=message):
        pn.TrainingEngine(nn.Linear(2, 1), data, val_data=share)


def test_arrays_go_through_unchanged() -> None:
    data = torch.zeros(4, 2), torch.zeros(4, 1)
    assert TableReader(None).learn(data) is data


def test_data_is_no_table_where_another_thread_has_only_begun_to_import_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))
    given = torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)
    assert TableReader(None).parts(given, None, 0) == (given, None)


def test_records_are_a_table_once_a_target_is_named() -> None:
    records = houses().to_dict("records")
    engine = trained(nn.Linear(6, 1), records, target="price", val_data=0.25)
    assert "price from 6 inputs" in repr(engine)
    assert torch.equal(engine.predict(records[:3]), engine.predict(houses().head(3)))


def test_two_columns_of_one_name_are_refused() -> None:
    table = houses()
    twice = pd.concat([table, table[["area"]]], axis=1)
    with pytest.raises(pn.TrainingError, match=r"train_data has several columns of one name.*Write df.columns ="):
        pn.TrainingEngine(nn.Linear(7, 1), twice, target="price")


def test_a_sparse_matrix_and_numbers_as_objects_are_told() -> None:
    inputs, classes = torch.randn(8, 4), torch.arange(8) % 3

    class Matrix:
        def toarray(self) -> np.ndarray[Any, Any]:
            return inputs.numpy()

    for given, told in (
        (inputs.to_sparse(), r"train_data\[0\] is a sparse tensor.*give X.to_dense\(\)"),
        (Matrix(), r"train_data\[0\] is a Matrix. Of a sparse matrix, give X.toarray\(\)"),
        (inputs.numpy().astype(object), r"numbers as Python objects: give np.asarray\(values, dtype=float\)"),
    ):
        with pytest.raises(pn.TrainingError, match=told):
            pn.TrainingEngine(nn.Linear(4, 3), (given, classes), device="cpu").step()
