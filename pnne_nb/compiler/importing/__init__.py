"""Any ``nn.Module`` → a document that compiles to the same module, proved by running both.

``observing`` calls the module once in each mode, ``tracing`` records one ``forward`` with what was observed (``values``
stand for what it computes, ``rebinding`` gives it functions that know them, ``rewriting`` says methods by others,
``refusing`` goes past checks, ``assigning`` watches its attributes, ``outlining`` finds the function to keep as one call,
``assuming`` notes and checks what is taken from the example, ``modes`` joins training and evaluation), ``translating``
draws the recording, ``nesting`` gives containers their graph, ``assembling`` makes the document, ``locating`` finds
what is not equal, ``resizing`` tries inputs of other sizes, ``importer`` puts it together.

There is no second way by ``torch.export``. Tried on the hand-written networks of the tests, it refused 11 that are drawn
here (caches in objects, packed sequences, sizes that depend on data, buffers changed through ``data``) and took 2 that
stay closed (an autocast inside, an attribute that a submodule leaves), fixed to one mode and without functions' names.
"""

from pnne_nb.compiler.importing.importer import from_module as from_module
