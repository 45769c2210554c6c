"""The template of a training script.

It repeats what the engine does in the order in which the engine does it, so that every loss has the same bits: where
random numbers are drawn, in which order examples come, how losses are averaged.
"""

HEAD = '''"""{title}, as plain PyTorch: `python {file}` trains it from the beginning, `python {file} --resume` goes on.

Written by pnne_nb {version} with torch {torch}. With that version, on the same machine, each loss has the same bits as in the
training that it was written from.{left_out}
"""
'''

IMPORTS = """\
import hashlib
import random
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
"""

SETTINGS = """

HERE = Path(__file__).parent
DATA = HERE / {data!r}
CHECKPOINT = HERE / {checkpoint!r}
DEVICE = torch.device({device!r})
SEED = {seed}
EPOCHS = {epochs}
BATCH_SIZE = {batch_size}
VALIDATION_BATCH_SIZE = {val_batch_size}
SHUFFLE = {shuffle}
ACCUMULATE = {accumulate}  # batches that make up one optimizer step
GRAD_CLIP = {grad_clip}  # largest norm of all gradients together
"""

LOOP = '''

def key_of(*parts: int) -> int:
    """Return a number for (seed, epoch): near ones give unrelated numbers."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big") >> 1


def seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def random_state() -> tuple:
    """Return the states of all generators, as a checkpoint can hold them."""
    kind, keys, *rest = np.random.get_state()
    return torch.get_rng_state(), random.getstate(), (kind, keys.tolist(), *rest)


def set_random_state(state: tuple) -> None:
    torch.set_rng_state(state[0])
    random.setstate(state[1])
    np.random.set_state(state[2])


def batches(tensors: list[torch.Tensor], order: torch.Tensor, size: int):
    """Yield the inputs and the target of each batch."""
    for start in range(0, len(order), size):
        *inputs, target = [tensor.index_select(0, order[start : start + size]).to(DEVICE) for tensor in tensors]
        yield inputs, target


def training_batches(tensors: list[torch.Tensor], epoch: int):
    count = len(tensors[0])
    generator = torch.Generator().manual_seed(key_of(SEED, epoch))
    order = torch.randperm(count, generator=generator) if SHUFFLE else torch.arange(count)
    return batches(tensors, order, BATCH_SIZE)


def grouped(source):
    """Yield lists of as many batches as make up one optimizer step."""
    group = []
    for batch in source:
        group.append(batch)
        if len(group) == ACCUMULATE:
            yield group
            group = []
    if group:
        yield group


def step(model: nn.Module, criterion, optimizer: torch.optim.Optimizer, group: list) -> tuple[float, int]:
    """Make one optimizer step; return the loss, averaged over the examples, and their number."""
    examples = sum(len(inputs[0]) for inputs, _ in group)
    optimizer.zero_grad(set_to_none=True)
    value = 0.0
    for inputs, target in group:
        with {autocast}:
            loss = criterion(model(*inputs){moved}, target)
        share = 1.0 if len(group) == 1 else len(inputs[0]) / examples
        value += loss.item() * share
        (loss if share == 1.0 else loss * share).backward()
    if GRAD_CLIP is not None:
        nn.utils.clip_grad_norm_([one for each in optimizer.param_groups for one in each["params"]], GRAD_CLIP)
    optimizer.step()
    return value, examples

{weight_of}{settles}

@torch.no_grad()
def validate(model: nn.Module, criterion, tensors: list[torch.Tensor]) -> float:
    """Return the loss over the validation data; nothing of the training is changed."""
    state = random_state()
    model.eval()
    total = seen = 0.0
    for inputs, target in batches(tensors, torch.arange(len(tensors[0])), VALIDATION_BATCH_SIZE):
        with {autocast}:
            loss = criterion(model(*inputs){moved}, target).item()
        weight = weight_of(criterion, target)
        total, seen = total + loss * weight, seen + weight
    model.train()
    set_random_state(state)
    return total / seen


def train(resume: bool = False) -> dict[str, list[float]]:
    """Train to the last epoch, with a checkpoint after each; return the losses."""
    torch.set_num_threads({threads})  # sums are split among threads: as many give the same bits
    data = load_file(DATA)
    training, validation = ([data[name] for name in sorted(data) if name.startswith(part)] for part in ("train.", "val."))
    seed_all(SEED)
    model = {model}
{weights}    model.to(DEVICE).train()
    criterion = {criterion}
    optimizer = {optimizer}
    scheduler = {scheduler}
    history: dict[str, list[float]] = {{"loss": [], "train_loss": [], "val_loss": []}}
    first = 1
    seed_all(key_of(SEED))
    if resume:
        saved = torch.load(CHECKPOINT, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        if scheduler is not None:
            scheduler.load_state_dict(saved["scheduler"])
        history, first = saved["history"], saved["epoch"] + 1
        set_random_state(saved["random"])
    for epoch in range(first, EPOCHS + 1):
{ends_early}        total = count = 0
        for group in grouped(training_batches(training, epoch)):
            loss, examples = step(model, criterion, optimizer, group)
            history["loss"].append(loss)
            total, count = total + loss * examples, count + examples
{every_step}        history["train_loss"].append(total / count)
        text = f"epoch {{epoch}}: train_loss {{total / count:.6g}}"
        if validation and {due}:
            history["val_loss"].append(validate(model, criterion, validation))
            text += f", val_loss {{history['val_loss'][-1]:.6g}}"
{every_epoch}        print(text)
        saved = {{
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": None if scheduler is None else scheduler.state_dict(),
            "random": random_state(),
            "history": history,
            "epoch": epoch,
        }}
        torch.save(saved, CHECKPOINT)
    return history


if __name__ == "__main__":
    train(resume="--resume" in sys.argv)
'''

SETTLES = '''

def has_settled(values: list[float]) -> bool:
    """Return whether the latest {patience} values in a row are no better than the best one before them."""
    best, since = float("inf"), 0
    for value in values:
        best, since = (value, 0) if value < best - {min_delta} else (best, since + 1)
    return since >= {patience}
'''

ENDS_EARLY = """        if has_settled(history["{goal}"]):
            break
"""

PLAIN_WEIGHT = '''
def weight_of(criterion, target: torch.Tensor) -> float:
    """Return what the loss of a batch counts for in that of the data: by its examples."""
    return float(len(target))
'''

SUM_WEIGHT = '''
def weight_of(criterion, target: torch.Tensor) -> float:
    """Return what the loss of a batch counts for in that of the data: sums count alike."""
    return 1.0
'''

CLASS_WEIGHT = '''
def weight_of(criterion, target: torch.Tensor) -> float:
    """Return what the mean of a batch was divided by: ignored targets and the weights of classes count."""
    if target.is_floating_point():
        return float(len(target))
    taken = target != criterion.ignore_index
    if criterion.weight is None:
        return int(taken.sum()) * len(target) / target.numel()
    return float((criterion.weight[target.clamp(0, len(criterion.weight) - 1)] * taken).sum())
'''
