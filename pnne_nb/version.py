"""Which version this is, for everybody who writes it down."""

__version__ = "0.1.0"
