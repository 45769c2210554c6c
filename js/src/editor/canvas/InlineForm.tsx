import { type FocusEvent, type KeyboardEvent, useLayoutEffect, useRef } from "react";
import { useEditor, useIsOn, useScene, useSession, useView } from "../commands/context";
import { editableOn, endInline } from "../commands/inline";
import { Field } from "../fields/Field";
import type { Card } from "../scene/card";
import { COLLAPSED_HEIGHT, HEADER_HEIGHT } from "../scene/geometry";
import { PROMOTED } from "../scene/summary";

/** The few properties that matter, edited on the card itself with the panel's own fields. */
export function InlineForm({ card }: { card: Card }) {
  const inline = useView((view) => view.inline);
  const isOn = useIsOn(card.path, (view) => view.inline?.node ?? null);
  const readOnly = useSession((state) => state.readOnly);
  return inline && isOn && !readOnly ? <Form key={inline.property} card={card} first={inline.property} /> : null;
}

function Form({ card, first }: { card: Card; first: string | null }) {
  const editor = useEditor();
  const scene = useScene();
  const resolved = useSession((state) => state.derived.resolved.get(card.path));
  const form = useRef<HTMLFieldSetElement>(null);
  // What is set while the form is open does not change which fields it has.
  const properties = useRef(editableOn(editor, card));
  useLayoutEffect(() => {
    const element = form.current;
    const fields = [...(element?.querySelectorAll<HTMLInputElement>("[data-property]") ?? [])];
    const begin = fields.find((field) => field.dataset.property === `${card.path}.${first}`) ?? fields[0];
    begin?.focus({ preventScroll: true });
    if (begin?.type === "text") begin.select();
    return () => {
      // The keyboard goes on from the card.
      const owner = element?.contains(document.activeElement) ? element.closest<HTMLElement>(".pnne-card") : null;
      owner?.focus({ preventScroll: true });
    };
  }, [card.path, first]);
  useLayoutEffect(() => () => endInline(editor, card.name), [editor, card.name]);
  const nodes = (card.run ?? [[card.name]]).flatMap(([name = ""]) => scene?.graph.nodes.get(name) ?? []);
  const all = scene?.types.get(card.type)?.properties?.filter(({ name }) => name !== PROMOTED).length ?? 0;
  if (!scene || nodes.length === 0) return null;
  const done = () => endInline(editor, card.name);
  const onKeyDown = (event: KeyboardEvent) => {
    // Fields of text have done so already.
    if (event.key !== "Escape" && (event.key !== "Enter" || event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    event.stopPropagation();
    done();
  };
  const onBlur = (event: FocusEvent) => {
    const stays = event.currentTarget.contains(event.relatedTarget);
    // What could not be set stays to be seen, with the reason.
    if (!stays && !event.currentTarget.querySelector('[aria-invalid="true"]')) done();
  };
  const showAll = () => {
    editor.showPanel("properties", true);
    done();
  };
  return (
    <fieldset
      ref={form}
      className="pnne-inline nodrag nopan nowheel"
      style={{ top: card.geometry.above + (card.collapsed ? COLLAPSED_HEIGHT : HEADER_HEIGHT) }}
      aria-label={`Values of ${card.title}`}
      onPointerDown={(event) => keepClick(event.currentTarget)}
      // A click beside the fields leaves the keyboard where it is.
      onMouseDown={(event) => !(event.target as Element).closest("input, select, button") && event.preventDefault()}
      // A click on the card of a row would select its first node alone.
      onClick={(event) => event.stopPropagation()}
      onKeyDown={onKeyDown}
      onBlur={onBlur}
    >
      {properties.current.map((property) => (
        <Field
          key={property.name}
          scene={scene}
          places={nodes.map((node) => ({ graph: scene.graphId, node }))}
          property={property}
          resolved={resolved?.[property.name]}
          wired={scene.graph.edges.get(`${card.name}.${property.name}`)?.source}
          onDone={done}
        />
      ))}
      {all > properties.current.length && (
        <button type="button" className="pnne-inline-all" onClick={showAll}>
          All {all} properties
        </button>
      )}
    </fieldset>
  );
}

/** Whoever marks text in the form and lets go beside it means the text: the canvas must not take it for a click. */
function keepClick(form: Element): void {
  const ends = new AbortController();
  const options = { capture: true, signal: ends.signal };
  const keep = (event: MouseEvent) => !event.composedPath().includes(form) && event.stopPropagation();
  const end = () => setTimeout(() => ends.abort());
  window.addEventListener("click", keep, options);
  window.addEventListener("pointerup", end, options);
  window.addEventListener("pointercancel", end, options);
}
