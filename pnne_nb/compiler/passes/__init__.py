"""Passes: transformations of a document that keep what its model computes, each with a proof and a report.

::

    done = pn.transform(graph, [pn.passes.RemoveDeadNodes(), pn.passes.FuseBatchNorm()], args=(x,), reuse=model)
    done            # in a notebook: what was changed, where, what it gains, how it was proved
    done.graph      # again a document, to edit and to write as source
    done.model      # compiled from it
"""

from pnne_nb.compiler.passes.applying import Transformed as Transformed
from pnne_nb.compiler.passes.applying import transform as transform
from pnne_nb.compiler.passes.base import Pass as Pass
from pnne_nb.compiler.passes.base import Rewrite as Rewrite
from pnne_nb.compiler.passes.base import Subject as Subject
from pnne_nb.compiler.passes.checkpointing import CheckpointActivations as CheckpointActivations
from pnne_nb.compiler.passes.dead import RemoveDeadNodes as RemoveDeadNodes
from pnne_nb.compiler.passes.folding import FoldConstants as FoldConstants
from pnne_nb.compiler.passes.fusing import FuseBatchNorm as FuseBatchNorm
from pnne_nb.compiler.passes.merging import MergeEqualNodes as MergeEqualNodes
from pnne_nb.compiler.passes.placement import PlaceNodes as PlaceNodes
from pnne_nb.compiler.passes.proving import Promise as Promise
from pnne_nb.compiler.passes.proving import Proof as Proof
from pnne_nb.compiler.passes.reports import Change as Change
from pnne_nb.compiler.passes.reports import Gain as Gain
from pnne_nb.compiler.passes.reports import Report as Report
