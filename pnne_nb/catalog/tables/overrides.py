"""Facts that signatures lack: ranges, choices, element types, categories, names of results; how sizes follow from inputs.

Every row of a table reads ``(pattern of type names, argument names, fact)``; the first row that fits wins.
A layer or function that needs no row here needs no line of code either.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, final

import msgspec

from pnne_nb.graph.schema.property_types import (
    BoolType,
    ConstantType,
    DtypeType,
    EnumType,
    FloatType,
    IntType,
    OptionalType,
    PropertyType,
    StringType,
    TupleType,
    UnionType,
)
from pnne_nb.graph.schema.spec import Part, Port, PortKind, Returns

Role: TypeAlias = Literal["init", "call", "node"]
Fact = TypeVar("Fact")
Table: TypeAlias = tuple[tuple[str, str, Fact], ...]

SKIPPED = frozenset(
    ("device", "dtype", "size_average", "reduce", "out", "generator", "layout", "pin_memory", "names",
     "params", "optimizer", "process_group", "requires_grad", "cudnn_enable", "min_value", "max_value", "path")
)  # fmt: skip
"""Arguments that no form shows: placement and precision belong to the whole model, the others are deprecated,
hold live objects, are wired by the training graph, or belong to the operator alone (``torch.einsum`` takes no path)."""

PER_AXIS = frozenset(("kernel_size", "stride", "padding", "dilation", "output_size", "output_padding", "output_ratio"))
"""Arguments with one value per spatial axis: ``Conv2d`` takes tuples of two."""

RANGES: Table[tuple[float | None, float | None]] = (
    ("one_hot", "num_classes", (-1, None)),
    ("*ropout*", "p", (0, 1)),
    ("PairwiseDistance|TripletMarginLoss|pairwise_distance|triplet_margin_loss|cdist|pdist", "p", (0, None)),
    ("MultiMarginLoss|multi_margin_loss", "p", (1, 2)),
    ("bernoulli*", "p", (0, 1)),
    ("OneCycleLR", "pct_start", (0, 1)),
    ("mvlgamma*|chunk|unsafe_chunk|kthvalue|multinomial|stft|istft", "p chunks k num_samples n_fft hop_length win_length",
     (1, None)),
    ("Huber*|huber*|SmoothL1*|smooth_l1*|topk|bincount|eye|randperm|linspace|logspace|normal*",
     "delta beta k minlength n m steps std", (0, None)),
    ("*", "dropout dropout_p label_smoothing", (0, 1)),
    ("BatchNorm*|InstanceNorm*|SyncBatchNorm", "momentum", (0, 1)),
    ("*Pad?d", "padding", (None, None)),
    # Each one is built: a million, typed by mistake or in a hostile file, would hold up the editor for minutes.
    ("*", "num_layers num_encoder_layers num_decoder_layers", (1, 256)),
    ("*", ("in_channels out_channels in_features out_features in1_features in2_features num_features num_channels "
          "num_groups groups kernel_size stride dilation embedding_dim num_embeddings input_size hidden_size "
          "embed_dim num_heads kdim vdim d_model nhead dim_feedforward upscale_factor downscale_factor "
          "n_classes num_classes num_parameters normalized_shape batch_size max_iter history_size ns_steps "
          "T_max T_0 T_mult step_size step_size_up epochs steps_per_epoch total_steps"), (1, None)),
    ("LocalResponseNorm|CrossMapLRN2d|local_response_norm", "size", (1, None)),
    ("*", ("padding output_padding output_size eps proj_size patience cooldown total_iters num_workers lr "
          "weight_decay momentum lr_decay lambd_decay initial_accumulator_value tolerance_grad tolerance_change "
          "max_norm"), (0, None)),
    ("Ada*|*Adam*|Muon|NAdam|RAdam", "betas rho", (0, 1)),
)  # fmt: skip

_INTERPOLATION = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact")
_REDUCTIONS = ("none", "mean", "sum")

CHOICES: Table[tuple[str, ...]] = (
    ("KLDivLoss|kl_div", "reduction", (*_REDUCTIONS, "batchmean")),
    ("*", "reduction", _REDUCTIONS),
    ("*", "approximate", ("none", "tanh")),
    ("RNN|RNNCell", "nonlinearity", ("tanh", "relu")),
    ("EmbeddingBag|embedding_bag", "mode", ("sum", "mean", "max")),
    ("Upsample|interpolate", "mode", _INTERPOLATION),
    ("grid_sample", "mode", ("bilinear", "nearest", "bicubic")),
    ("grid_sample", "padding_mode", ("zeros", "border", "reflection")),
    ("pad", "mode", ("constant", "reflect", "replicate", "circular")),
    ("Conv?d|conv?d", "padding", ("valid", "same")),
    ("Transformer*", "activation", ("relu", "gelu")),
    ("LBFGS", "line_search_fn", ("strong_wolfe",)),
    ("Muon", "adjust_lr_fn", ("original", "match_rms_adamw")),
    ("div|true_divide", "rounding_mode", ("trunc", "floor")),
    ("meshgrid", "indexing", ("ij", "xy")),
    ("*scatter_reduce*|index_reduce*", "reduce", ("sum", "prod", "mean", "amax", "amin")),
    ("searchsorted", "side", ("left", "right")),
    ("quantile|nanquantile", "interpolation", ("linear", "lower", "higher", "midpoint", "nearest")),
    ("fft_*", "norm", ("forward", "backward", "ortho")),
    ("cdist", "compute_mode", (
        "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")),
    ("linalg_qr", "mode", ("reduced", "complete", "r")),
    ("linalg_eigh|linalg_eigvalsh", "UPLO", ("L", "U")),
    ("stft", "pad_mode", ("reflect", "constant", "replicate", "circular")),
)  # fmt: skip

MODE = UnionType((BoolType(), EnumType(("auto",))))
"""The type of a function's ``training``: ``"auto"`` follows the mode of the compiled module."""

