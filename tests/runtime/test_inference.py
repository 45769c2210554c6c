from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.inference import InferenceEngine
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
    trained.start()
    inference = InferenceEngine(trained.module, device="cpu")
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
        InferenceEngine(network().state_dict())  # type: ignore[arg-type]


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
