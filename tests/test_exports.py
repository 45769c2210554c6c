"""What ``import pnne_nb as pn`` offers, and what it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pnne_nb as pn

CONTRACT = """
    BadValueError CompileError Diagnostic GraphEditor GraphError GraphFileError Inspector LayerNotFoundError Node
    NodeGraph NodeSpec PnneError ShapeError TensorSpec TorchCompiler TrainingDashboard TrainingEngine VerificationReport catalog
    compile from_module infer_shapes register_node to_source verify
""".split()


def test_all_is_sorted_and_complete() -> None:
    assert pn.__all__ == sorted(set(pn.__all__))
    assert set(CONTRACT) <= set(pn.__all__)
    assert set(pn.__all__) <= set(dir(pn))


@pytest.mark.parametrize("name", pn.__all__)
def test_each_name_can_be_used(name: str) -> None:
    assert getattr(pn, name) is not None


def test_the_type_checker_sees_the_same_names() -> None:
    tree = ast.parse(Path(pn.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pnne_nb")
        for alias in node.names
    }
    declared = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert set(pn.__all__) <= imported | declared


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pnne_nb' has no attribute 'NodeGrpah'"):
        pn.NodeGrpah  # noqa: B018  # that is the point


def test_the_catalogue_is_a_mapping_by_type_name() -> None:
    assert pn.catalog["Conv2d"].category == "Convolution"


def test_a_document_of_structural_nodes_needs_neither_torch_nor_jupyter() -> None:
    script = """
import sys
import pnne_nb as pn
graph = pn.NodeGraph("identity")
x, y = graph.add("Input", name="x"), graph.add("Output", name="y")
graph.connect(x, y)
text = graph.to_json()
assert pn.NodeGraph.from_json(text) == graph
foreign = pn.NodeGraph.from_json(text.replace('"Output"', '"Conv2d"'))
assert foreign.nodes["y"].type == "Conv2d"
heavy = {"torch", "numpy", "pandas", "IPython", "ipywidgets", "anywidget", "bqplot", "traitlets"} & set(sys.modules)
print(sorted(heavy))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_it_imports_in_a_tenth_of_a_second_beyond_torch_and_ipywidgets() -> None:
    script = """
import time
import ipywidgets, torch
before = time.process_time()
import pnne_nb
print(time.process_time() - before)
"""
    taken = [float(subprocess.check_output([sys.executable, "-c", script], text=True)) for _ in range(3)]
    assert min(taken) < 0.1, taken
