"""Copies of modules: equal to the original, apart from it, and one after the other in the same memory."""

from __future__ import annotations

import torch
from torch import nn

from pnne_nb.compiler.weights.deepcopy import Copies, duplicate


class Holding(nn.Module):
    """Keeps things that are still empty, one of them in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.inner[0].requires_grad_(False)
        self.seen: list[int] = []
        self.also = self.seen
        self.by_name: dict[str, int] = {}


def test_what_is_empty_is_copied_too_and_stays_one_where_it_was_one() -> None:
    original = Holding()
    copy = duplicate(original)
    assert isinstance(copy, Holding)
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
