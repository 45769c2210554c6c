"""What random modules of later seeds are made of besides: sizes that leak, views changed in place, kinds of buffers, hooks."""

from __future__ import annotations

LATER_TENSOR = (
    "{v} = {a} * self.factors[{a}.shape[0] % 4]",
    "{v} = {a} + {{1: 0.5, 4: 2.0}}.get({a}.shape[0], -1.0)",
    "{v} = {a} * [1.0, 2.0, 4.0][min(len({a}), 2)]",
    "{v} = {a} + len(str({a}.shape[0] * 25))",
    "{v} = {a} + {a}.shape[0].bit_length()",
    "{v} = {a} * sum([1] * {a}.shape[0])",
    "{v} = {a} + sum(range({a}.shape[0])[::-1])",
    "{v} = {a} + math.ceil({a}.shape[0] / 3) + math.log2({a}.shape[0])",
    "{v} = {a} + math.prod({a}.shape) + divmod({a}.shape[0], 3)[1]",
    "{v} = {a} + max({a}.shape) - min({a}.shape[0], 3)",
    "{v} = {a} + round({a}.shape[0] / 3) + abs(2 - {a}.shape[0])",
    "{v} = {a} + ({a}.shape[0] & 1) + ({a}.shape[0] << 1)",
    "{v} = {a} * torch.tensor({a}.shape).float().mean().to({a}.dtype)",
    "{v} = {a} + torch.ones({a}.shape[0], 4) * torch.zeros(4)",
    "{v} = {a} + torch.empty_like({a}).fill_({c})",
    "{v} = {a} + torch.full_like({a}, {c}).cumsum(0)",
    "{v} = {a} + np.sqrt({a}.shape[0])",
    "{v} = {a} + torch.from_numpy(np.ones(({a}.shape[0], 4), dtype=np.float32)).to({a}.dtype)",
    "rest = {a}.shape[0]\n{v} = {a}\nwhile rest > 2:\n    rest //= 2\n    {v} = {v} * 0.5",
    "{v} = torch.stack([row * k for k, row in enumerate({a})])",
    "{v} = torch.stack([one + other for one, other in zip({a}, {b})])",
    "{v} = torch.cat([{a}[: len({a}) // 2], {b}[len({a}) // 2 :]])",
    "{v} = torch.cat([{a}[::2], {a}[1::2]])",
    "{v} = {a} - {a}[-1]",
    "{v} = {a} if {a}.shape == torch.Size([4, 4]) else {b}",
    "{v} = {a}.new_tensor([0.5, 1.0, 1.5, {c}]) * {b}",
    "{v} = {a}.half().to({a}.dtype) + {b}.type_as({a})",
    "{v} = {a} + torch.finfo({a}.dtype).eps * 1000",
    "{v} = {a} + torch.zeros(4, dtype=torch.get_default_dtype())",
    "{v} = ({a} > {c}).long().sum(1, keepdim=True) * {b}",
    "{v} = {a} * self.whole + self.flags * 0.5",
    "{v} = {a} + self.precise.to({a}.dtype)",
    "{v} = ({a} + self.precise).to({b}.dtype)",
    "{v} = {a}.clone()\n{v}.t()[{i}].add_(1)",
    "{v} = {a}.clone()\n{v}.view(-1)[0] = {c}",
    "{v} = {a}.clone()\nleft, right = {v}.chunk(2, 1)\nleft.copy_(right)",
    "{v} = {a}.clone()\n{v}[:, {i}] += {b}[:, 0]",
    "{v} = {a}.clone()\n{v}.T[0].zero_()",
    "{v} = {a}.clone()\n{v}.unbind(1)[0].mul_(2)",
    "{v} = {a}.clone()\ntorch.relu_({v}[:, :2])\n{v}.diagonal().fill_({c})",
    "{v} = torch.empty_like({a})\ntorch.add({a}, {b}, out={v})",
    "{v} = {a}.clone()\n{v}[{v} > {c}] = 0.25",
    "{v} = {a}.clone()\nview = {v}[:, :2]\n{v}.mul_(2)\n{v} = {v} + view.sum()",
    "{v} = {a}.clone()\nkept = {v}.detach()\n{v} = {v} + 0\nkept.zero_()",
    "{v} = {a}.clone()\n{v}.data.mul_(2)",
    "{v} = {a} * 1\n{a} = {a} + 1\n{v} += {a}",
    "{v} = {a} + {b}\n{v} *= {v}.sigmoid()",
    "{v} = twice(lambda each: each * {c}, {a})",
    "{v} = functools.reduce(torch.add, [{a}, {b}, {a}])",
    "{v} = Scaled.apply({a}, 2.0)",
    "{v} = rounded({a})",
    "counts.append(1)\n{v} = {a} * 1",
    "try:\n    {v} = {a}.view(2, 2, 4).sum(0).repeat({a}.shape[0] // 2, 1)\nexcept RuntimeError:\n    {v} = {b} * 1",
    "{v} = {a} + sum(w.sum() for w in self.weights)",
    "{v} = {a}\nfor name, each in self.named.items():\n    {v} = {v} * each if name == 'b' else {v} + each",
    "{v} = {a}\nfor layer in self.layers[:-1]:\n    {v} = layer({v})",
    "{v} = self.layers[{a}.shape[0] % 2]({a})",
    "{v} = self.choice['b' if {a}.shape[0] > 2 else 'a']({a})",
    "{v} = F.linear({a}, F.normalize(self.weight), self.table)",
    "{v} = F.linear({a}, self.linear.weight.t(), self.linear.bias)",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    {v} = self.linear({a})\n{v} = {v}.to({a}.dtype)",
    "with torch.set_grad_enabled({a}.shape[0] > 2):\n    {v} = self.linear({a})",
    "with torch.no_grad():\n    self.scale.clamp_(-1, 1)\n{v} = {a} * self.scale",
    "with torch.no_grad(), torch.enable_grad():\n    {v} = {a} * self.scale",
    "{v} = {a} * self.half",
    "{v} = {a} * self.frozen",
    "{v} = torch.utils.checkpoint.checkpoint(lambda y: y * self.scale + self.drop(y), {a}, use_reentrant=False)",
    "{v} = torch.func.vmap(lambda row: row * row.sum())({a})",
    "{v} = torch.func.grad(lambda y: (y * y).sum())({a})",
    "{v} = {a} * 1\nif {v}.requires_grad:\n    {v}.register_hook(lambda g: g * 2)",
    "cache = {{}}\nfill(cache, {a})\n{v} = cache['it'] + {b}",
    "{v}, *_ = (each * {c} for each in ({a}, {b}))",
    "assert {a}.shape[1] == 4, 'four'\n{v} = {a} * 1",
    "pair = Pair({a}, {b})\n{v} = pair.left - pair.right * {c}",
    "{v} = {a}.flatten().unflatten(0, (-1, 4)) + {a}.size()[0]",
    "{v} = torch.cumsum({a}, 0) / torch.arange(1, {a}.size(0) + 1).unsqueeze(1)",
    "{v} = {a} + F.one_hot({b}.argmax(1), 4)",
    "{v} = {a} * torch.eye(4).sum(0) + torch.linspace(0, 1, {a}.shape[0])[:, None]",
    "{v} = {a} + torch.tril(torch.ones({a}.shape[0], {a}.shape[0])).sum(1, keepdim=True)",
)

