import {
  type CSSProperties,
  type KeyboardEvent,
  useDeferredValue,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
} from "react";
import { type Category, type EdgeState, type NodeTypeState, STRUCTURE, UNKNOWN } from "../../protocol";
import { useEditor, useScene, useView } from "../commands/context";
import type { Editor } from "../commands/editor";
import { goToFrame } from "../commands/framing";
import { changeType, goToEdge, openPalette, reconnect } from "../commands/gestures";
import { blockTypes, shownType, templateTypes } from "../document/blocks";
import { definitionOf, type Place, placesOf } from "../document/definitions";
import { edgeId, nodeOf, splitPort } from "../document/document";
import { portsOf } from "../document/ports";
import { allRetyped } from "../document/retype";
import { edgeFrom, insertOps } from "../document/splice";
import { wiringOf } from "../document/wiring";
import { Icon } from "../fields/Action";
import { categoryOf } from "../scene/card";
import { cardFor, ownerOf, type ShownScene } from "../scene/scene";
import type { Quick } from "../scene/view";
import { type Circumstances, meantBy, NOT_OFFERED, nodeSimilarity, searchTypes, similarity } from "./search";

const WIDTH = 268;
const HEIGHT = 300;
const MOST_SHOWN = 60;

interface Choice {
  readonly key: string;
  readonly label: string;
  readonly detail: string;
  readonly category: Category;
  readonly type: string | undefined;
  readonly take: (loose: boolean) => void;
}

const TITLES = {
  add: "Add a node",
  find: "Find a node or frame",
  connect: "Connect to",
  edges: "Edges",
  type: "Change the type to",
  reconnect: "Reconnect to",
} as const;

/** The search over the canvas, at the pointer; Enter or a click runs the chosen entry at once. */
export function QuickSearch() {
  const quick = useView((view) => view.quick);
  const scene = useScene();
  return quick && scene ? <QuickBox quick={quick} scene={scene} /> : null;
}

function QuickBox({ quick, scene }: { quick: Quick; scene: ShownScene }) {
  const editor = useEditor();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const query = useDeferredValue(text);
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  // The list follows the typing at leisure; Enter means what has been typed.
  const shown = (words: string) => choicesFor(quick, scene, editor, words).slice(0, MOST_SHOWN);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shown` is made of these
  const choices = useMemo(() => shown(query), [quick, scene, editor, query]);
  const current = Math.min(chosen, choices.length - 1);
  const all = useMemo(
    () => (quick.kind === "find" && query.trim() ? meantBy(placesOf(scene.document), query.trim()) : []),
    [quick, scene, query],
  );

  useEffect(() => input.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });
  const close = () => editor.leave({ quick: null, reconnecting: null });
  const take = (choice: Choice | undefined, { shiftKey }: { shiftKey: boolean }) => {
    if (!choice) return;
    close();
    choice.take(shiftKey);
  };
  const selectAll = () => {
    close();
    editor.selectPaths(all.map(({ path }) => path));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && all.length > 1) selectAll();
    else if (event.key === "Enter") take(current < 0 || text !== query ? shown(text)[chosen] : choices[current], event);
    else if (event.key === "ArrowDown") setChosen(Math.min(current + 1, choices.length - 1));
    else if (event.key === "ArrowUp") setChosen(Math.max(current - 1, 0));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const title = quick.kind === "add" && quick.from ? `Add a node for ${quick.from.port}` : TITLES[quick.kind];
  return (
    <div
      className="pnne-quick nowheel nopan nodrag"
      ref={box}
      role="dialog"
      aria-label={title}
      style={placeOf(quick, box.current?.parentElement)}
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) editor.patch({ quick: null, reconnecting: null });
      }}
    >
      <input
        ref={input}
        type="search"
        aria-label={title}
        aria-controls={`${id}-list`}
        aria-activedescendant={choices.length > 0 ? `${id}-${current}` : undefined}
        placeholder={title}
        value={text}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div className="pnne-quick-list" role="listbox" id={`${id}-list`} aria-label={title} tabIndex={-1}>
        {choices.map((choice, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the search box handles the keys of the list
          <div
            key={choice.key}
            id={`${id}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === current}
            className="pnne-option"
            data-type={choice.type}
            style={{ "--pn-hue": choice.category.hue, "--pn-chroma": choice.category.chroma } as CSSProperties}
            onClick={(event) => take(choice, event)}
          >
            <span className="pnne-card-icon">
              <Icon path={choice.category.icon} />
            </span>
            <span className="pnne-option-name">{choice.label}</span>
            <span className="pnne-option-category">{choice.detail}</span>
          </div>
        ))}
      </div>
      {all.length > 1 && (
        <button type="button" className="pnne-quick-all" onClick={selectAll}>
          Select all {all.length} (Ctrl+Enter)
        </button>
      )}
      {choices.length === 0 && <p className="pnne-hint">Nothing that fits matches “{query}”.</p>}
    </div>
  );
}

