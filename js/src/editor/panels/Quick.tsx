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
import { lookOf } from "../canvas/categories";
import type { ShownScene } from "../canvas/scene";
import { useEditor, useScene, useView } from "../context";
import { portsOf } from "../document/ports";
import { edgeFrom, insertOps } from "../document/splice";
import type { Editor } from "../editor";
import type { Quick } from "../view";
import { NOT_OFFERED } from "./Palette";
import { searchTypes, similarity } from "./search";

const WIDTH = 268;
const HEIGHT = 300;
const MOST_SHOWN = 60;

interface Choice {
  readonly key: string;
  readonly label: string;
  readonly detail: string;
  readonly category: string;
  readonly type: string | undefined;
  readonly take: () => void;
}

const TITLES = { add: "Add a node", find: "Find a node", connect: "Connect to" } as const;

/** The search over the canvas, at the pointer: what is chosen with Enter or a click is done at once. */
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
  const choices = useMemo(
    () => choicesFor(quick, scene, editor, query).slice(0, MOST_SHOWN),
    [quick, scene, editor, query],
  );
  const current = Math.min(chosen, choices.length - 1);

  useEffect(() => input.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });
  const close = () => {
    box.current?.closest<HTMLElement>(".pnne-canvas")?.focus({ preventScroll: true });
    editor.patch({ quick: null });
  };
  const take = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    choice.take();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter") take(choices[current]);
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
        if (!event.currentTarget.contains(event.relatedTarget)) editor.patch({ quick: null });
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
            style={lookStyle(choice.category)}
            onClick={() => take(choice)}
          >
            <span className="pnne-card-icon">
              <svg viewBox="0 0 16 16" aria-hidden="true">
                <path d={lookOf(choice.category).icon} />
              </svg>
            </span>
            <span className="pnne-option-name">{choice.label}</span>
            <span className="pnne-option-category">{choice.detail}</span>
          </div>
        ))}
      </div>
      {choices.length === 0 && <p className="pnne-hint">Nothing that fits matches “{query}”.</p>}
    </div>
  );
}

function lookStyle(category: string): CSSProperties {
  const look = lookOf(category);
  return { "--pn-hue": look.hue, "--pn-chroma": look.chroma } as CSSProperties;
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
  }
}

function typesFor(quick: Extract<Quick, { kind: "add" }>, scene: ShownScene, editor: Editor, query: string): Choice[] {
  const fits = [...scene.types.values()].filter((type) => {
    if (NOT_OFFERED.has(type.type)) return false;
    if (!quick.from && !quick.edge) return true;
    const node = { name: "", type: type.type, properties: {}, position: null, origin: null };
    const ports = portsOf(scene.document, node, type);
    if (quick.from) return edgeFrom(scene, quick.from.port, quick.from.side, "", ports) !== null;
    return quick.edge === null || insertOps(scene, "", ports, quick.edge, scene.graphId) !== null;
  });
  return searchTypes(fits, query).map((type) => ({
    key: type.type,
    label: type.type,
    detail: type.category,
    category: type.category,
    type: type.type,
    take: () => void editor.add(type.type, { at: quick.at, from: quick.from, into: quick.edge }),
  }));
}

function nodesFor(scene: ShownScene, editor: Editor, query: string): Choice[] {
  const word = query.trim().toLowerCase();
  return [...scene.cards.values()]
    .map((card) => ({
      card,
      score: word === "" ? 1 : Math.max(similarity(card.name, word), similarity(card.type, word) / 2),
    }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ card }) => ({
      key: card.name,
      label: card.name,
      detail: card.type,
      category: card.category,
      type: undefined,
      take: () => editor.goTo(card.name),
    }));
}

/** Every edge that the node could get, from its outputs first. */
function targetsFor(node: string, scene: ShownScene, editor: Editor, query: string): Choice[] {
  const mine = scene.cards.get(node)?.ports;
  if (!mine) return [];
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const choices: Choice[] = [];
  for (const side of ["output", "input"] as const) {
    for (const port of side === "output" ? mine.outputs : mine.inputs) {
      const address = `${node}.${port.name}`;
      const refuses = editor.refusals(address, side);
      for (const card of scene.cards.values()) {
        for (const other of side === "output" ? card.ports.inputs : card.ports.outputs) {
          const end = `${card.name}.${other.name}`;
          const [source, target] = side === "output" ? [address, end] : [end, address];
          if (!words.every((word) => end.toLowerCase().includes(word)) || refuses(end)) continue;
          choices.push({
            key: `${source} ${target}`,
            label: side === "output" ? `→ ${end}` : `← ${end}`,
            detail: port.name,
            category: card.category,
            type: undefined,
            take: () => editor.connect(source, target),
          });
        }
      }
    }
  }
  return choices;
}
