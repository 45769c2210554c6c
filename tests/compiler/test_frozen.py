"""Layers and blocks that are not trained: as the original has them, in a new model and in source."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import pnne_nb as pn


class Backbone(nn.Module):
    """A frozen block, a list and a chain that are frozen in part, a layer, and a head that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4), requires_grad=False)
        self.stem = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).requires_grad_(False)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.chain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.head = nn.Linear(4, 2)
        self.blocks[0].requires_grad_(False)
        self.blocks[1].fc.requires_grad_(False)
        self.chain[0].requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x * self.scale)
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.chain(x))
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.fc(self.norm(x)))


def imported() -> pn.NodeGraph:
    return pn.from_module(Backbone(), (torch.rand(2, 4),))


def trained(model: nn.Module) -> dict[str, bool]:
    return {name: parameter.requires_grad for name, parameter in model.named_parameters()}


def test_what_was_not_trained_is_not_in_a_new_model_either() -> None:
    graph = imported()
    assert trained(pn.compile(graph, reuse=None)) == trained(Backbone())
    assert trained(pn.compile(pn.NodeGraph.from_json(graph.to_json()), reuse=None)) == trained(Backbone())


def test_source_says_it_of_whole_layers_and_blocks() -> None:
    source = pn.to_source(imported())
    assert "        self.stem.requires_grad_(False)\n" in source
    assert source.count("requires_grad_(False)") == 4
    names: dict[str, object] = {}
    exec(source, names)
    made = names["Backbone"]
    assert isinstance(made, type)
    assert trained(made()) == trained(Backbone())


def test_a_model_that_is_reused_decides() -> None:
    net = Backbone()
    graph = pn.from_module(net, (torch.rand(2, 4),))
    net.requires_grad_(True)
    assert all(trained(pn.compile(graph, reuse=net)).values())


def test_a_group_and_a_renamed_layer_keep_what_is_frozen() -> None:
    graph = imported()
    graph.group(["stem"], "outer")
    assert not pn.compile(graph, reuse=None).get_parameter("outer.stem.0.weight").requires_grad
    source = pn.to_source(graph)
    assert "        self.stem.requires_grad_(False)\n" in source

    graph = imported()
    graph.rename("blocks.1.fc", "other")
    model = pn.compile(graph, reuse=None)
    assert not model.get_parameter("blocks.1.other.weight").requires_grad


def drawn() -> pn.NodeGraph:
    return pn.sequential(
        ("Linear", {"name": "stem", "in_features": 4, "out_features": 4}),
        ("BatchNorm1d", {"name": "bn", "num_features": 4}),
        ("Linear", {"name": "head", "in_features": 4, "out_features": 2}),
        input=("N", 4),
    )


def frozen(model: nn.Module) -> set[str]:
    return {name.partition(".")[0] for name, trains in trained(model).items() if not trains}


def test_what_the_graph_freezes_holds_in_models_with_the_weights_of_earlier_ones() -> None:
    graph = drawn()
    first = pn.compile(graph)
    graph.freeze("stem")
    second = pn.compile(graph, reuse=first)
    assert frozen(second) == {"stem"}
    assert frozen(pn.compile(graph, reuse=first.state_dict())) == {"stem"}
    graph.undo()
    assert frozen(pn.compile(graph, reuse=second)) == set()
    assert frozen(pn.compile(graph, reuse=copy.deepcopy(second))) == set()
    graph.redo()
    graph.unfreeze("stem")
    assert frozen(pn.compile(graph, reuse=second)) == set()


def test_what_is_frozen_by_hand_stays_so_whatever_the_graph_does_elsewhere() -> None:
    graph = drawn()
    model = pn.compile(graph)
    model.get_submodule("bn").requires_grad_(False)
    graph.freeze("stem")
    assert frozen(pn.compile(graph, reuse=model)) == {"stem", "bn"}


