from __future__ import annotations

import sys
from pathlib import Path

from pnne_nb.runtime.distributed.launch.torchrun import TorchrunAgent

LOUD = """
import sys
print("early")
sys.stdout.flush()
sys.stdout.buffer.write(bytes(range(128, 256)) + b"x" * 10**6)
print()
print("the last word")
"""


def test_of_a_log_that_is_long_the_end_is_shown(tmp_path: Path) -> None:
    agent = TorchrunAgent([sys.executable, "-c", LOUD], "nowhere", tmp_path)
    try:
        assert agent.wait(60)
        assert agent.exit_status == 0
        shown = agent.log()
    finally:
        agent.kill()
    heading, long, last = shown.splitlines()
    assert heading == "--- torchrun.log"
    assert long == f"… {'x' * 300}"
    assert last == "the last word"
