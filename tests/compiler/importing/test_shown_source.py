"""The source of an imported network stands alone: run without this package, it gives the same module."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.verify import compare, key_prefix
from tests.compiler.importing import nets
from tests.compiler.importing.zoo import MODELS, Entry

FOREIGN = ("bert", "bert ids", "rotary gpt", "rotary gpt labels")
"""Those that return objects of classes of their own, which the source imports."""


def executed(source: str, graph: pn.NodeGraph, net: nn.Module) -> nn.Module:
    """Make the module that a source describes, as its reader would."""
    names: dict[str, object] = {"__name__": "shown"}
    exec(compile(source, "<shown>", "exec"), names)  # that is what it is for
    cls = names[type(pn.compile(graph, reuse=net)).__name__]
    assert isinstance(cls, type)
    model: nn.Module = cls()
    model.load_state_dict(net.state_dict())
    return model


def formatted(source: str) -> str:
    """Format a text as ruff does where nobody has set anything."""
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "-"]
    return subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if not entry.opaque])
def test_the_source_gives_the_same_module(name: str) -> None:
    entry = MODELS[name]
    net = entry.make()
    graph = pn.from_module(net, entry.args, entry.kwargs)
    source = pn.to_source(graph)
    assert "pnne_nb" not in source
    assert formatted(source) == source
    model = executed(source, graph, net)
    for check in compare(net, model, entry.args, entry.kwargs):
        assert check.equal, str(check)


def test_it_runs_where_this_package_is_not(tmp_path: Path) -> None:
    net, x = nets.ResNet().eval(), torch.randn(2, 3, 8, 8)
    (tmp_path / "shown.py").write_text(pn.to_source(pn.from_module(net, (x,))))
    torch.save({"state": net.state_dict(), "x": x, "y": net(x)}, tmp_path / "kept.pt")
    script = (
        "import sys, torch; sys.modules['pnne_nb'] = None; import shown\n"
        "kept = torch.load('kept.pt', weights_only=True); net = shown.ResNet().eval()\n"
        "net.load_state_dict(kept['state']); assert torch.equal(net(kept['x']), kept['y'])"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)  # our own script


def test_it_reads_as_a_person_writes_it() -> None:
    assert pn.to_source(pn.from_module(nets.ResNet(), (torch.randn(2, 3, 8, 8),))) == RESNET


RESNET = Path(__file__).with_name("shown_resnet.txt").read_text(encoding="utf-8")


def test_what_the_reader_must_bring_is_said() -> None:
    entry: Entry = MODELS["mixture"]
    source = " ".join(pn.to_source(pn.from_module(entry.make(), entry.args)).split())
    assert "Takes the opaque modules of the graph." in source
    assert "blocks_0_moe: A tests.compiler.importing.zoo.transformers.Mixture. Its forward" in source
    assert "is only known when it runs" in " ".join(source.split())


def test_classes_of_results_are_imported() -> None:
    entry = MODELS["bert"]
    source = pn.to_source(pn.from_module(entry.make(), entry.args, entry.kwargs))
    assert "from tests.compiler.importing.zoo.transformers import TokenClassifierOutput" in source


def test_what_a_class_differs_in_is_an_argument() -> None:
    entry = MODELS["googlenet"]
    source = pn.to_source(pn.from_module(entry.make(), entry.args))
    assert source.count("class Conv") == 1
    assert "self.inception2 = InceptionBlock(in_channels=16)" in source


def test_a_reason_in_a_file_stays_words() -> None:
    """What a file gives as the reason of an opaque node stands in a docstring, and nowhere else."""
    entry = MODELS["early exit"]
    text = pn.from_module(entry.make(), entry.args).to_json()
    hostile = text.replace("its forward depends", '\\"\\"\\"\\nraise SystemExit\\n\\\\')
    assert hostile != text
    graph = pn.NodeGraph.from_json(hostile)
    origin = graph["loop"].origin
    assert origin is not None
    assert '"""\nraise SystemExit' in origin.reason
    source = pn.to_source(graph)
    exec(compile(source, "<shown>", "exec"), {"__name__": "shown"})
    assert '"""\nraise' not in source


# What is closed in the ConvNeXt is a layer of its stem under a second name, which only compile ties.
@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if entry.opaque and name != "convnext"])
def test_source_with_closed_parts_takes_them_as_arguments(name: str) -> None:
    entry = MODELS[name]
    net = entry.make()
    graph = pn.from_module(net, entry.args, entry.kwargs)
    names: dict[str, object] = {"__name__": "shown"}
    exec(compile(pn.to_source(graph), "<shown>", "exec"), names)  # that is what it is for
    cls = names[type(pn.compile(graph, reuse=net)).__name__]
    assert isinstance(cls, type)
    parts = {
        "module": net,
        **{path.replace(".", "_"): part for path, part in net.named_modules(remove_duplicate=False)},
    }
    wanted = list(inspect.signature(cls).parameters)
    assert wanted
    model = cls(**{name: copy.deepcopy(parts[name]) for name in wanted})
    prefix = key_prefix(graph)
    model.load_state_dict({f"{prefix}{key}": value for key, value in net.state_dict().items()})
    for check in compare(net, model, entry.args, entry.kwargs, prefix):
        assert check.equal, str(check)
