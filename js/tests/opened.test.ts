import { expect, test } from "vitest";
import { leaveBlock, openLevel, toggleOpened } from "../src/editor/commands/opened";
import { boxesOf, layersOf } from "../src/editor/scene/boxes";
import { type Box, overlaps } from "../src/editor/scene/geometry";
import { type Placed, pushedBy, pushedFrames, unpushed } from "../src/editor/scene/pushed";
import { moveOps } from "../src/editor/scene/room";
import { settledAt } from "../src/editor/scene/scene";
import { rootOf, STILL } from "../src/editor/scene/view";
import { chain, node, openEditor } from "./openEditor";

/** Numbers that are the same in every run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

/** Cards that do not overlap, some of which open. */
function randomCards(next: () => number): Placed[] {
  const cards: Placed[] = [];
  for (let count = 0; count < 40; count += 1) {
    const closed = { width: 100 + Math.floor(next() * 150), height: 30 + Math.floor(next() * 60) };
    const centre = [Math.floor(next() * 1200), Math.floor(next() * 1200)] as const;
    const box = boxAt(centre, closed);
    if (cards.some((other) => overlaps(box, boxAt(other.centre, other.closed)))) continue;
    const grown = { width: closed.width + Math.floor(next() * 400), height: closed.height + Math.floor(next() * 900) };
    cards.push({ name: `n${count}`, centre, closed, open: next() < 0.3 ? grown : null });
  }
  return cards;
}

function boxAt([x, y]: readonly [number, number], { width, height }: { width: number; height: number }): Box {
  return { left: x - width / 2, top: y - height / 2, width, height };
}

test.each([false, true])("open blocks push cards apart so that none overlap; across: %s", (across) => {
  const generator = numbers(7);
  const next = () => generator.next().value;
  for (let turn = 0; turn < 60; turn += 1) {
    const cards = randomCards(next);
    const pushed = pushedBy(cards, across);
    const shown = cards.map(({ name, centre, closed, open }) =>
      boxAt(pushed.places.get(name) ?? centre, open ?? closed),
    );
    for (const [place, box] of shown.entries()) {
      const smaller = { left: box.left + 1, top: box.top + 1, width: box.width - 2, height: box.height - 2 };
      for (const other of shown.slice(place + 1)) expect(overlaps(smaller, other)).toBe(false);
    }
    // Whoever drops a card where it is shown changes nothing.
    for (const { name, centre, closed, open } of cards) {
      const back = unpushed(pushed, pushed.places.get(name) ?? centre, open ?? closed, new Map(), name);
      expect(back[0]).toBeCloseTo(centre[0]);
      expect(back[1]).toBeCloseTo(centre[1]);
    }
  }
});

test("a card that is dropped in room that only an open block makes goes to the nearest place", () => {
  const closed = { width: 100, height: 40 };
  const cards: Placed[] = [{ name: "block", centre: [0, 0], closed, open: { width: 300, height: 400 } }];
  const pushed = pushedBy(cards, false);
  // It is drawn from -20 to 380; beside its lower end there is no place of the document in its column.
  expect(unpushed(pushed, [0, 500], closed)).toEqual([0, 140]);
  expect(unpushed(pushed, [0, 370], closed)).toEqual([0, 40]);
  expect(unpushed(pushed, [300, 500], closed)).toEqual([200, 500]);
  expect(unpushed(pushed, [300, 20], closed)).toEqual([200, 20]);
  expect(unpushed(pushed, [300, -50], closed)).toEqual([200, -50]);
});

test("a frame grows around a block that opens in it", () => {
  const closed = { width: 100, height: 40 };
  const pushed = pushedBy([{ name: "block", centre: [0, 0], closed, open: { width: 300, height: 400 } }], false);
  const frames = new Map([["f", { name: "f", box: [-60, -60, 120, 120] as [number, number, number, number] }]]);
  expect(pushedFrames(frames, pushed).get("f")?.box).toEqual([-160, -60, 320, 480]);
});

/** `x -> block -> last`, and in the block `in -> fc -> inner -> out`; in the inner one, a single `ReLU`. */
function nested() {
  const inside = chain("in Input", "fc Linear", "inner Subgraph", "out Output");
  const shows = (definition: string) => ({ definition });
  return openEditor(
    {
      nodes: [
        node("x", "Input", [0, 0]),
        node("block", "Subgraph", [0, 120], shows("block")),
        node("last", "ReLU", [0, 240]),
        node("aside", "ReLU", [400, 130]),
      ],
      edges: [
        { source: "x.output", target: "block.in" },
        { source: "block.out", target: "last.input" },
      ],
      frames: [{ name: "around", box: [-120, 60, 240, 120], title: "", text: "", colour: "grey" }],
    },
    {
      inner: chain("relu ReLU"),
      block: {
        ...inside,
        nodes: (inside.nodes ?? []).map((each) =>
          each.name === "inner" ? { ...each, properties: shows("inner") } : each,
        ),
      },
    },
  );
}

