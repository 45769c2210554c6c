"""axe-core's rules for assistive tools, on an element of a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

_SOURCE = Path(__file__).resolve().parents[1] / "js" / "node_modules" / "axe-core" / "axe.min.js"

_VIOLATIONS = """async (selector) => {
  const found = await axe.run(document.querySelector(selector), {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
  });
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => html.slice(0, 160) + failureSummary)}`);
}"""


def violations(page: Page, selector: str) -> str:
    """What axe-core finds serious in the first element that a selector means, a line for each rule."""
    if not page.evaluate("() => 'axe' in window"):
        if not _SOURCE.exists():
            pytest.fail("Run `npm ci` in js/: the test needs axe-core.", pytrace=False)
        page.evaluate(f"() => {{ {_SOURCE.read_text(encoding='utf-8')} }}")
    return "\n".join(page.evaluate(_VIOLATIONS, selector))
