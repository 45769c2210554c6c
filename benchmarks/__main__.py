"""Run every benchmark: ``python -m benchmarks [name ...]``, or ``make bench``.

Each ``bench_<name>.py`` has a ``main()`` that prints its figures and budgets, and raises `SystemExit` with a
sentence if a budget is exceeded. One process each, so that none warms another's caches.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(chosen: list[str]) -> int:
    """Run the benchmarks of those names, or all; return how many failed."""
    found = {path.stem.removeprefix("bench_"): path for path in sorted(Path(__file__).parent.glob("bench_*.py"))}
    if unknown := [name for name in chosen if name not in found]:
        print(f"There is no benchmark {unknown[0]!r}; there are {', '.join(found)}.")
        return 1
    failed = []
    for name in chosen or found:
        print(f"== {name}", flush=True)
        command = f"from benchmarks.bench_{name} import main; main()"
        if subprocess.run([sys.executable, "-c", command], check=False, cwd=Path(__file__).parents[1]).returncode:
            failed.append(name)
    kept = "None is over its budget; where a line says “not settled”, this run was too noisy to tell."
    print(f"Over budget or broken: {', '.join(failed)}" if failed else kept)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
