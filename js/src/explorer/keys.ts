import type { Move } from "../protocol";

const MOVES: Readonly<Record<string, Move>> = {
  ArrowDown: "next",
  ArrowUp: "previous",
  ArrowRight: "in",
  ArrowLeft: "out",
  Enter: "toggle",
  " ": "toggle",
};

/** Makes an element of the page focusable, and reports moves by its keys. */
export function listenToKeys(
  place: HTMLElement,
  move: (move: Move) => void,
  search: () => void,
  signal: AbortSignal,
): void {
  place.tabIndex = 0;
  place.setAttribute("role", "application");
  place.setAttribute("aria-roledescription", "graph of layers");
  place.setAttribute("aria-label", "Layers: arrow keys move, Enter opens and closes, slash searches");
  // JupyterLab would take the keys for its own: x cuts the cell.
  place.setAttribute("data-lm-suppress-shortcuts", "true");
  const pressed = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const asked = MOVES[event.key];
    if (event.key === "/") search();
    else if (asked) move(asked);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  place.addEventListener("keydown", pressed, { signal });
}