def test_an_imported_frozen_block_is_trained_once_the_graph_says_so() -> None:
    net = Backbone()
    graph = pn.from_module(net, (torch.rand(2, 4),))
    assert not graph["stem"].trainable
    assert not graph["blocks.1.fc"].trainable
    assert graph["blocks.2.fc"].trainable
    graph.unfreeze("stem", "blocks.1.fc")
    assert frozen(pn.compile(graph)) == {"scale", "blocks", "chain"}
    assert pn.compile(graph).get_parameter("blocks.1.fc.weight").requires_grad
    graph.freeze("stem")
    assert frozen(pn.compile(graph)) >= {"stem"}


def test_an_opaque_module_is_frozen_and_trained_again() -> None:
    class Opaque(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) if x.sum() > -1e9 else x

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part, self.head = Opaque(), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.part(x))
            return out

    net = Net()
    graph = pn.from_module(net, (torch.rand(2, 4),))
    assert graph["part"].type == "Module"
    graph.freeze("part")
    model = pn.compile(graph)
    assert frozen(model) == {"part"}
    assert frozen(net) == set()
    graph.undo()
    assert frozen(pn.compile(graph, reuse=model)) == set()


def test_frozen_statistics_stay_in_every_epoch_and_the_source_says_so() -> None:
    graph = drawn()
    graph.freeze("bn", eval_mode=True)
    source = pn.to_source(graph)
    assert "        super().train(mode)\n        self.bn.eval()\n        return self\n" in source
    names: dict[str, object] = {}
    exec(source, names)
    made = names[pn.compile(graph).__class__.__name__]
    assert isinstance(made, type)
    for model in (pn.compile(graph), made(), pn.compile(graph, reuse=pn.compile(drawn()))):
        assert model.training
        norm = model.get_submodule("bn")
        assert not norm.training
        before = model.get_buffer("bn.running_mean").clone()
        model.train()(torch.rand(8, 4) + 3)
        assert torch.equal(model.get_buffer("bn.running_mean"), before)
    graph.unfreeze("bn")
    assert pn.compile(graph, reuse=model).train().get_submodule("bn").training


def test_a_new_head_has_fresh_weights_of_a_size_that_fits() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5))
    graph = pn.from_module(net, (torch.rand(2, 4),))
    graph.freeze("*")
    graph.replace_head(5)
    model = pn.compile(graph)
    assert frozen(model) == {"0"}
    assert torch.equal(model.get_parameter("0.weight"), net.get_parameter("0.weight"))
    assert not torch.equal(model.get_parameter("2.weight"), net.get_parameter("2.weight"))
    graph.replace_head(9)
    assert pn.compile(graph)(torch.rand(2, 4)).shape == (2, 9)


def test_engine_trains_what_is_not_frozen_and_refuses_a_graph_without() -> None:
    graph = drawn()
    graph.freeze("stem", "bn", eval_mode=True)
    engine = pn.TrainingEngine(graph, (torch.rand(16, 4), torch.randint(0, 2, (16,))), batch_size=8, epochs=1)
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    engine.start().wait()
    after = engine.model.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"head.weight", "head.bias"}
    with pytest.raises(AttributeError, match=r'graph.freeze\("layer1"\) before the engine is made'):
        engine.freeze("stem")  # type: ignore[attr-defined]  # what people try
    graph.freeze("*")
    with pytest.raises(pn.TrainingError, match=r'All weights of the model are frozen: graph.unfreeze\("fc"\)'):
        pn.TrainingEngine(graph, (torch.rand(16, 4), torch.randint(0, 2, (16,)))).start()


def test_statistics_of_a_frozen_batch_norm_that_move_are_told_with_the_line() -> None:
    graph = drawn()
    graph.freeze("stem", "bn")
    engine = pn.TrainingEngine(graph, (torch.rand(64, 4), torch.randint(0, 2, (64,))), batch_size=32, epochs=1)
    engine.start().wait()
    (found,) = [each for each in pn.diagnose(engine) if each.kind == "frozen-norm-moves"]
    assert 'graph.freeze("bn", eval_mode=True)' in found.hint
