/** By an element of the font, and by the text. */
const widths = new WeakMap<Element, Map<string, number>>();
let context: CanvasRenderingContext2D | null = null;
const SIZE = 100;

/** How wide a text is in semibold letters of an element's font, in times their size. */
export function widthOf(text: string, element: Element): number {
  const known = widths.get(element) ?? new Map<string, number>();
  widths.set(element, known);
  let width = known.get(text);
  if (width !== undefined) return width;
  context ??= document.createElement("canvas").getContext("2d");
  if (!context) return 0.6 * text.length;
  context.font = `600 ${SIZE}px ${getComputedStyle(element).getPropertyValue("--pn-font") || "sans-serif"}`;
  width = context.measureText(text).width / SIZE;
  known.set(text, width);
  return width;
}

/** Whether a text is wider than `room`, in times the size of its letters. No letter is wider than its size. */
export function isWider(text: string, room: number, element: Element): boolean {
  return text.length > room && widthOf(text, element) > room;
}