TYPES: Table[PropertyType] = (
    ("interpolate", "size", OptionalType(TupleType(IntType(1), scalar=True))),
    ("interpolate", "scale_factor", OptionalType(TupleType(FloatType(0), scalar=True))),
    ("*max_unpool?d", "output_size", OptionalType(TupleType(IntType()))),
    ("MaxUnpool?d|ConvTranspose?d", "output_size", OptionalType(TupleType(IntType(0)))),
    ("MultiheadAttention", "embed_dim num_heads", IntType(1)),
    ("MultiheadAttention", "kdim vdim", OptionalType(IntType(1))),
    ("softmax|log_softmax|softmin", "dtype", OptionalType(DtypeType())),
    ("norm", "p", OptionalType(UnionType((FloatType(), EnumType(("fro", "nuc")))))),
    ("norm", "dim", OptionalType(TupleType(IntType(), scalar=True))),
    ("norm", "dtype", OptionalType(DtypeType())),
    ("split", "split_size_or_sections", TupleType(IntType(0), scalar=True)),
    ("unique|unique_consecutive", "dim", OptionalType(IntType())),
    ("tensordot", "dims", ConstantType()),
    ("CyclicLR|OneCycleLR", "base_lr max_lr base_momentum max_momentum", TupleType(FloatType(0), scalar=True)),
    ("ReduceLROnPlateau", "min_lr", TupleType(FloatType(0), scalar=True)),
    ("MultiStepLR|SequentialLR", "milestones", TupleType(IntType(0))),
    ("LambdaLR|MultiplicativeLR", "lr_lambda", StringType()),
    ("ConvTranspose?d", "padding_mode", EnumType(("zeros",))),
)  # fmt: skip

