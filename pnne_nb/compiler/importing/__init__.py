"""Any ``nn.Module`` → a document that compiles to the same module, proved by running both.

``observing`` calls the module once in each mode, ``tracing`` records one ``forward`` with what was observed (``values``
stand for what it computes, ``rebinding`` gives it functions that know them, ``modes`` joins training and evaluation),
``translating`` draws the recording, ``nesting`` gives containers their graph, ``assembling`` makes the document,
``locating`` finds what is not equal, ``importer`` puts it together.
"""

from pnne_nb.compiler.importing.importer import from_module as from_module
