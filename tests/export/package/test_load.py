from __future__ import annotations

import hashlib
import io
import json
import os
import random
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.errors import CompileError, GraphFileAccessError, GraphFileError, GraphFileNotFoundError
from pnne_nb.graph.schema.registry import registry
from tests.export.package.nets import chain, small, trained

FLIPS = 50


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return pn.save(small(), trained(small()), tmp_path_factory.mktemp("package") / "net.pnne").read_bytes()


def parts_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(archive: bytes) -> bytes:
    """Return a zip file without a comment as somebody writes it who knows the format: its digest is right."""
    count = len(archive) - 2
    head = archive[:count] + (64).to_bytes(2, "little")
    return head + hashlib.sha256(head).hexdigest().encode()


def described(parts: Mapping[str, bytes], more: str = "", **changes: Any) -> dict[str, bytes]:
    """Return parts with a manifest that has their digests, and one of a part that is not there."""
    rest = {name: part for name, part in parts.items() if name != "manifest.json"}
    digests = {name: {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()} for name, part in rest.items()}
    lost = {more: {"bytes": 1, "sha256": ""}} if more else {}
    manifest = {**json.loads(parts["manifest.json"]), "parts": {**digests, **lost}, **changes}
    return {"manifest.json": json.dumps(manifest).encode(), **rest}


def zipped(
    parts: Mapping[str, bytes], edit: Callable[[zipfile.ZipFile], None] = lambda _: None, **options: Any
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name) if not options else name, part)
        edit(archive)
    return sealed(buffer.getvalue())


