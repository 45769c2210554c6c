import {
  type CSSProperties,
  type KeyboardEvent,
  memo,
  type PointerEvent,
  type RefObject,
  useDeferredValue,
  useMemo,
  useRef,
  useState,
} from "react";
import { MY_BLOCKS, type NodeTypeState, TEMPLATES } from "../../protocol";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import type { Editor } from "../commands/editor";
import { chooseFile, saveDocument } from "../commands/files";
import { droppedAt } from "../commands/opened";
import { blockTypes, shownType, templateTypes } from "../document/blocks";
import { placesOf } from "../document/definitions";
import { Icon } from "../fields/Action";
import { typesOffered } from "./Quick";
import { NOT_OFFERED } from "./search";

/** Headings that a person looks for first; the catalogue's others follow in its own order. */
const FIRST = [
  "Structure",
  "Linear",
  "Convolution",
  "Pooling",
  "Activation",
  "Normalization",
  "Dropout",
  "Recurrent",
  "Attention",
  "Transformer",
  "Embedding",
  "Arithmetic",
  "Joining",
  "Shape",
  "Loss",
  "Optimizer",
  "Scheduler",
  "Training",
];
const OPEN_AT_FIRST = 6;

const DRAG_STARTS_AFTER = 4;

/** Every node type, to search, click, or drag onto the canvas. Edits of the graph leave it as it is. */
export const Palette = memo(function Palette({ searchBox }: { searchBox: RefObject<HTMLInputElement | null> }) {
  const editor = useEditor();
  const catalog = useSession((state) => state.catalog);
  const library = useSession((state) => state.blocks);
  const isEmpty = useSession((state) => state.sync?.shown.graphs.get("")?.nodes.size === 0);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  // What the person has opened or closed; the other groups go by their place.
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const query = useDeferredValue(text);
  const list = useRef<HTMLDivElement>(null);
  const groups = useMemo(() => {
    const types = [...(catalog?.types.values() ?? [])].filter((type) => !NOT_OFFERED.has(type.type));
    const blocks = blockTypes(library);
    const templates = catalog ? templateTypes(catalog.templates) : [];
    if (query.trim() !== "") return [{ category: "", types: offered(editor, query) }];
    const begin = { category: TEMPLATES.name, types: templates };
    const mine = { category: MY_BLOCKS.name, types: blocks };
    // Those that there are come first; the way to load some does not stand in the way of who has none.
    const all = templates.length > 0 ? [begin, ...byCategory(types)] : byCategory(types);
    return blocks.length > 0 ? [mine, ...all] : [...all, mine];
  }, [editor, catalog, library, query]);
  const flat = groups.flatMap((group) => group.types);
  const current = query.trim() === "" ? -1 : Math.min(chosen, flat.length - 1);

  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      const next = Math.max(0, Math.min(flat.length - 1, current + step));
      setChosen(next);
      list.current?.querySelectorAll("[role=option]")[next]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      // Letters and Enter, and the next one: what is typed quickly is not in the list yet.
      const typed = text === query ? flat[Math.max(current, 0)] : offered(editor, text)[chosen];
      const type = text.trim() === "" ? offered(editor)[0] : typed;
      if (type && editor.add(type.type, { loose: event.shiftKey }) !== null) setText("");
      setChosen(0);
    } else if (event.key === "Escape" && text !== "") {
      event.stopPropagation();
      setText("");
    }
  };
  const load = async (file: File) => editor.session.loadBlocks(await file.text());
  let index = -1;
  return (
    <aside className="pnne-palette" aria-label="Node types">
      <div className="pnne-search">
        <Icon path="M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.4 10.4L14 14" />
        <input
          ref={searchBox}
          type="search"
          aria-label="Search node types"
          placeholder="Search nodes"
          value={text}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => {
            setText(event.target.value);
            setChosen(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div className="pnne-palette-list nowheel" ref={list}>
        {current < 0 ? query.trim() === "" && <Next /> : <Alike type={flat[current]?.type ?? ""} />}
        {!catalog && <p className="pnne-hint">Loading node types…</p>}
        {catalog && flat.length === 0 && <p className="pnne-hint">No node type matches “{query}”.</p>}
        {groups.map((group, place) => {
          // A template is where a graph begins.
          const first = group.category === TEMPLATES.name ? isEmpty : place <= OPEN_AT_FIRST;
          const open = !group.category || (opened.get(group.category) ?? first);
          const functions = folded(group);
          const all = `${group.category}, functions`;
          const unfolded = opened.get(all) === true;
          const shown = unfolded ? group.types : group.types.filter((type) => !functions.includes(type));
          return (
            <div key={group.category}>
              {group.category && (
                <button
                  type="button"
                  className="pnne-category"
                  aria-expanded={open}
                  onClick={() => setOpened(new Map(opened).set(group.category, !open))}
                >
                  {group.category}
                  <small>{group.types.length}</small>
                </button>
              )}
              {open && group.category === MY_BLOCKS.name && (
                <p className="pnne-my-blocks">
                  {group.types.length === 0 && <span>Publish a block from its properties, or</span>}
                  <button type="button" aria-label="Load blocks" onClick={() => chooseFile(load)}>
                    Load…
                  </button>
                  {group.types.length > 0 && (
                    <button type="button" aria-label="Save blocks" onClick={() => saveDocument(library, "blocks")}>
                      Save…
                    </button>
                  )}
                </p>
              )}
              {open && group.types.length > 0 && (
                <div role="listbox" aria-label={group.category || "Results"}>
                  {shown.map((type) => {
                    index += 1;
                    return (
                      <Option key={type.type} type={type} isChosen={index === current} showCategory={!group.category} />
                    );
                  })}
                </div>
              )}
              {open && functions.length > 0 && (
                <button
                  type="button"
                  className="pnne-fold"
                  aria-expanded={unfolded}
                  onClick={() => setOpened(new Map(opened).set(all, !unfolded))}
                >
                  {unfolded ? "Hide functions" : `${functions.length} functions`}
                </button>
              )}
            </div>
          );
        })}
      </div>
    </aside>
  );
});

