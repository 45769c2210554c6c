"""Copies of modules: equal to the original, apart from it, and one after the other in the same memory."""

from __future__ import annotations

import torch
from torch import nn

from pnne_nb.compiler.weights.deepcopy import Copies, Shared, duplicate


class Holding(nn.Module):
    """Keeps things that are still empty, one of them in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.inner[0].requires_grad_(False)
        self.seen: list[int] = []
        self.also = self.seen
        self.by_name: dict[object, object] = {}


def test_what_is_empty_is_copied_too_and_stays_one_where_it_was_one() -> None:
    original = Holding()
    original.by_name = {original.inner: [original.inner[0].weight]}
    copy = duplicate(original)
    assert isinstance(copy, Holding)
    assert copy.by_name == {copy.inner: [copy.inner[0].weight]}
    assert copy.seen is copy.also
    assert copy.seen is not original.seen
    assert copy.by_name is not original.by_name
    copy.register_forward_hook(lambda *_: None)
    copy.seen.append(1)
    assert not original._forward_hooks
    assert original.seen == []


def test_each_of_several_copies_begins_with_the_content_of_the_original() -> None:
    original = Holding()
    copies = Copies(original)
    first = copies.next()
    places = [parameter.data_ptr() for parameter in first.parameters()]
    with torch.no_grad():
        for tensor in (*first.parameters(), *first.buffers()):
            tensor.add_(1)
    second = copies.next()
    assert [parameter.data_ptr() for parameter in second.parameters()] == places
    assert second.state_dict().keys() == original.state_dict().keys()
    for name, tensor in original.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])
        assert tensor.data_ptr() != second.state_dict()[name].data_ptr()
    trained = [parameter.requires_grad for parameter in original.parameters()]
    assert [parameter.requires_grad for parameter in second.parameters()] == trained


def test_copies_share_what_the_original_shares() -> None:
    original = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    original[1].weight = original[0].weight
    one, other = Copies(original).next().children()
    assert one.weight is other.weight


def test_two_modules_with_equal_parameters_are_copied_into_the_memory_of_one() -> None:
    one, other = Holding(), nn.ModuleDict({"it": Holding()})
    other["it"].load_state_dict(one.state_dict())
    shared = Shared(one, other, "it.")
    first, second = (copies.next() for copies in shared.copies)
    weights = [each.get_parameter("inner.0.weight") for each in (first, second.get_submodule("it"), other["it"])]
    assert len({weight.data_ptr() for weight in weights}) == 1
    assert one.get_parameter("inner.0.weight").data_ptr() != weights[0].data_ptr()
    buffers = [each.get_buffer("inner.1.running_mean").data_ptr() for each in (first, second.get_submodule("it"))]
    assert len(set(buffers)) == 2
    assert shared.is_intact
    weights[0].data.add_(1)
    assert not shared.is_intact  # for what a copy changes, the original must not be blamed


def test_parameters_that_differ_are_copied_apart() -> None:
    one, other = Holding(), Holding()
    first, second = (copies.next() for copies in Shared(one, other).copies)
    assert torch.equal(first.get_parameter("inner.0.weight"), one.get_parameter("inner.0.weight"))
    assert torch.equal(second.get_parameter("inner.0.weight"), other.get_parameter("inner.0.weight"))


def test_the_second_of_two_modules_gives_its_memory_back() -> None:
    one, other = Holding(), Holding()
    other.load_state_dict(one.state_dict())
    shared = Shared(one, other)
    shared.release()
    assert [p.data_ptr() for p in other.parameters()] == [p.data_ptr() for p in one.parameters()]
    assert other.get_buffer("inner.1.running_mean").data_ptr() != one.get_buffer("inner.1.running_mean").data_ptr()
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())
