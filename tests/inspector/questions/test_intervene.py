from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import pnne_nb as pn
from pnne_nb.errors import InspectionError, LayerNotFoundError
from tests.inspector.questions.nets import made
from tests.inspector.questions.untouched import untouched

Hook = Callable[[Tensor], Tensor]


def by_hand(net: nn.Module, layer: str, change: Hook, x: Any) -> Any:
    """The output of `net` with a hand-written hook."""

    def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return change(output[0].clone()), *output[1:]
        return change(output.clone())

    handle = net.get_submodule(layer).register_forward_hook(hook)
    try:
        return net(x)
    finally:
        handle.remove()


def setting(index: Any, value: float | Callable[[Tensor], Tensor]) -> Hook:
    def change(output: Tensor) -> Tensor:
        output[index] = value(output[index]) if callable(value) else value
        return output

    return change


EACH = slice(None)
CHANGES: dict[str, tuple[str, str, Any, Hook]] = {
    "channels of a convolution": ("residual", "conv2", pn.zero(channels=[1, -1]), setting((EACH, [1, 3]), 0)),
    "a whole layer": ("residual", "bn1", pn.zero(), torch.zeros_like),
    "a unit at a place": ("residual", "stem", pn.zero(units=[(2, 3, 4)]), setting((EACH, 2, 3, 4), 0)),
    "units of a linear layer": ("MLP", "0", pn.scale(-2, channels=(0, 4)), setting((EACH, [0, 4]), lambda x: -2 * x)),
    "units by number": ("MLP", "0", pn.zero(units=[3]), setting((EACH, 3), 0)),
    "tokens": ("GPT", "blocks.0.mlp", pn.zero(tokens=-1), setting((EACH, -1), 0)),
    "features of tokens": ("GPT", "blocks.1", pn.zero(channels=5), setting((EACH, EACH, 5), 0)),
    "features of some tokens": (
        "GPT", "tokens", pn.zero(channels=[1, 2], tokens=[0, 3]),
        setting((EACH, torch.tensor([[0], [3]]), torch.tensor([1, 2])), 0),
    ),
    "channels of a one-dimensional convolution": ("text CNN", "conv", pn.zero(channels=2), setting((EACH, 2), 0)),
    "another dimension": ("GPT", "blocks.0", pn.scale(3, channels=1, dim=1), setting((EACH, 1), lambda x: 3 * x)),
    "clamped": ("U-Net", "down", pn.clamp(-0.1, 0.2, channels=0), setting((EACH, 0), lambda x: x.clamp(-0.1, 0.2))),
    "clamped from above": ("MLP", "2", pn.clamp(high=0), lambda x: x.clamp(max=0)),
    "mean of images": ("residual", "stem", pn.mean(), lambda x: x.mean((0, 2, 3), keepdim=True).expand_as(x)),
    "mean of tokens": (
        "GPT", "blocks.0.attn", pn.mean(channels=[0]), setting((..., 0), lambda x: x.mean().expand_as(x))
    ),
    "a function": ("MLP", "0", torch.tanh, torch.tanh),
    "a recurrent layer": ("LSTM", "rnn", pn.zero(channels=[2]), setting((..., 2), 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_that_of_a_hand_written_hook(name: str) -> None:
    kind, layer, change, hook = CHANGES[name]
    case = made(kind)
    net = case.net.eval()
    with pn.intervene(net, {layer: change}) as what_if:
        found = net(case.data)
    torch.testing.assert_close(found, by_hand(net, layer, hook, case.data), rtol=1e-6, atol=1e-6)
    assert not torch.equal(found, net(case.data))
    assert [row.calls for row in what_if.rows] == [1]


def test_heads_of_an_attention_that_is_written_out() -> None:
    case = made("GPT")
    net = case.net.eval()
    with pn.intervene(net, {"blocks.1.attn.proj": pn.zero(heads=[1], of=2)}):
        found = net(case.data)
    proj = net.get_submodule("blocks.1.attn.proj")

    def without(_module: nn.Module, args: Any) -> Any:
        joined = args[0].clone()
        joined[..., 4:] = 0
        return (joined,)

    handle = proj.register_forward_pre_hook(without)
    torch.testing.assert_close(found, net(case.data), rtol=1e-6, atol=1e-6)
    handle.remove()


def test_heads_of_torch_s_attention() -> None:
    case = made("ViT")
    net = case.net.eval()
    attention = net.get_submodule("encoder.self_attn")
    assert isinstance(attention, nn.MultiheadAttention)
    whole = net(case.data).detach()
    with torch.no_grad(), pn.intervene(net, {"encoder.self_attn": pn.scale(0.5, heads=0)}):
        found = net(case.data)
    with torch.no_grad():
        kept = attention.out_proj.weight.clone()
        attention.out_proj.weight[:, :4] *= 0.5  # head 0 fills the first half of what is projected
        torch.testing.assert_close(found, net(case.data), rtol=1e-5, atol=1e-6)
        attention.out_proj.weight.copy_(kept)
    # The output is changed after the heads, in whichever order both are given.
    changes: list[Any] = [pn.scale(2), pn.scale(0.5, heads=[0, 1]), lambda output: output - attention.out_proj.bias]
    with pn.intervene(net, {"encoder.self_attn": changes}):
        torch.testing.assert_close(net(case.data), whole, rtol=1e-5, atol=1e-6)


def test_a_patch_is_what_the_layer_has_for_the_second_example() -> None:
    case = made("GPT")
    net = case.net.eval()
    other = case.data.flip(1)
    seen: list[Tensor] = []
    handle = net.get_submodule("blocks.0").register_forward_hook(lambda _m, _a, output: seen.append(output))
    net(other)
    handle.remove()

    def patched(output: Tensor) -> Tensor:
        output[:, 2] = seen[0][:, 2]
        return output

    with pn.intervene(net, {"blocks.0": pn.patch(other, tokens=2)}):
        found = net(case.data)
    torch.testing.assert_close(found, by_hand(net, "blocks.0", patched, case.data), rtol=1e-6, atol=1e-6)
    with pn.intervene(net, {"blocks.0": pn.patch(other)}):
        found = net(case.data)
    torch.testing.assert_close(found, net(other))


def test_one_second_example_fits_a_batch_and_heads_can_be_patched() -> None:
    case = made("GPT")
    net = case.net.eval()
    one = case.data[:1].flip(1)
    with pn.intervene(net, {"blocks.*.attn.proj": pn.patch(one, heads=[0, 1], of=2)}):
        found = net(case.data)
    with pn.intervene(net, {"blocks.*.attn": pn.patch(one)}):
        torch.testing.assert_close(found, net(case.data), rtol=1e-5, atol=1e-6)


def test_a_layer_that_is_called_twice_is_patched_by_call() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Any:
            return self.layer(self.layer(x).relu())

    net, x, other = Twice(), torch.randn(2, 3), torch.randn(2, 3)
    with pn.intervene(net, {"layer": pn.patch(other)}) as what_if:
        for _ in range(2):
            torch.testing.assert_close(net(x), net(other))
    assert what_if.rows[0].calls == 8


def test_several_changes_hold_at_once_and_can_be_switched_off() -> None:
    case = made("MLP")
    net, x = case.net.eval(), case.data
    plain = net(x)
    with pn.intervene(net, {"0": [pn.clamp(low=0), pn.scale(2)], "2": pn.zero(channels=1)}) as what_if:
        first, second, third = what_if.rows
        torch.testing.assert_close(net(x)[:, 1], torch.zeros(3))
        third.on = False
        second.on = False
        assert not torch.equal(net(x), plain)
        first.on = False
        torch.testing.assert_close(net(x), plain)
        assert "0: clamp from 0 of [3, 7] (off)" in repr(what_if)
        for row in what_if.rows:
            row.on = True
    assert "at work inside `with` only" in repr(what_if)
    torch.testing.assert_close(net(x), plain)


def test_gradients_flow_through_a_change() -> None:
    case = made("MLP")
    x = case.data.clone().requires_grad_()
    with pn.intervene(case.net, {"0": pn.zero(channels=[0, 1, 2, 3, 4, 5])}):
        case.net(x).sum().backward()
    weight = case.net[0].weight  # type: ignore[index]
    assert weight.grad[:6].abs().max() == 0
    assert weight.grad[6].abs().max() > 0


def test_a_checkpoint_computes_the_same_change_again() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Any:
            return checkpoint(lambda y: self.inner(y).tanh(), x, use_reentrant=False)

    net, x, other = Net(), torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    with pn.intervene(net, {"inner": pn.patch(other, channels=1)}):
        net(x).sum().backward()
    assert net.inner.weight.grad is not None
    assert net.inner.weight.grad[1].abs().max() == 0


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["residual", "GPT", "ViT"])
def test_nothing_is_left_behind(name: str, error: type[BaseException] | None) -> None:
    case = made(name)
    layer = {"residual": "conv1", "GPT": "blocks.0.attn.proj", "ViT": "encoder.self_attn"}[name]
    part: Any = {"residual": {"channels": [0]}, "GPT": {"heads": [0], "of": 2}, "ViT": {"heads": [1]}}[name]
    case.net.eval()
    training = case.net.training
    with untouched(case.net):
        case.net.eval()
        try:
            with torch.no_grad(), pn.intervene(case.net, {layer: [pn.zero(**part), pn.patch(case.data, **part)]}):
                case.net(case.data)
                if error is not None:
                    raise error
        except (RuntimeError, KeyboardInterrupt) as raised:
            assert type(raised) is error
        case.net.train()
    assert training is False


def test_a_compiled_graph_is_changed_by_the_names_on_screen() -> None:
    graph = pn.sequential(nn.Linear(4, 3), "Tanh", nn.Linear(3, 2), input=("N", 4))
    net, x = pn.compile(graph), torch.randn(2, 4)
    layer = next(name for name, module in net.named_modules() if isinstance(module, nn.Linear))
    with pn.intervene(net, {layer: pn.zero(channels=0)}):
        found = net(x)
    torch.testing.assert_close(found, by_hand(net, layer, setting((EACH, 0), 0), x))


def test_a_module_that_torch_compiled_runs_uncompiled() -> None:
    case = made("MLP")
    net: Any = torch.compile(case.net.eval(), backend="eager")
    plain = net(case.data)
    with pn.intervene(net, {"0": pn.zero()}):
        assert not torch.equal(net(case.data), plain)
    torch.testing.assert_close(net(case.data), plain)


class Objects(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return object()


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.unused = Objects(), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Any:
        self.inner(x)
        return x


def during(name: str, changes: Any, data: Any = None) -> Callable[[], object]:
    def call() -> object:
        case = made(name)
        net = case.net.eval()
        with pn.intervene(net, changes):
            return net(case.data if data is None else data)

    return call


def outer(changes: Any) -> Callable[[], object]:
    def call() -> object:
        net = Outer()
        with pn.intervene(net, changes):
            return net(torch.zeros(2))

    return call


def twice() -> None:
    what_if = pn.intervene(made("MLP").net, {"0": pn.zero()})
    with what_if, what_if:
        pass


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no such channel": (
        during("residual", {"conv1": pn.zero(channels=[3, 17])}),
        r"'conv1' has no channel 17: its channels are 0 to 3. .*\[2, 4, 6, 6\], in which dimension 1 counts channels",
    ),
    "no such token": (during("GPT", {"tokens": pn.zero(tokens=6)}), "'tokens' has no token 6: its tokens are 0 to 5"),
    "no such unit": (
        during("residual", {"conv1": pn.zero(units=[(0, 9, 9)])}), r"has no unit \(0, 9, 9\): .* \[4, 6, 6\] for each"
    ),
    "no such head": (during("ViT", {"encoder.self_attn": pn.zero(heads=2)}), "has no head 2: its heads are 0 to 1"),
    "no such dimension": (during("MLP", {"0": pn.zero(channels=0, dim=4)}), "has no dimension 4 for channels"),
    "heads that nobody counted": (
        during("GPT", {"blocks.0.attn.proj": pn.zero(heads=0)}), "How many heads does the layer .* join"
    ),
    "heads that do not fit": (
        during("GPT", {"blocks.0.attn.proj": pn.zero(heads=0, of=3)}), "takes 8 values, which are not those of 3 heads"
    ),
    "heads of a block": (
        during("GPT", {"blocks.0.attn": pn.zero(heads=0, of=2)}), r"\{'blocks.0.attn.proj': pn.zero\(heads=\[0\], of=4\)\}"
    ),
    "another number of heads": (
        during("ViT", {"encoder.self_attn": pn.zero(heads=0, of=4)}), "has 2 heads, not 4: leave of= out"
    ),
    "a layer that returns objects": (outer({"inner": pn.zero()}), "The layer 'inner' returns a object, in which there is no"),
    "a layer that is not called": (outer({"unused": pn.zero()}), "The layer 'unused' was not called"),
    "another shape": (
        during("MLP", {"0": lambda x: x[:, :2]}), r"The change of the layer '0' makes \[3, 2\] torch.float32 of its output"
    ),
    "no tensor": (during("MLP", {"0": lambda x: None}), "makes None of its output"),
    "a second example of another size": (
        during("GPT", {"blocks.0": pn.patch(torch.zeros(1, 3, dtype=torch.int64))}),
        r"The layer 'blocks.0': The output has the shape \[2, 6, 8\] here, and \[1, 3, 8\] for the second example",
    ),
    "a second example that does not fit": (during("MLP", {"0": pn.patch((torch.zeros(1, 5), 3))}), "cannot be called with"),
    "the function instead of the change": (during("MLP", {"0": pn.zero}), "pn.zero makes a change, and is none"),
    "no change": (during("MLP", {"0": 0.5}), "0.5 is no change of a layer: write pn.zero"),
    "no mapping": (during("MLP", "0"), "changes must be a mapping of layers to changes"),
    "nothing": (during("MLP", {}), "changes names no layer"),
    "twice": (twice, "at work already"),
    "a misspelt part": (lambda: pn.zero(chanels=[1]), "There is no part 'chanels' of an output. Did you mean 'channels'"),  # type: ignore[call-arg]
    "heads and channels": (lambda: pn.zero(heads=0, channels=1), "heads are counted before the projection"),
    "a dimension of nothing": (lambda: pn.zero(dim=1), "dim is the dimension of channels or of tokens"),
    "a number of heads": (lambda: pn.zero(heads=0, of=0), "of must be a number of heads, not 0"),
    "a factor of another type": (lambda: pn.scale("2"), "factor must be a number"),  # type: ignore[arg-type]
    "no bound": (pn.clamp, "pn.clamp has no bound"),
    "bounds the wrong way round": (lambda: pn.clamp(2, 1), "low=2 is not below high=1"),
    "no second example": (lambda: pn.patch(None), "cannot be None"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_work_is_explained(name: str) -> None:
    call, message = BAD[name]
    with pytest.raises((pn.ArgumentError, pn.InspectionError, pn.LayerNotFoundError), match=message):
        call()


def test_heads_with_dropout_are_refused() -> None:
    case = made("ViT")
    message = r"its dropout would draw other numbers: call net.eval\(\)"
    with (
        pytest.raises(pn.InspectionError, match=message),
        pn.intervene(case.net.train(), {"encoder.self_attn": pn.zero(heads=0)}),
    ):
        case.net(case.data)


def test_patch_effects_are_those_of_hand_written_hooks() -> None:
    case = made("GPT")
    net = case.net.eval()
    clean, corrupted = case.data[:1], case.data[1:]
    with untouched(net):
        found = pn.patch_effects(net, clean, corrupted, at="blocks.*.mlp", target=(-1, 7), by="tokens")
    net.eval()
    assert found.layers == ("blocks.0.mlp", "blocks.1.mlp")
    assert found.effects.shape == (2, 6)
    bottom, top = (float(net(x)[0, -1, 7].detach()) for x in (corrupted, clean))
    assert (found.corrupted, found.clean) == pytest.approx((bottom, top))
    for row, layer in enumerate(found.layers):
        seen: list[Tensor] = []
        handle = net.get_submodule(layer).register_forward_hook(lambda _m, _a, output, seen=seen: seen.append(output))
        net(clean)
        handle.remove()
        for token in range(6):
            [own] = seen
            patched = by_hand(net, layer, setting((EACH, token), partial(lambda new, _: new, own[:, token])), corrupted)
            expected = (float(patched[0, -1, 7].detach()) - bottom) / (top - bottom)
            assert found.effects[row, token] == pytest.approx(expected, abs=1e-5)
    assert list(found.to_frame().columns) == [f"token {place}" for place in range(6)]


def test_patching_everything_that_follows_makes_the_answer_that_of_the_clean_example() -> None:
    case = made("residual")
    found = pn.patch_effects(case.net, case.data[:1], case.data[1:], at=["conv*", "fc"], target=2)
    assert found.layers == ("conv1", "conv2", "fc")
    assert found.effects.shape == (3,)
    assert np.isclose(found.effects[2], 1)
    assert "effect" in repr(found)
    assert "<img" in found._repr_html_()
    assert "<table" in found._repr_html_()


BAD_PATCHES: dict[str, tuple[Callable[[], object], str]] = {
    "the same answers": (
        lambda: pn.patch_effects(made("MLP").net, torch.ones(1, 5), torch.ones(1, 5), target=1),
        "for both examples: there is no difference",
    ),
    "a layer that is not called": (
        lambda: pn.patch_effects(Outer(), torch.zeros(1, 2), torch.ones(1, 2), at="unused", target=1),
        "The layer 'unused' is not called",
    ),
    "no tokens": (
        lambda: pn.patch_effects(made("MLP").net, torch.zeros(1, 5), torch.ones(1, 5), target=1, by="tokens"),
        r"returns \[1, 7\], and tokens are positions of a sequence",
    ),
    "another axis": (
        lambda: pn.patch_effects(made("MLP").net, torch.zeros(1, 5), torch.ones(1, 5), target=1, by="token"),  # type: ignore[arg-type]
        "by cannot be 'token'. Did you mean 'tokens'",
    ),
    "no target": (
        lambda: pn.patch_effects(made("MLP").net, torch.zeros(1, 5), torch.ones(1, 5)),
        "say which number of each example is asked about",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_PATCHES)
def test_patches_that_do_not_work_are_explained(name: str) -> None:
    call, message = BAD_PATCHES[name]
    with pytest.raises((pn.ArgumentError, pn.InspectionError), match=message):
        call()


class Functions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x)) + x)  # type: ignore[no-any-return]  # torch types a call as Any


@pytest.fixture
def drawn() -> nn.Module:
    net = Functions()
    return pn.compile(pn.from_module(net, args=(torch.randn(2, 4),)))


def test_a_function_of_a_drawn_graph_is_changed_like_a_layer(drawn: nn.Module) -> None:
    x, other = torch.randn(3, 4), torch.randn(3, 4)
    hidden = drawn.get_submodule("first")(x).relu()
    last = drawn.get_submodule("last")
    kept = torch.tensor([1.0, 0.0, 1.0, 1.0])
    with pn.intervene(drawn, {"relu": pn.zero(channels=[1])}) as what_if:
        torch.testing.assert_close(drawn(x), last(hidden * kept + x))
        drawn(x).sum().backward()
        what_if.rows[0].on = False
        torch.testing.assert_close(drawn(x), last(hidden + x))
    patched = last(drawn.get_submodule("first")(other).relu() + other)
    with pn.intervene(drawn, {"add": pn.patch(other), "first": pn.scale(2.0)}):
        torch.testing.assert_close(drawn(x), patched)
    torch.testing.assert_close(drawn(x), last(hidden + x))


def test_a_function_that_does_not_exist_or_has_no_heads(drawn: nn.Module) -> None:
    with pytest.raises(LayerNotFoundError, match="relo"):
        pn.intervene(drawn, {"relo": pn.zero()})
    with pytest.raises(InspectionError, match="The function 'add' has no heads: name the linear layer behind it"):
        pn.intervene(drawn, {"add": pn.zero(heads=[0])})
    with pytest.raises(LayerNotFoundError, match="relu"):
        pn.intervene(Functions(), {"relu": pn.zero()})
