import { useState } from "react";
import type { Json } from "../../protocol";
import { useEditor } from "../commands/context";
import { whyReserved } from "../document/names";
import { formulaOf } from "../values/calculate";
import { innerText, parseAs } from "../values/text";
import { Reason } from "./Reason";

interface SizesProps {
  sizes: Readonly<Record<string, unknown>>;
  readOnly: boolean;
}

/** The named sizes of the graph: `hidden` is a number in every field. */
export function Sizes({ sizes, readOnly }: SizesProps) {
  const names = Object.keys(sizes).sort();
  if (readOnly && names.length === 0) return null;
  return (
    <fieldset className="pnne-fields pnne-sizes" aria-label="Sizes" disabled={readOnly}>
      <h3 title="Names that every number may be calculated from, as 4*hidden">Sizes</h3>
      {names.map((name) => (
        <Row key={`${name} ${JSON.stringify(sizes[name])}`} sizes={sizes} name={name} />
      ))}
      {!readOnly && <Row key={names.join()} sizes={sizes} name="" />}
    </fieldset>
  );
}

function Row({ sizes, name }: { sizes: SizesProps["sizes"]; name: string }) {
  const editor = useEditor();
  const stored = name ? innerText(sizes[name]) : "";
  const [called, setCalled] = useState(name);
  const [text, setText] = useState(stored);
  const { [name]: _, ...others } = sizes;
  const parsed = text.trim() === "" ? null : parseAs({ type: "int" }, text, others);
  const why = name || called === "" ? null : whyNotName(called, sizes);
  const commit = () => {
    if (!parsed?.ok || why || called === "" || (name && text === stored)) return;
    const words = `${called} to ${formulaOf(parsed.value) ?? text.trim()}`;
    editor.edit([{ op: "setSize", name: called, value: parsed.value as Json }], `Set the size ${words}`);
  };
  const common = {
    spellCheck: false,
    autoComplete: "off",
    onBlur: name ? commit : undefined,
    onKeyDown: (event: React.KeyboardEvent) => {
      if (event.key === "Enter") commit();
      if (event.key === "Escape") setText(stored);
      event.stopPropagation();
    },
  };
  return (
    <div className="pnne-field">
      {name ? (
        <label className="pnne-field-label" htmlFor={`size-${name}`}>
          {name}
        </label>
      ) : (
        <input
          type="text"
          aria-label="Name of a new size"
          placeholder="hidden"
          value={called}
          {...common}
          onChange={(event) => setCalled(event.target.value.trim())}
        />
      )}
      <input
        type="text"
        id={name ? `size-${name}` : undefined}
        aria-label={name || "Its number"}
        placeholder="64"
        value={text}
        {...common}
        onChange={(event) => setText(event.target.value)}
      />
      {name ? (
        <button
          type="button"
          className="pnne-reset"
          aria-label={`Remove the size ${name}`}
          title="Remove it: its number takes its place"
          onClick={() => editor.edit([{ op: "setSize", name, value: null }], `Remove the size ${name}`)}
        >
          ×
        </button>
      ) : (
        <button type="button" className="pnne-reset" aria-label="Add the size" title="Add it" onClick={commit}>
          +
        </button>
      )}
      <Reason text={why ?? (parsed?.ok === false ? parsed.reason : null)} />
    </div>
  );
}

function whyNotName(name: string, sizes: SizesProps["sizes"]): string | null {
  if (!/^[A-Za-z_]\w*$/.test(name)) return "Use letters, digits and underscores, as for a variable.";
  if (Object.hasOwn(sizes, name)) return `There is a size ${name} already.`;
  return whyReserved(name);
}
