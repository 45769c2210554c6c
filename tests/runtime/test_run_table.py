"""Kept trainings are a table, and two of them are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import pnne_nb as pn
from tests.runtime.test_runs import _ended, data, graph, trained  # noqa: F401  # the fixture ends what each test begins


@pytest.fixture
def table(tmp_path: Path) -> pn.RunTable:
    pn.runs.keep(tmp_path)
    trained(seed=0)
    trained(graph(16), seed=1)
    trained(nn.Linear(4, 3), epochs=1)
    return pn.RunTable()


def test_a_table_has_a_row_for_each_run_and_a_column_for_what_differs(table: pn.RunTable, tmp_path: Path) -> None:
    frame = table.to_frame()
    assert len(table) == len(frame) == len(list(table)) == 3
    assert frame["seed"].tolist() == [0, 1, 0]
    assert frame["epochs"].tolist() == [2, 2, 1]
    assert "batch_size" not in frame
    assert frame["val_loss"].notna().all()
    assert frame["model"].tolist() == ["tiny", "tiny", "Linear"]
    assert table[0].name == frame.index[0]
    assert table[frame.index[1]] is table.runs[1]
    html = table._repr_html_()
    assert all(name in html for name in frame.index)
    assert repr(pn.RunTable(tmp_path)) == "RunTable(3 runs)"


def test_a_table_is_sorted_by_a_column(table: pn.RunTable) -> None:
    ordered = table.sort("parameters")
    assert [run.parameters for run in ordered] == sorted(run.parameters for run in table)
    assert table.sort("parameters", descending=True)[0].parameters == max(run.parameters for run in table)
    assert table.sort("model")[0].model == "Linear"
    with pytest.raises(pn.ArgumentError, match=r"There is no column 'val_los'.*Did you mean 'val_loss'"):
        table.sort("val_los")
    with pytest.raises(pn.ArgumentError, match="There is no run 9 among 3"):
        table[9]


def test_damaged_records_are_shown(table: pn.RunTable, tmp_path: Path) -> None:
    (tmp_path / "half.run.json").write_text("{")
    again = pn.RunTable(tmp_path)
    assert len(again) == 3
    assert "half.run.json cannot be read" in again._repr_html_()
    assert len(again.sort("seed").damaged) == 1


def test_without_a_folder_the_line_to_write_is_told(tmp_path: Path) -> None:
    with pytest.raises(pn.ArgumentError, match=r'Write pn.runs.keep\("runs"\) before the trainings'):
        pn.RunTable()
    with pytest.raises(pn.ArgumentError, match="There is no folder"):
        pn.RunTable(tmp_path / "none")
    assert "RunTable(0 runs)" in pn.RunTable(tmp_path)._repr_html_()


def test_two_runs_are_compared_in_settings_graph_and_result(table: pn.RunTable) -> None:
    first, second = table[0], table[1]
    found = pn.compare(first, second.name)
    assert found.settings == {"seed": (0, 1)}
    assert found.graph is not None
    assert not found.same_architecture
    assert found.result["val_loss"] == (first.result["val_loss"], second.result["val_loss"])
    text = repr(found)
    assert "seed: 0 → 1" in text
    assert "out_features 8 → 16" in text
    html = found._repr_html_()
    assert first.name in html
    assert "<svg" in html or "data:image/svg" in html
    assert "16" in html
    same = pn.compare(Path(first.folder, f"{first.name}.run.json"), first)
    assert same.same_architecture
    assert same.settings == {}
    assert same.names == (f"{first.name} (first)", f"{first.name} (second)")
    assert "The architecture is the same." in repr(same)


def test_engines_are_compared_also_without_graphs() -> None:
    a = trained(epochs=1)
    b = pn.TrainingEngine(nn.Linear(4, 3), data(), optimizer=torch.optim.SGD)
    found = pn.compare(a, b)
    assert found.graph is None
    assert "The architecture differs." in repr(found)
    assert found.settings["optimizer"] == (["AdamW", {"lr": 1e-3}], "SGD")
    assert "<table>" in found._repr_html_()
    with pytest.raises(pn.ArgumentError, match="run_b must be a run of a RunTable, its name, or an engine, not 3"):
        pn.compare(a, 3)  # type: ignore[arg-type]  # what is tested
