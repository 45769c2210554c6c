import { type KeyboardEvent, useEffect, useId, useState } from "react";
import { DTYPES, type NodeState, type PropertyState, type PropertyType } from "../../protocol";
import { promote } from "../commands/blocks";
import { useEditor, useView } from "../commands/context";
import type { Located } from "../document/definitions";
import type { ShownScene } from "../scene/scene";
import { promotedOf } from "../scene/summary";
import { parseAs, textOf } from "../values/text";
import { Reason } from "./Reason";

interface FieldProps {
  scene: ShownScene;
  /** The nodes that have the property; usually one. */
  places: readonly Located[];
  property: PropertyState;
  /** The current value of "auto". */
  resolved: unknown;
  /** The output that feeds the port of this name. */
  wired: string | undefined;
  /** Called when the keyboard has set a value or left it as it was. */
  onDone?: (() => void) | undefined;
}

/** One property: the input that suits its type, its default, its documentation, and why a value is refused. */
export function Field({ scene, places, property, resolved, wired, onDone }: FieldProps) {
  const editor = useEditor();
  const id = useId();
  const [reason, setReason] = useState<string | null>(null);
  const nodes = places.map(({ node }) => node);
  const [node] = nodes as [NodeState];
  const isSet = nodes.some(({ properties }) => property.name in (properties ?? {}));
  const isMixed = new Set(nodes.map(({ properties }) => JSON.stringify(properties?.[property.name]))).size > 1;
  const value = isSet && !isMixed ? node.properties?.[property.name] : undefined;
  const path = `${scene.prefix}${node.name}.${property.name}`;
  const written = scene.inlined.written.get(node.name)?.get(property.name);
  const isPort = useView((view) => view.exposed.has(path));
  const isPromoted = nodes.length === 1 && promotedOf(node, scene.types.get(node.type)).includes(property);
  const reset = () => {
    setReason(null);
    if (isSet) editor.resetProperty(places, property.name);
  };
  const set = (next: unknown) => {
    setReason(null);
    if (isMixed || JSON.stringify(next) !== JSON.stringify(value)) editor.setProperty(places, property.name, next);
  };
  const common = {
    id,
    "data-property": path,
    "aria-describedby": reason ? `${id}-reason` : undefined,
    "aria-invalid": reason !== null,
    title: property.doc,
  };
  return (
    <div className={`pnne-field${isSet ? " pnne-set" : ""}${reason ? " pnne-invalid" : ""}`}>
      <label className="pnne-field-label" htmlFor={id} title={property.doc}>
        {property.name}
        {property.required && !isSet && <em title="Required"> required</em>}
      </label>
      {wired && written ? (
        <button
          type="button"
          className="pnne-wired pnne-written"
          aria-label={`${property.name}: ${written.text}; show ${written.from}`}
          title={`Show ${written.from} as a card`}
          onClick={() => editor.goTo(written.from)}
        >
          {written.text}
        </button>
      ) : wired ? (
        <output className="pnne-wired" title={`Fed by ${wired}`}>
          ← {wired}
        </output>
      ) : (
        <Control {...{ scene, node, property, value, resolved, set, reset, setReason, common, isMixed, onDone }} />
      )}
      {scene.graphId !== "" && nodes.length === 1 && !wired && (
        <button
          type="button"
          className="pnne-expose"
          aria-label={`Show ${property.name} on the block`}
          title={isPromoted ? "Show it on the block no longer" : "Show it on the block, to be edited there"}
          aria-pressed={isPromoted}
          onClick={() => promote(editor, node, property.name, scene.graphId)}
        >
          ↥
        </button>
      )}
      {property.role === "call" && nodes.length === 1 && !wired && (
        <button
          type="button"
          className="pnne-expose"
          aria-label={`Input port for ${property.name}`}
          title={isPort ? "Hide its port" : "Make it an input: show a port to connect"}
          aria-pressed={isPort}
          onClick={() => editor.expose(path)}
        >
          ⊙
        </button>
      )}
      <button
        type="button"
        className="pnne-reset"
        aria-label={`Reset ${property.name}`}
        title={`Reset to ${property.required ? "nothing" : textOf(property.type, property.default)}`}
        disabled={!isSet}
        onClick={reset}
      >
        ↺
      </button>
      <Reason text={reason} id={`${id}-reason`} />
    </div>
  );
}

interface ControlProps extends Pick<FieldProps, "scene" | "property" | "resolved" | "onDone"> {
  node: NodeState;
  isMixed: boolean;
  value: unknown;
  set: (value: unknown) => void;
  reset: () => void;
  setReason: (reason: string | null) => void;
  common: { id: string; "data-property": string; title: string | undefined };
}

