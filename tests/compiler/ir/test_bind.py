"""Property values as the constants that torch expects."""

from __future__ import annotations

import pytest

from pnne_nb.compiler.ir.bind import constant
from pnne_nb.graph.schema.property_types import DtypeType, EnumType, ListType, OptionalType, TupleType, UnionType
from pnne_nb.graph.schema.values import MEMORY_FORMATS, TorchConstant


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (DtypeType(), "int64", TorchConstant("int64")),
        (OptionalType(DtypeType()), None, None),
        (OptionalType(DtypeType()), "bool", TorchConstant("bool")),
        (UnionType((DtypeType(), EnumType(("auto",)))), "auto", "auto"),
        (TupleType(DtypeType()), ("int8", "int16"), (TorchConstant("int8"), TorchConstant("int16"))),
        (ListType(DtypeType()), ["int8"], [TorchConstant("int8")]),
        (EnumType(MEMORY_FORMATS), "channels_last", TorchConstant("channels_last")),
        (EnumType(("same", "valid")), "same", "same"),
    ],
)
def test_names_of_dtypes_and_formats_become_what_torch_expects(
    kind: DtypeType, value: object, expected: object
) -> None:
    assert constant(kind, value) == expected
