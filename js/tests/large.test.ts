import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { regionOf } from "../src/editor/canvas/region";
import { fromState } from "../src/editor/document/document";
import { applyOps } from "../src/editor/document/reduce";
import { boxesOf, endsOf } from "../src/editor/scene/boxes";
import { overlaps, union } from "../src/editor/scene/geometry";
import { SceneMaker, type ShownScene } from "../src/editor/scene/scene";
import { NOTHING, STILL } from "../src/editor/scene/view";
import { NOTHING_DERIVED } from "../src/editor/session/derived";
import type { SessionState } from "../src/editor/session/session";
import type { Op } from "../src/protocol";

const COUNT = 3_000;
const WINDOW = { left: 300, top: 5_000, width: 900, height: 700 };

/** Five columns of a chain, with a long edge from the first node to the last. */
function chain(): SessionState {
  const nodes = Array.from({ length: COUNT }, (_, place) => ({
    name: `n${place}`,
    type: "ReLU",
    position: [210 * Math.floor(place / 600), 110 * (place % 600)] as [number, number],
  }));
  const edges = nodes.slice(1).map(({ name }, place) => ({ source: `n${place}.output`, target: `${name}.input` }));
  edges.push({ source: "n0.output", target: `n${COUNT - 1}.other` });
  const shown = fromState({ format: "pnne-graph", formatVersion: 1, name: "net", graphs: { "": { nodes, edges } } });
  return { sync: { shown }, derived: NOTHING_DERIVED, catalog: null, pictured: NOTHING } as unknown as SessionState;
}

function edited(state: SessionState, ...ops: Op[]): SessionState {
  const shown = applyOps(state.sync?.shown as never, ops);
  return { ...state, sync: { shown } } as unknown as SessionState;
}

function made({ cards }: ShownScene): number {
  return [...cards.keys()].filter((name) => cards.ready(name)).length;
}

let scenes: SceneMaker;
const draw = (state: SessionState) => scenes.make(state, [], NOTHING) as ShownScene;

beforeEach(() => {
  vi.useFakeTimers();
  scenes = new SceneMaker();
});
afterEach(() => vi.useRealTimers());

test("of a large graph, only the cards near the view are made before it is seen", () => {
  const scene = draw(chain());
  expect(scene.cards.size).toBe(COUNT);
  const { names } = regionOf(scene, WINDOW, NOTHING);
  expect(names.has("n1250")).toBe(true);
  expect(made(scene)).toBeLessThan(200);
});

test("what is in view is the same as by looking at every card", () => {
  const scene = draw(chain());
  const selected = new Set(["n700"]);
  const { names, edges } = regionOf(scene, WINDOW, selected);
  const boxes = boxesOf(scene, STILL);
  const ends = endsOf(scene, boxes);
  const touching = new Set(boxes.filter((box) => overlaps(box, WINDOW)).map(({ name }) => name)).add("n700");
  const passing = scene.wires.filter(({ source, target }) => {
    const [from, to] = [source.split(".")[0] as string, target.split(".")[0] as string];
    const both = [ends.get(from), ends.get(to)] as never;
    return touching.has(from) || touching.has(to) || overlaps(union(both), WINDOW);
  });
  expect(edges).toEqual(passing);
  const all = passing.flatMap(({ source, target }) => [source, target]).map((end) => end.split(".")[0] as string);
  expect(names).toEqual(new Set([...touching, ...all]));
});

test("the other cards are made while nothing else is to be done, unless the graph changes before", () => {
  const state = chain();
  const scene = draw(state);
  const end = scene.cards.makeWhenIdle();
  end();
  vi.advanceTimersByTime(60_000);
  expect(made(scene)).toBe(0);
  scene.cards.makeWhenIdle();
  vi.advanceTimersByTime(60_000);
  expect(made(scene)).toBe(COUNT);
  const card = scene.cards.get("n5");
  const after = draw(edited(state, { op: "moveNode", name: "n6", position: [3, 4] }));
  expect(after.cards.get("n5")).toBe(card);
});

test("a node that is moved is found where it is, and its row stays one until a value differs", () => {
  const state = chain();
  const before = draw(state);
  expect(before.runs()).toHaveLength(1);
  const moved = edited(state, { op: "moveNode", name: "n2999", position: [500, 5_300] });
  const after = draw(moved);
  expect(regionOf(after, WINDOW, NOTHING).names.has("n2999")).toBe(true);
  expect(after.runs()).toEqual(before.runs());
  const set = draw(edited(moved, { op: "setProperty", node: "n9", property: "inplace", value: true }));
  expect(set.runs().map(({ length }) => length)).toEqual([8, 2_989]);
});