test("a block opens in the view alone: its card is a frame, and only what is beyond it moves", () => {
  const { editor, model } = nested();
  const before = boxesOf(editor.scene() as never, STILL);
  const sent = model.sent.length;
  toggleOpened(editor, new Set(["block"]));
  const scene = editor.scene();
  if (!scene) throw new Error("There is no graph.");
  const after = new Map(boxesOf(scene, STILL).map((box) => [box.name, box]));
  const was = new Map(before.map((box) => [box.name, box]));
  expect(after.get("x")).toEqual(was.get("x"));
  expect(after.get("block")?.top).toBe(was.get("block")?.top);
  const grown = (after.get("block")?.height ?? 0) - (was.get("block")?.height ?? 0);
  expect(grown).toBeGreaterThan(400);
  expect((after.get("last")?.top ?? 0) - (was.get("last")?.top ?? 0)).toBe(grown);
  expect(scene.frames.get("around")?.box[3]).toBe(120 + grown);
  expect(model.sent.length, "the document is as it was").toBe(sent);
  toggleOpened(editor, new Set(["block"]));
  expect(boxesOf(editor.scene() as never, STILL)).toEqual(before);
});

test("blocks open level by level, and what is inside is drawn in the frame", () => {
  const { editor } = nested();
  openLevel(editor);
  openLevel(editor);
  expect([...editor.view.get().opened]).toEqual(["block", "block.inner"]);
  const drawn = editor.drawn();
  if (!drawn) throw new Error("There is no graph.");
  const layers = layersOf(drawn);
  expect(layers.map(({ id, scene }) => [id, scene.graphId])).toEqual([
    ["", ""],
    ["block/", "block"],
    ["block/inner/", "inner"],
  ]);
  const frames = [null, boxNamed(layers[0] as never, "block"), boxNamed(layers[1] as never, "inner")];
  for (const [place, layer] of layers.entries())
    for (const { name, left, top, width, height } of frames[place] ? boxesOf(layer.scene, STILL) : []) {
      const frame = frames[place] as Box;
      const [x, y] = [left + layer.at[0], top + layer.at[1]];
      expect(x >= frame.left && x + width <= frame.left + frame.width, name).toBe(true);
      expect(y >= frame.top + 46 && y + height <= frame.top + frame.height, name).toBe(true);
    }
});

function boxNamed(layer: ReturnType<typeof layersOf>[number], name: string): Box | null {
  const box = boxesOf(layer.scene, STILL).find((each) => each.name === name);
  return box ? { ...box, left: box.left + layer.at[0], top: box.top + layer.at[1] } : null;
}

test("commands act on the graph in the frame, and Escape leads back to the block", () => {
  const { editor, edits } = nested();
  toggleOpened(editor, new Set(["block"]));
  editor.enter(["block"]);
  expect(rootOf(editor.view.get())).toEqual([]);
  expect(editor.drawn()?.graphId).toBe("");
  editor.select(["fc"]);
  editor.deleteSelection();
  expect(edits().at(-1)?.ops).toEqual([{ op: "removeNode", name: "fc", graph: "block" }]);
  leaveBlock(editor);
  expect(editor.view.get().path).toEqual([]);
  expect([...editor.view.get().nodes]).toEqual(["block"]);
});

test("an open block that moves with what stands beyond it keeps its distance in the document", () => {
  const { editor } = nested();
  toggleOpened(editor, new Set(["block"]));
  const scene = editor.scene();
  if (!scene) throw new Error("There is no graph.");
  const up = new Map(
    ["block", "last"].map((name) => [name, [...(scene.pushed.places.get(name) ?? [0, 0])] as [number, number]]),
  );
  for (const place of up.values()) place[1] -= 500;
  expect([...settledAt(scene, up)]).toEqual([
    ["block", [0, -380]],
    ["last", [0, -260]],
  ]);
  const frame = scene.frames.get("around")?.box ?? [0, 0, 0, 0];
  const wider = new Map([
    ["around", [frame[0], frame[1] - 10, frame[2] + 8, frame[3]] as [number, number, number, number]],
  ]);
  expect(moveOps(scene, new Map(), wider)).toEqual([
    { op: "changeFrame", name: "around", box: [-120, 50, 248, 120], graph: "" },
  ]);
});
