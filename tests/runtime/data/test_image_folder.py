"""Pictures in folders by class: their sizes, values and names, and pictures that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import pnne_nb as pn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, each of one shade."""
    for name, value in (("dog", 0), ("cat", 255)):
        (tmp_path / name).mkdir()
        for number in range(6):
            Image.new("RGB", (8, 6), (value, value, 0)).save(tmp_path / name / f"{number}.png")
    return tmp_path


def test_pictures_are_channels_first_from_0_to_1(folder: Path) -> None:
    data = pn.images(folder)
    picture, number = data[0]
    assert (picture.shape, picture.dtype, number) == ((3, 6, 8), torch.float32, 0)
    assert picture[:2].eq(1).all()
    assert picture[2].eq(0).all()
    assert repr(data) == "12 pictures of 2 classes (cat, dog), 3×6×8, values 0 to 1"
    assert data.files[0] == folder / "cat" / "0.png"


@pytest.mark.parametrize(("channels", "first"), [(1, 226 / 255), (3, 1.0), (4, 1.0)])
def test_other_sizes_and_channels(folder: Path, channels: int, first: float) -> None:
    picture, _ = pn.images(folder, 4, channels=channels)[0]
    assert picture.shape == (channels, 4, 4)
    assert picture[0].allclose(torch.tensor(first))
    assert pn.images(folder, (5, 7), channels=channels)[0][0].shape == (channels, 5, 7)


def test_values_are_those_of_the_file(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "cat" / "0.png")
    picture, _ = pn.images(folder)[0]
    np.testing.assert_array_equal(picture.permute(1, 2, 0), pixels.astype(np.float32) / 255)


def test_an_engine_trains_on_them_and_knows_the_names(folder: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 6 * 8, 2))
    engine = pn.TrainingEngine(net, pn.images(folder), epochs=8, device="cpu", metrics=("accuracy",))
    engine.start().wait()
    assert engine.state == "finished"
    assert engine.classes == ("cat", "dog")
    assert engine.history["loss"][-1] < engine.history["loss"][0]


def test_a_picture_that_cannot_be_read_is_named_or_left_out(folder: Path) -> None:
    whole = (folder / "dog" / "3.png").read_bytes()
    (folder / "dog" / "3.png").write_bytes(whole[: len(whole) // 2])
    (folder / "cat" / "bad.jpg").write_text("no picture")
    data = pn.images(folder, 6)
    with pytest.raises(pn.TrainingError, match=r"The picture '.*bad\.jpg' cannot be read.*skip_unreadable=True"):
        data[data.files.index(folder / "cat" / "bad.jpg")]
    with pytest.raises(pn.TrainingError, match=r"bad\.jpg"):
        pn.images(folder)
    left = pn.images(folder, skip_unreadable=True)
    assert {path.name for path in left.unreadable} == {"bad.jpg", "3.png"}
    assert len([left[index] for index in range(len(left))]) == 11
    assert repr(left).endswith("values 0 to 1; 2 unreadable ones left out")


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"folder": "/no/such"},
        pn.TrainingError,
        r"There is no folder '/no/such': give one that has a folder for each class",
    ),
    ({"channels": 2}, pn.ArgumentError, "channels must be 1"),
    ({"size": (3,)}, pn.ArgumentError, r"size must be the height and width in pixels, such as \(32, 32\), not \(3,\)"),
    ({"size": 0}, pn.ArgumentError, "size must be"),
    ({"size": 2.5}, pn.ArgumentError, "size must be"),
]


@pytest.mark.parametrize(("given", "kind", "message"), BAD)
def test_what_cannot_be(folder: Path, given: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        pn.images(**{"folder": folder, **given})


def test_pixels_of_an_array_are_scaled_and_have_their_channels_first() -> None:
    pixels = np.arange(2 * 6 * 5 * 3, dtype=np.uint8).reshape(2, 6, 5, 3)
    expected = torch.tensor(pixels).permute(0, 3, 1, 2) / 255
    for given in (pixels, torch.tensor(pixels), pixels.astype(np.int64), pixels.transpose(0, 3, 1, 2)):
        torch.testing.assert_close(pn.images(given), expected)
    grey = pn.images(pixels[..., 0])
    torch.testing.assert_close(grey, expected[:, :1])
    assert torch.equal(pn.images(grey.double()), grey)  # numbers that are scaled already stay
    assert pn.images(pixels, size=8).shape == (2, 3, 8, 8)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3, 5, 3), np.uint8), r"not clear where the channels of an array \[2, 3, 5, 3\] are"),
        (np.zeros((2, 7, 5, 9), np.uint8), r"give \[n, h, w, channels\]"),
        (np.zeros((2, 5), np.uint8), r"or \[n, h, w\]"),
        (np.full((2, 5, 5), 300), "from 0 to 255, and these reach from 300 to 300"),
    ],
)
def test_an_array_that_holds_no_pictures_is_refused(array: Any, message: str) -> None:
    with pytest.raises(pn.ArgumentError, match=message):
        pn.images(array)


def test_pictures_of_several_sizes_need_one(folder: Path) -> None:
    Image.new("RGB", (9, 9)).save(folder / "dog" / "large.png")
    with pytest.raises(
        pn.TrainingError, match=r"have several sizes \(6×8, 9×9\): say which all get, pn\.images\(.*size=\(6, 8\)\)"
    ):
        pn.images(folder)
    assert pn.images(folder, size=(6, 8))[12][0].shape == (3, 6, 8)


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2)).save(tmp_path / "1.png")
    with pytest.raises(pn.TrainingError, match="has no pictures in folders by class, such as"):
        pn.images(tmp_path)


def test_other_folders_are_read_in_the_same_form_and_need_the_same_classes(folder: Path, tmp_path_factory: Any) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, 2))
    engine = pn.TrainingEngine(net, pn.images(folder, 4), val_data=str(folder), epochs=1, device="cpu")
    engine.start().wait()
    assert len(engine.history["val_loss"]) == 1
    assert engine.predict(folder).shape == (12, 2)
    other = tmp_path_factory.mktemp("other")
    (other / "dog").mkdir()
    Image.new("RGB", (8, 6)).save(other / "dog" / "1.png")
    with pytest.raises(pn.TrainingError, match=r"val_data has the classes 'dog', and train_data has 'cat', 'dog'"):
        pn.TrainingEngine(net, pn.images(folder, 4), val_data=pn.images(other, 4))
