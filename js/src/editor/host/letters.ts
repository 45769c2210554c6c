const widths = new Map<string, number>();
const fonts = new WeakMap<Element, string>();
let context: CanvasRenderingContext2D | null = null;
const SIZE = 100;

/** How wide a text is in semibold letters of an element's font, in times their size. */
export function widthOf(text: string, element: Element): number {
  const font = fonts.get(element) ?? (getComputedStyle(element).getPropertyValue("--pn-font") || "sans-serif");
  fonts.set(element, font);
  const key = `${font} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  context ??= document.createElement("canvas").getContext("2d");
  if (!context) return 0.6 * text.length;
  context.font = `600 ${SIZE}px ${font}`;
  const width = context.measureText(text).width / SIZE;
  widths.set(key, width);
  return width;
}
