from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.errors import ExportError
from pnne_nb.inference.targets import compare, target_table
from pnne_nb.inference.targets.forms import Built, Form, NodeDistance, Workshop
from tests.compiler.graphs import wire

QUICK = ("eager", "inference_mode, channels_last", "int8 in eager PyTorch")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "TIMING_SECONDS", 0.05)


def drawn() -> pn.NodeGraph:
    return pn.sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3), input=("N", 1, 8, 8))


def data(count: int = 130) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 1, 8, 8, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def test_each_form_is_a_row_with_figures() -> None:
    table = pn.compare_targets(drawn(), data(), targets=QUICK, batch_size=16, budget=("val_accuracy", 50))
    assert list(table.rows) == list(QUICK)
    assert table.best in QUICK
    assert table.batch_size == 16
    eager, last, low = table.rows.values()
    assert not any(row.missing for row in table.rows.values()), table.rows
    assert eager.bytes == 4 * (4 * 9 + 4 + 144 * 3 + 3)
    assert low.bytes is not None
    assert low.bytes < 0.5 * eager.bytes
    assert eager.error is None
    assert last.error is not None
    assert last.error < 1e-5
    assert low.error is not None
    assert 0 < low.error < 0.5
    assert eager.memory is not None
    assert eager.memory > eager.bytes
    for row in table.rows.values():
        assert row.latency is not None
        assert row.throughput == pytest.approx(16 / row.latency.p50.value)
        assert row.metric is not None
        assert row.rank is not None
    assert last.metric == eager.metric
    assert set(table.ranking) == set(QUICK)


