// `tests/cases/frames.json` compares this file with `pnne_nb/graph/model/annotation.py`.
import {
  FARTHEST,
  FRAME_COLOURS,
  FRAME_PADDING,
  FRAME_TITLE_HEIGHT,
  type Frame,
  MAX_TEXT,
  MAX_TITLE,
} from "../../protocol";

/** A frame's place: left, top, width, height; in the canvas's pixels. */
export type FrameBox = Frame["box"];

/** The least that a person can make of a frame. */
const LEAST = 60;

/** Why a frame is invalid, or null; as `checked_frame` in Python. */
export function whyNotFrame({ box, title = "", text = "", colour = "grey" }: Frame): string | null {
  const [, , width, height] = box;
  if (box.length !== 4 || !box.every((part) => Math.abs(part) <= FARTHEST) || width <= 0 || height <= 0)
    return "A frame has a left, a top, a width and a height.";
  if ([...title].length > MAX_TITLE || /[\p{Cc}\p{Cs}]/u.test(title))
    return `A frame's title is one line of at most ${MAX_TITLE} characters.`;
  if ([...text].length > MAX_TEXT || /[\p{Cc}\p{Cs}]/u.test(text.replace(/[\n\t]/g, "")))
    return `A frame's text has at most ${MAX_TEXT} characters.`;
  return (FRAME_COLOURS as readonly string[]).includes(colour) ? null : `A frame is ${FRAME_COLOURS.join(", ")}.`;
}

type Centre = readonly [x: number, y: number];

/** The contents of a frame, which move with it: nodes whose centre is inside, and frames that are completely inside. */
export function held(
  frame: Frame,
  centres: Iterable<readonly [name: string, centre: Centre]>,
  frames: Iterable<Frame>,
): { nodes: string[]; frames: string[] } {
  const [left, top, width, height] = frame.box;
  const inside = ([x, y]: Centre) => x >= left && x <= left + width && y >= top && y <= top + height;
  const nodes: string[] = [];
  for (const [name, centre] of centres) if (inside(centre)) nodes.push(name);
  const within = [...frames].filter(({ name, box: [x, y, w, h] }) => {
    const same = x === left && y === top && w === width && h === height;
    return name !== frame.name && !same && inside([x, y]) && inside([x + w, y + h]);
  });
  return { nodes, frames: within.map(({ name }) => name) };
}

/** The box of a frame around others, in whole pixels; as `around` in Python. */
export function around(boxes: readonly { left: number; top: number; width: number; height: number }[]): FrameBox {
  const left = Math.floor(Math.min(...boxes.map((box) => box.left)) - FRAME_PADDING);
  const top = Math.floor(Math.min(...boxes.map((box) => box.top)) - FRAME_PADDING - FRAME_TITLE_HEIGHT);
  const right = Math.ceil(Math.max(...boxes.map((box) => box.left + box.width)) + FRAME_PADDING);
  const bottom = Math.ceil(Math.max(...boxes.map((box) => box.top + box.height)) + FRAME_PADDING);
  return [left, top, right - left, bottom - top];
}

export function shifted([left, top, width, height]: FrameBox, dx: number, dy: number): FrameBox {
  return [Math.round(left + dx), Math.round(top + dy), width, height];
}

export function resized([left, top, width, height]: FrameBox, dx: number, dy: number): FrameBox {
  return [left, top, Math.max(LEAST, Math.round(width + dx)), Math.max(LEAST, Math.round(height + dy))];
}
