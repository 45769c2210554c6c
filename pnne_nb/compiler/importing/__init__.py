"""Any ``nn.Module`` → a document that compiles to the same module, proved by running both.

``tracing`` records one ``forward``, ``translating`` draws it, ``nesting`` gives containers their graph,
``assembling`` makes the document, ``locating`` finds what is not equal, ``importer`` puts it together.
"""

from pnne_nb.compiler.importing.importer import from_module as from_module
