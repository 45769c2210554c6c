"""One sample call for every function and method: arguments typed in, and tensors by port."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.values import Value
from tests.catalog.layer_samples import Sample, classes, rand

Make = Callable[[], Sample]


def _given(values: Mapping[str, Value] | None = None, **inputs: Any) -> Sample:
    return Sample(values or {}, inputs)


def _mask() -> torch.Tensor:
    return torch.tensor([[True, False, True, True]] * 3)


def _square() -> torch.Tensor:
    return rand(3, 3).detach() + 2 * torch.eye(3)


def _complex(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.complex64)


def _index() -> torch.Tensor:
    return torch.tensor([0, 2])


_VALUES: dict[str, Mapping[str, Value]] = {
    "softmax log_softmax softmin": {"dim": 1},
    "threshold": {"threshold": 0.5, "value": 0.0},
    "layer_norm rms_norm": {"normalized_shape": (4,)},
    "group_norm": {"num_groups": 2},
    "clamp clamp_ clip": {"min": 0.2, "max": 0.7},
    "mvlgamma": {"p": 1},
    "polygamma": {"n": 1},
    "topk kthvalue": {"k": 2},
    "reshape": {"shape": (4, 3)},
    "unflatten": {"dim": 1, "sizes": (2, 2)},
    "transpose swapdims transpose_": {"dim0": 0, "dim1": 1},
    "swapaxes": {"axis0": 0, "axis1": 1},
    "permute": {"dims": (1, 0)},
    "flip": {"dims": (0,)},
    "tile": {"dims": (2, 1)},
    "movedim moveaxis": {"source": 0, "destination": 1},
    "broadcast_to expand": {"size": (2, 3, 4)},
    "repeat": {"repeats": (2, 1)},
    "view": {"size": (-1,)},
    "roll": {"shifts": 1, "dims": 0},
    "chunk unsafe_chunk": {"chunks": 2},
    "split": {"split_size_or_sections": (1, 2)},
    "tensor_split hsplit": {"sections": 2},
    "vsplit": {"sections": 3},
    "scatter_reduce": {"dim": 1, "reduce": "sum"},
    "select": {"dim": 1, "index": 2},
    "zeros ones empty rand randn": {"size": (2, 3)},
    "new_zeros new_ones new_empty": {"size": (2, 3)},
    "full new_full": {"size": (2, 3), "fill_value": 1.5},
    "full_like": {"fill_value": 1.5},
    "arange": {"start": 0, "end": 6, "step": 2, "dtype": "float32"},
    "eye randperm": {"n": 3},
    "tril_indices triu_indices": {"row": 3, "col": 4},
    "hann_window": {"window_length": 5},
    "scalar_tensor": {"s": 1.5},
    "randint": {"low": 0, "high": 5, "size": (2, 3)},
    "multinomial": {"num_samples": 2},
    "bernoulli": {},
    "to": {"dtype": "float64"},
    "pad": {"pad": (1, 1), "value": 0.5},
    "cosine_similarity": {"dim": 1},
    "quantile nanquantile": {"q": 0.5, "dim": 1},
    "max min median nanmedian": {"dim": 1, "keepdim": True},
    "div": {"other": 2, "rounding_mode": "floor"},
    "norm": {"p": 1.0, "dim": 1},
    "unsqueeze_ unsqueeze unbind cumsum cumprod cummax cummin logcumsumexp logsumexp argsort": {"dim": 1},
    "sum mean prod std var amax amin": {"dim": 1, "keepdim": True},
}
_BY_NAME = {name: values for names, values in _VALUES.items() for name in names.split()}

_WINDOW: Mapping[str, Value] = {"kernel_size": 2}


def _image(rank: int) -> torch.Tensor:
    return rand(2, 4, *[8] * rank)


def _unpool(rank: int) -> Sample:
    pool: Any = getattr(torch.nn, f"MaxPool{rank}d")(2, return_indices=True)
    pooled, indices = pool(_image(rank))
    return _given(_WINDOW, input=pooled.detach(), indices=indices)


_SPATIAL: tuple[tuple[str, Callable[[int], Sample]], ...] = (
    (r"conv(\d)d", lambda n: _given({"padding": 1}, input=_image(n), weight=rand(6, 4, *[3] * n), bias=rand(6))),
    (r"conv_transpose(\d)d", lambda n: _given({"stride": 2}, input=_image(n), weight=rand(4, 6, *[3] * n))),
    (r"adaptive_\w+_pool(\d)d", lambda n: _given({"output_size": 3}, input=_image(n))),
    (r"fractional_max_pool(\d)d", lambda n: _given({**_WINDOW, "output_size": 3}, input=_image(n))),
    (r"lp_pool(\d)d", lambda n: _given({**_WINDOW, "norm_type": 2.0}, input=_image(n))),
    (r"(?:max|avg)_pool(\d)d", lambda n: _given(_WINDOW, input=_image(n))),
    (r"max_unpool(\d)d", _unpool),
    (r"dropout(\d)d", lambda n: _given(input=_image(n))),
)


_SPECIAL: dict[str, Make] = {
    "local_response_norm": lambda: _given({"size": 2}, input=rand(2, 4, 3)),
    "prelu": lambda: _given(input=rand(3, 4), weight=rand(4)),
    "bilinear": lambda: _given(input1=rand(2, 4), input2=rand(2, 5), weight=rand(3, 4, 5)),
    "conv_tbc": lambda: _given(input=rand(5, 2, 4), weight=rand(3, 4, 6), bias=rand(6)),
    "batch_norm": lambda: _given(input=rand(3, 4), running_mean=torch.zeros(4), running_var=torch.ones(4)),
    "instance_norm": lambda: _given(input=rand(2, 4, 5)),
    "embedding embedding_bag": lambda: _given(input=classes(2, 3), weight=rand(5, 4)),
    "one_hot": lambda: _given({"num_classes": 5}, input=classes(3)),
    "scaled_dot_product_attention": lambda: _given(
        {"is_causal": True, "scale": 0.5}, query=rand(2, 2, 5, 4), key=rand(2, 2, 5, 4), value=rand(2, 2, 5, 4)
    ),
    "multi_head_attention_forward": lambda: _given(
        {"embed_dim_to_check": 8, "num_heads": 2, "add_zero_attn": False, "dropout_p": 0.0},
        query=rand(5, 2, 8),
        key=rand(5, 2, 8),
        value=rand(5, 2, 8),
        in_proj_weight=rand(24, 8),
        in_proj_bias=rand(24),
        bias_k=None,
        bias_v=None,
        out_proj_weight=rand(8, 8),
        out_proj_bias=rand(8),
    ),
    "interpolate": lambda: _given({"scale_factor": 2, "mode": "bilinear"}, input=rand(2, 3, 4, 4)),
    "grid_sample": lambda: _given({"align_corners": False}, input=rand(2, 3, 4, 4), grid=rand(2, 5, 5, 2)),
    "affine_grid": lambda: _given({"size": (2, 3, 4, 4), "align_corners": False}, theta=rand(2, 2, 3)),
    "pixel_shuffle": lambda: _given({"upscale_factor": 2}, input=rand(2, 4, 3, 3)),
    "pixel_unshuffle": lambda: _given({"downscale_factor": 2}, input=rand(2, 1, 4, 4)),
    "channel_shuffle": lambda: _given({"groups": 2}, input=rand(2, 4, 3, 3)),
    "fold": lambda: _given({"output_size": (4, 4), "kernel_size": 2}, input=rand(2, 12, 9)),
    "unfold": lambda: _given({"kernel_size": 2}, input=rand(2, 3, 4, 4)),
    "tensor_unfold": lambda: _given({"dimension": -1, "size": 2, "step": 1}, input=rand(2, 5)),
    "cosine_embedding_loss": lambda: _given(input1=rand(3, 4), input2=rand(3, 4), target=torch.ones(3)),
    "ctc_loss": lambda: _given(
        log_probs=rand(6, 2, 5).log_softmax(2),
        targets=torch.ones(2, 3, dtype=torch.long),
        input_lengths=torch.tensor([6, 6]),
        target_lengths=torch.tensor([3, 2]),
    ),
    "kl_div": lambda: _given({"reduction": "batchmean"}, input=rand(3, 4), target=rand(3, 4)),
    "cross_entropy nll_loss multi_margin_loss": lambda: _given(input=rand(3, 5), target=classes(3)),
    "multilabel_margin_loss": lambda: _given(input=rand(3, 5), target=classes(3, 5)),
    "soft_margin_loss": lambda: _given(input=rand(3, 4), target=torch.ones(3, 4)),
    "gcd lcm bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift": lambda: _given(
        input=classes(3, 4), other=classes(3, 4)
    ),
    "bitwise_not": lambda: _given(input=classes(3)),
    "bincount": lambda: _given(input=classes(6)),
    "bucketize": lambda: _given({"right": True}, input=rand(3), boundaries=torch.tensor([0.2, 0.5])),
    "searchsorted": lambda: _given(sorted_sequence=torch.tensor([0.2, 0.5]), input=rand(3)),
    "repeat_interleave": lambda: _given({"repeats": 2, "dim": 1}, input=rand(3, 4)),
    "view_as_real": lambda: _given(input=_complex(3)),
    "view_as_complex": lambda: _given(input=rand(3, 2)),
    "imag": lambda: _given(input=_complex(3)),
    "dsplit": lambda: _given({"sections": 2}, input=rand(2, 3, 4)),
    "meshgrid": lambda: _given({"indexing": "ij"}, tensors=[rand(2), rand(3)]),
    "cartesian_prod": lambda: _given(tensors=[rand(2), rand(3)]),
    "combinations": lambda: _given(input=rand(4)),
    "gather": lambda: _given({"dim": 1}, input=rand(3, 4), index=classes(3, 2, count=4)),
    "take_along_dim": lambda: _given({"dim": 1}, input=rand(3, 4), indices=classes(3, 2, count=4)),
    "take": lambda: _given(input=rand(3, 4), index=classes(3)),
    "scatter": lambda: _given({"dim": 1}, input=rand(3, 4), index=classes(3, 2, count=4), src=rand(3, 4)),
    "scatter_": lambda: _given({"dim": 1, "value": 2.0}, input=torch.ones(3, 4), index=classes(3, 2, count=4)),
    "scatter_add": lambda: _given({"dim": 1}, input=rand(3, 4), index=classes(3, 2, count=4), src=rand(3, 4)),
    "scatter_add_": lambda: _given(
        {"dim": 1}, input=torch.ones(3, 4), index=classes(3, 2, count=4), src=torch.ones(3, 4)
    ),
    "scatter_reduce": lambda: _given(
        {"dim": 1, "reduce": "amax"}, input=rand(3, 4), index=classes(3, 2, count=4), src=rand(3, 4)
    ),
    "index_select": lambda: _given({"dim": 0}, input=rand(3, 4), index=_index()),
    "index_add index_copy": lambda: _given({"dim": 0}, input=rand(3, 4), index=_index(), source=rand(2, 4)),
    "index_add_ index_copy_": lambda: _given(
        {"dim": 0}, input=torch.ones(3, 4), index=_index(), source=torch.ones(2, 4)
    ),
    "index_fill": lambda: _given({"dim": 0, "value": 2}, input=rand(3, 4), index=_index()),
    "index_put": lambda: Sample({}, {"input": rand(3, 4), "indices": [_index(), _index()], "values": rand(2)}),
    "masked_select": lambda: _given(input=rand(3, 4), mask=_mask()),
    "masked_fill": lambda: _given({"value": 0.0}, input=rand(3, 4), mask=_mask()),
    "masked_fill_": lambda: _given({"value": 0.0}, input=torch.ones(3, 4), mask=_mask()),
    "masked_scatter": lambda: _given(input=rand(3, 4), mask=_mask(), source=rand(3, 4)),
    "where": lambda: _given({"other": 0}, condition=_mask(), input=rand(3, 4)),
    "narrow": lambda: _given({"dim": 1, "start": 1, "length": 2}, input=rand(3, 4)),
    "select_scatter": lambda: _given({"dim": 1, "index": 2}, input=rand(3, 4), src=rand(3)),
    "diagonal_scatter": lambda: _given(input=rand(3, 4), src=rand(3)),
    "matmul": lambda: _given(input=rand(3, 4), other=rand(4, 2)),
    "mm": lambda: _given(input=rand(3, 4), mat2=rand(4, 2)),
    "bmm": lambda: _given(input=rand(2, 3, 4), mat2=rand(2, 4, 2)),
    "mv": lambda: _given(input=rand(3, 4), vec=rand(4)),
    "dot": lambda: _given(input=rand(4), tensor=rand(4)),
    "vdot": lambda: _given(input=rand(4), other=rand(4)),
    "outer": lambda: _given(input=rand(3), vec2=rand(4)),
    "einsum": lambda: _given({"equation": "ij,kj->ik"}, tensors=[rand(3, 4), rand(2, 4)]),
    "addmm": lambda: _given({"alpha": 2}, input=rand(3, 2), mat1=rand(3, 4), mat2=rand(4, 2)),
    "baddbmm": lambda: _given(input=rand(2, 3, 2), batch1=rand(2, 3, 4), batch2=rand(2, 4, 2)),
    "addbmm": lambda: _given(input=rand(3, 2), batch1=rand(2, 3, 4), batch2=rand(2, 4, 2)),
    "addmv": lambda: _given(input=rand(3), mat=rand(3, 4), vec=rand(4)),
    "addr": lambda: _given(input=rand(3, 4), vec1=rand(3), vec2=rand(4)),
    "linear_cross_entropy": lambda: _given(input=rand(3, 4), linear_weight=rand(5, 4), target=classes(3)),
    "grouped_mm": lambda: _given(mat_a=rand(2, 8, 16).bfloat16(), mat_b=rand(2, 16, 8).bfloat16()),
    "det inverse matrix_exp": lambda: _given(input=_square()),
    "stft": lambda: _given(
        {"n_fft": 8, "return_complex": True}, input=rand(2, 32).detach(), window=torch.hann_window(8)
    ),
    "istft": lambda: _given(
        {"n_fft": 8},
        input=torch.stft(rand(2, 32), 8, window=torch.hann_window(8), return_complex=True),
        window=torch.hann_window(8),
    ),
    "cross": lambda: _given({"dim": 0}, input=rand(3, 4), other=rand(3, 4)),
    "linalg_inv linalg_det linalg_slogdet": lambda: _given(A=_square()),
    "linalg_eigh linalg_eigvalsh linalg_cholesky": lambda: _given(input=_square() @ _square().T + torch.eye(3)),
    "linalg_matrix_power": lambda: _given({"n": 2}, input=_square()),
    "linalg_solve": lambda: _given(A=_square(), B=rand(3, 2)),
    "linalg_multi_dot": lambda: _given(tensors=[rand(2, 3), rand(3, 4), rand(4, 2)]),
    "linspace logspace": lambda: _given({"start": 0, "end": 1, "steps": 5}),
    "fill_": lambda: _given({"value": 2}, input=torch.ones(3, 4)),
    "item": lambda: _given(input=torch.tensor(2.0)),
    "_weight_norm": lambda: _given(v=rand(3, 4), g=rand(3, 1)),
}
_SPECIAL_BY_NAME = {name: make for names, make in _SPECIAL.items() for name in names.split()}


def sample(spec: NodeSpec) -> Sample:
    """Return arguments for a function: the required ports get numbers between 0 and 1."""
    if spec.type in _SPECIAL_BY_NAME:
        return _SPECIAL_BY_NAME[spec.type]()
    for pattern, make in _SPATIAL:
        if match := re.fullmatch(pattern, spec.type):
            return make(int(match[1]))
    values = _BY_NAME.get(spec.type, {"dim": 0} if _requires(spec, "dim") else {})
    inputs: dict[str, Any] = {}
    for port in spec.inputs:
        if not port.optional and port.name not in values:
            # In-place methods refuse leaves that need gradients.
            tensor = rand(3, 4).detach() if spec.type.endswith("_") else rand(3, 4)
            inputs[port.name] = [tensor, rand(3, 4)] if port.variadic else tensor
    return Sample(values, inputs)


def _requires(spec: NodeSpec, name: str) -> bool:
    prop = spec.property_named(name)
    return prop is not None and prop.required
