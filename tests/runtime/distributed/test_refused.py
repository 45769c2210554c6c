"""A group whose checkpoints cannot be written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest
import torch
from torch import Tensor

from tests.runtime.distributed import groups

pytestmark = pytest.mark.timeout(400)


def test_where_a_checkpoint_cannot_be_written_the_group_trains_on_and_nothing_is_lost(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint_every": (2, "steps")}
    alone, together = groups.engine(**options), groups.engine(**options)
    run = tmp_path / "run"
    looked: list[Tensor] = []

    def no_room(*, over: bool = False) -> None:
        # Files of this process stay as small: what a full disk does, too. Python ignores the signal.
        process = psutil.Process(group.processes[0])
        _, most = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most if over else 4096, most))

    groups.at_step(together, 3, no_room)
    groups.at_step(together, 5, lambda: looked.append(together.model.state_dict()["fc.weight"].clone()))
    groups.at_step(together, 7, lambda: no_room(over=True))
    groups.at_step(together, 9, no_room)
    group = together.launch(nproc=2, directory=run)
    assert together.wait(groups.SECONDS)
    assert group.restarts == 0
    told = [(frame.kind, frame.step) for frame in together.history.anomalies]
    assert told == [("checkpoint-failed", 4), ("checkpoint-failed", 10)]
    message = together.history.anomalies[1].message
    assert "cannot be written: File too large." in message
    assert re.search(r"until then, \d+-step-8\.ckpt is the newest, where all begin again if one of them dies", message)
    assert sorted(path.name.partition("-")[2] for path in run.glob("*.ckpt")) == [
        "step-0.ckpt",
        "step-2.ckpt",
        "step-8.ckpt",
    ]
    alone.step(5)
    torch.testing.assert_close(looked[0], alone.model.state_dict()["fc.weight"], rtol=0, atol=groups.TOLERANCE)
    alone.start().wait()
    # The last state came without a file.
    assert together.progress.step == 12
    groups.assert_close(alone, together)