DTYPES: Table[Literal["any", "floating", "integer"]] = (
    ("Embedding*|embedding*", "input offsets", "integer"),
    ("NLLLoss*|nll_loss|*MultiMarginLoss|multi_margin_loss|MultiLabelMarginLoss|multilabel_margin_loss",
     "target", "integer"),
    ("AdaptiveLogSoftmaxWithLoss", "target_", "integer"),
    ("*MaxUnpool?d|max_unpool?d", "indices", "integer"),
    ("gather|scatter*|take_along_dim", "index", "integer"),
    ("one_hot", "input", "integer"),
    (("Linear|Bilinear|Conv*|BatchNorm*|SyncBatchNorm|InstanceNorm*|GroupNorm|LayerNorm|RMSNorm|RNN*|LSTM*|GRU*"
     "|linear|bilinear|conv?d|conv_transpose?d|batch_norm|layer_norm|group_norm|instance_norm"),
     "input input1 input2 x weight", "floating"),
    ("MultiheadAttention|scaled_dot_product_attention", "query key value", "floating"),
    ("Transformer*", "src tgt memory", "floating"),
    ("AvgPool*|avg_pool*|Adaptive*Pool*|adaptive_*|LPPool*|lp_pool*|*ropout*", "input", "floating"),
    ("Softmax*|LogSoftmax|Softmin|softmax|log_softmax|softmin|Sigmoid|Tanh|GELU|SiLU|Mish|ELU|SELU|CELU",
     "input", "floating"),
)  # fmt: skip

CALL_ARGUMENTS = frozenset(("device", "dtype", "names", "params"))
"""Skipped in constructors, but part of what a function does: ``zeros(dtype=…)``, ``sum(dtype=…)``."""

UNTYPED_TENSORS = frozenset(("input", "tensor", "a", "b", "A", "B", "x", "y", "x1", "x2"))
"""Names under which Python functions of torch take a tensor without a hint."""

PORT_KINDS: Table[PortKind] = (("LSTM", "hx", "value"), ("LSTMCell", "hx", "value"))

OUTPUTS: dict[str, Returns] = {
    "LSTM": ("output", ("h_n", "c_n")),
    "GRU": ("output", "h_n"),
    "RNN": ("output", "h_n"),
    "LSTMCell": ("h_1", "c_1"),
    "MultiheadAttention": ("output", "attn_weights"),
    "AdaptiveLogSoftmaxWithLoss": ("output", "loss"),
    "std_mean": ("std", "mean"),
    "var_mean": ("var", "mean"),
    "multi_head_attention_forward": ("output", "attn_weights"),
}
"""Results that are tuples, nested as they are."""

RESULTS: Table[tuple[Port, ...]] = (
    (("size|dim|numel|item|equal|allclose|chunk|split|tensor_split|unbind|?split|unsafe_chunk|meshgrid"
     "|broadcast_tensors"), "", (Port("output", kind="value"),)),
)  # fmt: skip
"""Results that are no tensors: numbers, and tuples whose length depends on the input (take items with ``getitem``)."""

CONDITIONAL_OUTPUTS: Table[tuple[tuple[str, str], ...]] = (
    ("*MaxPool*|*max_pool*", "", (("indices", "return_indices"),)),
    ("unique|unique_consecutive", "", (("inverse", "return_inverse"), ("counts", "return_counts"))),
)
"""Further outputs that exist only while a property differs from its default: (output, property)."""

_LAYER = ("d_model", "nhead", "dim_feedforward", "dropout", "activation", "layer_norm_eps", "batch_first",
          "norm_first", "bias")  # fmt: skip
_FINAL_NORM = Part(
    "norm", "torch.nn.LayerNorm", (("normalized_shape", "d_model"), ("eps", "layer_norm_eps"), ("bias", "bias")),
    when="norm",
)  # fmt: skip
PARTS: dict[str, tuple[Part, ...]] = {
    name: (Part(argument, f"torch.nn.{name}Layer", tuple((item, item) for item in _LAYER)), _FINAL_NORM)
    for name, argument in (("TransformerEncoder", "encoder_layer"), ("TransformerDecoder", "decoder_layer"))
}
"""Constructor arguments that are modules, built from properties of the same node."""

