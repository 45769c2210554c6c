"""Writes the model card in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from pnne_nb.export.formats.base import numbered_axes
from pnne_nb.export.package import manifest as names
from pnne_nb.export.package.manifest import Manifest


def write_card(
    manifest: Manifest, metrics: Mapping[str, float], parameters: int, *, has_source: bool, proved: bool
) -> str:
    """Return the text of the card.

    Args:
        manifest: Of the package.
        metrics: The last value of each metric of the training.
        parameters: How many numbers the weights have.
        has_source: Whether the package has the model's source.
        proved: Whether the package carries an ONNX file.
    """
    lines = [
        f"# {_cell(manifest.name)}",
        "",
        f"![The graph of {_cell(manifest.name)}]({names.PICTURE})",
        "",
        f"A PyTorch model with {parameters:,} parameters, drawn with pnne_nb.",
        "",
        "## Inputs and outputs",
        "",
        "| | name | element type | shape |",
        "|---|---|---|---|",
        *(f"| input | {_cell(one.name)} | {one.dtype} | {_shape(one.shape)} |" for one in manifest.inputs),
        *(f"| output | {_cell(one.name)} | {one.dtype} | {_shape(one.shape)} |" for one in manifest.outputs),
        "",
    ]
    if fixed := numbered_axes(manifest.inputs):
        lines += [f"Fixed sizes: {_cell(', '.join(map(str, fixed)))}.", ""]
    if manifest.classes:
        lines += [f"Classes, in order: {', '.join(_cell(name) for name in manifest.classes)}.", ""]
    if metrics:
        lines += ["## Training", "", "| metric | last value |", "|---|---|"]
        lines += [*(f"| {_cell(name)} | {value:.6g} |" for name, value in metrics.items()), ""]
    if manifest.config:
        lines += ["## Configuration", "", "| | |", "|---|---|"]
        lines += [*(f"| {_cell(name)} | {_cell(str(value))} |" for name, value in manifest.config.items()), ""]
    lines += [
        "## Use",
        "",
        "```python",
        "import pnne_nb as pn",
        "",
        f'graph, model = pn.load("{manifest.name}.pnne")',
        "```",
        "",
    ]
    if manifest.custom_types:
        lines += [
            f"Not part of pnne_nb are the node types {', '.join(manifest.custom_types)}.",
            "Register them with `@pn.register_node` before.",
            "",
        ]
    if has_source:
        lines += [
            f"`{names.SOURCE}` is the model as plain PyTorch, to be read; opening the package does not run it.",
            "",
        ]
    compares = "the digests and the recorded outputs" if proved else "the digests; the package carries no ONNX file"
    lines += [
        "## Check",
        "",
        f"`python {names.CHECK}` in the unpacked folder, or `python {names.CHECK} PACKAGE`, compares {compares}.",
        "",
        "## Versions",
        "",
        ", ".join(f"{name} {version}" for name, version in manifest.versions.items()),
        "",
    ]
    return "\n".join(lines)


def _shape(shape: tuple[int | str, ...]) -> str:
    return _cell(f"({', '.join(map(str, shape))})")


def _cell(text: str) -> str:
    """Return a text escaped for a table cell."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    for letter in "\\|<>&`*_[]":
        plain = plain.replace(letter, f"\\{letter}")
    return plain
