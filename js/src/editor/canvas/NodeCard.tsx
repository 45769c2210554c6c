import type { NodeProps } from "@xyflow/react";
import {
  type ComponentProps,
  type CSSProperties,
  createContext,
  memo,
  type RefObject,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { SNOWFLAKE } from "../../protocol";
import { useEditor, useIsOn, useSession, useSettled, useView } from "../commands/context";
import { toggleFolded } from "../commands/folding";
import { toggleCollapsed } from "../commands/framing";
import { togglePeek } from "../commands/gestures";
import { editableOn, editInline, renameOnCard } from "../commands/inline";
import { toggleOpened } from "../commands/opened";
import { type Action, Icon } from "../fields/Action";
import { NameField } from "../fields/NameField";
import { OriginBadge } from "../fields/OriginBadge";
import { isWider, widthOf } from "../host/letters";
import { type Card, isOpen, timesInWords, timesOf } from "../scene/card";
import {
  COLLAPSED_HEIGHT,
  type Detail,
  detailFrom,
  HEADER_HEIGHT,
  LEAST_LETTERS,
  MOST_LETTERS,
  READABLE_ZOOM,
  REROUTE,
} from "../scene/geometry";
import { pictogram } from "../values/pictogram";
import { type NameLine, nameLines } from "../values/shortName";
import { CardLines } from "./CardLines";
import type { CardNode } from "./flow";
import { InlineForm } from "./InlineForm";
import { CardPicture, LensText, LiveMark, LiveText } from "./Live";
import { Ports } from "./Ports";

const FOLD = "M3 2.5h10M3 13.5h10M8 4v3M6.3 5.6L8 7.2l1.7-1.6M8 12V9M6.3 10.4L8 8.8l1.7 1.6";
const OPEN_BLOCK = "M9.5 2.5h4v4M13.5 2.5L9 7M6.5 13.5h-4v-4M2.5 13.5L7 9";
const CLOSE_BLOCK = "M9 3v4h4M9 7l4.5-4.5M7 13V9H3M7 9l-4.5 4.5";
const FROZEN = "Frozen: training leaves its weights as they are (L has them trained again)";
const UNFOLD = "M3 2.5h10M3 13.5h10M8 7.5v-3M6.3 6L8 4.4L9.7 6M8 8.5v3M6.3 10L8 11.6L9.7 10";

/** The picture of one node. Its size is `card.geometry`'s, whatever its texts are. */
export const NodeCard = memo(function NodeCard({ data: { card }, selected }: NodeProps<CardNode>) {
  const isCurrent = useIsOn(card.path, ({ current }) => current);
  const isHere = useView((view) => isOpen(card) && view.path.join(".") === card.path);
  const element = useRef<HTMLDivElement>(null);
  const [hovered, pointing] = useHovered(element);
  useEffect(() => {
    const canvas = element.current?.closest(".pnne-canvas");
    // What is open on the card keeps the focus that it has taken.
    if (!isCurrent || element.current?.contains(document.activeElement)) return;
    if (canvas?.contains(document.activeElement)) element.current?.focus({ preventScroll: true });
  }, [isCurrent]);
  const isCut = useIsCut(card);
  const look = card.category;
  const isDot = card.type === REROUTE;
  const worst = card.loose ? null : worstSeverity(card);
  const style = {
    width: card.geometry.width,
    height: card.geometry.height,
    "--pn-height": `${card.geometry.height}px`,
    "--pn-hue": look.hue,
    "--pn-chroma": look.chroma,
  } as CSSProperties;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
    <div
      className={`pnne-card${worst ? ` pnne-has-${worst}` : ""}${card.known ? "" : " pnne-unknown"}${(card.inside && !isOpen(card)) || card.run ? " pnne-stack" : ""}${card.collapsed ? " pnne-collapsed" : ""}${card.ablated ? " pnne-ablated" : ""}${card.frozen ? " pnne-frozen" : ""}${card.geometry.across ? " pnne-rightward" : ""}${isOpen(card) ? " pnne-open" : ""}${isHere ? " pnne-here" : ""}${isDot ? " pnne-dot" : ""}${isCut ? " pnne-cut" : ""}`}
      ref={element}
      tabIndex={isCurrent ? 0 : -1}
      style={style}
      data-node={card.path}
      data-type={card.type}
      role="group"
      aria-roledescription="node"
      aria-label={card.label}
      {...pointing}
    >
      {card.geometry.above > 0 && <div style={{ height: card.geometry.above }} />}
      {!isDot && <CardHeader card={card} worst={worst} hovered={hovered} />}
      {card.lines.length > 0 && !card.collapsed && (
        <CardLines card={card} isLive={hovered || isCurrent} isCurrent={isCurrent} />
      )}
      {card.geometry.below > 0 && <div style={{ height: card.geometry.below }} />}
      <CardPicture card={card} />
      <Ports card={card} />
      <LiveMark path={card.path} />
      <LensText path={card.path} />
      {isCurrent && selected && <InlineForm card={card} />}
      {card.loose && !card.collapsed && !isDot && <span className="pnne-loose">not connected yet</span>}
      {selected && worst && (
        <div className={`pnne-card-message pnne-severity-${worst} nodrag nopan`}>
          {card.diagnostics.map((diagnostic) => (
            <p key={`${diagnostic.code} ${diagnostic.port ?? ""} ${diagnostic.message}`}>{diagnostic.message}</p>
          ))}
        </div>
      )}
    </div>
  );
});