/** Selects the nodes that there are of a type, inside blocks too: fields, T, B and L then change all of them. */
function Alike({ type }: { type: string }) {
  const editor = useEditor();
  const shown = useSession((state) => state.sync?.shown);
  const alike = useMemo(() => (shown ? placesOf(shown).filter(({ node }) => node.type === type) : []), [shown, type]);
  if (alike.length === 0) return null;
  return (
    <button type="button" className="pnne-quick-all" onClick={() => editor.selectPaths(alike.map(({ path }) => path))}>
      Select all {alike.length} {type}
    </button>
  );
}

/** How many types are offered to go on with. */
const NEXT = 5;

/** What a new node may be after the one before it, what suits best first. */
function offered(editor: Editor, text = ""): readonly NodeTypeState[] {
  const scene = editor.scene();
  return scene ? typesOffered({ at: null, from: null, edge: null }, scene, editor, text) : [];
}

/** The types that likely come next: a click on each goes on from the last. */
function Next() {
  const editor = useEditor();
  const scene = useScene();
  const nodes = useView((view) => view.nodes);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is offered follows from these
  const types = useMemo(() => {
    const [before] = editor.feeders();
    const ends = before !== undefined && !scene?.cards.get(before)?.ports.outputs.length;
    return ends ? [] : offered(editor).slice(0, NEXT);
  }, [editor, scene, nodes]);
  if (types.length === 0) return null;
  return (
    <div className="pnne-next">
      {types.map(({ type, doc, category }) => (
        <button
          key={type}
          type="button"
          aria-label={`Next: ${shownType(type)}`}
          title={doc}
          style={{ "--pn-hue": category.hue, "--pn-chroma": category.chroma } as CSSProperties}
          onClick={({ shiftKey }) => editor.add(type, { loose: shiftKey })}
        >
          {shownType(type)}
        </button>
      ))}
    </div>
  );
}

