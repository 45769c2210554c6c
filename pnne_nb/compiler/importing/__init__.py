"""Imports any ``nn.Module`` as a document that compiles to an equal module; running both proves it.

``tracing`` calls the module once in each mode (``observed_calls``) and records one ``forward`` (``tracer``). There
``proxies`` stand for computed values, ``objects`` takes caches and their like apart, ``patched_functions`` replaces
functions that cannot take proxies, ``decompositions`` rewrites methods without a node type, ``call_site`` inspects the
frames of the traced code, ``interception`` watches attributes, ``guards`` records and checks what depends on the example,
and ``alternatives`` joins the two modes. ``translation`` makes items of the recording (``translate``), nests containers
(``containers``) and makes the document (``emit_ops``). ``verification`` proves it (``proof``), in other
types too: it finds modules that differ (``bisect``) and tries other sizes (``batch_resize``). ``importer`` runs these steps.

There is no second way through ``torch.export``. On the hand-written networks of the tests it refused 11 that this
import handles (caches in objects, packed sequences, sizes that depend on data, buffers changed through ``data``). It
took 2 that stay opaque here (an inner autocast, an attribute that a submodule sets), but fixed to one mode and without
the names of functions.
"""

from pnne_nb.compiler.importing.importer import UnprovedImport as UnprovedImport
from pnne_nb.compiler.importing.importer import from_module as from_module