/** The width that a card's title, and a mark in its second line, leave to other things, in pixels. */
const BESIDE_TITLE = 57;
const MARK = 26;

/** Whether a text of a card may be too wide for it. Only then is it clipped, because every clip costs time in each frame. */
function useIsCut(card: Card): boolean {
  const { root } = useEditor();
  return useMemo(() => {
    if (!root || card.collapsed) return true;
    const marks = MARK * [timesOf(card), card.frozen, card.origin, card.diagnostics.length].filter(Boolean).length;
    const room = (card.geometry.width - BESIDE_TITLE - marks) / MOST_LETTERS;
    return isWider(card.title, room, root) || isWider(card.kind, room, root);
  }, [card, root]);
}

type Severity = "error" | "warning";

function CardHeader({ card, worst, hovered }: { card: Card; worst: Severity | null; hovered: boolean }) {
  const times = timesOf(card);
  return (
    <div className="pnne-card-header" style={{ height: card.collapsed ? COLLAPSED_HEIGHT : HEADER_HEIGHT }}>
      <span className="pnne-card-icon" style={pictogram(card.category)} />
      <span className="pnne-card-title">
        <CardName card={card} />
        {!card.collapsed && <LiveText path={card.path} kind={card.kind} />}
      </span>
      {times && (
        <span
          className={`pnne-times${card.run ? " pnne-run" : ""}`}
          title={
            card.run
              ? `${timesInWords(card.run)}: X unfolds them`
              : `Shown by ${card.uses} nodes: a change inside changes all of them`
          }
        >
          {times}
        </span>
      )}
      {card.frozen && (
        <span className="pnne-origin pnne-origin-frozen" role="img" aria-label="Frozen" title={FROZEN}>
          <Icon path={SNOWFLAKE} />
        </span>
      )}
      {card.origin && <OriginBadge origin={card.origin} />}
      {hovered && <CardButtons card={card} />}
      {worst && <Badge card={card} severity={worst} />}
    </div>
  );
}

/** The node's name; a double click or F2 opens it to be typed into. */
function CardName({ card }: { card: Card }) {
  const editor = useEditor();
  const renamed = useIsOn(card.path, ({ renaming }) => renaming);
  const lines = useNameLines(card);
  const scene = editor.scene();
  const node = scene?.graph.nodes.get(card.name);
  if (renamed && scene && node) {
    const onDone = () => {
      editor.patch({ renaming: null });
      editor.root?.querySelector<HTMLElement>(".pnne-canvas")?.focus({ preventScroll: true });
    };
    return <NameField scene={scene} node={node} onDone={onDone} />;
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: F2 does the same for the node
    <span
      className="pnne-card-name"
      title={card.collapsed || card.run ? card.label : card.name}
      onDoubleClick={(event) => {
        // The double click on a block enters it.
        if (card.inside || card.run) return;
        event.stopPropagation();
        renameOnCard(editor, card.name);
      }}
    >
      {lines
        ? lines.map(({ pieces, squeeze }, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the lines are those of one text
            <span key={place} className="pnne-name-line" style={squeeze < 1 ? { transform: `scaleX(${squeeze})` } : {}}>
              {pieces.map(({ text, shown }) =>
                shown === "yes" ? (
                  text
                ) : (
                  <i key={text} className={`pnne-left-out${shown === "ellipsis" ? " pnne-marked" : ""}`}>
                    {text}
                  </i>
                ),
              )}
            </span>
          ))
        : card.title}
      {!lines && card.block && hasRoom(card, card.block[1]) && <small>{card.block[1]}</small>}
    </span>
  );
}

/** Whether a text fits beside the name, in small letters: else the name would be cut for it. */
function hasRoom({ title, closed }: Card, text: string): boolean {
  return 48 + 7.5 * title.length + 6.5 * text.length <= closed.width;
}

/** How much of cards is told at the present zoom. */
export const DetailContext = createContext<Detail>(detailFrom(READABLE_ZOOM));

/** How much room the letters have that are read from further away. */
const LINE = 1.05;
const BESIDE = 16;