type Group = { category: string; types: readonly NodeTypeState[] };

/** Functions that repeat layers of their group are hidden (conv2d beside Conv2d); the search finds all of them. */
function folded({ category, types }: Group): readonly NodeTypeState[] {
  const functions = types.filter((type) => type.kind === "function");
  return category === "" || functions.length === types.length ? [] : functions;
}

function byCategory(types: readonly NodeTypeState[]): { category: string; types: NodeTypeState[] }[] {
  const groups = new Map<string, NodeTypeState[]>();
  for (const type of types) {
    const group = groups.get(type.category.name);
    if (group) group.push(type);
    else groups.set(type.category.name, [type]);
  }
  const rank = (category: string) => (FIRST.includes(category) ? FIRST.indexOf(category) : FIRST.length);
  return [...groups]
    .map(([category, members]) => ({ category, types: members }))
    .sort((a, b) => rank(a.category) - rank(b.category));
}

interface OptionProps {
  type: NodeTypeState;
  isChosen: boolean;
  showCategory: boolean;
}

const Option = memo(function Option({ type, isChosen, showCategory }: OptionProps) {
  const editor = useEditor();
  const look = type.category;
  const ghost = useRef<HTMLElement | null>(null);
  const start = useRef<{ x: number; y: number } | null>(null);

  const onPointerDown = (event: PointerEvent<HTMLElement>) => {
    if (event.button !== 0) return;
    start.current = { x: event.clientX, y: event.clientY };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent<HTMLElement>) => {
    if (!start.current) return;
    const far = Math.hypot(event.clientX - start.current.x, event.clientY - start.current.y) > DRAG_STARTS_AFTER;
    if (!ghost.current && far) ghost.current = makeGhost(event.currentTarget);
    if (ghost.current) placeGhost(ghost.current, event);
  };
  const end = (event: PointerEvent<HTMLElement>, dropped: boolean) => {
    const dragged = ghost.current !== null;
    ghost.current?.remove();
    ghost.current = null;
    start.current = null;
    if (!dropped || !dragged) return;
    droppedAt(editor, [event.clientX, event.clientY]);
    const place = editor.viewport?.at(event.clientX, event.clientY);
    if (place) editor.add(type.type, { at: place, loose: true });
  };
  // A click follows the release of the pointer; after a drag it must not add a second node.
  const suppressed = useRef(false);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the search box handles the keys of the list
    <div
      role="option"
      tabIndex={-1}
      aria-selected={isChosen}
      className="pnne-option"
      data-type={type.type}
      title={`${type.doc || type.type}\n\nIt goes on from the selected or the last node; with Shift, it stays loose.`}
      style={{ "--pn-hue": look.hue, "--pn-chroma": look.chroma } as CSSProperties}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={(event) => {
        suppressed.current = ghost.current !== null;
        end(event, true);
      }}
      onPointerCancel={(event) => end(event, false)}
      onClick={(event) => {
        if (!suppressed.current) editor.add(type.type, { loose: event.shiftKey });
        suppressed.current = false;
      }}
    >
      <span className="pnne-card-icon">
        <Icon path={look.icon} />
      </span>
      <span className="pnne-option-name">{shownType(type.type)}</span>
      {showCategory && <span className="pnne-option-category">{type.category.name}</span>}
    </div>
  );
});

function makeGhost(option: HTMLElement): HTMLElement {
  const ghost = option.cloneNode(true) as HTMLElement;
  ghost.className = "pnne-option pnne-ghost";
  ghost.removeAttribute("role");
  ghost.removeAttribute("data-type");
  option.closest(".pnne-editor")?.append(ghost);
  return ghost;
}

function placeGhost(ghost: HTMLElement, event: PointerEvent): void {
  const box = ghost.parentElement?.getBoundingClientRect();
  if (!box) return;
  ghost.style.transform = `translate(${event.clientX - box.left + 8}px, ${event.clientY - box.top + 6}px)`;
}
