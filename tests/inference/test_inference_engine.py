from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pnne_nb.errors import ArgumentError, TrainingError
from pnne_nb.inference.inference_engine import InferenceEngine
from tests.runtime.tasks import CLASSES, EXAMPLES, engine, images, network, picture_graph

PICTURES, _ = images()


def test_batches_give_what_the_model_gives_at_once_in_eval_mode() -> None:
    net = network()
    outputs = InferenceEngine(net, device="cpu", batch_size=10).predict(PICTURES)
    assert net.training
    net.eval()
    torch.testing.assert_close(outputs, net(PICTURES))
    assert not outputs.requires_grad


def test_a_loader_is_streamed_with_progress() -> None:
    seen: list[tuple[int, int | None]] = []
    loader = DataLoader(TensorDataset(PICTURES), batch_size=40)
    outputs = list(
        InferenceEngine(network(), device="cpu").stream(loader, progress=lambda done, of: seen.append((done, of)))
    )
    assert [len(output) for output in outputs] == [40, 40, 16]
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_probabilities_and_top_k() -> None:
    inference = InferenceEngine(picture_graph(), device="cpu")
    found = inference.probabilities(PICTURES)
    torch.testing.assert_close(found.sum(1), torch.ones(EXAMPLES))
    best = inference.top_k(PICTURES, k=2)
    assert torch.equal(best.classes[:, 0], found.argmax(1))
    assert (best.probabilities[:, 0] >= best.probabilities[:, 1]).all()
    assert inference.top_k(PICTURES, k=99).classes.shape == (EXAMPLES, CLASSES)


def test_one_column_is_a_logit() -> None:
    found = InferenceEngine(nn.Linear(3, 1), device="cpu").probabilities(torch.randn(5, 3))
    assert ((found > 0) & (found < 1)).all()


class Several(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"double": 2 * x, "pair": (x, x + 1), "name": "x"}


def test_outputs_of_any_form_are_joined() -> None:
    x = torch.arange(6.0).reshape(6, 1)
    found = InferenceEngine(Several(), device="cpu", batch_size=4).predict(x)
    assert torch.equal(found["double"], 2 * x)
    assert torch.equal(found["pair"][1], x + 1)
    assert found["name"] == ["x", "x"]


def test_bf16() -> None:
    found = InferenceEngine(nn.Linear(4, 2), device="cpu", precision="bf16").predict(torch.randn(3, 4))
    assert found.dtype == torch.bfloat16


