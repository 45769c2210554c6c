"""Parent package of the modules that hold generated classes; they live in ``sys.modules`` only.

A class of a compiled graph needs a module that exists, so that pickling, ``inspect.getsource``,
``torch.export`` and tracebacks find it (see ``compiler.codegen.loader``).
"""
