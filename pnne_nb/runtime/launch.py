"""A training that goes on in a group of processes, from where it is, instead of in a thread of this one."""

from __future__ import annotations

from pnne_nb.errors import TrainingError
from pnne_nb.frames import AnomalyFrame
from pnne_nb.runtime.distributed.directories import sweep
from pnne_nb.runtime.distributed.launching import Packed, pack
from pnne_nb.runtime.distributed.plan import Plan
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.training import Training


def launched(training: Training, plan: Plan) -> TrainingGroup:
    """Pack `training`, and let the processes that `plan` asks for make its steps.

    Raises:
        TrainingError: A training is under way, or see `packed`.
        CompileError: The graph was edited and is unfinished or wrong.
    """
    if training.control.alive:
        raise TrainingError(f"A training is {training.control.state}: stop() it, and launch() goes on from there.")
    run = packed(training, plan, listens=True)
    training.shared.release()
    group = TrainingGroup(run, training.loop, training.reports.history, training.observers, training.work.tell)
    training.launch(None, group)
    return group


def packed(training: Training, plan: Plan, *, listens: bool) -> Packed:
    """Write everything that processes need to go on with `training` from here.

    Args:
        training: Follows its edited graph first.
        plan: Which processes.
        listens: Whether this machine is about to take part.

    Raises:
        TrainingError: An argument cannot be, or something exists in this process only.
        CompileError: The graph was edited and is unfinished or wrong.
    """
    training.follow_edits()
    for left in sweep():
        message = (
            f"A kernel that is gone has left the checkpoints of a group in {left}: load_checkpoint({str(left)!r}) "
            "goes on from there. The next launch removes them."
        )
        training.reports.announce(AnomalyFrame(training.loop.steps, "run-left-behind", message))
    training.work.renew(training.config.epochs)
    drawing = None if training.blueprint is None else training.blueprint.drawing
    state, objects = training.state_dict(), training.config.objects()
    return pack(plan, state, objects, training.loop, drawing, training.work.last_epoch, listens=listens)
