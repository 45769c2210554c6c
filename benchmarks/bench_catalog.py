"""The catalogue against its budget: how long it takes to read every type from torch.

CPU milliseconds, and as a ratio to a fixed piece of Python in the same process: a shared machine is slower for both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

BUDGET_MS = 150.0
RUNS = 5

_MEASURED = """
import json, time
import torch
start = time.process_time()
sum(range(2_000_000))
total = 0
for number in range(2_000_000):
    total += number
yardstick = time.process_time() - start
from pnne_nb import catalog
start = time.process_time()
count = len(catalog.specs())
print(json.dumps([1e3 * (time.process_time() - start), 1e3 * yardstick, count]))
"""


def main() -> None:
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", _MEASURED], check=True, capture_output=True, text=True).stdout)
        for _ in range(RUNS)
    ]
    milliseconds = statistics.median(run[0] for run in runs)
    ratio = statistics.median(run[0] / run[1] for run in runs)
    print(f"catalog build ms: {milliseconds:.0f} of {BUDGET_MS:.0f} (CPU, median of {RUNS}; {runs[0][2]} types)")
    print(f"catalog build / two million additions: {ratio:.2f}")
    if milliseconds > BUDGET_MS:
        raise SystemExit(f"Building the catalogue took {milliseconds:.0f} ms of CPU; the budget is {BUDGET_MS:.0f}.")


if __name__ == "__main__":
    main()
