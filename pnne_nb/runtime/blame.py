"""Which node is to blame for an exception."""

from __future__ import annotations

from torch import nn


def node_of(error: BaseException | None, model: nn.Module) -> str | None:
    """Path of the deepest module of `model` whose call `error` came through, or None."""
    if error is None:
        return None
    paths = {id(module): path for path, module in model.named_modules() if path}
    found = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module):
            found = paths.get(id(module), found)
        trace = trace.tb_next
    return found
