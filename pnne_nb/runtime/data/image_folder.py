"""`images`: pictures in one folder for each class as a dataset, or those of an array as a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, TrainingError, shown
from pnne_nb.runtime.data.open_data import DescribedDataset

if TYPE_CHECKING:
    from PIL.Image import Image

_SUFFIXES: Final = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"))
MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}
WHITE: Final = 255
_LOOKED_AT: Final = 200
"""Pictures whose sizes are compared before a training."""


@final
class ImageFolder(DescribedDataset):
    """Pictures `[channels, h, w]`, float32 from 0 to 1, each with the number of its class; see `images`.

    Attributes:
        classes: The names of the folders, in the order of their numbers.
        files: The pictures in their order.
        unreadable: Pictures that were left out.
    """

    def __init__(
        self, folder: str | Path, size: tuple[int, int] | None, channels: int, *, skip_unreadable: bool = False
    ) -> None:
        root = Path(folder).expanduser()
        if not str(folder) or not root.is_dir():
            raise TrainingError(f"There is no folder {str(folder)!r}: give one that has a folder for each class.")
        self.classes = tuple(sorted(path.name for path in root.iterdir() if path.is_dir()))
        found = [
            (path, number)
            for number, name in enumerate(self.classes)
            for path in sorted((root / name).rglob("*"))
            if path.suffix.lower() in _SUFFIXES
        ]
        self.unreadable = tuple(path for path, _ in found if _is_broken(path)) if skip_unreadable else ()
        left_out = set(self.unreadable)
        self._files = [item for item in found if item[0] not in left_out]
        if not self._files:
            raise TrainingError(
                f"The folder {str(folder)!r} has no pictures in folders by class, such as {folder}/cat/1.png."
            )
        self._size, self._channels, self._skips = size, channels, skip_unreadable
        self._folder = str(folder)
        if size is None:
            self._size = self._common_size()

    def read(self, data: str | Path) -> ImageFolder:
        """Return the pictures of another folder in the same size and channels."""
        return ImageFolder(data, self._size, self._channels, skip_unreadable=self._skips)

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(path for path, _ in self._files)

    def _common_size(self) -> tuple[int, int]:
        step = max(1, len(self._files) // _LOOKED_AT)
        sizes: Counter[tuple[int, int]] = Counter()
        for path, _ in self._files[::step]:
            with _opened(path, self._folder) as picture:
                sizes[picture.height, picture.width] += 1
        (size, _), *others = sizes.most_common()
        if others:
            listed = ", ".join(f"{height}×{width}" for height, width in [size, *(each for each, _ in others[:2])])
            raise TrainingError(
                f"The pictures in {self._folder!r} have several sizes ({listed}): say which all get, "
                f"pn.images({self._folder!r}, size={size})."
            )
        return size

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, number = self._files[index]
        with _opened(path, self._folder) as picture:
            try:
                pixels = picture.convert(MODES[self._channels])
            except OSError as error:  # its head is whole, its end is missing
                raise _unreadable(path, self._folder, error) from error
        assert self._size is not None, "found in the constructor"
        height, width = self._size
        if pixels.size != (width, height):
            pixels = pixels.resize((width, height))
        values = torch.from_numpy(np.asarray(pixels, dtype=np.float32) / WHITE)
        return (values[None] if self._channels == 1 else values.permute(2, 0, 1)), number

    def __repr__(self) -> str:
        assert self._size is not None, "found in the constructor"
        names = ", ".join(self.classes[:5]) + (" …" if len(self.classes) > 5 else "")
        left_out = f"; {len(self.unreadable)} unreadable ones left out" if self.unreadable else ""
        return (
            f"{len(self)} pictures of {len(self.classes)} classes ({names}), {self._channels}×{self._size[0]}×"
            f"{self._size[1]}, values 0 to 1{left_out}"
        )


@overload
def images(folder: Tensor | NDArray[Any], size: int | Sequence[int] | None = None) -> Tensor: ...


@overload
def images(
    folder: str | Path, size: int | Sequence[int] | None = None, *, channels: int = 3, skip_unreadable: bool = False
) -> ImageFolder: ...


def images(
    folder: str | Path | Tensor | NDArray[Any],
    size: int | Sequence[int] | None = None,
    *,
    channels: int = 3,
    skip_unreadable: bool = False,
) -> ImageFolder | Tensor:
    """Return pictures as data for an engine: those of a folder that has a folder for each class, or those of an array.

    A picture is float32 from 0 to 1, channels first: `[channels, h, w]`. In a folder, its target is the number of the class, in
    the order of the names. An array has no targets: ``(pn.images(X), y)``.

    Args:
        folder: Such as ``pets`` with ``pets/cat/1.png`` and ``pets/dog/7.jpg``; or an array `[n, h, w]`, `[n, h, w, channels]` or
            `[n, channels, h, w]`. Its whole numbers are from 0 to 255; other numbers stay as they are.
        size: Height and width that all pictures are resized to, or one number for both. None if they have one size already.
        channels: 1 for grey, 3 for red, green and blue, 4 with transparency.
        skip_unreadable: Whether pictures that cannot be read are left out. All of them are looked at first.

    Raises:
        TrainingError: If there is no such folder, no picture in it, or pictures of several sizes and no `size`; when it is
            read, for a picture that cannot be, with its path.
        ArgumentError: If `size` or `channels` is none, or if it is not clear where the channels of an array are.
    """
    if channels not in MODES:
        raise ArgumentError(f"channels must be 1 (grey), 3 (colours) or 4 (with transparency), not {shown(channels)}.")
    given: tuple[Any, ...] = (
        (size, size) if isinstance(size, int) else tuple(size) if isinstance(size, Sequence) else (size,)
    )
    if size is not None and (len(given) != 2 or not all(isinstance(each, int) and each > 0 for each in given)):
        raise ArgumentError(f"size must be the height and width in pixels, such as (32, 32), not {shown(size)}.")
    height, width = given if size is not None else (0, 0)
    if isinstance(folder, Tensor | np.ndarray):
        return _pixels(torch.as_tensor(folder), (height, width) if size is not None else None)
    return ImageFolder(folder, (height, width) if size is not None else None, channels, skip_unreadable=skip_unreadable)


def _pixels(values: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Return pictures of an array as float32, channels first."""
    shape = tuple(values.shape)
    last, first = len(shape) == 4 and shape[3] in MODES, len(shape) == 4 and shape[1] in MODES
    if len(shape) == 3:
        values = values[:, None]
    elif last == first:
        raise ArgumentError(
            f"It is not clear where the channels of an array {list(shape)} are: give [n, h, w, channels] or [n, channels, h, w] "
            "with 1, 3 or 4 channels, or [n, h, w]."
        )
    elif last:
        values = values.movedim(3, 1)
    if not values.is_floating_point():
        if values.numel() and not 0 <= int(values.min()) <= int(values.max()) <= WHITE:
            raise ArgumentError(
                f"Pixels are whole numbers from 0 to {WHITE}, and these reach from {int(values.min())} to {int(values.max())}."
            )
        values = values.float() / WHITE
    values = values.float()
    if size is not None and tuple(values.shape[2:]) != size:
        values = nn.functional.interpolate(values, size, mode="bilinear", antialias=True)
    return values.contiguous()


def _opened(path: Path, folder: str) -> Image:
    try:
        from PIL import Image  # noqa: PLC0415  # an extra: imported late
    except ImportError:
        raise TrainingError("Pictures are read with Pillow: pip install 'pnne_nb[lab]'.") from None
    try:
        return Image.open(path)
    except OSError as error:
        raise _unreadable(path, folder, error) from error


def _unreadable(path: Path, folder: str, error: OSError) -> TrainingError:
    return TrainingError(
        f"The picture {str(path)!r} cannot be read: {error}. Replace it, or leave such pictures out: "
        f"pn.images({folder!r}, skip_unreadable=True)."
    )


def _is_broken(path: Path) -> bool:
    try:
        with _opened(path, "") as picture:
            picture.load()
    except (OSError, TrainingError):
        return True
    return False
