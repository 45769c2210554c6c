"""The template of a training script; `template.toml` has its texts.

It repeats what the engine does in the order in which the engine does it, so that every loss has the same bits: where
random numbers are drawn, in which order examples come, how losses are averaged.
"""

import tomllib
from pathlib import Path

_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

HEAD = _TEXTS["head"]
IMPORTS = _TEXTS["imports"]
SETTINGS = _TEXTS["settings"]
LOOP = _TEXTS["loop"]
SETTLES = _TEXTS["settles"]
ENDS_EARLY = _TEXTS["ends_early"]
PLAIN_WEIGHT = _TEXTS["plain_weight"]
SUM_WEIGHT = _TEXTS["sum_weight"]
CLASS_WEIGHT = _TEXTS["class_weight"]