LATER_CALLS = (
    "{v} = self.{m}(*[{a}])",
    "{v} = self.{m}.forward({a})",
    "{v} = self.{m}(**{{'x': {a}, 'gain': {c}}})",
    "{v} = self.{m}({a}, {b}, {c})",
    "{v} = self.{m}({a}, other={b} if {a}.shape[0] > 2 else None)",
    "{v} = self.{m}({a}, gain={a}.shape[0])",
    "{v} = self.{m}({a}, gain={a}.shape[0] / 4)",
    "{v} = self.{m}({a}[:2]).sum(0) + {b}",
    "{v} = self.{m}(self.{m}({a})).detach() + {b}",
    "{v} = getattr(self, '{m}')({a})",
    "{v} = {a} + self.{m}({a}) if self.training else self.{m}({b})",
    "fine = self.{m}.training\nself.{m}.eval()\n{v} = self.{m}({a})\nself.{m}.train(fine)",
)

LATER_STATE = (
    "if not hasattr(self, 'kept'):\n    self.kept = {a}.detach()\n{v} = {a} + self.kept.sum()",
    "if self.last is not None:\n    {a} = {a} + self.last\nself.last = {a}.detach().sum()\n{v} = {a} * 1",
    "self.flags.logical_not_()\n{v} = {a} * self.flags",
    "self.whole += 1\n{v} = {a} / self.whole",
    "self.mean[{i}] = {a}.detach().sum()\n{v} = {a} + self.mean",
    "old = self.mean\nself.mean = {a}.detach().mean(0)\n{v} = {a} + old",
    "self.queue = torch.cat([self.queue[1:], {a}.detach()[:1]])\n{v} = {a} + self.queue.sum(0)",
    "self.precise.add_({a}.detach().double().sum(0))\n{v} = {a} + self.precise.mean().to({a}.dtype)",
    "self.register_buffer('fresh', {a}.detach().sum(0))\n{v} = {a} + self.fresh",
    "if self.count < 2:\n    self.count += 1\n{v} = {a} * self.count",
    "self.linear.calls = getattr(self.linear, 'calls', 0) + 1\n{v} = {a} * self.linear.calls",
    "{v} = {a} * self.double_scale",
    "{v} = self.act({a})",
    "{v} = self._helper({a}, {b})",
)