OPTIONAL_OUTPUTS = frozenset({
    ("MultiheadAttention", "attn_weights"),
    ("multi_head_attention_forward", "attn_weights"),
})  # fmt: skip
"""Types and output ports that torch annotates as ``Optional[Tensor]``, whatever the arguments are."""

MODULE_CATEGORIES = {
    "activation": "Activation", "adaptive": "Loss", "batchnorm": "Normalization", "channelshuffle": "Vision",
    "conv": "Convolution", "distance": "Distance", "dropout": "Dropout", "flatten": "Shape", "fold": "Vision",
    "instancenorm": "Normalization", "linear": "Linear", "loss": "Loss", "normalization": "Normalization",
    "padding": "Padding", "pixelshuffle": "Vision", "pooling": "Pooling", "rnn": "Recurrent",
    "sparse": "Embedding", "transformer": "Transformer", "upsampling": "Vision",
}  # fmt: skip
"""Category of a layer by the last part of its module in torch; a module of a later torch appears under its own name."""
CATEGORIES = {"MultiheadAttention": "Attention", "LinearCrossEntropyLoss": "Loss"}

CATEGORY_ORDER = (
    "Linear", "Convolution", "Pooling", "Activation", "Normalization", "Dropout", "Recurrent", "Attention",
    "Transformer", "Embedding", "Padding", "Vision", "Distance", "Loss", "Shape", "Joining", "Arithmetic", "Matrix",
    "Reduction", "Indexing", "Comparison", "Logic", "Trigonometry", "Special functions", "Sorting", "Creation",
    "Random", "Casts", "Complex", "Fourier", "In-place", "Python", "Optimizer", "Scheduler", "Training",
)  # fmt: skip
"""Order of the headings in the palette; others follow."""

NOT_LAYERS = frozenset(
    ("Module", "Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict",
     "DataParallel", "RNNBase", "RNNCellBase", "NLLLoss2d")
)  # fmt: skip
"""Containers, for which there are nested graphs; base classes; and a deprecated alias."""


class _Names:
    """A set of type names: some in full, some by pattern."""

    def __init__(self, patterns: str) -> None:
        parts = patterns.split("|")
        globs = [part for part in parts if set(part) & set("*?[")]
        self._exact = frozenset(parts).difference(globs)
        self._globs = "|".join(map(fnmatch.translate, globs))

    def __contains__(self, name: str) -> bool:
        if name in self._exact:
            return True
        return self._globs != "" and self._pattern.match(name) is not None

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._globs)


DOCS = {
    "CrossMapLRN2d": "Normalises each value by its neighbours across channels, as LocalResponseNorm does.",
    "rsub": "Subtracts input, scaled by alpha, from other.",
    "clamp_min": "Replaces values below min by min.",
    "clamp_max": "Replaces values above max by max.",
    "scalar_tensor": "A tensor without axes that holds one number.",
    "relu_": "In-place version of relu.",
    "_weight_norm": "A weight of the direction of v and the length g along one axis, as weight normalisation computes it.",
}
"""Summaries of what torch leaves undocumented."""