def refused(content: bytes, path: Path, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(GraphFileError, match=message):
        pn.load(path)


def test_a_package_that_is_put_together_again_is_opened(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "again.pnne"
    path.write_bytes(zipped(described(parts_of(content))))
    assert pn.load(path)[0] == small()


def test_each_flipped_bit_of_a_file_is_found(content: bytes, tmp_path: Path) -> None:
    draws = random.Random(0)
    path = tmp_path / "net.pnne"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        records = [archive.start_dir, *(entry.header_offset for entry in archive.infolist())]
    # The archive's own records, which no checksum of zip covers, and everywhere.
    places = [start + draws.randrange(30) for start in records] + [draws.randrange(len(content)) for _ in range(FLIPS)]
    places += [len(content) - 1 - draws.randrange(90) for _ in range(5)]
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << draws.randrange(8)
        refused(bytes(flipped), path, "damaged")


def test_each_flipped_bit_of_a_folder_is_found(tmp_path: Path) -> None:
    draws = random.Random(0)
    folder = pn.save(small(), trained(small()), tmp_path / "net")
    files = sorted(folder.iterdir())
    for index in range(FLIPS):
        file = files[index % len(files)]
        before = file.read_bytes()
        flipped = bytearray(before)
        flipped[draws.randrange(len(before))] ^= 1 << draws.randrange(8)
        file.write_bytes(flipped)
        with pytest.raises(GraphFileError, match=r"differs from its digest|is not what the manifest says"):
            pn.load(folder)
        file.write_bytes(before)
    pn.load(folder)


def test_the_damaged_part_is_named(content: bytes, tmp_path: Path) -> None:
    flipped = bytearray(content)
    flipped[content.index(parts_of(content)["weights.safetensors"])] ^= 1
    refused(bytes(flipped), tmp_path / "net.pnne", r"the part 'weights\.safetensors' differs from its digest")
    refused(content[:-200], tmp_path / "net.pnne", "the records of the archive itself")
    refused(b"x", tmp_path / "net.pnne", "is no package: it has 1 bytes")


def link(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(entry, "/etc/passwd")


def twice(archive: zipfile.ZipFile) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(zipfile.ZipInfo("graph.json"), b"{}")


def wrong_size(archive: zipfile.ZipFile) -> None:
    archive.getinfo("graph.json").compress_size -= 1


def overlapping(archive: zipfile.ZipFile) -> None:
    for entry in archive.infolist()[1:]:
        entry.file_size = entry.compress_size = 10**7


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (link, "'link' is no plain file but a link"),
        (twice, "'graph.json' is there twice"),
        (wrong_size, "'graph.json' has two sizes"),
        (overlapping, "its parts overlap"),
        *(
            (
                lambda archive, name=name: archive.writestr(zipfile.ZipInfo(name), b"x"),
                "name that leads out|no plain name",
            )
            for name in ("../evil.py", "/etc/evil", "a/b", "C:evil", ".hidden", "x" * 200, "é")
        ),
        (lambda archive: archive.writestr(zipfile.ZipInfo("extra"), b"x"), "does not know the part 'extra'"),
    ],
)
def test_a_hostile_archive_is_refused(
    content: bytes, tmp_path: Path, edit: Callable[[zipfile.ZipFile], None], message: str
) -> None:
    refused(zipped(parts_of(content), edit), tmp_path / "net.pnne", message)
    assert [path.name for path in tmp_path.iterdir()] == ["net.pnne"]


def test_a_bomb_is_not_unpacked(content: bytes, tmp_path: Path) -> None:
    parts = {**parts_of(content), "weights.safetensors": bytes(2**24)}
    refused(zipped(parts, compression=zipfile.ZIP_DEFLATED), tmp_path / "net.pnne", "is compressed or encrypted")


def without(name: str) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda parts: described({key: part for key, part in parts.items() if key != name})


def weights(**tensors: Tensor) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    def change(parts: dict[str, bytes]) -> dict[str, bytes]:
        given = safetensors.torch.load(parts["weights.safetensors"])
        named = {name.replace("_", ".", 1): tensor for name, tensor in tensors.items()}
        return described({**parts, "weights.safetensors": safetensors.torch.save({**given, **named})})

    return change


def state(**changes: Any) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    def change(parts: dict[str, bytes]) -> dict[str, bytes]:
        found = {**json.loads(parts["weights.json"]), **changes}
        return described({**parts, "weights.json": json.dumps(found).encode()})

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("graph.json"), "the part 'graph.json' is missing"),
        (without("check.py"), "the part 'check.py' is missing"),
        (
            lambda parts: described({**parts, "check.py": b"import os"}),
            "check.py is not the script that pnne_nb writes",
        ),
        (lambda parts: described({**parts, "graph.json": b"{}"}), "graph.json: .*not a graph file"),
        (lambda parts: described({**parts, "weights.safetensors": b"x" * 99}), "is no safetensors file"),
        (lambda parts: described({**parts, "weights.json": b"[]"}), "description of the weights is damaged"),
        (
            lambda parts: described({**parts, "batches.safetensors": safetensors.torch.save({"x": torch.ones(1)})}),
            "recorded",
        ),
        (weights(fc_weight=torch.ones(9, 9)), "fc.weight is float32 .9, 9., and the graph makes it"),
        (weights(zz_weight=torch.ones(9)), "has the weight 'zz.weight', which no node takes"),
        (state(tied={"fc.bias": "fc.lost"}), "weights are not as their description says"),
        (state(strides={"fc.weight": [10**9, 1]}), "weights are not as their description says"),
        (state(strides={"fc.weight": [0, 0]}), "weights are not as|and the graph makes it"),
        (state(switched=[".".join("a" * 999)]), "nested more than"),
        (state(strides=3), "description of the weights is damaged"),
        (lambda parts: {**parts, "manifest.json": b"no"}, "is no JSON"),
        (lambda parts: {**parts, "manifest.json": b"[" * 10**5}, "is no JSON"),
        (lambda parts: {**parts, "manifest.json": b"{}"}, "is no manifest of a package"),
        (lambda parts: described(parts, formatVersion=2), "has format version 2, and this pnne_nb reads up to 1"),
        (lambda parts: described(parts, inputs=3), "Expected `array`"),
        (lambda parts: described(parts, surplus=3), "unknown field `surplus`"),
        (lambda parts: described(parts, more="lost"), "the part 'lost' is missing"),
        (lambda parts: {k: v for k, v in parts.items() if k != "manifest.json"}, "it has no manifest.json"),
        (lambda parts: {**parts, "graph.json": parts["graph.json"] + b" "}, "graph.json is damaged or was changed"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_does_not_belong_is_refused(
    content: bytes, tmp_path: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]], message: str
) -> None:
    refused(zipped(change(parts_of(content))), tmp_path / "net.pnne", message)


