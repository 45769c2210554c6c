from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.weights.tensor_file import TensorFileError, pack, unpack

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.just("$"), inner)
        | st.dictionaries(st.text(), inner).map(OrderedDict)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    back = unpack(*pack({"value": value}))["value"]
    assert back == value
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4).t(),
        torch.tensor(math.nan),
        torch.zeros(0, 5),
        torch.randn(3).bfloat16(),
        torch.tensor([True, False]),
        torch.randn(2, dtype=torch.complex64),
        torch.randn(1, 2, 3, 3).contiguous(memory_format=torch.channels_last),
    ],
)
def test_tensors_come_back(tensor: torch.Tensor) -> None:
    back = unpack(*pack({"value": [tensor]}))["value"][0]
    assert back.dtype == tensor.dtype
    assert torch.equal(back.isnan(), tensor.isnan())
    assert torch.equal(back.nan_to_num(), tensor.nan_to_num())


def test_tied_tensors_are_kept_once() -> None:
    weight = torch.randn(2, 2)
    text, tensors = pack({"a": weight, "b": {"c": weight}, "transposed": weight.t()})
    assert list(tensors) == ["a", "transposed"]
    assert torch.equal(unpack(text, tensors)["b"]["c"], weight)


def test_a_state_dict_keeps_its_order_and_versions() -> None:
    state = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).state_dict()
    back = unpack(*pack({"model": state}))["model"]
    assert list(back) == list(state)
    assert back._metadata == state._metadata  # type: ignore[attr-defined]  # the test knows its type


def test_counters_sets_and_types_of_torch() -> None:
    value = {
        "milestones": Counter([3, 3, 5]),
        "set": {1, 2},
        "frozen": frozenset({"a"}),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
    }
    assert unpack(*pack(value)) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, object()]}, r"cannot hold a\.1, a object"),
        ({"a": {"b": len}}, r"cannot hold a\.b, a builtin_function_or_method"),
        ({"a": torch.eye(2).to_sparse()}, r"cannot hold a, a tensor of layout torch.sparse_coo"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(TensorFileError, match=message):
        pack(value)


def test_the_text_is_json() -> None:
    assert json.loads(pack({"a": (1, 2)})[0]) == {"a": {"$": "tuple", "items": [1, 2]}}


def net(scale: float = 1.0) -> nn.Sequential:
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        for place, parameter in enumerate(made.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape).add(place).sin() * scale)
    return made


X = torch.linspace(-1, 1, 6).reshape(2, 3)


def read_again(module: nn.Module) -> pn.NodeGraph:
    return pn.NodeGraph.from_json(pn.from_module(module, args=(X,)).to_json())


def as_safetensors(module: nn.Module, folder: Path) -> object:
    save_file(dict(module.state_dict()), folder / "w.safetensors")
    return folder / "w.safetensors"


def as_pt(module: nn.Module, folder: Path) -> object:
    torch.save(module.state_dict(), folder / "w.pt")
    return str(folder / "w.pt")


def as_training_script(module: nn.Module, folder: Path) -> object:
    torch.save({"epoch": 3, "model_state_dict": module.state_dict(), "loss": 0.5}, folder / "w.pth")
    return folder / "w.pth"


def as_wrapped(module: nn.Module, folder: Path) -> object:
    save_file({f"module.{name}": each for name, each in module.state_dict().items()}, folder / "w.safetensors")
    return folder / "w.safetensors"


def as_package(module: nn.Module, folder: Path) -> object:
    graph = pn.from_module(module, args=(X,))
    pn.save(graph, pn.compile(graph), folder / "w.pnne", overwrite=True)
    return folder / "w.pnne"


def as_folder(module: nn.Module, folder: Path) -> object:
    graph = pn.from_module(module, args=(X,))
    pn.save(graph, pn.compile(graph), folder / "package", overwrite=True)
    return folder / "package"


def as_checkpoint(module: nn.Module, folder: Path) -> object:
    graph = pn.from_module(module, args=(X,))
    engine = pn.TrainingEngine(graph, (torch.randn(4, 3), torch.arange(4) % 2), device="cpu")
    engine.save_checkpoint(folder / "w.ckpt")
    return folder / "w.ckpt"


def as_module(module: nn.Module, _folder: Path) -> object:
    return module


def as_state_dict(module: nn.Module, _folder: Path) -> object:
    return module.state_dict()


@pytest.mark.parametrize(
    "stored",
    [
        as_module, as_state_dict, as_safetensors, as_pt, as_training_script, as_wrapped, as_package, as_folder,
        as_checkpoint,
    ],
)  # fmt: skip
def test_weights_come_from_wherever_they_are(stored: Any, tmp_path: Path) -> None:
    module = net()
    graph = read_again(module)
    report = pn.load_weights(graph, stored(module, tmp_path))
    assert len(report.placed) + len(report.moved) == 9
    assert not report.new
    assert not report.left_over
    assert not report.reshaped
    assert torch.equal(pn.compile(graph).eval()(X), module(X))
    assert torch.equal(pn.InferenceEngine(graph, "cpu").predict(X), module(X))
    other = net(0.5)
    pn.load_weights(other, stored(module, tmp_path))
    assert torch.equal(other(X), module(X))


def test_a_path_is_taken_as_reuse(tmp_path: Path) -> None:
    module = net()
    graph = read_again(module)
    path = as_safetensors(module, tmp_path)
    assert torch.equal(pn.compile(graph, reuse=path).eval()(X), module(X))  # type: ignore[arg-type]
    assert torch.equal(pn.InferenceEngine(graph, "cpu", reuse=module.state_dict()).predict(X), module(X))
    engine = pn.TrainingEngine(graph, (X, torch.tensor([0, 1])), device="cpu", reuse=path)  # type: ignore[arg-type]
    assert "weights of w.safetensors" in repr(engine)
    assert torch.equal(engine.model.get_parameter("2.weight"), module.get_parameter("2.weight"))


class Runs:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit",)


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2), "other": Runs()}, tmp_path / "evil.pt")
    with pytest.raises(
        pn.ArgumentError, match=r"evil\.pt is no file of weights.*torch\.load\(path, weights_only=False\)"
    ):
        pn.load_weights(net(), tmp_path / "evil.pt")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no file of weights"),
        (b"12345678{broken", "no safetensors file"),
        (b"PK\x03\x04", "is no file of weights"),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(pn.ArgumentError, match=said):
        pn.load_weights(net(), tmp_path / "w.safetensors")


def test_what_holds_no_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pn.ArgumentError, match=r"'.*missing\.pt' cannot be read: No such file"):
        pn.load_weights(net(), tmp_path / "missing.pt")
    with pytest.raises(pn.ArgumentError, match="cannot be read"):
        pn.load_weights(net(), "\ud800")
    with pytest.raises(pn.ArgumentError, match="the state_dict holds no tensors by name"):
        pn.load_weights(net(), {"epoch": 3})
    with pytest.raises(pn.ArgumentError, match=r"Weights come from an nn\.Module, a state_dict.*not 3"):
        pn.load_weights(net(), 3)
    with pytest.raises(pn.ArgumentError, match="graph must be a NodeGraph"):
        pn.load_weights(3, net())  # type: ignore[arg-type]


def test_a_running_training_is_given_weights_between_two_steps() -> None:
    module = net()
    engine = pn.TrainingEngine(net(0.5), (torch.randn(4, 3), torch.arange(4) % 2), batch_size=2, device="cpu")
    engine.step()
    with engine.paused() as model:
        pn.load_weights(model, module)
        for name, parameter in module.named_parameters():
            assert torch.equal(model.get_parameter(name), parameter)
    engine.stop()