LATER_CONDITIONS = (
    "{a}.shape[0] in (1, 4)",
    "{a}.shape[0] == {b}.shape[1]",
    "len({a}) > 2 or self.training",
    "not {a}.shape[0] % 3",
    "{a}.numel() > 12",
    "{a}.is_contiguous()",
    "torch.is_inference_mode_enabled()",
    "torch.is_tensor({a}) and {a}.ndim == 2",
    "self.linear.training",
    "{a}.dtype.is_floating_point and {a}.dtype != torch.float64",
    "self.count.item() > 1",
    "self.calls % 2 == 0",
    "{a}.shape[0] and {a}.any()",
    "self.linear.weight.shape[0] > 2",
    "(lambda n: n > 2)({a}.shape[0])",
    "{a}.grad_fn is None",
    "{a}.is_leaf",
    "self.weight.requires_grad",
    "torch.is_autocast_enabled('cpu')",
    "gain",
    "other is not None and other.shape[0] > 1",
)

LATER_PRELUDE = """
import collections, functools
import numpy as np

counts = []
Pair = collections.namedtuple("Pair", "left right")

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x * by

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.by * 3, None

def twice(function, x):
    return function(function(x))

def fill(cache, x):
    cache["it"] = x * 2

@torch.no_grad()
def rounded(x):
    return x.round()

class Doubled(nn.Module):
    def forward(self, w):
        return w * 2
"""

LATER_INIT = """        self.register_buffer("flags", torch.tensor([True, False, True, True]))
        self.register_buffer("whole", torch.tensor([1, 2, 3, 4]))
        self.register_buffer("precise", torch.linspace(0, 1, 4, dtype=torch.float64))
        self.register_buffer("queue", torch.zeros(3, 4), persistent=False)
        self.register_buffer("none", None)
        self.half = torch.tensor(0.5)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.weights = nn.ParameterList([torch.ones(4), torch.zeros(2)])
        self.named = nn.ParameterDict({"a": torch.ones(4), "b": torch.full((4,), 0.5)})
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4)])
        self.choice = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
        self.act = F.gelu
        self.last = None
"""

LATER_METHODS = """
    @property
    def double_scale(self):
        return self.scale * 2

    def _helper(self, x, y=None):
        if y is None:
            return x
        return self.linear(x) - y
"""

LATER_ENDS = (
    "self.linear.weight = self.weight",
    "self.named['a'] = self.scale",
    "torch.nn.utils.parametrizations.weight_norm(self.linear)",
    "torch.nn.utils.parametrizations.spectral_norm(self.linear)",
    "torch.nn.utils.parametrize.register_parametrization(self, 'scale', Doubled())",
    "torch.nn.utils.parametrize.register_parametrization(self.linear, 'bias', Doubled())",
    "self.linear.register_forward_hook(lambda m, args, out: out * 2)",
    "self.norm.register_forward_pre_hook(lambda m, args: (args[0] + 1,))",
    "self.register_forward_hook(lambda m, args, out: None)",
    "self.layers.append(self.linear)",
    "self.linear.requires_grad_(False)",
    "self.linear.forward = lambda x: x * 2",
    "self.double().float()",
    "self.eval()",
    "self.drop.eval()",
    "self.layers[0] = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU(inplace=True))",
    "self.batch.momentum = None",
    "self.linear.half().float()",
    "self.table = self.mean",
    "self.act = nn.ReLU(inplace=True)",
    "del self.named['a']",
)
"""Statements at the end of a constructor."""
