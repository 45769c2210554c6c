import { Fragment, type SyntheticEvent } from "react";
import { useEditor, useSession } from "../commands/context";
import { editInline } from "../commands/inline";
import type { Card } from "../scene/card";
import { linesHeight } from "../scene/geometry";
import { BETWEEN_PARTS, type Part, type Value, WITHIN_PART, wordsOf } from "../scene/summary";

interface CardLinesProps {
  card: Card;
  /** Whether somebody points at the card or stands on it: only then are its values more than text. */
  isLive: boolean;
  /** Whether the keyboard is at the card. */
  isCurrent: boolean;
}

/** The lines of a card with the few values that matter. */
export function CardLines({ card, isLive, isCurrent }: CardLinesProps) {
  const readOnly = useSession((state) => state.readOnly);
  return (
    <div
      className="pnne-card-summary"
      style={{ height: linesHeight(card.lines.length) }}
      title={isLive ? undefined : card.summary}
    >
      {card.lines.map((line, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: two lines may say the same
        <div key={row}>
          {isLive && !readOnly ? <Values card={card} line={line} isCurrent={isCurrent} /> : wordsOf(line)}
        </div>
      ))}
    </div>
  );
}

function Values({ card, line, isCurrent }: { card: Card; line: readonly Part[]; isCurrent: boolean }) {
  return line.map((part, place) => (
    <Fragment key={part.map(({ property, text }) => property?.name ?? text).join()}>
      {place > 0 && BETWEEN_PARTS}
      {part.map((value, nth) => (
        <Fragment key={value.property?.name ?? value.text}>
          {nth > 0 && WITHIN_PART}
          <ValueText card={card} value={value} isCurrent={isCurrent} />
        </Fragment>
      ))}
    </Fragment>
  ));
}

/** One value: a click, or Enter, opens it for editing; one that another node gives, by showing that node. */
function ValueText({ card, value, isCurrent }: { card: Card; value: Value; isCurrent: boolean }) {
  const editor = useEditor();
  const { property, text, from } = value;
  if (!property && from === undefined) return text;
  const open = (event: SyntheticEvent) => {
    event.preventDefault();
    event.stopPropagation();
    if (property) editInline(editor, card.name, property.name);
    else if (from !== undefined) editor.goTo(from);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a button in a line is not cut with an ellipsis as text is
    <span
      className="pnne-value"
      role="button"
      tabIndex={isCurrent ? 0 : -1}
      aria-label={property ? `Edit ${property.name}, ${text}` : `Show ${from}, ${text}`}
      title={property ? property.name : `Show ${from} as a card`}
      // With Shift, the click selects.
      onClick={(event) => !event.shiftKey && open(event)}
      onKeyDown={(event) => /^( |Enter)$/.test(event.key) && open(event)}
    >
      {text}
    </span>
  );
}