ARGUMENT_DOCS: Table[str] = (
    ("*", "inplace", "Whether the input is overwritten instead of copied."),
    ("*", "training", "Whether it behaves as in training; 'auto' follows the mode of the compiled module."),
    ("*", "dim dim0 dim1 axis0 axis1 dims source destination", "Which axes, counted from 0; from the end if negative."),
    ("*", "dtype", "Element type of the result."),
    ("*", "device", "Device of the result."),
    ("*", "eps", "Small number that keeps a division or logarithm finite."),
    ("*", "momentum", "Weight of the new value in the running mean and variance."),
    ("*", "keepdim", "Whether reduced axes stay, with size 1."),
    ("*", "kernel_size", "Size of the window."),
    ("*", "stride", "Step of the window; None: its size."),
    ("*", "padding", "How much is added at both ends of each axis."),
    ("*", "padding_mode", "What is added: only 'zeros' for transposed convolutions."),
    ("*", "output_size", "Sizes of the result; None: computed from the input."),
    ("*", "dilation", "Distance between the elements of the window."),
    ("*", "ceil_mode", "Whether output sizes are rounded up instead of down."),
    ("*", "norm_type", "Which norm: 2 is the Euclidean one."),
    ("bernoulli*", "p", "The probability of a 1; None: each element of the input is that of its own."),
    ("mvlgamma*", "p", "The number of dimensions of the multivariate function."),
    ("*", "value fill_value s", "The number that is filled in."),
    ("*", "other exponent min max", "The second operand: a number, or a tensor of a fitting shape."),
    ("*", "alpha", "Factor of the second operand."),
    ("*", "unbiased", "Whether to divide by N - 1 instead of N."),
    ("*", "normalized_shape", "Sizes of the last axes, over which is normalised."),
    ("*", "num_groups", "Into how many groups the channels are divided."),
    ("*", "use_input_stats", "Whether mean and variance come from the input instead of the running ones."),
    ("*", "size shape repeats", "Sizes of the result, or repetitions, by axis."),
    ("*", "reduction", "'none': one loss per element; 'mean' or 'sum': over all of them."),
    ("*", "reduce", "How values that meet at one place are combined."),
    ("*", "include_self", "Whether the values of the input count."),
    ("*", "accumulate", "Whether values are added instead of replaced."),
    ("*", "sections", "Into how many equal parts, where they are not given by indices."),
    ("*MaxPool*|*max_pool*", "indices", "Index of each of the largest values, as unpooling takes it."),
    ("*", "indices", "Where to cut."),
    ("*", "chunks", "Into how many parts."),
    ("*", "threshold", "Where the function changes."),
    ("*", "margin", "The smallest distance that they should have."),
    ("*", "swap", "Whether the harder of the two negative distances counts."),
    ("*", "rounding_mode", "None: true division; 'trunc' or 'floor': rounded towards zero or down."),
    ("*", "norm", "Whether a LayerNorm follows the last layer."),
    ("*", "mask_check", "Whether the mask is checked before the fast path is taken."),
    ("*", "non_blocking", "Whether a copy between devices may run in the background."),
    ("*", "copy", "Whether a new tensor is made even if nothing changes."),
    ("*", "lambd", "Values between -lambd and lambd become zero."),
    ("*", "beta k", "Further parameter of the formula."),
    ("*", "input", "The input tensor."),
    ("LSTM|LSTMCell", "hx", "First hidden and cell state, as a tuple; zeros if nothing is connected."),
    ("RNN*|GRU*", "hx", "First hidden state; zeros if nothing is connected."),
    ("*Loss*", "output", "The loss: a scalar, or one per element with reduction 'none'."),
    ("*Loss*", "target", "The expected output."),
    ("Transformer*|MultiheadAttention", "output", "The result, of the shape of the first input."),
    ("MultiheadAttention", "attn_weights", "How much each query attends to each key, of shape (N, L, S)."),
    ("LSTMCell", "h_1 c_1", "Next hidden (h_1) or cell (c_1) state, of shape (N, hidden_size)."),
    ("EmbeddingBag", "output", "One vector per bag, of shape (B, embedding_dim)."),
    (
        "CosineSimilarity|PairwiseDistance|cosine_similarity|pairwise_distance",
        "x1 x2",
        "One of the two tensors to compare; their shapes fit each other.",
    ),
    (
        "AdaptiveLogSoftmaxWithLoss",
        "input_ target_ loss",
        "input_: (N, in_features); target_: the classes, (N); loss: the mean negative log likelihood, a scalar.",
    ),
    (
        "Triplet*|triplet*",
        "anchor positive negative",
        "An example (anchor), one that should be near it (positive), and one that should be far from it (negative).",
    ),
    ("RMSNorm", "x", "The tensor to normalise: its last axes are normalized_shape."),
    ("*", "output", "The result."),
    ("*", "var", "Variance: a number, or a tensor."),
    ("stft", "align_to_window", "Whether each frame begins where its window does, without padding."),
    ("*", "n", "Order of the derivative."),
    ("*", "negative_slope lower upper min_val max_val", "Bound or slope of the function."),
    ("*", "approximate", "'tanh' for a faster approximation."),
    ("*", "mean std", "Of the normal distribution."),
    ("*", "a b", "An operand: a number, or what is wired."),
)
"""What arguments mean where torch does not say."""