/** Inside the canvas, whichever place was asked for. */
function placeOf(quick: Quick, canvas: Element | null | undefined): CSSProperties {
  const width = canvas?.clientWidth ?? Number.POSITIVE_INFINITY;
  const height = canvas?.clientHeight ?? Number.POSITIVE_INFINITY;
  return {
    width: WIDTH,
    maxHeight: `min(${HEIGHT}px, 90%)`,
    left: `clamp(8px, ${quick.left}px, calc(100% - ${WIDTH + 8}px))`,
    top: `clamp(8px, ${Math.min(quick.top, height)}px, max(8px, calc(100% - ${HEIGHT + 8}px)))`,
    maxWidth: Math.max(width - 16, 0) || undefined,
  };
}

function choicesFor(quick: Quick, scene: ShownScene, editor: Editor, query: string): Choice[] {
  switch (quick.kind) {
    case "add":
      return typesFor(quick, scene, editor, query);
    case "find":
      return nodesFor(scene, editor, query);
    case "connect":
      return targetsFor(quick.node, scene, editor, query);
    case "edges":
      return edgesOf(quick.node, scene, editor, query);
    case "type":
      return otherTypesFor(scene, editor, query);
    case "reconnect":
      return otherEndsFor(quick.edge, scene, editor, query);
  }
}

type Adding = Pick<Extract<Quick, { kind: "add" }>, "at" | "from" | "edge">;

function typesFor(quick: Adding, scene: ShownScene, editor: Editor, query: string): Choice[] {
  return typesOffered(quick, scene, editor, query).map((type) =>
    typeChoice(type, type.category.name, (loose) =>
      editor.add(type.type, { at: quick.at, from: quick.from, into: quick.edge, loose }),
    ),
  );
}

/** The types that can be added where a search was opened, what suits best first. */
export function typesOffered(quick: Adding, scene: ShownScene, editor: Editor, query: string): NodeTypeState[] {
  const { blocks: library, catalog } = editor.session.store.get();
  const blocks = [...blockTypes(library), ...(catalog ? templateTypes(catalog.templates) : [])];
  const fits = [...blocks, ...scene.types.values()].filter((type) => {
    if (NOT_OFFERED.has(type.type)) return false;
    if (!quick.from && !quick.edge) return true;
    const node = { name: "", type: type.type };
    const ports = portsOf(scene.document, node, type);
    if (quick.from) return edgeFrom(scene, quick.from.port, quick.from.side, "", ports) !== null;
    return quick.edge === null || insertOps(scene, "", ports, quick.edge, scene.graphId) !== null;
  });
  return searchTypes(fits, query, circumstancesOf(quick, scene, editor));
}

