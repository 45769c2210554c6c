"""Passes: transformations of a document that keep what its model computes, each with a proof and a report.

::

    done = pn.transform(graph, [pn.passes.RemoveDeadNodes(), pn.passes.FuseBatchNorm()], args=(x,), reuse=model)
    done            # in a notebook: what was changed, where, what it gains, how it was proved
    done.graph      # again a document, to edit and to write as source
    done.model      # compiled from it
"""

from pnne_nb.compiler.passes.activation_checkpointing import CheckpointActivations as CheckpointActivations
from pnne_nb.compiler.passes.batchnorm_fusion import FuseBatchNorm as FuseBatchNorm
from pnne_nb.compiler.passes.common_subexpressions import MergeEqualNodes as MergeEqualNodes
from pnne_nb.compiler.passes.constant_folding import FoldConstants as FoldConstants
from pnne_nb.compiler.passes.dead_nodes import RemoveDeadNodes as RemoveDeadNodes
from pnne_nb.compiler.passes.equivalence import EquivalenceProof as EquivalenceProof
from pnne_nb.compiler.passes.equivalence import Promise as Promise
from pnne_nb.compiler.passes.graph_pass import Pass as Pass
from pnne_nb.compiler.passes.graph_pass import PassSubject as PassSubject
from pnne_nb.compiler.passes.graph_pass import Rewrite as Rewrite
from pnne_nb.compiler.passes.pass_manager import RemoveIdentities as RemoveIdentities
from pnne_nb.compiler.passes.pass_manager import Transformed as Transformed
from pnne_nb.compiler.passes.pass_manager import transform as transform
from pnne_nb.compiler.passes.place_nodes import PlaceByMemory as PlaceByMemory
from pnne_nb.compiler.passes.place_nodes import PlaceNodes as PlaceNodes
from pnne_nb.compiler.passes.placement_plan import Placement as Placement
from pnne_nb.compiler.passes.report import Change as Change
from pnne_nb.compiler.passes.report import Gain as Gain
from pnne_nb.compiler.passes.report import Report as Report