def test_a_hostile_folder_is_refused(tmp_path: Path) -> None:
    folder = pn.save(small(), trained(small()), tmp_path / "net")
    graph = folder / "graph.json"
    kept = graph.read_bytes()
    secret = tmp_path / "secret"
    secret.write_bytes(kept)
    graph.unlink()
    graph.symlink_to(secret)
    with pytest.raises(GraphFileError, match=r"graph\.json' is a link"):
        pn.load(folder)
    graph.unlink()
    os.mkfifo(graph)
    with pytest.raises(GraphFileError, match="is neither a file nor a folder"):
        pn.load(folder)
    graph.unlink()
    with pytest.raises(GraphFileNotFoundError, match="There is no package"):
        pn.load(folder)
    graph.write_bytes(kept + b" ")
    with pytest.raises(GraphFileError, match="has more than the"):
        pn.load(folder)
    parts = {path.name: path.read_bytes() for path in folder.iterdir()}
    head = described(parts, more="../secret")["manifest.json"]
    (folder / "manifest.json").write_bytes(head)
    (folder / "manifest.sha256").write_text(f"{hashlib.sha256(head).hexdigest()}\n")
    with pytest.raises(GraphFileError, match="name that leads out"):
        pn.load(folder)
    with pytest.raises(GraphFileError, match=r"The folder .* is no package"):
        pn.load(tmp_path)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(GraphFileNotFoundError, match="There is no package"):
        pn.load(tmp_path / "missing.pnne")
    os.mkfifo(tmp_path / "pipe.pnne")
    with pytest.raises(GraphFileError, match="is neither a file nor a folder"):
        pn.load(tmp_path / "pipe.pnne")
    with pytest.raises(GraphFileAccessError, match="cannot be read"):
        pn.load("x" * 5000)


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Tripled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3


OWN = "PackagedDouble"


@pytest.fixture
def own_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered type that is gone after the test, under a name that no other test's type has."""
    monkeypatch.setattr(registry, "_specs", dict(registry._loaded()))
    pn.register_node(name=OWN)(Doubled)


@pytest.mark.usefixtures("own_type")
def test_a_type_that_is_not_registered_here_is_named(tmp_path: Path) -> None:
    path = pn.save(doubled(), pn.compile(doubled()), tmp_path / "net.pnne")
    del registry._specs[OWN]
    with pytest.raises(CompileError, match=f"types that are not registered here: '{OWN}'") as caught:
        pn.load(path)
    assert caught.value.diagnostics[0].node == "own"


def doubled() -> pn.NodeGraph:
    return chain(pn.NodeGraph("doubled"), ("Input", "x", {"shape": ("N", 3)}), (OWN, "own", {}), ("Output", "y", {}))


@pytest.mark.usefixtures("own_type")
def test_a_type_that_is_another_one_here_is_found_by_the_recorded_outputs(tmp_path: Path) -> None:
    path = pn.save(doubled(), pn.compile(doubled()), tmp_path / "net.pnne")
    assert pn.load(path)[0] == doubled()
    pn.register_node(name=OWN, replace=True)(Tripled)
    with pytest.raises(GraphFileError, match="the model gives other outputs than were recorded"):
        pn.load(path)
