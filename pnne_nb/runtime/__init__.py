"""Training: the loop, the engine and its thread, data, devices, checkpoints."""

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.monitoring.history import History

__all__ = ["History", "TrainingEngine"]
