"""Compose the README's picture from what the browser tests have just photographed: ``make screenshots``."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("01_quickstart-GraphEditor", "01_quickstart-TrainingDashboard")
MARGIN = 16


def main() -> None:
    """Put the editor above the dashboard, at one width."""
    parts = [Image.open(ROOT / "tests" / "artifacts" / f"{name}.png").convert("RGB") for name in PARTS]
    width = min(part.width for part in parts)
    parts = [part.resize((width, round(part.height * width / part.width)), Image.Resampling.LANCZOS) for part in parts]
    height = sum(part.height for part in parts) + MARGIN * (len(parts) - 1)
    picture = Image.new("RGB", (width, height), "white")
    top = 0
    for part in parts:
        picture.paste(part, (0, top))
        top += part.height + MARGIN
    target = ROOT / "docs" / "images" / "quickstart.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(128).save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {width}×{height}, {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
