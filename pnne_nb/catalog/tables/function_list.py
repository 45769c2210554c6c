"""The functions and methods that the palette offers, by heading.

``torch`` holds more than a thousand public callables, most of no use in a model (``set_num_threads``); this list
is the choice. Everything else about a function is read from torch.
"""

from __future__ import annotations

FUNCTIONS = {
    "Activation": """
        relu relu6 elu selu celu gelu silu mish leaky_relu prelu rrelu glu hardtanh hardswish hardsigmoid
        hardshrink softshrink tanhshrink softplus softsign logsigmoid softmax log_softmax softmin gumbel_softmax
        threshold sigmoid tanh""",
    "Linear": "linear bilinear",
    "Convolution": """
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc""",
    "Pooling": """
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d
        lp_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool1d max_unpool2d max_unpool3d""",
    "Normalization": """
        batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm normalize
        _weight_norm""",
    "Dropout": "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout",
    "Embedding": "embedding embedding_bag one_hot",
    "Attention": "scaled_dot_product_attention multi_head_attention_forward",
    "Vision": """
        interpolate grid_sample affine_grid pixel_shuffle pixel_unshuffle channel_shuffle fold unfold pad""",
    "Distance": "cosine_similarity pairwise_distance cdist pdist",
    "Loss": """
        binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
        gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss
        multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss
        smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss
        linear_cross_entropy""",
    "Arithmetic": """
        add sub mul div true_divide floor_divide remainder fmod pow float_power rsub neg abs sign sgn square sqrt
        rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 floor ceil round trunc frac clamp
        clamp_min clamp_max maximum minimum fmax fmin lerp addcmul addcdiv hypot nan_to_num xlogy ldexp copysign
        nextafter heaviside gcd lcm deg2rad rad2deg positive
        subtract multiply divide negative clip""",
    "Trigonometry": """
        sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh sinc""",
    "Special functions": "erf erfc erfinv lgamma digamma mvlgamma polygamma i0 logit special_expit special_ndtr",
    "Comparison": """
        eq ne lt le gt ge isclose allclose equal isnan isinf isfinite isin
        not_equal less less_equal greater greater_equal""",
    "Logic": """
        logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
        bitwise_left_shift bitwise_right_shift""",
    "Reduction": """
        sum mean prod max min amax amin aminmax argmax argmin std var std_mean var_mean median nanmedian mode
        nansum nanmean logsumexp norm all any count_nonzero quantile nanquantile cumsum cumprod cummax cummin
        logcumsumexp diff trapezoid""",
    "Sorting": "sort argsort msort topk kthvalue unique unique_consecutive searchsorted bucketize bincount histc",
    "Shape": """
        reshape flatten unflatten squeeze unsqueeze transpose permute t swapaxes swapdims movedim moveaxis
        broadcast_to tile repeat_interleave flip fliplr flipud roll rot90 ravel view_as_real view_as_complex
        atleast_1d atleast_2d atleast_3d adjoint""",
    "Joining": """
        cat concat concatenate stack hstack vstack dstack column_stack chunk split tensor_split unbind hsplit vsplit dsplit
        unsafe_chunk meshgrid broadcast_tensors block_diag cartesian_prod combinations""",
    "Indexing": """
        gather scatter scatter_add scatter_reduce index_select index_add index_fill index_copy index_put
        masked_select masked_fill masked_scatter where take take_along_dim nonzero narrow select diagonal diag
        diag_embed argwhere tril triu select_scatter slice_scatter diagonal_scatter""",
    "Matrix": """
        matmul mm bmm mv dot vdot inner outer einsum addmm baddbmm addbmm addmv addr tensordot kron cross trace
        linalg_norm linalg_vector_norm linalg_matrix_norm linalg_inv linalg_pinv linalg_det linalg_slogdet
        linalg_solve linalg_svd linalg_svdvals linalg_eigh linalg_eigvalsh linalg_qr linalg_cholesky
        linalg_matrix_power linalg_multi_dot det inverse matrix_exp grouped_mm""",
    "Fourier": """
        fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn fft_ifftn fft_fftshift
        fft_ifftshift stft istft""",
    "Creation": """
        zeros ones full empty arange linspace logspace eye zeros_like ones_like full_like empty_like tril_indices
        triu_indices hann_window scalar_tensor complex polar""",
    "Random": "rand randn randint randperm rand_like randn_like bernoulli multinomial normal poisson",
    "Complex": "real imag angle conj resolve_conj",
    "Casts": "clone detach",
}
"""Type names by category, in the order of the palette."""

NOT_FUNCTIONS = ("*_with_indices", "upsample*", "assert_int_or_pair", "scaled_*mm*")
"""Patterns of what ``torch.nn.functional`` holds beside: overloads of others, deprecated aliases, helpers, and
functions that take objects of classes of their own."""

METHODS = {
    "Casts": "to float double half bfloat16 long int short bool type_as contiguous",
    "Shape": "view view_as expand expand_as repeat size dim numel tensor_unfold",
    "Creation": "new_zeros new_ones new_full new_empty",
    "In-place": """
        add_ sub_ mul_ div_ pow_ clamp_ relu_ sigmoid_ tanh_ exp_ log_ abs_ neg_ sqrt_ rsqrt_
        square_ floor_ ceil_ reciprocal_ addcmul_ addcdiv_ zero_ fill_ copy_ masked_fill_ unsqueeze_
        squeeze_ transpose_ index_add_ index_copy_ scatter_ scatter_add_ normal_ bernoulli_""",
    "Indexing": "item",
}
"""Methods of ``Tensor`` that ``torch`` has no function for."""

METHOD_NAMES = {"tensor_unfold": "unfold"}
"""Methods that have the name of a function which does something else."""

TORCH_FIRST = frozenset(("sigmoid", "tanh"))
"""Deprecated in ``torch.nn.functional``."""

WITHOUT_OVERLOADS: dict[str, frozenset[str]] = {
    "where": frozenset(("",)),
    "repeat_interleave": frozenset(("Tensor",)),
    "atleast_1d": frozenset(("Sequence",)),
    "atleast_2d": frozenset(("Sequence",)),
    "atleast_3d": frozenset(("Sequence",)),
    "copy_": frozenset(("Tensor", "int", "float")),
    "einsum": frozenset(("sublist",)),
    "isin": frozenset(("Tensor_Scalar", "Scalar_Tensor")),
    "normal": frozenset(("float_float",)),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), frozenset(("data",))),
}
"""Overloads that stand aside because they do something else than the others of their name."""

OTHER_NAMES = {"logsigmoid": "log_sigmoid"}
"""Functions whose operator has another name."""

SIGNATURES = {"unique": "_unique_impl", "unique_consecutive": "_unique_consecutive_impl"}
"""Functions whose own signature is ``(*args, **kwargs)``, and the function of ``torch.functional`` that has it."""
