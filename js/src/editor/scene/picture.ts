import { FRAME_COLOURS, FRAME_TITLE_HEIGHT, type Frame, SNOWFLAKE } from "../../protocol";
import { edgeId } from "../document/document";
import { download } from "../host/download";
import type { SessionState } from "../session/session";
import { boxesOf, layersOf, type NodeBox } from "./boxes";
import { isOpen, timesOf } from "./card";
import { COLLAPSED_HEIGHT, HEADER_HEIGHT, LINE_HEIGHT, PICTURE_HEIGHT, PORT_LETTERS, REROUTE } from "./geometry";
import { labelPlace, pathThrough } from "./routes";
import { extentOf, type ShownScene } from "./scene";
import { edgeLabel } from "./shapes";
import { wordsOf } from "./summary";
import { STILL } from "./view";
import { routesOf } from "./wires";

const MARGIN = 24;
/** Pixels of the picture per pixel of the canvas, and the most that browsers draw in one direction. */
const DENSITY = 2;
const MOST_PIXELS = 8_000;
const NAME_SIZE = 13;
const SMALL_SIZE = 11;
/** Rough width of a letter, in its size: long texts are cut as on the card. */
const LETTER = 0.58;
const BOLD = ' font-weight="600"';
const MONOSPACE = ' font-family="monospace"';

type Known = Pick<SessionState, "derived" | "pictures">;

/** The graph that a view shows as a picture of its own, in the colours of the theme. */
export function pictureOf(scene: ShownScene, state: Known, root: HTMLElement): string {
  const { left, top, width, height } = extentOf(scene) ?? { left: 0, top: 0, width: 0, height: 0 };
  const color = coloursOf(root);
  const parts = layersOf(scene).map(
    ({ scene, at }) => `<g transform="translate(${at})">${layerPicture(scene, state, color)}</g>`,
  );
  const view = [left - MARGIN, top - MARGIN, width + 2 * MARGIN, height + 2 * MARGIN];
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${view.join(" ")}" width="${view[2]}" height="${view[3]}" ` +
    `role="img" font-family="system-ui, sans-serif"><title>${escaped(scene.document.name || "Graph")}</title>` +
    `<rect x="${view[0]}" y="${view[1]}" width="${view[2]}" height="${view[3]}" fill="${color("canvas")}"/>` +
    `${parts.join("")}</svg>`
  );
}

function layerPicture(scene: ShownScene, { derived: { shapes }, pictures }: Known, color: Colours): string {
  const boxes = boxesOf(scene, STILL);
  const frames = [...scene.frames.values()].sort((a, b) => b.box[2] * b.box[3] - a.box[2] * a.box[3]);
  const parts: string[] = frames.map((frame) => framePicture(frame, color));
  const labels: string[] = [];
  const look = `${MONOSPACE} stroke="${color("canvas")}" stroke-width="4" paint-order="stroke"`;
  // What is open is a frame: edges run on it.
  for (const box of boxes) if (isOpen(box.card)) parts.push(cardPicture(box, color));
  for (const [edge, points] of routesOf(scene, boxes)) {
    parts.push(
      `<path d="${pathThrough(points, scene.across)}" fill="none" stroke="${color("wire")}" stroke-width="1.6">` +
        `<title>${escaped(edgeId(edge))}</title></path>`,
    );
    const label = edgeLabel(scene, edge.source, shapes);
    const { at, side } = labelPlace(points, label, scene.across ? [] : boxes.filter(({ card }) => !isOpen(card)));
    const breadth = label.length * SMALL_SIZE * 0.6;
    const x = at[0] + (scene.across ? -breadth / 2 : side < 0 ? -7 - breadth : 7);
    if (label) labels.push(text(x, at[1] + (scene.across ? -6 : 3.5), label, SMALL_SIZE, color("muted"), look));
  }
  parts.push(...labels);
  for (const box of boxes) if (!isOpen(box.card)) parts.push(cardPicture(box, color));
  for (const { card, left, top, width, height } of boxes) {
    const address = pictures[card.picture ?? ""];
    const y = top + height - PICTURE_HEIGHT - (card.geometry.across ? 0 : card.geometry.below);
    const place = `x="${left + 8}" y="${y}" width="${width - 16}" height="${PICTURE_HEIGHT - 8}"`;
    if (address) parts.push(`<image ${place} href="${address}" style="image-rendering:pixelated"/>`);
  }
  return parts.join("");
}

function framePicture({ box, title = "", text: words = "", colour = "grey" }: Frame, color: Colours): string {
  const [left, top, width, height] = box;
  const ink = color(`frame-${colour}`);
  const lines = words.split("\n").slice(0, Math.max(0, Math.floor((height - FRAME_TITLE_HEIGHT) / 17)));
  return [
    `<rect x="${left}" y="${top}" width="${width}" height="${height}" rx="12" fill="${ink}" fill-opacity="0.07" `,
    `stroke="${ink}" stroke-opacity="0.55"/>`,
    text(left + 14, top + 19, cut(title, Math.floor((width - 28) / (NAME_SIZE * LETTER))), NAME_SIZE, ink, BOLD),
    ...lines.map((line, row) => text(left + 14, top + FRAME_TITLE_HEIGHT + 13 + 17 * row, line, 12, color("muted"))),
  ].join("");
}