def test_it_works_from_several_threads_while_the_original_trains() -> None:
    trained = engine(epochs=100_000)
    inference = InferenceEngine(trained.module, device="cpu")
    moved = threading.Event()
    trained.on("step", lambda _: moved.set())
    trained.start()
    inference.warm_up(PICTURES[:2])
    expected = inference.predict(PICTURES)
    equal: list[bool] = []
    threads = [
        threading.Thread(target=lambda: equal.append(torch.equal(inference.predict(PICTURES), expected)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert moved.wait(60)
    trained.stop()
    assert equal == [True] * 4
    inference.refresh(trained.module)
    assert not torch.equal(inference.predict(PICTURES), expected)


@pytest.mark.parametrize(("name", "call"), [("k", "top_k"), ("times", "warm_up")])
def test_counts_are_checked(name: str, call: str) -> None:
    inference = InferenceEngine(network(), device="cpu")
    with pytest.raises(TrainingError, match=f"{name} must be a whole number, at least 1, not 0"):
        getattr(inference, call)(PICTURES, 0)


def test_the_loader_that_trains_the_model_and_arrays_will_do() -> None:
    inference = InferenceEngine(network(), device="cpu", batch_size=40)
    outputs = inference.predict(PICTURES)
    assert torch.equal(inference.predict(DataLoader(TensorDataset(*images()), batch_size=40)), outputs)
    assert torch.equal(inference.predict(images()), outputs)
    assert torch.equal(inference.predict(PICTURES.numpy()), outputs)


def test_data_that_does_not_fit_is_explained() -> None:
    inference = InferenceEngine(network(), device="cpu")
    with pytest.raises(TrainingError, match=r"The model fails at layer '0' \(Conv2d.* on a batch of inputs"):
        inference.predict(torch.ones(3, 7, 6, 6))
    with pytest.raises(
        TrainingError, match=r"The model cannot be called with a batch .* too many positional arguments"
    ):
        inference.predict((PICTURES, PICTURES, PICTURES))


def batches() -> Iterator[Tensor]:
    yield from torch.split(PICTURES, 40)


@pytest.mark.parametrize("data", [list(PICTURES), [picture.numpy() for picture in PICTURES], batches()])
def test_examples_in_a_list_and_a_generator_of_batches_will_do(data: Any) -> None:
    inference = InferenceEngine(network(), device="cpu", batch_size=40)
    assert torch.equal(inference.predict(data), inference.predict(PICTURES))


def test_tables_and_numpy_arrays_will_do() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    inference = InferenceEngine(model, device="cpu")
    inference.warm_up(PICTURES.flatten(1).double().numpy())
    found = inference.predict(pd.DataFrame(PICTURES.flatten(1).numpy()))
    assert torch.equal(found, inference.predict(PICTURES))


def test_a_single_number_for_each_batch_and_no_batch_at_all() -> None:
    class Total(nn.Module):
        def forward(self, pictures: Tensor) -> Tensor:
            return pictures.sum()

    inference = InferenceEngine(Total(), device="cpu", batch_size=40)
    assert inference.predict(PICTURES).shape == (3,)
    with pytest.raises(TrainingError, match="data is empty: there was no batch in it"):
        inference.predict(iter([]))
    with pytest.raises(TrainingError, match=r"not a OrderedDict\. Load it into a module first"):
        InferenceEngine(network().state_dict())  # type: ignore[arg-type]  # wrong on purpose


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, image: Tensor) -> Tensor:
        scores: Tensor = self.net(image)
        return scores


def test_arrays_by_name_will_do_and_a_target_among_them_is_left_out() -> None:
    expected = InferenceEngine(network(), device="cpu").predict(PICTURES)
    inference = InferenceEngine(Named(), device="cpu")
    for data in ({"image": PICTURES}, dict(zip(("image", "label"), images(), strict=True))):
        assert torch.equal(inference.predict(data), expected)
    with pytest.raises(TrainingError, match="unexpected keyword argument 'colour'"):
        inference.predict({"image": PICTURES, "colour": PICTURES})


def test_two_inputs_in_a_list_are_no_examples() -> None:
    class Sum(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a + b

    assert torch.equal(InferenceEngine(Sum(), device="cpu").predict([PICTURES, PICTURES]), 2 * PICTURES)


def test_one_score_for_each_example_has_one_class() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 1), nn.Flatten(0))
    assert InferenceEngine(model, device="cpu").top_k(PICTURES, 3).classes.shape == (EXAMPLES, 1)


def test_outputs_that_cannot_be_joined_or_are_no_scores() -> None:
    model = InferenceEngine(nn.Sequential(nn.Flatten(1, 2), nn.LSTM(6, 4, batch_first=True)), device="cpu")
    with pytest.raises(TrainingError, match="cannot be joined along the first dimension: take them one by one"):
        model.predict(PICTURES)
    with pytest.raises(TrainingError, match="The model returns a tuple, and probabilities need one tensor of scores"):
        model.probabilities(PICTURES[:4])


def test_a_loader_that_shuffles_is_read_in_the_order_of_its_dataset() -> None:
    inference = InferenceEngine(network(), device="cpu")
    loader = DataLoader(TensorDataset(*images()), batch_size=64, shuffle=True)
    torch.testing.assert_close(inference.predict(loader), inference.predict(PICTURES))


def test_batches_of_numpy_arrays_will_do() -> None:
    inference = InferenceEngine(network(), device="cpu")
    expected = inference.predict(PICTURES)
    array, classes = PICTURES.double().numpy(), images()[1].numpy()
    assert torch.equal(inference.predict(iter([array[:64], array[64:]])), expected)
    assert torch.equal(inference.predict(iter([(array[:64], classes[:64]), (array[64:], classes[64:])])), expected)
    assert torch.equal(InferenceEngine(Named(), device="cpu").predict(iter([{"image": array}])), expected)
    inference.warm_up(array.tolist(), times=1)


def test_an_option_of_the_model_is_no_place_for_a_target() -> None:
    class Optional(Named):
        def forward(self, image: Tensor, scale: float = 1.0, features: bool = False) -> Tensor:
            assert not features
            return super().forward(image) * scale

    expected = InferenceEngine(network(), device="cpu").predict(PICTURES)
    assert torch.equal(InferenceEngine(Optional(), device="cpu").predict(images()), expected)


def test_a_compiled_or_scripted_model_leaves_a_target_out_as_its_original_does() -> None:
    net = nn.Linear(6, 2)
    x, y = torch.ones(3, 6), torch.zeros(3)
    with pytest.warns(DeprecationWarning, match=r"torch\.jit\.script"):
        scripted: nn.Module = torch.jit.script(net)
    compiled: Any = torch.compile(net, backend="eager")
    for made in (scripted, compiled):
        assert torch.equal(InferenceEngine(made, device="cpu").predict((x, y)), net(x))


def test_progress_is_told_for_probabilities_too() -> None:
    seen: list[tuple[int, int | None]] = []
    inference = InferenceEngine(network(), device="cpu", batch_size=64)
    inference.probabilities(PICTURES, progress=lambda done, of: seen.append((done, of)))
    inference.top_k(PICTURES, 1, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 2), (2, 2)] * 2