function Control(props: ControlProps) {
  const { property, value, set, common } = props;
  if (property.type.type === "bool") {
    const shown = value ?? property.default ?? false;
    return (
      <input
        {...common}
        type="checkbox"
        ref={(box) => {
          if (box) box.indeterminate = props.isMixed;
        }}
        checked={shown === true}
        onChange={(event) => set(event.target.checked)}
      />
    );
  }
  const choices = choicesOf(property.type, props.scene, props.node);
  return choices ? <Choice {...props} choices={choices} /> : <TextControl {...props} />;
}

interface Options {
  readonly values: readonly string[];
  readonly optional: boolean;
}

const MOST_LISTED = 300;

/** The choices of a type that has few, or null. */
function choicesOf(kind: PropertyType, scene: ShownScene, node: NodeState): Options | null {
  switch (kind.type) {
    case "enum":
      return { values: kind.choices, optional: false };
    case "dtype":
      return { values: DTYPES, optional: false };
    case "nodeRef": {
      const others = [...scene.graph.nodes.values()].filter((other) => other.type === node.type && other !== node);
      // The name of one of very many is typed.
      if (others.length > MOST_LISTED) return null;
      return { values: others.map((other) => other.name), optional: false };
    }
    case "optional": {
      const inner = choicesOf(kind.item, scene, node);
      return inner && { ...inner, optional: true };
    }
    default:
      return null;
  }
}

const NONE = "None";

function Choice({ property, value, set, reset, common, choices, isMixed }: ControlProps & { choices: Options }) {
  const usual = property.required ? null : textOf(property.type, property.default);
  const current = value === undefined ? "" : value === null ? NONE : String(value);
  const all = choices.optional ? [NONE, ...choices.values] : [...choices.values];
  // The default stands first and means that nothing is set, unless it was set on purpose.
  const others = all.filter((choice) => choice !== usual || choice === current);
  if (current !== "" && !others.includes(current)) others.push(current);
  return (
    <select
      {...common}
      value={current}
      onChange={({ target }) => {
        if (target.value === "") reset();
        else set(target.value === NONE && choices.optional ? null : target.value);
      }}
    >
      <option value="">{isMixed ? "mixed" : (usual ?? "choose…")}</option>
      {others.map((choice) => (
        <option key={choice} value={choice}>
          {choice}
        </option>
      ))}
    </select>
  );
}

function TextControl(props: ControlProps) {
  const { scene, property, value, resolved, set, reset, setReason, common, isMixed, onDone } = props;
  const stored = value === undefined ? "" : textOf(property.type, value);
  const [text, setText] = useState(stored);
  useEffect(() => setText(stored), [stored]);

  const read = (typed: string) => (typed.trim() === "" ? null : parseAs(property.type, typed, scene.document.sizes));
  const type = (typed: string) => {
    setText(typed);
    const parsed = read(typed);
    setReason(parsed && !parsed.ok ? parsed.reason : null);
  };
  /** Sets what was typed; returns whether it could be set. */
  const commit = (): boolean => {
    const parsed = read(text);
    if (parsed === null) {
      // An empty field of several nodes says that they differ, not that they should be reset.
      if (!isMixed) reset();
    } else if (parsed.ok) set(parsed.value);
    return parsed?.ok ?? true;
  };
  const revert = () => {
    setText(stored);
    setReason(null);
  };
  const step = (event: KeyboardEvent, by: number) => {
    if (!/^(int|float|number)$/.test(property.type.type)) return;
    const start = Number(text === "" ? (property.default ?? resolved ?? 0) : text);
    const next = parseAs(property.type, String(start + by));
    event.preventDefault();
    if (next.ok) type(String(next.value));
  };
  const auto = value === "auto" || (value === undefined && property.default === "auto");
  const inferred = auto && resolved !== undefined ? `auto: ${textOf(null, resolved)}` : "";
  const fallback = isMixed ? "mixed" : inferred || (property.required ? "" : textOf(property.type, property.default));
  const numeric = numericRange(property.type);
  return (
    <span className="pnne-text">
      <input
        {...common}
        {...numeric}
        type="text"
        value={text}
        placeholder={fallback}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => type(event.target.value)}
        onBlur={commit}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            if (commit()) onDone?.();
          } else if (event.key === "Escape") {
            revert();
            onDone?.();
          } else if (event.key === "ArrowUp") step(event, 1);
          else if (event.key === "ArrowDown") step(event, -1);
          else return;
          event.stopPropagation();
        }}
      />
      {value === "auto" && inferred && <small title="Worked out from what is connected">{inferred}</small>}
    </span>
  );
}

function numericRange(kind: PropertyType) {
  if (kind.type !== "int" && kind.type !== "float") return {};
  return {
    inputMode: kind.type === "int" ? ("numeric" as const) : ("decimal" as const),
    role: "spinbutton",
    "aria-valuemin": kind.minimum ?? undefined,
    "aria-valuemax": kind.maximum ?? undefined,
  };
}
