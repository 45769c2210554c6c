"""Moves a training from a thread of this process to a group of processes."""

from __future__ import annotations

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.distributed.launch.launcher import LaunchedRun, pack
from pnne_nb.runtime.distributed.launch.plan import LaunchPlan
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.distributed.transport.scratch import sweep
from pnne_nb.runtime.loop.loss_weighting import require_reduction
from pnne_nb.runtime.session.session import Session
from pnne_nb.telemetry.frames import AnomalyFrame


def launched(session: Session, plan: LaunchPlan) -> TrainingGroup:
    """Pack `session`, and start the processes of `plan` to run its steps.

    Raises:
        TrainingError: A training is under way, or see `packed`.
        CompileError: The graph was edited and is unfinished or wrong.
    """
    if session.control.alive:
        raise TrainingError(f"A training is {session.control.state}: stop() it, and launch() goes on from there.")
    run = packed(session, plan, listens=True)
    session.boundary.let_go()
    history, tell = session.reports.history, session.announcer.tell
    group = TrainingGroup(run, session.loop, history, session.observers, tell, session.state_dict)
    session.launch(None, group)
    return group


def packed(session: Session, plan: LaunchPlan, *, listens: bool) -> LaunchedRun:
    """Write everything that processes need to continue `session`, which follows its edited graph first.

    `listens` says whether this machine is about to take part.

    Raises:
        TrainingError: An argument cannot be, something exists in this process only, or nobody says what the loss is.
        CompileError: The graph was edited and is unfinished or wrong.
    """
    session.follow_edits()
    require_reduction(session.loop.recipe)
    for left in sweep():
        message = (
            f"A kernel that has ended left the checkpoints of a group in {left}: load_checkpoint({str(left)!r}) "
            "goes on from there. The next launch removes them."
        )
        session.reports.announce(AnomalyFrame(session.loop.steps, "run-left-behind", message))
    session.renew()
    drawing = None if session.live_source is None else session.live_source.drawing
    state, objects = session.state_dict(), session.config.objects()
    return pack(plan, state, objects, session.loop, drawing, session.announcer.last_epoch, listens=listens)
