"""Networks written by hand as people write them, for the import to be tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tests.compiler.importing.zoo import (
    assistants,
    detectors,
    generative,
    habits,
    keepers,
    language,
    libraries,
    papers,
    pictures,
    sequences,
    states,
    structures,
    texts,
    transformers,
    vision,
    windows,
)


@dataclass
class Entry:
    """A network and a call of it.

    Attributes:
        make: Makes the network.
        args: Of a call, by position.
        kwargs: Of the same call, by name.
        others: Other calls that the graph must answer as the network does: other batch and image sizes.
        opaque: Paths of what no graph can show.
    """

    make: Callable[[], nn.Module]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    others: tuple[tuple[Any, ...], ...] = ()
    opaque: tuple[str, ...] = ()


def image(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


def tokens(high: int, *shape: int) -> Tensor:
    return torch.randint(1, high, shape, generator=torch.Generator().manual_seed(high))


MODELS: dict[str, Entry] = {
    "densenet": Entry(vision.DenseNet, (image(2, 3, 8, 8),), others=((image(3, 3, 6, 10),),)),
    "googlenet": Entry(vision.GoogLeNet, (image(2, 3, 8, 8),), others=((image(3, 3, 12, 10),),)),
    "unet": Entry(vision.UNet, (image(2, 1, 12, 12),), others=((image(1, 1, 9, 14),),)),
    "mobilenet": Entry(vision.MobileNet, (image(2, 3, 16, 16),), others=((image(3, 3, 12, 20),),)),
    "convnext": Entry(vision.ConvNext, (image(2, 3, 8, 8),), others=((image(3, 3, 12, 8),),), opaque=("downs_0_1",)),
    "vit": Entry(windows.ViT, (image(2, 3, 8, 8),), others=((image(5, 3, 8, 8),),)),
    "vit unfused": Entry(lambda: windows.ViT(fused=False), (image(2, 3, 8, 8),), others=((image(5, 3, 8, 8),),)),
    "swin": Entry(windows.Swin, (image(2, 3, 16, 16),), others=((image(3, 3, 16, 16),),)),
    "shufflenet": Entry(vision.ShuffleNet, (image(2, 3, 8, 8),), others=((image(3, 3, 6, 6),),)),
    "checkpointed": Entry(vision.Checkpointed, (image(2, 3, 6, 6),), others=((image(3, 3, 8, 5),),)),
    "pyramid": Entry(vision.FeaturePyramid, (image(2, 3, 8, 8),), others=((image(1, 3, 10, 12),),)),
    "spatial transformer": Entry(vision.SpatialTransformer, (image(2, 1, 12, 12),), others=((image(3, 1, 12, 12),),)),
    "discriminator": Entry(generative.Discriminator, (image(2, 1, 8, 8),), others=((image(3, 1, 8, 8),),)),
    "gan": Entry(generative.GAN, (image(3, 6),), others=((image(2, 6),),)),
    "vae": Entry(generative.VAE, (image(2, 1, 6, 6),), others=((image(4, 1, 6, 6),),)),
    "vqvae": Entry(generative.VQVAE, (image(2, 1, 8, 8),), others=((image(3, 1, 6, 8),),)),
    "tied autoencoder": Entry(generative.TiedAutoencoder, (image(2, 12),), others=((image(5, 12),),)),
    "siamese": Entry(generative.Siamese, (image(2, 6), image(2, 6)), others=((image(5, 6), image(5, 6)),)),
    "diffusion": Entry(
        generative.Diffusion, (image(2, 1, 4, 4), tokens(9, 2)), {"scale": 0.5}, ((image(3, 1, 6, 4), tokens(9, 3)),)
    ),
    "char rnn": Entry(language.CharRNN, (tokens(11, 4, 2),), others=((tokens(11, 6, 3),),)),
    "word lm": Entry(language.WordLM, (tokens(13, 2, 4),), others=((tokens(13, 3, 6),),)),
    "manual rnn": Entry(language.ManualRNN, (image(2, 4, 3),), others=((image(3, 5, 3),),)),
    "seq2seq": Entry(language.Seq2Seq, (tokens(9, 2, 4),), others=((tokens(9, 3, 5),),)),
    "seq2seq forced": Entry(
        language.Seq2Seq, (tokens(9, 2, 4),), {"target": tokens(9, 2, 3)}, ((tokens(9, 3, 5), tokens(9, 3, 3)),)
    ),
    "transformer lm": Entry(transformers.TransformerLM, (tokens(15, 5, 2),), others=((tokens(15, 7, 3),),)),
    "llama": Entry(transformers.Llama, (tokens(17, 2, 5),), others=((tokens(17, 3, 8),),)),
    "rotary gpt": Entry(transformers.RotaryGPT, (tokens(12, 2, 5),), others=((tokens(12, 3, 7),),)),
    "rotary gpt labels": Entry(
        transformers.RotaryGPT,
        (tokens(12, 2, 5),),
        {"labels": tokens(12, 2, 5)},
        ((tokens(12, 3, 7), tokens(12, 3, 7)),),
    ),
    "bert": Entry(transformers.Bert, (), {"input_ids": tokens(14, 2, 5), "attention_mask": torch.ones(2, 5)}),
    "bert ids": Entry(transformers.Bert, (tokens(14, 2, 5),), others=((tokens(14, 3, 7),),)),
    "t5 attention": Entry(transformers.T5Attention, (image(2, 5, 8),), others=((image(3, 7, 8),),)),
    "mixture": Entry(
        transformers.MoETransformer, (tokens(9, 2, 4),), {}, ((tokens(9, 3, 5),),), ("blocks_0_moe", "blocks_1_moe")
    ),
    "soft mixture": Entry(transformers.SoftMoE, (image(2, 6),), others=((image(5, 6),),)),
    "wavenet": Entry(structures.WaveNet, (image(2, 1, 16),), others=((image(3, 1, 12),),)),
    "tcn": Entry(structures.TCN, (image(2, 2, 9),), others=((image(3, 2, 7),),)),
    "text cnn": Entry(structures.TextCNN, (tokens(20, 2, 7),), others=((tokens(20, 3, 9),),)),
    "packed tagger": Entry(
        structures.PackedTagger,
        (tokens(9, 2, 5), torch.tensor([5, 3])),
        {},
        ((tokens(9, 3, 6), torch.tensor([6, 4, 1])),),
    ),
    "translation": Entry(
        structures.Translation, (tokens(10, 2, 5), tokens(10, 2, 4)), {}, ((tokens(10, 3, 6), tokens(10, 3, 2)),)
    ),
    "gcn": Entry(structures.GCN, (image(4, 5), torch.eye(4)), others=((image(6, 5), torch.eye(6)),)),
    "message passing": Entry(
        structures.MessagePassing, (image(5, 4), tokens(5, 2, 7)), {}, ((image(6, 4), tokens(6, 2, 3)),)
    ),
    "pointnet": Entry(structures.PointNet, (image(2, 3, 9),), others=((image(4, 3, 5),),)),
    "deepfm": Entry(
        structures.DeepFM,
        ({"user": tokens(5, 3), "item": tokens(7, 3), "hour": tokens(3, 3)},),
        {},
        (({"user": tokens(5, 2), "item": tokens(7, 2), "hour": tokens(3, 2)},),),
    ),
    "actor critic": Entry(structures.ActorCritic, (image(3, 4),), others=((image(5, 4),),)),
    "early exit": Entry(structures.EarlyExit, (image(2, 3),), {}, ((image(4, 3),),), ("loop",)),
    "assignments": Entry(structures.Hopfield, (image(2, 4),), others=((image(5, 4),),)),
    "loss inside": Entry(structures.LossInside, (image(4, 4), tokens(3, 4)), {}, ((image(6, 4), tokens(3, 6)),)),
    "causal lm": Entry(assistants.CausalLM, (tokens(19, 2, 5),), others=((tokens(19, 3, 7),),)),
    "causal lm labels": Entry(
        assistants.CausalLM,
        (),
        {"input_ids": tokens(19, 2, 5), "attention_mask": torch.ones(2, 5), "labels": tokens(19, 2, 5)},
    ),
    "causal lm fused": Entry(
        lambda: assistants.CausalLM(attn="sdpa"), (tokens(19, 2, 5),), {"output_hidden_states": False}
    ),
    "causal lm maps": Entry(
        lambda: assistants.CausalLM(use_cache=False, output_attentions=True, act="new"), (tokens(19, 2, 5),)
    ),
    "causal lm checkpointed": Entry(
        lambda: assistants.CausalLM(use_cache=False, gradient_checkpointing=True),
        (tokens(19, 2, 5),),
        others=((tokens(19, 3, 7),),),
    ),
    "bucketed attention": Entry(assistants.BucketedAttention, (image(2, 5, 8),), others=((image(3, 6, 8),),)),
    "retinanet": Entry(detectors.RetinaNet, (image(2, 3, 8, 8),), others=((image(2, 3, 12, 8),),), opaque=("anchors",)),
    "yolo": Entry(detectors.YOLO, (image(2, 3, 8, 8),), others=((image(3, 3, 12, 8),),)),
    "guided unet": Entry(
        detectors.GuidedUNet,
        (image(2, 1, 4, 4), tokens(9, 2), image(2, 3, 5), tokens(3, 2)),
        others=((image(3, 1, 8, 4), tokens(9, 3), image(3, 2, 5), tokens(3, 3)),),
    ),
    "packed lm": Entry(
        sequences.PackedLM,
        (tokens(11, 3, 5), torch.tensor([5, 2, 3])),
        others=((tokens(11, 2, 6), torch.tensor([4, 6])),),
    ),
    "packed lm plain": Entry(lambda: sequences.PackedLM("RNN"), (tokens(11, 3, 5), torch.tensor([5, 2, 3]))),
    "attending decoder": Entry(
        sequences.AttendingDecoder, (image(2, 4, 6), tokens(9, 2, 3)), others=((image(3, 5, 6), tokens(9, 3, 3)),)
    ),
    "conv lstm": Entry(sequences.ConvLSTM, (image(2, 3, 1, 4, 4),), others=((image(3, 3, 1, 5, 4),),)),
    "attention on graphs": Entry(
        sequences.GNN,
        (image(5, 4), tokens(5, 2, 8), torch.tensor([0, 0, 1, 1, 1])),
        others=((image(6, 4), tokens(6, 2, 5), torch.tensor([0, 1, 1, 1, 1, 1])),),
    ),
    "counted pool": Entry(
        sequences.CountedPool,
        (image(5, 4), torch.tensor([0, 0, 1, 1, 1])),
        others=((image(4, 4), torch.tensor([0, 1, 2, 2])),),
    ),
    "counted items": Entry(
        sequences.CountedItems,
        (image(5, 4), torch.tensor([0, 0, 1, 1, 1])),
        others=((image(4, 4), torch.tensor([0, 1, 2, 2])),),
    ),
    "moving codebook": Entry(states.MovingCodebook, (image(2, 3, 4),), others=((image(3, 2, 4),),)),
    "running norm": Entry(states.RunningNorm, (image(5, 4),), others=((image(3, 4),),)),
    "contrast": Entry(states.Contrastive, (image(3, 4), image(3, 4)), others=((image(2, 4), image(2, 4)),)),
    "momentum contrast": Entry(states.MomentumContrast, (image(3, 4), image(3, 4))),
    "probe": Entry(states.Probe, (image(3, 4),), others=((image(2, 4),),)),
    "distilling": Entry(states.Distilling, (image(3, 4),), others=((image(2, 4),),)),
    "checkpointed blocks": Entry(states.CheckpointedBlocks, (image(3, 4),), others=((image(2, 4),),)),
    "checkpointed closure": Entry(states.CheckpointedClosure, (image(3, 4),), others=((image(2, 4),),)),
    "cached table": Entry(states.CachedTable, (image(3, 4),), others=((image(2, 4),), (image(5, 4),))),
    "cached rotation": Entry(states.CachedRotation, (image(2, 3, 4),), others=((image(2, 5, 4),),)),
    "kept attention": Entry(states.KeptAttention, (image(3, 4),), others=((image(5, 4),),)),
    "flexible calls": Entry(habits.CallsFlexible, (image(2, 4), image(2, 4)), others=((image(3, 4), image(3, 4)),)),
    "enumerated": Entry(habits.Enumerated, (image(2, 3),), others=((image(3, 3),),)),
    "modalities": Entry(
        habits.Modalities,
        ({"img": image(2, 4), "txt": image(2, 5)},),
        others=(({"img": image(3, 4), "txt": image(3, 5)},),),
    ),
    "fourier": Entry(habits.Fourier, (image(2, 2, 8),), others=((image(3, 2, 10),),)),
    "spectrogram": Entry(habits.Spectrogram, (image(2, 32),), others=((image(3, 40),),)),
    "squaring": Entry(habits.AroundSquaring, (image(3, 4),), others=((image(2, 4),),)),
    "adversarial": Entry(habits.Adversarial, (image(3, 4),), others=((image(2, 4),),)),
    "talkative": Entry(habits.Talkative, (image(3, 4),), others=((image(2, 4),),)),
    "masked": Entry(
        habits.Masked,
        (image(3, 4), torch.tensor([True, False, True])),
        others=((image(2, 4), torch.tensor([True, True])),),
    ),
    "normalized": Entry(habits.Normalized, (image(1, 2, 4),), others=((image(3, 2, 4),),)),
    "symmetric weight": Entry(habits.SymmetricWeight, (image(2, 4),), others=((image(3, 4),),)),
    "numpy numbers": Entry(habits.NumPyNumbers, (image(3, 4),), others=((image(2, 4),),)),
    "stochastic depth": Entry(habits.StochasticDepth, (image(3, 4),), others=((image(2, 4),),)),
    "distributions": Entry(habits.Distributions, (image(3, 4),), others=((image(5, 4),),)),
    "routed experts": Entry(habits.RoutedExperts, (image(3, 4),), others=((image(5, 4),),)),
    "hit experts": Entry(habits.HitExperts, (image(2, 3, 4),), others=((image(3, 2, 4),),), opaque=("module",)),
    "deciding": Entry(habits.Deciding, (image(3, 4),), others=((image(2, 4),),), opaque=("module",)),
    "skip unet": Entry(pictures.SkipUNet, (image(2, 1, 16, 16),), others=((image(3, 1, 24, 16),),)),
    "patch vit": Entry(pictures.PatchViT, (image(2, 1, 8, 8),), others=((image(3, 1, 8, 4),),)),
    "patch vit mean": Entry(lambda: pictures.PatchViT("mean"), (image(2, 1, 8, 8),), others=((image(1, 1, 4, 4),),)),
    "shifted windows": Entry(pictures.ShiftedWindows, (image(2, 8, 8, 4),), others=((image(3, 12, 8, 4),),)),
    "detr": Entry(pictures.DETR, (image(2, 3, 12, 12),), others=((image(3, 3, 16, 8),),)),
    "deeplab": Entry(pictures.DeepLab, (image(2, 3, 9, 10),), others=((image(3, 3, 8, 7),),)),
    "efficientnet": Entry(pictures.EfficientNet, (image(2, 3, 8, 8),), others=((image(3, 3, 6, 8),),)),
    "spectral gan": Entry(
        pictures.SpectralGAN,
        (image(2, 1, 8, 8), image(2, 1, 8, 8), tokens(3, 2)),
        others=((image(3, 1, 8, 8), image(3, 1, 8, 8), tokens(3, 3)),),
    ),
    "fourier layer": Entry(pictures.FourierLayer, (image(2, 2, 8, 8),), others=((image(3, 2, 6, 9),),)),
    "neural field": Entry(pictures.NeuralField, (image(2, 1, 5, 4),), others=((image(3, 1, 3, 6),),)),
    "cached gpt": Entry(texts.CachedGPT, (tokens(11, 2, 5),), others=((tokens(11, 3, 7),),)),
    "cached gpt goes on": Entry(
        texts.CachedGPT,
        (tokens(11, 2, 1), tuple((image(2, 2, 3, 4), image(2, 2, 3, 4)) for _ in range(2))),
        {"use_cache": True},
        ((tokens(11, 3, 2), tuple((image(3, 2, 5, 4), image(3, 2, 5, 4)) for _ in range(2))),),
    ),
    "transformer xl": Entry(texts.TransformerXL, (tokens(9, 2, 5),), others=((tokens(9, 3, 6),),)),
    "transformer xl mems": Entry(
        texts.TransformerXL, (tokens(9, 2, 5), image(2, 4, 8)), others=((tokens(9, 3, 6), image(3, 2, 8)),)
    ),
    "forced": Entry(texts.Forced, (image(2, 5, 6), tokens(7, 2, 4)), others=((image(3, 4, 6), tokens(7, 3, 6)),)),
    "span bert": Entry(texts.SpanBert, (tokens(12, 2, 5),), others=((tokens(12, 3, 6),),)),
    "span bert class": Entry(texts.SpanBert, (tokens(12, 2, 5),), {"task": "class"}),
    "top experts": Entry(texts.TopKExperts, (image(2, 3, 4),), others=((image(3, 4, 4),),)),
    "gated waves": Entry(texts.GatedWaves, (image(2, 1, 9),), others=((image(3, 1, 7),),)),
    "conditional vae": Entry(texts.ConditionalVAE, (image(2, 6), tokens(3, 2)), others=((image(3, 6), tokens(3, 3)),)),
    "triplet": Entry(
        texts.Triplet, (image(2, 6), image(2, 6), image(2, 6)), others=((image(3, 6), image(3, 6), image(3, 6)),)
    ),
    "graph net": Entry(texts.GraphNet, (image(5, 4), tokens(5, 2, 7)), others=((image(6, 4), tokens(6, 2, 9)),)),
    "ema codebook": Entry(keepers.EMACodebook, (image(2, 2, 6),), others=((image(3, 2, 4),),)),
    "by others": Entry(keepers.ByOthers, (image(2, 4),), others=((image(3, 4),),)),
    "sequenced": Entry(keepers.Sequenced, (image(2, 4),), others=((image(3, 4),),)),
    "halved": Entry(lambda: keepers.Around(keepers.Halved()), (image(2, 4),), others=((image(3, 4),),)),
    "exact": Entry(keepers.Exact, (image(2, 4),), others=((image(3, 4),),)),
    "quantizer": Entry(keepers.Quantizer, (image(2, 4),), others=((image(3, 4),),)),
    "slices": Entry(keepers.Slices, (image(2, 4),), others=((image(3, 4),),)),
    "counting": Entry(
        lambda: keepers.Around(keepers.Counting()), (image(2, 4),), others=((image(3, 4),),), opaque=("inner",)
    ),
    "hooked": Entry(keepers.Hooked, (image(2, 4),), others=((image(3, 4),),), opaque=("inner.0",)),
    "layer drop": Entry(
        lambda: keepers.Around(keepers.LayerDrop()), (image(2, 4),), others=((image(3, 4),),), opaque=("inner",)
    ),
    "mix style": Entry(keepers.MixStyle, (image(3, 4),), others=((image(2, 4),),)),
    "staged": Entry(libraries.Staged, (image(2, 3, 9, 8),), others=((image(3, 3, 8, 7),),)),
    "backbone with fpn": Entry(libraries.BackboneWithFPN, (image(2, 3, 16, 16),), others=((image(3, 3, 20, 14),),)),
    "raft": Entry(
        libraries.RAFT,
        (image(2, 3, 12, 12), image(2, 3, 12, 12).flip(0)),
        others=((image(3, 3, 12, 16), image(3, 3, 12, 16).flip(0)),),
    ),
    "hrnet": Entry(libraries.HRNet, (image(2, 3, 8, 8),), others=((image(3, 3, 12, 8),),)),
    "named self": Entry(libraries.NamedSelf, (image(2, 3, 4),), others=((image(3, 5, 4),),)),
    "methods of children": Entry(papers.Parent, (image(3, 4),), others=((image(5, 4),),)),
    "state of children": Entry(papers.Stateful, (image(3, 4),), others=((image(5, 4),),)),
    "patchtst": Entry(papers.PatchTST, (image(2, 10, 3),), others=((image(3, 10, 3),),)),
    "called in two ways": Entry(papers.TwoWays, (image(2, 3, 4),), others=((image(3, 5, 4),),)),
    "modulated": Entry(papers.Modulated, (image(2, 4, 3, 3), image(2, 4)), others=((image(3, 4, 3, 5), image(3, 4)),)),
    "gru-d": Entry(
        papers.GRUD,
        (image(2, 4, 3), image(2, 4, 3).round(), image(2, 4, 3), torch.tensor([3, 4])),
        others=((image(3, 4, 3), image(3, 4, 3).round(), image(3, 4, 3), torch.tensor([3, 4, 1])),),
    ),
    "egnn": Entry(
        papers.EGNN, (image(4, 4), tokens(4, 2, 6), image(4, 3)), others=((image(5, 4), tokens(5, 2, 7), image(5, 3)),)
    ),
    "dgcnn": Entry(papers.DGCNN, (image(2, 3, 6),), others=((image(3, 3, 7),),)),
    "adapted": Entry(papers.Adapted, (image(2, 4),), others=((image(3, 4),),)),
    "diffusers unet": Entry(
        papers.DiffusersUNet,
        (image(2, 2, 8, 8), tokens(9, 2), image(2, 3, 3)),
        others=((image(3, 2, 8, 12), tokens(9, 3), image(3, 3, 3)),),
    ),
    "diffusers unet step": Entry(papers.DiffusersUNet, (image(2, 2, 8, 8), 3, image(2, 3, 3))),
    "heads": Entry(papers.Heads, (image(2, 4),), others=((image(3, 4),),)),
}