_by_argument: dict[int, dict[str, list[tuple[_Names | None, Any]]]] = {}
"""Rows by argument name, for each table by its identity: hashing a whole table takes longer than looking it up.

None stands for all types."""


def _rows(table: Table[Fact]) -> dict[str, list[tuple[_Names | None, Fact]]]:
    by_name: dict[str, list[tuple[_Names | None, Fact]]] = {}
    for patterns, names, fact in table:
        types = _Names(patterns) if patterns != "*" else None
        for name in names.split() or [""]:
            by_name.setdefault(name, []).append((types, fact))
    return by_name


def lookup(table: Table[Fact], type_name: str, name: str = "") -> Fact | None:
    """Return the fact of the first row of `table` that fits, or None."""
    rows = _by_argument.get(id(table))
    if rows is None:
        rows = _by_argument[id(table)] = _rows(table)
    for types, fact in rows.get(name, ()):
        if types is None or type_name in types:
            found: Fact = fact
            return found
    return None


@final
class SizeOf(msgspec.Struct, frozen=True):
    """The size of one axis of one input.

    Attributes:
        input: Index into `NodeSpec.inputs`.
        axis: As in ``tensor.shape[axis]``.
    """

    input: int
    axis: int


def _rules() -> dict[tuple[str, str], SizeOf]:
    last, second = SizeOf(0, -1), SizeOf(0, 1)
    rules = {
        ("Linear", "in_features"): last,
        ("Bilinear", "in1_features"): last,
        ("Bilinear", "in2_features"): SizeOf(1, -1),
        ("LayerNorm", "normalized_shape"): last,
        ("RMSNorm", "normalized_shape"): last,
        ("GroupNorm", "num_channels"): second,
        ("SyncBatchNorm", "num_features"): second,
        ("MultiheadAttention", "embed_dim"): last,
        ("MultiheadAttention", "kdim"): SizeOf(1, -1),
        ("MultiheadAttention", "vdim"): SizeOf(2, -1),
        ("AdaptiveLogSoftmaxWithLoss", "in_features"): last,
        ("LinearCrossEntropyLoss", "in_features"): last,
        ("PReLU", "num_parameters"): second,
    }
    for rank in (1, 2, 3):
        rules[f"Conv{rank}d", "in_channels"] = SizeOf(0, -rank - 1)
        rules[f"ConvTranspose{rank}d", "in_channels"] = SizeOf(0, -rank - 1)
        rules[f"BatchNorm{rank}d", "num_features"] = second
        rules[f"InstanceNorm{rank}d", "num_features"] = SizeOf(0, -rank - 1)
    for name in ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"):
        rules[name, "input_size"] = last
    for name in ("", "Encoder", "Decoder", "EncoderLayer", "DecoderLayer"):
        rules[f"Transformer{name}", "d_model"] = last
    return rules


AUTOMATIC: Mapping[tuple[str, str], SizeOf] = MappingProxyType(_rules())
"""Rule by (type, property): these properties accept ``"auto"``, and default to it where torch has no default."""
