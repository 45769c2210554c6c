from __future__ import annotations

from xml.etree import ElementTree as ET

from pnne_nb.telemetry.bar_chart import LONGEST, Bar, bar_chart

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_their_values_and_names_are_text() -> None:
    picture = ET.fromstring(
        bar_chart("a < b", [Bar("one & two", 1, 0.5, 2, "1 s"), Bar("x", 0.5, 0.5, 0.5, "½", strong=True)])
    )
    lengths = [float(each.attrib["width"]) for each in picture.findall(f"{SVG}rect")]
    assert lengths == [LONGEST / 2, LONGEST / 4]
    texts = [each.text for each in picture.findall(f"{SVG}text")]
    assert texts == ["a < b", "one & two", "1 s", "x", "½"]


def test_no_bars_and_zeros_are_a_picture_too() -> None:
    assert ET.fromstring(bar_chart("empty", [])).findall(f"{SVG}rect") == []
    assert len(ET.fromstring(bar_chart("zero", [Bar("nothing", 0, 0, 0, "0")])).findall(f"{SVG}rect")) == 1