/** What comes into the node that is added, and what the graph has. */
function circumstancesOf(quick: Adding, scene: ShownScene, editor: Editor): Circumstances {
  const { nodes, edges } = scene.graph;
  const counts = new Map<string, number>();
  for (const { type } of nodes.values()) counts.set(type, (counts.get(type) ?? 0) + 1);
  const [feeder] = quick.edge || quick.from ? [] : editor.feeders();
  const last = feeder && ownerOf(scene, feeder, "output");
  const port = last && scene.cards.get(feeder)?.ports.outputs[0]?.name;
  const source =
    quick.edge?.source ?? (quick.from?.side === "output" ? quick.from.port : port && `${last}.${port}`) ?? undefined;
  const { shapes } = editor.session.store.get().derived;
  const after = source === undefined ? (nodes.size === 0 ? "" : undefined) : nodes.get(nodeOf(source))?.type;
  const followers = new Map<string, number>();
  for (const edge of edges.values()) {
    const next = nodes.get(nodeOf(edge.target))?.type;
    if (next && nodes.get(nodeOf(edge.source))?.type === after) followers.set(next, (followers.get(next) ?? 0) + 1);
  }
  return { shape: source === undefined ? undefined : shapes.get(scene.prefix + source), counts, after, followers };
}

/**
 * The types that the selected nodes can have in their place; of those for which one alone has too many edges, the ones
 * that are asked for.
 */
function otherTypesFor(scene: ShownScene, editor: Editor, query: string): Choice[] {
  const asked = query.trim().toLowerCase();
  const lacking = new Map<string, string>();
  const places = editor.located();
  const node = places[0]?.node.name;
  const listed = [...scene.types.values()].filter((type) => {
    if (NOT_OFFERED.has(type.type)) return false;
    if (places.length > 1) return true;
    const outcome = allRetyped(scene, places, type);
    if (!("refusal" in outcome)) return true;
    const [edge] = outcome.lost ?? [];
    if (!edge || asked === "" || !type.type.toLowerCase().startsWith(asked)) return false;
    lacking.set(type.type, `no port for ${nodeOf(edge.target) === node ? edge.source : edge.target}`);
    return true;
  });
  return searchTypes(listed, query).map((type) =>
    typeChoice(type, lacking.get(type.type) ?? type.category.name, () => changeType(editor, places, type.type)),
  );
}

/** Nodes of the shown graph; once something is typed, those of all others too, under their paths. */
function nodesFor(scene: ShownScene, editor: Editor, query: string): Choice[] {
  const word = query.trim().toLowerCase();
  const scored = placesIn(scene, word !== "").map((place) => {
    const { path, node } = place;
    const card = path === scene.prefix + node.name ? scene.cards.get(node.name) : undefined;
    const kind = definitionOf(node) ?? node.type;
    const category = card?.category ?? categoryOf(node, scene.types.get(node.type));
    return {
      score: word === "" ? 1 : nodeSimilarity(place, word, scene.prefix),
      choice: card
        ? choice(path, card.name, kind, category, () => editor.goTo(card.name))
        : choice(path, path, kind, category, () => editor.jumpTo(path)),
    };
  });
  for (const { name, title = "", text = "" } of scene.graph.frames.values()) {
    const found = Math.max(similarity(title || name, word), text.toLowerCase().includes(word) ? 0.5 : 0);
    scored.push({
      score: word === "" ? 1 : found,
      choice: choice(`frame ${name}`, title || name, "Frame", STRUCTURE, () => goToFrame(editor, name)),
    });
  }
  return scored
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map((entry) => entry.choice);
}

function placesIn(scene: ShownScene, everywhere: boolean): Place[] {
  if (everywhere) return placesOf(scene.document);
  return [...scene.graph.nodes.values()].map((node) => ({ path: scene.prefix + node.name, node }));
}

/** A port that another can be connected with, and the edge between the two. */
interface Partner extends EdgeState {
  readonly end: string;
  readonly category: Category;
  /** The edge whose place that one would take. */
  readonly replaced: EdgeState | undefined;
}