def test_an_onnx_file_is_compared_at_its_nodes() -> None:
    graph = drawn()
    quantized = pn.quantize(graph, data(), ("val_accuracy", 100))
    names = ("ONNX Runtime", "ONNX Runtime, int8")
    table = pn.compare_targets(
        graph, data(), targets=names, batch_size=16, budget=("val_accuracy", 100), quantized=quantized
    )
    plain, low = (table.rows[name] for name in names)
    assert not plain.missing
    assert not low.missing
    assert plain.error is not None
    assert plain.error < 1e-5
    assert plain.error_at in graph
    assert plain.metric == table.rows["eager"].metric
    assert low.bytes is not None
    worst = max((node.worst or 0.0, path) for path, node in quantized.nodes.items())
    assert (low.error, low.error_at) >= worst
    assert low.error_at in {*quantized.nodes, "output"}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that forms are timed with: it stands still but for what `faked` forms take."""
    seconds = [0.0]
    monkeypatch.setattr(target_table, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    return seconds


def faked(now: list[float], *rows: tuple[str, float, float]) -> tuple[Form, ...]:
    """Forms that take some seconds, and add something to the outputs."""

    def building(seconds: float, shift: float) -> Callable[[Workshop], Built]:
        def build(shop: Workshop) -> Built:
            def run(*inputs: torch.Tensor) -> Any:
                now[0] += seconds
                with torch.no_grad():
                    return shop.model(*inputs).roll(1, -1) if shift else shop.model(*inputs)

            return Built(run, 1, None, NodeDistance(shift, "output"))

        return build

    return tuple(
        Form(name, "nothing", building(seconds, shift), precision="int8" if "int8" in name else "float32")
        for name, seconds, shift in rows
    )


def test_the_fastest_is_recommended_that_is_as_good(monkeypatch: pytest.MonkeyPatch, now: list[float]) -> None:
    rows = faked(now, ("eager", 0.006, 0), ("slow", 0.02, 0), ("fast", 0.0005, 0), ("wrong", 0.0001, 1))
    monkeypatch.setattr(compare, "FORMS", rows)
    graph, (x, _) = drawn(), data()
    model = pn.compile(graph).eval()
    with torch.no_grad():
        y = model(x).argmax(1)
    table = pn.compare_targets(model, (x, y), batch_size=16)
    assert table.best == "fast"
    assert re.search(
        r"Ship fast: \d\S* times as fast as eager .*val_accuracy 1 against 1; it needs nothing", table.recommendation
    )
    wrong = table.rows["wrong"].loss
    assert wrong is not None
    assert wrong > 0.5
    assert table.rows["slow"].rank == 4


def test_what_a_busy_machine_measured_promises_no_more_than_is_sure(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    one, shaky = target_table.Measured(1.0, 1.0, 1.0), target_table.Measured(0.01, 0.001, 0.4)
    times = {"eager": target_table.Latency(one, one, one, 1), "fast": target_table.Latency(shaky, shaky, shaky, 1)}
    monkeypatch.setattr(compare, "time_in_turns", lambda *_, **__: times)
    monkeypatch.setattr(compare, "FORMS", faked(now, ("eager", 0.006, 0), ("fast", 0.0005, 0)))
    said = pn.compare_targets(drawn(), data()).recommendation
    assert said.startswith(
        "Ship fast: faster than eager, and how much is unknown, because other programs kept the machine busy"
    )


def test_without_a_metric_only_the_same_outputs_are_good_enough(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    monkeypatch.setattr(compare, "FORMS", faked(now, ("eager", 0.006, 0), ("fast", 0.002, 0), ("wrong", 0.0001, 1)))
    table = pn.compare_targets(drawn(), data()[0], batch_size=16)
    assert table.best == "fast"
    assert table.rows["wrong"].loss == float("inf")
    assert table.metric == ""
    monkeypatch.setattr(compare, "FORMS", faked(now, ("eager", 0.006, 0), ("int8", 0.001, 1)))
    table = pn.compare_targets(drawn(), data()[0], batch_size=16)
    assert table.best == "eager"
    assert table.notes[-1].startswith("Without targets, nothing tells whether int8 is good enough")


def test_no_form_that_is_slower_is_recommended(monkeypatch: pytest.MonkeyPatch, now: list[float]) -> None:
    monkeypatch.setattr(compare, "FORMS", faked(now, ("eager", 0.001, 0), ("slow", 0.004, 0)))
    table = pn.compare_targets(drawn(), data(), batch_size=16)
    assert table.best == "eager"
    assert table.recommendation == "Ship the model as it is: no other form is surely faster here and as good."


def test_the_ranking_stays_where_the_machine_slows_down_for_a_while(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    calls = [0]

    def build(seconds: float) -> Callable[[Workshop], Built]:
        def run(*inputs: torch.Tensor) -> Any:
            calls[0] += 1
            now[0] += seconds * (1.0 + calls[0] / 20)
            with torch.no_grad():
                return drawn_model(*inputs)

        return lambda _: Built(run, 1)

    drawn_model = pn.compile(drawn()).eval()
    forms = (("eager", 0.010), ("nearly", 0.008), ("half", 0.005), ("same as half", 0.005))
    monkeypatch.setattr(compare, "FORMS", tuple(Form(name, "nothing", build(seconds)) for name, seconds in forms))
    table = pn.compare_targets(drawn_model, data(), batch_size=16)
    assert {name: row.rank for name, row in table.rows.items()} == {
        "half": 1, "same as half": 1, "nearly": 3, "eager": 4,
    }  # fmt: skip
    fastest, slowest = (table.rows[name].latency for name in ("half", "eager"))
    assert fastest is not None
    assert slowest is not None
    assert fastest.p50.overlaps(slowest.p50), "or their times alone would have told the two apart"


def test_what_cannot_be_built_says_why(monkeypatch: pytest.MonkeyPatch, now: list[float]) -> None:
    def fails(_: Workshop) -> Built:
        raise ExportError("The runtime is missing.\nA second line.")

    monkeypatch.setattr(compare, "FORMS", (*faked(now, ("eager", 0.001, 0)), Form("other", "a runtime", fails)))
    table = pn.compare_targets(drawn(), data(), batch_size=16)
    assert table.rows["other"].missing == "The runtime is missing."
    assert "The runtime is missing." in table._repr_html_()
    assert "TargetTable(1 of 2 forms built" in repr(table)


def test_forms_that_take_minutes_and_those_after_the_time_are_left_out(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    slow = Form("slow", "time", lambda _: pytest.fail("it was built"), slow=True)
    monkeypatch.setattr(compare, "FORMS", (*faked(now, ("eager", 0.001, 0)), slow))
    table = pn.compare_targets(drawn(), data(), batch_size=16)
    assert table.rows["slow"].missing == "It takes minutes to build: include_slow=True."
    monkeypatch.setattr(compare, "FORMS", (*faked(now, ("eager", 0.001, 0)), Form("late", "time", slow.build)))
    table = pn.compare_targets(drawn(), data(), batch_size=16, seconds=0)
    assert "The 0 seconds for building were over" in table.rows["late"].missing
    assert not table.rows["eager"].missing


def test_without_a_compiler_the_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    table = pn.compare_targets(drawn(), data(), targets=["torch.compile"], batch_size=16)
    assert (
        table.rows["torch.compile"].missing
        == "torch.compile needs a C++ compiler, and there is no g++ or clang++ here."
    )


def test_a_model_without_layers_for_int8_says_so() -> None:
    graph = pn.NodeGraph("plain")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("relu", "act")
    graph.add("Output", "y")
    table = pn.compare_targets(wire(graph, "x act y"), torch.randn(64, 4), targets=["int8 in eager PyTorch"])
    assert "No node can be converted to int8." in table.rows["int8 in eager PyTorch"].missing
    assert table.metric == ""


def test_the_picture_has_a_bar_for_each_form() -> None:
    table = pn.compare_targets(drawn(), data(), targets=QUICK, batch_size=16)
    picture = ET.fromstring(table.to_svg())
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    columns = ["p50", "p95", "examples/s", "size", "memory", "val_accuracy", "worst error"]
    assert [text for text in texts if text in columns] == columns
    assert set(QUICK) <= set(texts)
    # The model itself has no error.
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == len(QUICK) * len(columns) - 1
    smallest = table.to_svg("size")
    assert smallest.index("int8 in eager PyTorch") < smallest.index(">eager<")
    with pytest.raises(pn.ArgumentError, match="by cannot be 'price'"):
        table.to_svg("price")  # type: ignore[arg-type]  # on purpose
    assert table.to_svg() in table._repr_html_()
    frame = table.to_frame()
    assert set(frame.index) == set(QUICK)
    assert (frame["p50_low"] <= frame["p50"]).all()


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(pn.ArgumentError, match=r"There is no target 'ONNX Runtme'\.  *Did you mean 'ONNX Runtime'"):
        pn.compare_targets(drawn(), data(), targets=["ONNX Runtme"])
    with pytest.raises(pn.PnneError, match="batch_size must be"):
        pn.compare_targets(drawn(), data(), batch_size=0)
    with pytest.raises(pn.ArgumentError, match="There is no data to calibrate with"):
        pn.compare_targets(drawn())


def test_forms_are_called_after_what_the_model_was_converted_to() -> None:
    quantized = pn.quantize(drawn(), data(), ("val_accuracy", 100), kind="bfloat16")
    table = pn.compare_targets(drawn(), data(), targets=["bfloat16 in eager PyTorch"], quantized=quantized)
    assert list(table.rows) == ["eager", "bfloat16 in eager PyTorch"]
    assert not table.rows["bfloat16 in eager PyTorch"].missing
    with pytest.raises(pn.ArgumentError, match="There is no target 'int8 in eager PyTorch'"):
        pn.compare_targets(drawn(), data(), targets=["int8 in eager PyTorch"], quantized=quantized)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, in its own imports
def test_dynamo_counts_the_compilations_of_each_table_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[CodeType] = []

    def compiled(function: FunctionType, **_: Any) -> FunctionType:
        codes.append(function.__code__)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr(shutil, "which", lambda _: "a compiler that nothing calls here")
    for _ in range(2):
        table = pn.compare_targets(drawn(), data(), targets=["torch.compile"], batch_size=16)
        assert not table.rows["torch.compile"].missing
    assert codes[0] is not codes[1]


def test_cuda_graphs_are_a_row_that_says_what_is_missing() -> None:
    table = pn.compare_targets(drawn(), data(), targets=["CUDA graphs"])
    assert table.rows["CUDA graphs"].needs == "PyTorch and a CUDA device"
    if torch.cuda.is_available():
        assert table.rows["CUDA graphs"].latency is not None
    else:
        assert table.rows["CUDA graphs"].missing == "There is no CUDA device here."
        assert "There is no CUDA device here." in table.to_svg()


@pytest.mark.parametrize(
    ("int8", "capable", "notes"),
    [
        (0.002, True, ["fast, int8 is 2.0 times as fast as half, the fastest form in float32."]),
        (
            0.004,
            False,
            [
                "Int8 is not surely faster here than half, the fastest form in float32.",
                "This processor has no instructions for products of int8 numbers (VNNI), which make int8 fast.",
            ],
        ),
    ],
)
def test_the_table_says_what_int8_is_worth_here(
    monkeypatch: pytest.MonkeyPatch, now: list[float], int8: float, capable: bool, notes: list[str]
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": capable})
    monkeypatch.setattr(compare, "FORMS", faked(now, ("eager", 0.008, 0), ("half", 0.004, 0), ("fast, int8", int8, 0)))
    table = pn.compare_targets(drawn(), data())
    assert [note for note in table.notes[1:] if "CUDA" not in note] == notes
    assert table.best == ("fast, int8" if capable else "half")


def test_int8_is_recommended_only_where_it_gains_more_than_chance_does(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    for int8, best in ((0.00095, "half"), (0.0008, "half, int8")):
        monkeypatch.setattr(
            compare, "FORMS", faked(now, ("eager", 0.002, 0), ("half", 0.001, 0), ("half, int8", int8, 0))
        )
        assert pn.compare_targets(drawn(), data()).best == best


def test_the_memory_of_a_form_is_what_its_call_needs() -> None:
    graph = pn.sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 8), input=("N", 64))
    table = pn.compare_targets(graph, torch.randn(512, 64), targets=["ONNX Runtime"], batch_size=256)
    weights, given, hidden = 4 * (64 * 512 + 512 + 512 * 8 + 8), 4 * 256 * 64, 4 * 256 * 512
    eager, file = (row.memory for row in table.rows.values())
    assert eager == pytest.approx(weights + given + 2 * hidden, rel=0.05)
    assert file is not None
    assert 0.5 * (weights + hidden) < file < 100e6


def test_without_a_gpu_its_forms_are_named_in_one_line() -> None:
    if torch.cuda.is_available():
        pytest.skip("There is a GPU here.")
    table = pn.compare_targets(drawn(), data(), seconds=0)
    (said,) = (note for note in table.notes if "CUDA" in note)
    assert said == (
        "There is no CUDA device here. Not compared: eager on the GPU, bf16 on the GPU, CUDA graphs, torch.compile on the "
        "GPU, ONNX Runtime on the GPU, AOTInductor on the GPU."
    )
    assert not [name for name in table.rows if "GPU" in name or "CUDA" in name]
