// The few DOM helpers that the controls need.
import type { Model } from "./host";

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

export function svgElement<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string>,
  ...children: Node[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A filled 16 × 16 icon, as decoration; the button's text has the meaning. */
export function icon(path: string): SVGSVGElement {
  return svgElement("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svgElement("path", { d: path }));
}

export function button(attributes: Attributes, ...children: (Node | string)[]): HTMLButtonElement {
  return element("button", { type: "button", class: "pnne-button", ...attributes }, ...children);
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

/** Calls the listeners of a model's events; returns what ends it. */
export function listen(model: Pick<Model, "on" | "off">, listeners: Record<string, () => void>): () => void {
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  return () => {
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
  };
}
