"""Ends a process together with its parent, whatever either is doing.

``python -m pnne_nb.process.parent PARENT MODULE ARGUMENTS...`` runs ``python -m MODULE ARGUMENTS...`` so.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Let the system kill this process when its parent has ended, even if it is stopped or hung (on Linux).

    Args:
        parent: Its number. If somebody else is the parent by now, it has gone already, and this process ends.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    _, given_parent, module, *arguments = sys.argv
    die_with(int(given_parent))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
