import { definitionOf } from "../document/definitions";
import { graphAt } from "../document/document";
import { cardAt, frameOf, holds, type Layer, layersOf } from "../scene/boxes";
import type { Box, Size } from "../scene/geometry";
import type { Point } from "../scene/placement";
import type { ShownScene } from "../scene/scene";
import { NOTHING, STILL } from "../scene/view";
import type { Editor } from "./editor";

/** Most nodes that opening all blocks of a level may draw; beyond it, only the wanted block is opened. */
const MOST_DRAWN = 3_000;
/** Why no edge can be drawn from a node to one inside of another graph. */
export const ELSEWHERE = "An edge stays in its graph: connect it with a port of the block.";
/** What lies over the canvas has clicks of its own. */
const OVER = ".pnne-peek, .pnne-minimap, .pnne-inline, .pnne-card-message";

/** Opens the selected blocks where they stand, or closes them if all are open; without a selection, opens a level more. */
export function toggleOpened(editor: Editor, names: ReadonlySet<string> = editor.chosen()): void {
  const scene = editor.scene();
  if (!scene) return;
  if (names.size === 0) {
    openLevel(editor);
    return;
  }
  const blocks = [...names].filter((name) => isBlock(scene, name) && scene.cards.has(name));
  if (blocks.length === 0) {
    editor.session.notify("Only a block can be opened: it alone has an inside.");
    return;
  }
  const close = blocks.every((name) => scene.open.has(name));
  const opened = new Set(editor.view.get().opened);
  for (const name of blocks)
    if (close) opened.delete(scene.prefix + name);
    else opened.add(scene.prefix + name);
  editor.patch({ opened, peek: null, said: `${close ? "Closed" : "Opened"} ${blocks.join(", ")}` });
}

/** Opens the blocks of the next level that is closed: all to depth 1, 2, and so on. */
export function openLevel(editor: Editor): void {
  const drawn = editor.drawn();
  if (!drawn) return;
  const closed = layersOf(drawn).flatMap(({ scene }) =>
    [...scene.cards.keys()]
      .filter((name) => isBlock(scene, name) && !scene.open.has(name))
      .map((name) => ({ path: scene.prefix + name, depth: scene.path.length, size: sizeInside(scene, name) })),
  );
  const depth = Math.min(...closed.map((block) => block.depth));
  const level = closed.filter((block) => block.depth === depth);
  const drawnNow = layersOf(drawn).reduce((sum, { scene }) => sum + scene.cards.size, 0);
  const count = level.reduce((sum, { size }) => sum + size, drawnNow);
  if (level.length === 0) editor.session.notify("All blocks are open.");
  else if (count > MOST_DRAWN)
    editor.session.notify(
      `The ${level.length} blocks of the next level stay closed: with them, ${count} nodes would be drawn. ` +
        "Select the ones that you want to see and open them with O.",
    );
  else {
    const opened = new Set([...editor.view.get().opened, ...level.map(({ path }) => path)]);
    editor.patch({
      opened,
      peek: null,
      said: `Opened ${counted(level.length)}, to depth ${depth - drawn.path.length + 1}`,
    });
    const { viewport } = editor;
    if (viewport) requestAnimationFrame(() => viewport.fit());
  }
}

/** Closes the innermost blocks that are open: the opposite of `openLevel`. */
export function closeLevel(editor: Editor): void {
  const drawn = editor.drawn();
  if (!drawn) return;
  const open = layersOf(drawn).flatMap(({ scene: { path, open, prefix } }) =>
    [...open.keys()].map((name) => ({ depth: path.length, path: prefix + name })),
  );
  const depth = Math.max(...open.map((block) => block.depth));
  const level = new Set(open.filter((block) => block.depth === depth).map(({ path }) => path));
  if (level.size === 0) {
    editor.session.notify("No block is open in place.");
    return;
  }
  const { path, opened } = editor.view.get();
  // Commands must not act on nodes that are no longer drawn.
  if (path.length > depth) editor.enter(path.slice(0, depth));
  const said = `Closed ${counted(level.size)}, to depth ${depth - drawn.path.length}`;
  editor.patch({ opened: new Set([...opened].filter((each) => !level.has(each))), said });
}

/** Opens the closed block at a point of the canvas, and shows all its contents. */
export function openAt(editor: Editor, [x, y]: Point): void {
  const drawn = editor.drawn();
  if (!drawn) return;
  for (const { scene, at } of [...layersOf(drawn)].reverse()) {
    const name = cardAt(scene, [x - at[0], y - at[1]], STILL);
    if (name === null) continue;
    if (!isBlock(scene, name) || scene.open.has(name)) return;
    const { opened } = editor.view.get();
    editor.patch({ opened: new Set([...opened, scene.prefix + name]), peek: null, said: `Opened ${name}` });
    const layer = layersOf(editor.drawn() ?? drawn).find((each) => each.scene.prefix === scene.prefix);
    const box = layer && frameOf(layer, name);
    if (box) show(editor, box);
    return;
  }
}

function show(editor: Editor, { left, top, width, height }: Box): void {
  const [x, y] = editor.layer()?.at ?? [0, 0];
  editor.viewport?.show([left - x, top - y, width, height]);
}