def test_probabilities_are_as_exact_as_the_model() -> None:
    inference = InferenceEngine(nn.Linear(4, 3).double(), device="cpu")
    assert inference.probabilities(torch.ones(2, 4, dtype=torch.float64)).dtype == torch.float64
    assert (
        InferenceEngine(nn.Linear(4, 3).bfloat16(), device="cpu")
        .probabilities(torch.ones(2, 4, dtype=torch.bfloat16))
        .dtype
        == torch.float32
    )


@dataclass(frozen=True)
class Scores:
    logits: Tensor
    loss: Tensor | None = None


class Ends(NamedTuple):
    low: Tensor
    high: Tensor


def test_outputs_keep_their_classes() -> None:
    class Told(nn.Module):
        def forward(self, x: Tensor) -> tuple[Scores, Ends]:
            return Scores(x), Ends(x, 2 * x)

    x = torch.arange(6.0).reshape(6, 1)
    scores, ends = InferenceEngine(Told(), device="cpu", batch_size=4).predict(x)
    assert isinstance(scores, Scores)
    assert scores.loss is None
    assert torch.equal(scores.logits, x)
    assert isinstance(ends, Ends)
    assert torch.equal(ends.high, 2 * x)


def test_what_a_forward_pass_has_left_in_the_model_is_copied() -> None:
    class Remembering(Named):
        def forward(self, image: Tensor) -> Tensor:
            self.kept = [super().forward(image)]
            return self.kept[0]

    net = Remembering()
    net(PICTURES)
    assert torch.equal(InferenceEngine(net, device="cpu").predict(PICTURES), net.eval()(PICTURES))


def test_layers_stay_where_their_nodes_ask_for() -> None:
    graph = picture_graph()
    graph.set("fc", device="meta")
    placed = InferenceEngine(graph, device="cpu").model
    assert placed.get_parameter("fc.weight").is_meta
    spread = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    assert InferenceEngine(spread, device="cpu").model.get_parameter("1.weight").is_meta


def test_a_model_without_numbers_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"parameters have no numbers: they are on the device 'meta'.*to_empty"):
        InferenceEngine(nn.Linear(4, 3, device="meta"), device="cpu")


class Cramped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if len(x) < 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return x


def test_the_batch_that_fails_is_told() -> None:
    inference = InferenceEngine(Cramped(), device="cpu", batch_size=4)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        inference.predict(torch.ones(6, 1))
    assert caught.value.__notes__ == ["In batch 2 of the data. A smaller batch_size takes less memory."]
    with pytest.raises(ArgumentError, match="There is no data: give the inputs"):
        inference.predict(None)  # type: ignore[arg-type]  # wrong on purpose


class Logarithms(nn.Module):
    def forward(self, first: Tensor, second: Tensor | None = None) -> Tensor:
        return first.log() if second is None else first + second


def test_nan_has_no_probabilities_and_the_input_that_holds_it_is_named() -> None:
    engine = InferenceEngine(Logarithms(), device="cpu", batch_size=2)
    second = torch.ones(6, 3)
    second[1, 2], second[4] = float("nan"), float("inf")
    first = torch.zeros(6, 3)
    first[4] = -float("inf")
    assert engine.predict((first, second)).isnan().any()
    told = (
        r"NaN for examples 1, 4 of 6, which has no probabilities\. NaN or infinity is in its input 'first' of example 4; "
        r"'second' of examples 1, 4: leave these out, or fill them"
    )
    for ask in (engine.probabilities, engine.top_k):
        with pytest.raises(TrainingError, match=told):
            ask((first, second))
    with pytest.raises(
        TrainingError, match=r"Its inputs are finite, so it makes the NaN itself: with pn\.detect_anomaly"
    ):
        engine.top_k(-torch.ones(2, 3))
    with pytest.raises(TrainingError, match=r"Look for NaN in the data, x\.isfinite\(\)"):
        engine.top_k(iter([-torch.ones(2, 3)]))
    assert engine.top_k(torch.ones(2, 3), k=1).classes.shape == (2, 1)
