// The few DOM helpers that the controls need.

type Attributes = Record<string, string | boolean>;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** A filled 16 × 16 icon, as decoration; the button's text has the meaning. */
export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

/** Writes only changes, so that a screen reader does not repeat the same text ten times a second. */
export function setText(node: HTMLElement, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Keeps JupyterLab and Notebook from reading keys pressed here as commands to the cell. */
export function keepKeys(root: HTMLElement): void {
  for (const node of [root, ...root.querySelectorAll<HTMLElement>("button, select, input")]) {
    node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
}
