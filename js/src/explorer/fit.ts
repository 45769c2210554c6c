const MARGIN = 18;
const CALM_MS = 50;

/** Where Cytoscape keeps the graph that an element shows. */
interface Holder extends HTMLElement {
  _cyreg?: { cy?: { resize(): void; fit(elements: undefined, padding: number): void } };
}

/** Fits the graph inside `place` whenever that changes size, or another graph is put there. */
export function fitGraph(place: HTMLElement, signal: AbortSignal): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const fit = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const { _cyreg } of place.querySelectorAll<Holder>("*")) {
        _cyreg?.cy?.resize();
        _cyreg?.cy?.fit(undefined, MARGIN);
      }
    }, CALM_MS);
  };
  const resized = new ResizeObserver(fit);
  const rebuilt = new MutationObserver(fit);
  resized.observe(place);
  rebuilt.observe(place, { childList: true, subtree: true });
  signal.addEventListener("abort", () => {
    resized.disconnect();
    rebuilt.disconnect();
    clearTimeout(timer);
  });
}