/** Closes the blocks that are open in place and look small; not those around the graph that commands act on. */
export function closeSmall(editor: Editor, isSmall: (box: Size) => boolean): void {
  const drawn = editor.drawn();
  const { opened, path } = editor.view.get();
  if (!drawn || opened.size === 0) return;
  const here = path.join(".");
  const small = layersOf(drawn).flatMap(({ scene }) =>
    [...scene.open.keys()].flatMap((name) => {
      const size = scene.cards.get(name)?.geometry;
      const full = scene.prefix + name;
      return size && isSmall(size) && !`${here}.`.startsWith(`${full}.`) ? [full] : [];
    }),
  );
  if (small.length === 0) return;
  const isGone = (each: string) => small.some((full) => each === full || each.startsWith(`${full}.`));
  editor.patch({ opened: new Set([...opened].filter((each) => !isGone(each))), said: `Closed ${small.join(", ")}` });
}

/** Closes all that is open in place, but for the blocks around the graph that commands act on. */
export function closeAll(editor: Editor): void {
  const scene = editor.scene();
  const { opened } = editor.view.get();
  const around = scene?.path.map((_, depth) => scene.path.slice(0, depth + 1).join("."));
  if (opened.size > 0) editor.patch({ opened: new Set(around?.filter((path) => opened.has(path)) ?? NOTHING) });
}

/** Enters a block: its contents if it is open in place, else its graph alone. */
export function enterBlock(editor: Editor, name: string): void {
  const [scene, layer] = [editor.scene(), editor.layer()];
  if (!scene || !layer) return;
  const isOpen = scene.open.has(name);
  const box = frameOf(layer, name);
  editor.enter([...scene.path, name]);
  if (!isOpen || !box) return;
  show(editor, box);
  editor.patch({ said: `Inside of ${name}` });
}

/** Goes back to the graph around: the block that one comes out of is then selected, if it is open in place. */
export function leaveBlock(editor: Editor): void {
  const { path, opened } = editor.view.get();
  editor.enter(path.slice(0, -1));
  if (opened.has(path.join("."))) editor.goTo(path.at(-1) as string);
}

/** Comes out of graphs that are no longer there or no longer drawn: the block was removed, renamed or folded away. */
export function comeOut(editor: Editor): void {
  const scene = editor.scene();
  const { path } = editor.view.get();
  if (!scene) return;
  let there = path.slice(0, Math.min(path.length, scene.path.length));
  while (graphAt(scene.document, there) === null) there = there.slice(0, -1);
  if (there.length < path.length) editor.enter(there);
}

/** Has commands act on the graph that is pressed on: that of a node or an edge, else that of the innermost frame. */
export function pressedOn(editor: Editor, target: Element, client: readonly [number, number]): void {
  const drawn = editor.drawn();
  if (!drawn || drawn.open.size === 0 || !target.closest(".react-flow") || target.closest(OVER)) return;
  const id = target.closest(".react-flow__node, .react-flow__edge")?.getAttribute("data-id");
  const layers = layersOf(drawn);
  act(editor, id == null ? layerAt(editor, layers, client) : layers.find((each) => each.id === idOf(id)));
}

/** Has commands act on the graph that is drawn at a point of the page: something is dropped there. */
export function droppedAt(editor: Editor, client: readonly [number, number]): void {
  const drawn = editor.drawn();
  if (drawn && drawn.open.size > 0) act(editor, layerAt(editor, layersOf(drawn), client));
}

function act(editor: Editor, layer: Layer | undefined): void {
  const { path } = editor.view.get();
  if (layer && layer.scene.path.join(".") !== path.join(".")) editor.enter(layer.scene.path);
}

/** The name in the graph that commands act on of what React Flow knows by an id; null for what is of another graph. */
export function ownName(editor: Editor, id: string): string | null {
  const own = editor.layer()?.id ?? "";
  return idOf(id) === own ? id.slice(own.length) : null;
}

/** The id of the graph that something is drawn in, by the id of that: `"a/b/"` for `"a/b/fc"`. */
function idOf(id: string): string {
  return id.slice(0, id.lastIndexOf("/") + 1);
}

/** The innermost graph that is drawn at a point of the page. */
function layerAt(editor: Editor, layers: readonly Layer[], client: readonly [number, number]): Layer | undefined {
  const here = editor.viewport?.at(...client);
  const [dx, dy] = editor.layer()?.at ?? [0, 0];
  if (!here) return undefined;
  const point = [here[0] + dx, here[1] + dy] as const;
  return layers.findLast((layer) => {
    const outer = layers.find(({ id }) => layer.id !== "" && id === outside(layer.id));
    const box = outer && frameOf(outer, layer.scene.path.at(-1) as string);
    return !box || holds(box, point);
  });
}

/** The id of the graph around another: that of `"a/b/"` is `"a/"`. */
function outside(id: string): string {
  return idOf(id.slice(0, -1));
}

function isBlock({ graph }: ShownScene, name: string): boolean {
  const node = graph.nodes.get(name);
  return node !== undefined && definitionOf(node) !== null;
}

function sizeInside({ document, graph }: ShownScene, name: string): number {
  const node = graph.nodes.get(name);
  return document.graphs.get((node && definitionOf(node)) ?? "")?.nodes.size ?? 0;
}

function counted(blocks: number): string {
  return blocks === 1 ? "1 block" : `${blocks} blocks`;
}
