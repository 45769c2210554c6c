import { expect, test } from "vitest";
import { nameLines } from "../src/editor/values/shortName";

/** The lines as they are seen, in letters that are all as wide. */
function seen(name: string, room: number, most: number): string[] {
  const marks = { no: "", ellipsis: "…" };
  const lines = nameLines(name, room, most, (text) => text.length);
  expect(lines.flatMap(({ pieces }) => pieces.map(({ text }) => text)).join("")).toBe(name);
  for (const { squeeze } of lines) expect(squeeze).toBeGreaterThanOrEqual(0.8);
  return lines.map(({ pieces }) => pieces.map(({ text, shown }) => (shown === "yes" ? text : marks[shown])).join(""));
}

test.each([
  ["conv1", 8, 1, ["conv1"]],
  ["layer0_1_conv1", 8, 2, ["layer0_1", "conv1"]],
  ["attentionOutput", 9, 2, ["attention", "Output"]],
  ["decoder0_a_sum", 6, 2, ["decoder", "0_a_sum"]],
  ["layer0_1_conv1", 8, 1, ["…0_1_conv1"]],
  ["decoder0_a_q", 5, 1, ["…0_a_q"]],
  ["encoder0_attention", 8, 1, ["…attention"]],
  ["encoder0_attentions", 8, 1, ["attentions"]],
  ["projection", 7, 1, ["proj…ion"]],
  ["x", 1, 1, ["x"]],
  ["block0 … block11", 8, 2, ["block0 …", "block11"]],
])("%s in a line of %d, %d of them", (name, room, most, lines) => {
  expect(seen(name, room, most)).toEqual(lines);
});
