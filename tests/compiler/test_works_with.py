"""What people do with models must work with compiled ones, nested graphs, shared and checkpointed nodes included."""

from __future__ import annotations

import copy
import pickle  # that models can be pickled is what is tested
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.parallel import DistributedDataParallel

import pnne_nb as pn
from pnne_nb.compiler import blame
from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.pipeline import compile
from pnne_nb.graph.schema.registry import registry
from tests.compiler import graphs
from tests.compiler.passes.graphs import convnet
from tests.compiler.pipeline.test_compile import assert_same


def plain() -> pn.NodeGraph:
    return convnet(2)


def shared() -> pn.NodeGraph:
    """One definition twice: with weights of its own, and with those of the first."""
    graph = convnet(1)
    definition = graph["block0"].definition or ""
    given, gives = graph.graphs[definition].inputs[0], graph.graphs[definition].outputs[0]
    graph.add("Subgraph", "own", definition=definition)
    graph.add("Subgraph", "tied", definition=definition, shares="block0")
    graph.disconnect("block0", "flat")
    for source, target in (("block0", "own"), ("own", "tied")):
        graph.connect(f"{source}.{gives}", f"{target}.{given}")
    graph.connect(f"tied.{gives}", "flat.input")
    return graph


def checkpointed() -> pn.NodeGraph:
    graph = convnet(2)
    graph.set("block0", checkpoint=True)
    graph.set("head", checkpoint=True)
    return graph


class Gain(nn.Module):
    """A layer of one's own."""

    def __init__(self, start: float = 1.0) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(start))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gain