function cardPicture({ card, left, top, width, height }: NodeBox, color: Colours): string {
  const look = card.category;
  const swatch = `oklch(${color("swatch-lightness")} ${look.chroma} ${look.hue})`;
  const labels = card.geometry.handles.filter((handle) => handle.labelled);
  const { across, above: shift } = card.geometry;
  const times = timesOf(card);
  const cold = card.frozen ? 18 : 0;
  const room = Math.floor((width - 54 - 8 * times.length - cold) / (NAME_SIZE * LETTER));
  const count = (y: number) =>
    (times ? text(left + width - 10 - 7 * times.length, y, times, 12, color("muted"), BOLD) : "") +
    (cold ? drawn(SNOWFLAKE, left + width - 24 - 8 * times.length, y - 11, 0.875, color("cold")) : "");
  const ports = card.geometry.handles.map(
    (handle) =>
      `<circle cx="${left + handle.x}" cy="${top + handle.y}" r="4" fill="${color("card")}" ` +
      `stroke="${color("faint")}" stroke-width="1.6"/>`,
  );
  const outline = (by: number) =>
    `<rect x="${left + by}" y="${top + by}" width="${width}" height="${height}" rx="9" fill="${color("card")}" ` +
    `stroke="${color("line-strong")}"/>`;
  const paper = `${(card.inside && !isOpen(card)) || card.run ? outline(4) : ""}${outline(0)}`;
  const drawn = (path: string, x: number, y: number, scale: number, ink: string) =>
    `<path transform="translate(${x},${y}) scale(${scale})" d="${path}" fill="none" stroke="${ink}" ` +
    `stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/>`;
  const icon = (x: number, y: number, scale: number) => drawn(look.icon, x, y, scale, color("card"));
  const group = (...parts: readonly string[]) =>
    `<g aria-label="${escaped(card.label)}">${[...parts, ...ports].join("")}</g>`;
  if (card.type === REROUTE) {
    const [x, y] = [left + width / 2, top + height / 2];
    return group(
      `<circle cx="${x}" cy="${y}" r="${width / 2}" fill="${color("card")}" stroke="${color("line-strong")}"/>`,
    );
  }
  if (card.collapsed) {
    const middle = top + COLLAPSED_HEIGHT / 2;
    return group(
      paper,
      `<rect x="${left + 7}" y="${middle - 9}" width="18" height="18" rx="5" fill="${swatch}"/>`,
      icon(left + 11, middle - 5, 0.63),
      text(left + 32, middle + 4.5, cut(card.title, room), NAME_SIZE, color("fg"), BOLD),
      count(middle + 4.5),
    );
  }
  return group(
    paper,
    `<rect x="${left + 10}" y="${top + shift + 9}" width="28" height="28" rx="7" fill="${swatch}"/>`,
    icon(left + 17, top + shift + 16, 0.9),
    count(top + shift + 27),
    text(left + 47, top + shift + (card.kind ? 20 : 28), cut(card.title, room), NAME_SIZE, color("fg"), BOLD),
    text(left + 47, top + shift + 35, cut(card.kind, room), SMALL_SIZE, color("muted")),
    ...card.lines.map((line, row) => {
      const y = top + shift + HEADER_HEIGHT + 15 + row * LINE_HEIGHT;
      return text(left + 10, y, wordsOf(line), SMALL_SIZE, color("muted"), MONOSPACE);
    }),
    ...labels.map((handle) => {
      const isInput = handle.side === "input";
      const y = across ? top + handle.y + 3.5 : isInput ? top + 17 : top + height - 9;
      const x = left + handle.x + (across ? (isInput ? 11 : -11) : 0);
      const anchor = across ? (isInput ? "start" : "end") : "middle";
      return text(x, y, cut(handle.port, PORT_LETTERS), 10.5, color("muted"), ` text-anchor="${anchor}"`);
    }),
  );
}

export async function savePicture(svg: string, name: string, format: "svg" | "png"): Promise<void> {
  const vector = new Blob([svg], { type: "image/svg+xml" });
  const blob = format === "svg" ? vector : await rasterized(vector);
  download(blob, `${name || "graph"}.${format}`);
}

async function rasterized(vector: Blob): Promise<Blob> {
  const address = URL.createObjectURL(vector);
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const density = Math.min(DENSITY, MOST_PIXELS / Math.max(image.width, image.height, 1));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(image.width * density));
    canvas.height = Math.max(1, Math.round(image.height * density));
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser made no picture.")))),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

type Colours = (token: string) => string;

/** The theme's colours as plain ones: a picture has no custom properties. */
function coloursOf(root: HTMLElement): Colours {
  const probe = document.createElement("i");
  root.append(probe);
  const known = new Map<string, string>();
  const frames = FRAME_COLOURS.map((colour) => `frame-${colour}`);
  for (const token of ["fg", "muted", "faint", "wire", "line-strong", "canvas", "card", "cold", ...frames]) {
    probe.style.color = `var(--pn-${token})`;
    known.set(token, getComputedStyle(probe).color);
  }
  known.set("swatch-lightness", getComputedStyle(root).getPropertyValue("--pn-swatch-lightness"));
  probe.remove();
  return (token) => known.get(token) ?? "";
}

function text(x: number, y: number, words: string, size: number, fill: string, look = ""): string {
  return `<text x="${x}" y="${y}" font-size="${size}" fill="${fill}"${look}>${escaped(words)}</text>`;
}

function cut(words: string, most: number): string {
  return words.length > most ? `${words.slice(0, most - 1)}…` : words;
}

function escaped(words: string): string {
  return words.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
