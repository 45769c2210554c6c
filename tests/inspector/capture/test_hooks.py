"""Hooks go with their owner, whatever happens."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.inspector.capture.hooks import HookOwner, in_backward, primary_tensor, tensors_in
from tests.inspector.models import hooks_on, mlp


def test_a_copy_of_a_watched_module_is_not_watched() -> None:
    net = nn.Linear(2, 2)
    seen: list[object] = []
    with HookOwner() as hooks:
        hooks.on_output(net, seen.append)
        hooks.on_inputs(net, lambda args, _kwargs: seen.append(args))
        copies = [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
        for one in copies:
            assert torch.equal(one(torch.ones(1, 2)), nn.functional.linear(torch.ones(1, 2), net.weight, net.bias))
        assert not seen
        net(torch.ones(1, 2))
        assert len(seen) == 2


def test_the_tensors_behind_those_of_vmap_are_seen() -> None:
    net = nn.Linear(3, 2)
    seen: list[Tensor] = []
    x = torch.randn(4, 3)
    with HookOwner() as hooks:
        hooks.on_output(net, lambda output: seen.extend(tensor for _, tensor in tensors_in(output)))
        hooks.on_inputs(net, lambda args, _kwargs: seen.extend(filter(torch.is_tensor, [primary_tensor(args)])))
        torch.func.vmap(net)(x)
        torch.func.vmap(torch.func.grad(lambda row: net(row).sum()))(x)
    assert [tuple(tensor.shape) for tensor in seen] == [(4, 3), (4, 2)] * 2
    assert all(torch.equal(seen[index], value) for index, value in ((0, x), (1, net(x)), (3, net(x))))


def test_hooks_are_removed_on_leaving_and_on_errors() -> None:
    net = mlp()
    with HookOwner() as hooks:
        hooks.on_output(net[0], lambda _: None)
        hooks.on_inputs(net[1], lambda _args, _kwargs: None)
        assert len(hooks) == hooks_on(net) == 2
    assert len(hooks) == hooks_on(net) == 0

    def fail(_: object) -> None:
        raise ValueError("in the hook")

    def run() -> None:
        with HookOwner() as hooks:
            hooks.on_output(net[0], fail)
            net(torch.randn(1, 5))

    with pytest.raises(ValueError, match="in the hook"):
        run()
    assert hooks_on(net) == 0


def test_the_hooks_of_others_stay() -> None:
    net = mlp()
    handle = net[0].register_forward_hook(lambda *_: None)
    with HookOwner() as hooks:
        hooks.on_output(net[0], lambda _: None)
    assert hooks_on(net) == 1
    handle.remove()


def test_gradient_hooks_are_removed_from_tensors_that_live_on() -> None:
    seen: list[Tensor] = []
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    with HookOwner() as hooks:
        hooks.on_gradient(y, seen.append)
        hooks.on_gradient(y.detach(), seen.append)
        assert len(hooks) == 1
        torch.autograd.backward(y.sum(), retain_graph=True)
    torch.autograd.backward(y.sum())
    assert [gradient.tolist() for gradient in seen] == [[1, 1]]


def test_in_backward() -> None:
    seen: list[bool] = []
    x = torch.ones(1, requires_grad=True)
    with HookOwner() as hooks:
        hooks.on_gradient(x, lambda _: seen.append(in_backward()))
        torch.autograd.backward(x.sum())
    assert seen == [True]
    assert not in_backward()


@dataclass
class Output:
    logits: Tensor
    name: str


def test_tensors_are_found_in_nested_outputs() -> None:
    a, b = torch.ones(1), torch.zeros(1, dtype=torch.int64)
    assert [label for label, _ in tensors_in(a)] == [""]
    assert [label for label, _ in tensors_in((b, {"x": [a, None]}, Output(a, "n")))] == ["0", "1.x.0", "2.logits"]
    assert primary_tensor((b, a)) is a
    assert primary_tensor((b,)) is b
    assert primary_tensor(None) is None


def test_a_structure_that_contains_itself_is_finite() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert list(tensors_in(loop)) == []
    assert nn.Identity()(loop) is loop