/** The ports that a port, given by its address, can be connected with, of those whose addresses have all the words. */
function partnersOf(
  address: string,
  side: "input" | "output",
  scene: ShownScene,
  editor: Editor,
  words: readonly string[],
): Partner[] {
  const refuses = editor.refusals(address, side);
  const other = side === "output" ? "input" : "output";
  return [...scene.cards.values()].flatMap(({ name, ports, category }) =>
    ports[`${other}s`].flatMap((port) => {
      const end = `${ownerOf(scene, name, other)}.${port.name}`;
      if (!words.every((word) => end.toLowerCase().includes(word)) || refuses(end)) return [];
      const [source, target] = side === "output" ? [address, end] : [end, address];
      return [{ source, target, end, category, replaced: scene.graph.edges.get(target) }];
    }),
  );
}

/** Every edge that the node could get, from its outputs first. */
function targetsFor(node: string, scene: ShownScene, editor: Editor, query: string): Choice[] {
  const mine = scene.cards.get(node)?.ports;
  if (!mine) return [];
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const choices: Choice[] = [];
  const replacing: Choice[] = [];
  for (const side of ["output", "input"] as const) {
    const arrow = side === "output" ? "→" : "←";
    for (const port of mine[`${side}s`]) {
      const address = `${ownerOf(scene, node, side)}.${port.name}`;
      for (const { source, target, end, category, replaced } of partnersOf(address, side, scene, editor, words)) {
        const take = () => editor.connect(source, target);
        const detail = replaced ? `instead of ${replaced.source}` : port.name;
        (replaced ? replacing : choices).push(choice(`${source} ${target}`, `${arrow} ${end}`, detail, category, take));
      }
      // What dropping a link into empty space does with a mouse.
      const label = `${arrow} a new node`;
      const fresh = choice(`new ${address}`, label, port.name, STRUCTURE, () =>
        requestAnimationFrame(() => openPalette(editor, null, { port: address, side })),
      );
      if (words.every((word) => label.includes(word))) choices.push(fresh);
    }
  }
  // What takes the place of an edge comes last.
  return [...choices, ...replacing];
}

/** The edges at a node; choosing one selects it, so that it can be deleted, reconnected or split by a new node. */
function edgesOf(node: string, scene: ShownScene, editor: Editor, query: string): Choice[] {
  const { into, outOf } = wiringOf(scene.graph);
  const edges = [...(into.get(node)?.values() ?? []), ...(outOf.get(ownerOf(scene, node, "output")) ?? [])];
  const choices = edges.map((edge) => {
    const incoming = nodeOf(edge.target) === node;
    const [end, own] = incoming ? [edge.source, edge.target] : [edge.target, edge.source];
    const category = scene.cards.get(cardFor(scene, nodeOf(end)))?.category ?? UNKNOWN;
    const port = splitPort(own)[1];
    return choice(edgeId(edge), `${incoming ? "←" : "→"} ${end}`, port, category, () => goToEdge(editor, edge));
  });
  return choices.filter(({ label }) => label.toLowerCase().includes(query.trim().toLowerCase()));
}

/** Where else the ends of an edge can go, its target first. */
function otherEndsFor(edge: EdgeState, scene: ShownScene, editor: Editor, query: string): Choice[] {
  const choices: Choice[] = [];
  const replacing: Choice[] = [];
  const words = [query.trim().toLowerCase()];
  for (const side of ["output", "input"] as const) {
    const [fixed, moved] = side === "output" ? [edge.source, edge.target] : [edge.target, edge.source];
    for (const { source, target, end, category, replaced } of partnersOf(fixed, side, scene, editor, words)) {
      if (end === moved) continue;
      const take = () => reconnect(editor, edge, source, target);
      const before = target === edge.target ? undefined : replaced;
      const detail = before ? `instead of ${before.source}` : `from ${fixed}`;
      const label = `${side === "output" ? "→" : "←"} ${end}`;
      (before ? replacing : choices).push(choice(`${source} ${target}`, label, detail, category, take));
    }
  }
  return [...choices, ...replacing];
}

function choice(key: string, label: string, detail: string, category: Category, take: Choice["take"]): Choice {
  return { key, label, detail, category, type: undefined, take };
}

function typeChoice({ type, category }: NodeTypeState, detail: string, take: Choice["take"]): Choice {
  return { ...choice(type, shownType(type), detail, category, take), type };
}
