import { Fragment, type SyntheticEvent } from "react";
import { useEditor, useSession } from "../context";
import { editInline } from "../inline";
import type { Card } from "./card";
import { SUMMARY_HEIGHT } from "./geometry";
import { BETWEEN_PARTS, partsOf, type Value, WITHIN_PART } from "./summary";

interface CardLineProps {
  card: Card;
  /** Whether somebody points at the card or stands on it: only then are its values more than text. */
  isLive: boolean;
  /** Whether the keyboard is at the card. */
  isCurrent: boolean;
}

/** The line of a card with the few values that matter. */
export function CardLine({ card, isLive, isCurrent }: CardLineProps) {
  return (
    <div className="pnne-card-summary" style={{ height: SUMMARY_HEIGHT }} title={isLive ? undefined : card.summary}>
      {isLive ? <Values card={card} isCurrent={isCurrent} /> : card.summary}
    </div>
  );
}

function Values({ card, isCurrent }: { card: Card; isCurrent: boolean }) {
  const editor = useEditor();
  const readOnly = useSession((state) => state.readOnly);
  const scene = editor.scene();
  const node = scene?.graph.nodes.get(card.name);
  if (readOnly || !scene || !node) return card.summary;
  const resolved = editor.session.store.get().derived.resolved.get(card.path);
  return partsOf(node, scene.types.get(node.type), resolved).map((part, place) => (
    <Fragment key={part.map(({ property }) => property?.name).join()}>
      {place > 0 && BETWEEN_PARTS}
      {part.map((value, nth) => (
        <Fragment key={value.property?.name}>
          {nth > 0 && WITHIN_PART}
          <ValueText card={card} value={value} isCurrent={isCurrent} />
        </Fragment>
      ))}
    </Fragment>
  ));
}

/** One value: a click, or Enter, opens it for editing. */
function ValueText({ card, value, isCurrent }: { card: Card; value: Value; isCurrent: boolean }) {
  const editor = useEditor();
  const { property, text } = value;
  if (!property) return text;
  const open = (event: SyntheticEvent) => {
    event.preventDefault();
    event.stopPropagation();
    editInline(editor, card.name, property.name);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a button in a line is not cut with an ellipsis as text is
    <span
      className="pnne-value"
      role="button"
      tabIndex={isCurrent ? 0 : -1}
      aria-label={`Edit ${property.name}, ${text}`}
      title={property.name}
      // With Shift, the click selects.
      onClick={(event) => !event.shiftKey && open(event)}
      onKeyDown={(event) => /^( |Enter)$/.test(event.key) && open(event)}
    >
      {text}
    </span>
  );
}
