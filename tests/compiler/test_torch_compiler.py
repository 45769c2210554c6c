from __future__ import annotations

import copy
import pickle  # that models can be pickled is what is tested

import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler.passes import report
from tests.compiler import graphs
from tests.compiler.passes.graphs import convnet, redundant, trained


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TIMING_SECONDS", 0.0)
    monkeypatch.setattr(report, "TIMING_ROUNDS", 1)
    torch.compiler.reset()


def test_passes_are_applied_before_compiling() -> None:
    graph = redundant()
    compiler = pn.TorchCompiler([pn.passes.RemoveDeadNodes(), pn.passes.MergeEqualNodes()])
    model = compiler.compile(graph)
    assert [name for name, _ in model.named_children()] == ["fc"]
    assert "unused" not in compiler.to_source(graph)
    assert [report.name for report in compiler.transform(graph).reports] == ["RemoveDeadNodes", "MergeEqualNodes"]


def test_without_options_it_is_compile() -> None:
    graph = graphs.mlp()
    assert type(pn.TorchCompiler().compile(graph)) is type(pn.compile(graph))
    assert pn.TorchCompiler().to_source(graph) == pn.to_source(graph)
    assert pn.TorchCompiler().transform(graph).reports == ()


def test_torch_compile_is_an_option_with_a_report() -> None:
    graph = convnet(1)
    x = torch.randn(2, 3, 8, 8)
    model = trained(graph, x)
    done = pn.TorchCompiler([pn.passes.FuseBatchNorm()], backend="aot_eager").transform(graph, model, x)
    assert [report.name for report in done.reports] == ["FuseBatchNorm", "torch.compile('aot_eager')"]
    assert str(done.reports[1].changes[0]) == "compiled the whole model: again for each new kind of inputs"
    torch.testing.assert_close(done.model(x), model.eval()(x), rtol=1e-3, atol=1e-4)
    assert list(done.model.state_dict()) == list(pn.compile(done.graph).state_dict())


def test_copies_and_pickles_of_a_compiled_model_are_plain_models() -> None:
    model = pn.TorchCompiler(backend="eager").compile(graphs.mlp())
    x = torch.randn(2, 8)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # what is tested
        assert type(twin) is type(model)
        torch.testing.assert_close(twin(x), model(x))
        twin.get_parameter("fc1.weight").data.zero_()
        assert not torch.equal(twin(x), model(x)), "a copy does not run the original's code"


def test_recurrent_layers_are_said_to_stay_as_they_are() -> None:
    done = pn.TorchCompiler(backend="eager").transform(graphs.recurrent())
    assert done.reports[0].skipped == {"lstm": "torch.compile leaves recurrent layers as they are"}


def test_a_backend_that_fails_gives_its_reason() -> None:
    def broken(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        raise RuntimeError("no C++ compiler")

    torch._dynamo.reset()
    torch._dynamo.register_backend(broken, name="pnne_broken")
    with pytest.raises(
        pn.PassError, match=r"torch.compile with backend 'pnne_broken' does not work here: .*no C\+\+ compiler"
    ):
        pn.TorchCompiler(backend="pnne_broken").compile(graphs.mlp())


def test_unknown_backends_are_refused_with_near_names() -> None:
    with pytest.raises(pn.ArgumentError, match=r"backend cannot be 'inducter'\. .*'inductor'"):
        pn.TorchCompiler(backend="inducter")
    with pytest.raises(pn.ArgumentError, match=r"backend must be the name of a backend of torch.compile, not 3"):
        pn.TorchCompiler(backend=3)  # type: ignore[arg-type]  # that is the point
