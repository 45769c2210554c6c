"""Import random modules, and count what became of them.

    python scripts/import_fuzz.py [COUNT] [--first SEED]
    python scripts/import_fuzz.py --seed SEED
    python scripts/import_fuzz.py [COUNT] --structures
    python scripts/import_fuzz.py [COUNT] --functions [--quick]

Tries COUNT (200) seeds of `tests.compiler.importing.random_modules`, or shows one. An import may be open, closed in part,
or refuse other inputs in words; it must never compute something else in silence: the exit code counts those that do.

With ``--structures``, the modules are those of `tests.compiler.importing.random_structures`: their inputs are nested, and
each import is also called with other structures, which must give what the module gives or be refused in words.

With ``--functions``, each seed is a net for one cell of the table of `tests.compiler.weights.every_function`: a function,
what it is given, and what was done to that before. Nothing may be wrong, and no error may be one of Python's own.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.compiler.importing import random_modules, random_structures
from tests.compiler.weights.every_function import QUICK, SLOW, cells, outcome

WRONG = {"wrong", "accepts", "raw"}
"""Outcomes that no import may have."""


def main() -> int:
    """Try many seeds, and return how many imports were wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--structures", action="store_true", help="make modules with nested inputs")
    parser.add_argument("--functions", action="store_true", help="try every function that takes a graph or a model")
    parser.add_argument("--quick", action="store_true", help="leave out the functions that take seconds")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.functions:
        return _try_functions(range(given.first, given.first + given.count), quick=given.quick)
    modules = random_structures if given.structures else random_modules
    if given.seed is not None:
        print(modules.source_of(given.seed))
        print(modules.outcome_of(given.seed))
        return 0
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.count):
        found = modules.outcome_of(seed)
        kinds[found.kind] += 1
        if found.kind in WRONG | {"refused"}:
            print(f"seed {seed}: {found.kind}: {found.said}", flush=True)
        elif found.kind == "closed":
            reasons[found.said[:100]] += 1
        if (seed + 1 - given.first) % 100 == 0:
            print(dict(kinds), flush=True)
    print(dict(kinds))
    for reason, count in reasons.most_common(15):
        print(f"{count:5}  {reason}")
    return sum(kinds[kind] for kind in WRONG)


def _try_functions(seeds: range, *, quick: bool) -> int:
    """Try the cells of the table in turn, and return how many were wrong or failed with an error of Python's own."""
    table = list(cells(QUICK if quick else (*QUICK, *SLOW)))
    kinds: Counter[str] = Counter()
    for seed in seeds:
        cell = table[seed % len(table)]
        found = outcome(cell, seed)
        kinds[found.partition(":")[0]] += 1
        if found not in ("right", "not taken"):
            print(f"seed {seed}: {cell}: {found}", flush=True)
    print(dict(kinds))
    return kinds["wrong"] + kinds["raw"]


if __name__ == "__main__":
    sys.exit(main())