/** The lines of a card's name from further away; null where it stands beside other texts. */
function useNameLines(card: Card): readonly NameLine[] | null {
  const { told, scale } = useContext(DetailContext);
  const { root } = useEditor();
  const isClose = told === "all" || told === "larger" || isOpen(card);
  const { title } = card;
  const { width, height } = card.closed;
  return useMemo(() => {
    if (isClose || !root) return null;
    const letters = LEAST_LETTERS * scale;
    const most = Math.max(1, Math.floor((height + 2 * BESIDE) / (letters * LINE)));
    return nameLines(
      title,
      width - 3 * scale - 7,
      most,
      (text) => (widthOf(text, root) - 0.02 * text.length) * letters,
    );
  }, [isClose, root, scale, title, width, height]);
}

/** Whether the pointer is on an element whose inside changes with it: Chromium may then not say that it leaves. */
function useHovered(element: RefObject<HTMLElement | null>) {
  const [hovered, setHovered] = useState(false);
  useEffect(() => {
    if (!hovered) return;
    const ends = new AbortController();
    const over = ({ target }: PointerEvent) => element.current?.contains(target as Node) || setHovered(false);
    document.addEventListener("pointerover", over, { signal: ends.signal });
    return () => ends.abort();
  }, [element, hovered]);
  const pointing = { onPointerEnter: () => setHovered(true), onPointerLeave: () => setHovered(false) };
  return [hovered, pointing] as const;
}

/** What the pointer finds on a card under it; the keyboard has H and P. */
function CardButtons({ card }: { card: Card }) {
  const editor = useEditor();
  const peeked = useIsOn(card.path, ({ peek }) => peek);
  const runs = useSettled(editor.sceneOf(card))?.runs() ?? [];
  const run = runs.find((each) => each.flat().includes(card.name));
  const readOnly = useSession((state) => state.readOnly);
  // A line of values is clicked on itself.
  const hasNoLine = card.known && (card.lines.length === 0 || card.collapsed) && card.type !== "Subgraph";
  return (
    <span className="pnne-card-buttons nodrag nopan">
      {card.inside && (
        <CardButton
          name={`${isOpen(card) ? "Close" : "Open"} ${card.name} in place`}
          hint={isOpen(card) ? "Close what is open in place (O)" : "Open in place (O)"}
          icon={isOpen(card) ? CLOSE_BLOCK : OPEN_BLOCK}
          onClick={() => toggleOpened(editor, new Set([card.name]))}
        />
      )}
      {card.inside && !isOpen(card) && (
        <CardButton
          name={`Look inside ${card.name}`}
          hint="Look inside (P)"
          icon="M1.5 8C4 3.8 12 3.8 14.5 8C12 12.2 4 12.2 1.5 8M8 6.2a1.8 1.8 0 1 0 0 3.6a1.8 1.8 0 1 0 0-3.6"
          pressed={peeked}
          onClick={() => togglePeek(editor, card.name)}
        />
      )}
      {run && (
        <CardButton
          name={`${card.run ? "Unfold" : "Fold"} ${run[0]?.[0]} to ${run.at(-1)?.at(-1)}`}
          hint={`${card.run ? "Unfold" : "Fold"} ${timesInWords(run)} (X)`}
          icon={card.run ? UNFOLD : FOLD}
          onClick={() => toggleFolded(editor, new Set([card.name]))}
        />
      )}
      {hasNoLine && !readOnly && editableOn(editor, card).length > 0 && (
        <CardButton
          name={`Edit ${card.name}`}
          hint="Edit its values here (V)"
          icon="M3 13l.6-2.8L10.8 3l2.2 2.2L5.8 12.4zM9.3 4.5l2.2 2.2"
          onClick={(event) => {
            // Selecting is part of it.
            event.stopPropagation();
            editInline(editor, card.name);
          }}
        />
      )}
      <CardButton
        name={`${card.collapsed ? "Expand" : "Collapse"} ${card.name}`}
        hint={card.collapsed ? "Expand (H)" : "Collapse (H)"}
        icon={card.collapsed ? "M4.5 6l3.5 3.5L11.5 6" : "M4.5 10L8 6.5l3.5 3.5"}
        onClick={() => toggleCollapsed(editor, card.run?.flat() ?? [card.name])}
      />
    </span>
  );
}

function CardButton({ name, hint, icon, pressed, onClick }: ComponentProps<typeof Action>) {
  return (
    <button
      type="button"
      tabIndex={-1}
      aria-label={name}
      title={hint}
      aria-pressed={pressed}
      onClick={onClick}
      onDoubleClick={(event) => event.stopPropagation()}
    >
      <Icon path={icon} />
    </button>
  );
}

function worstSeverity(card: Card): Severity | null {
  if (card.diagnostics.some((diagnostic) => (diagnostic.severity ?? "error") === "error")) return "error";
  return card.diagnostics.some((diagnostic) => diagnostic.severity === "warning") ? "warning" : null;
}

function Badge({ card, severity }: { card: Card; severity: Severity }) {
  const text = card.diagnostics.map(({ message, hint }) => (hint ? `${message} ${hint}` : message)).join("\n");
  return (
    <span className={`pnne-badge pnne-severity-${severity}`} title={text} role="img" aria-label={text}>
      !
    </span>
  );
}
