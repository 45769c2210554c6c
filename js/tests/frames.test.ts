import { expect, test } from "vitest";
import cases from "../../tests/cases/frames.json";
import { around, type FrameBox, held } from "../src/editor/document/frame";

test.each(cases.around)("a frame is put around $boxes as Python puts it", ({ boxes, frame }) => {
  const shown = boxes.map(([left = 0, top = 0, width = 0, height = 0]) => ({ left, top, width, height }));
  expect(around(shown)).toEqual(frame);
});

test.each(cases.held)("a frame holds what Python says", ({ frame, nodes, frames, held: expected }) => {
  const others = Object.entries(frames).map(([name, box]) => ({ name, box: box as unknown as FrameBox }));
  const centres = Object.entries(nodes).map(([name, [x = 0, y = 0]]) => [name, [x, y]] as const);
  expect(held({ name: "frame", box: frame as unknown as FrameBox }, centres, others)).toEqual(expected);
});