def halved(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    """Divide."""
    return x / by


class Kept(nn.Module):
    """A module that a graph only holds."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)).relu()  # type: ignore[no-any-return]  # torch does not say


def register() -> None:
    """Register the types of `mixed`."""
    pn.register_node(category="Custom", replace=True)(Gain)
    pn.register_node(category="Custom", replace=True)(halved)


def mixed() -> pn.NodeGraph:
    """Blocks with layers and functions of one's own, used twice, one of them shared and computed again; an opaque part."""
    register()
    graph = shared()
    inside = graph["block0"].definition or ""
    last = next(edge for edge in graph.graphs[inside].edges if edge.target.startswith(graph.graphs[inside].outputs[0]))
    graph.disconnect(f"block0.{last.source}", f"block0.{last.target}")
    graph.add("Gain", "block0.gain", start=0.5)
    graph.add("halved", "block0.smaller", by=4.0)
    graph.connect(f"block0.{last.source}", "block0.gain.x")
    graph.connect("block0.gain.output", "block0.smaller.x")
    graph.connect("block0.smaller.output", f"block0.{last.target}")
    graph.add("Module", "kept", target="somewhere.Kept")
    graph.disconnect("tied", "flat")
    graph.connect(f"tied.{graph.graphs[inside].outputs[0]}", "kept.input")
    graph.connect("kept.output", "flat.input")
    for node in ("own", "kept"):
        graph.set(node, checkpoint=True)
    return graph


def made(build: Build) -> nn.Module:
    """Compile; what a graph only holds comes from a module that has it."""
    held = nn.Module()
    held.kept = Kept()
    return pn.compile(build(), reuse=held if build is mixed else None)


def recomputes(build: Build) -> bool:
    return build in (checkpointed, mixed)


Build = Callable[[], pn.NodeGraph]
every_graph = pytest.mark.parametrize("build", [plain, shared, checkpointed, mixed])
X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@every_graph
def test_deepcopy_and_pickle(build: Build) -> None:
    model = made(build)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # what is tested
        assert type(twin) is type(model)
        assert_same(model, twin, [X])
        assert not {id(p) for p in twin.parameters()} & {id(p) for p in model.parameters()}


def test_a_pickle_opens_in_another_process(tmp_path: Path) -> None:
    model = made(mixed).eval()
    part = model.get_submodule("block0")
    part.register_forward_hook(_seen)
    document = len(pickle.dumps(part))
    assert len(pickle.dumps([part, model.get_submodule("own")])) < 1.7 * document, "the document is in it once"
    (tmp_path / "model.pkl").write_bytes(pickle.dumps((model, X, model(X), part)))
    code = """
import pickle, sys, torch
from tests.compiler.test_works_with import register
register()
model, x, y, part = pickle.load(open(sys.argv[1], "rb"))
torch.testing.assert_close(model(x), y)
assert part is model.block0
assert not hasattr(model, "tied")
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "model.pkl")], check=True, cwd=Path(__file__).parents[2])


def _seen(*_: object) -> None:
    """Stand for a hook, which a pickle keeps by name."""


def test_a_part_of_a_model_is_pickled_by_itself() -> None:
    model = made(mixed)
    part = model.get_submodule("own")
    twin = pickle.loads(pickle.dumps(part))  # what is tested
    assert type(twin) is type(part)
    assert list(twin.state_dict()) == list(part.state_dict())


def test_a_pickle_of_an_unregistered_type_says_what_is_missing() -> None:
    written = pickle.dumps(made(mixed))
    registry._specs.pop("halved")  # as in a process that has not registered it
    compile.forget()
    kept = loader._loaded.copy()
    try:
        loader._loaded.clear()
        with pytest.raises(pn.CompileError, match=r"no node type 'halved'.*Register it with pn.register_node"):
            pickle.loads(written)
    finally:
        loader._loaded.update(kept)


@every_graph
def test_export(build: Build) -> None:
    model = made(build).eval()
    exported = torch.export.export(model, (X,))
    torch.testing.assert_close(exported.module()(X), model(X))
    if build not in (shared, mixed):  # an exported program names a shared tensor once
        assert set(exported.state_dict) == set(model.state_dict())


@pytest.mark.parametrize("build", [plain, shared, mixed])
def test_torch_compile_without_a_break(build: Build) -> None:
    model = made(build).eval()
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), model(X))
    compiled(X).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_torch_compile_of_checkpointed_nodes() -> None:
    model, other = pn.compile(checkpointed()), pn.compile(plain())
    other.load_state_dict(model.state_dict())
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for each in (compiled, other):
        each(X).square().sum().backward()
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    for (name, counted), expected in zip(model.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(counted, expected, msg=name)


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    excepthook = sys.excepthook
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    sys.excepthook = excepthook  # torch's asks the group who it is


@every_graph
@pytest.mark.usefixtures("process_group")
def test_distributed_data_parallel(build: Build) -> None:
    model = made(build)
    alone = copy.deepcopy(model)
    parallel = DistributedDataParallel(model)
    for each in (alone, parallel):
        each(X).square().sum().backward()
    for mine, theirs in zip(alone.parameters(), model.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(mine.grad, theirs.grad)


@every_graph
def test_hooks_forward_and_backward(build: Build) -> None:
    model = made(build)
    seen: list[str] = []
    for name, module in model.named_modules():
        if name:
            module.register_forward_hook(lambda *_, name=name: seen.append(f"forward {name}"))
            module.register_full_backward_hook(lambda *_, name=name: seen.append(f"backward {name}"))
    model(X.clone().requires_grad_()).sum().backward()
    for name, _ in model.named_modules():
        if name:
            assert f"forward {name}" in seen
            assert f"backward {name}" in seen
    assert seen.index("forward block0.conv0") < seen.index("forward block0") < seen.index("forward head")


def test_a_hook_changes_what_follows() -> None:
    model = pn.compile(plain())
    model.get_submodule("head").register_forward_hook(lambda *_: torch.ones(1))
    assert torch.equal(model(X), torch.ones(1))


@every_graph
def test_autocast(build: Build) -> None:
    model = made(build)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(X)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


@every_graph
def test_state_dict_is_loaded_strictly(build: Build) -> None:
    model, other = made(build), made(build)
    assert str(other.load_state_dict(model.state_dict(), strict=True)) == "<All keys matched successfully>"
    assert_same(model, other, [X])
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({})


@every_graph
def test_functional_call_and_vmap(build: Build) -> None:
    model = made(build).eval()
    zeros: dict[str, torch.Tensor] = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    assert not functional_call(model, zeros, (X,)).any()
    if not recomputes(build):  # torch's checkpoint does not work inside its transforms
        parameters: dict[str, torch.Tensor] = {name: p.detach() for name, p in model.named_parameters()}

        def loss(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = functional_call(model, given, (x.unsqueeze(0),))
            return out.square().sum()

        each = vmap(grad(loss), in_dims=(None, 0))(parameters, X)
        assert each["head.weight"].shape == (4, 5, 512)
        model(X).square().sum().backward()
        total = model.get_parameter("head.weight").grad
        torch.testing.assert_close(each["head.weight"].sum(0), total, rtol=1e-4, atol=1e-4)


@every_graph
def test_types_and_modes(build: Build) -> None:
    model = made(build).double().eval()
    assert model(X.double()).dtype == torch.float64
    assert not any(module.training for module in model.modules())
    with torch.inference_mode():
        assert model(X.double()).is_inference()
    assert made(build).to("meta")(X.to("meta")).shape == (4, 5)


def test_parametrisations_and_pruning() -> None:
    model = pn.compile(plain())
    nn.utils.parametrizations.weight_norm(model.get_submodule("head"))
    model(X).sum().backward()
    assert "head.parametrizations.weight.original0" in model.state_dict()


def test_each_generated_line_names_its_nodes_everywhere() -> None:
    model = pn.compile(shared())
    nodes = {node for line in pn.explain(model) for node in line.nodes}
    assert {"block0", "own", "tied", "block0.conv0", "own.conv0", "stem", "head", "flat"} <= nodes
    conv = next(line for line in pn.explain(model) if "self.conv0(" in line.text)
    assert set(conv.nodes) == {"block0.conv0", "own.conv0", "tied.conv0"}


def test_every_call_in_a_checkpointed_graph_is_explained() -> None:
    lines = [(line.text.strip(), line.nodes) for line in pn.explain(pn.compile(checkpointed()))]
    assert ("x = checkpointed(self.block0, x)", ("block0",)) in lines
    assert ("x = torch.utils.checkpoint.checkpoint(self.head, x, use_reentrant=False)", ("head",)) in lines


def test_a_failure_while_computing_again_names_its_node() -> None:
    graph = checkpointed()
    model = pn.compile(graph)
    calls: list[int] = []

    def fail(*_: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("the second time")

    model.get_submodule("block0.relu0").register_forward_pre_hook(fail)
    out = model(X)
    with pytest.raises(ValueError, match="the second time") as caught:
        out.sum().backward()

    assert blame(caught.value) == "block0.relu0"


def test_a_recurrent_net_keeps_its_state_when_it_is_copied() -> None:
    model = pn.compile(graphs.recurrent())
    tokens = torch.arange(6).reshape(1, 6)
    assert torch.equal(copy.deepcopy(model)(tokens), model(tokens))
