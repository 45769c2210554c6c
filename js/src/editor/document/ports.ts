import { type EdgeState, KEYWORDS, type NodeState, type NodeTypeState, type Port, type PortKind } from "../../protocol";
import { definitionOf, interfaceOf } from "./definitions";
import { type GraphDocument, splitPort } from "./document";
import { UNWIRED } from "./wiring";

export interface PortView {
  readonly name: string;
  readonly kind: PortKind;
  readonly optional: boolean;
  readonly wired: boolean;
  readonly doc: string;
  /** Where it is in the document, if that is not on the node that shows it. */
  readonly address?: string;
}

export interface Ports {
  readonly inputs: readonly PortView[];
  readonly outputs: readonly PortView[];
}

const NOT_EXPOSED: ReadonlySet<string> = new Set();

export type NodeTypes = ReadonlyMap<string, NodeTypeState>;

/**
 * The ports of a node, in the order in which they are shown.
 *
 * A variadic input shows its wired slots, the gaps between them, and one spare slot; a property that
 * may be wired shows its port once it is or is `exposed` (`"node.property"`); a Subgraph has the Input and Output nodes of its definition.
 */
export function portsOf(
  document: GraphDocument,
  node: NodeState,
  type: NodeTypeState | undefined,
  into: ReadonlyMap<string, EdgeState> = UNWIRED,
  outOf: readonly EdgeState[] = [],
  exposed: ReadonlySet<string> = NOT_EXPOSED,
): Ports {
  const declared = declaredPorts(document, node, type);
  const inputs: PortView[] = [];
  const shown = new Set<string>();
  const add = (name: string, port: Port) => {
    shown.add(name);
    inputs.push(view(name, port, into.has(name)));
  };
  for (const port of declared?.inputs ?? []) {
    if (!port.variadic) add(port.name, port);
    else for (let index = 0; index <= slots(port.name, into); index += 1) add(`${port.name}_${index}`, port);
  }
  for (const name of into.keys()) {
    if (shown.has(name)) continue;
    const property = type?.properties?.find((candidate) => candidate.name === name);
    add(name, { name, kind: property ? "value" : "tensor", optional: true, doc: property?.doc ?? "" });
  }
  for (const property of exposed.size > 0 ? (type?.properties ?? []) : []) {
    if (shown.has(property.name) || !exposed.has(`${node.name}.${property.name}`)) continue;
    add(property.name, { name: property.name, kind: "value", optional: true, doc: property.doc ?? "" });
  }
  const outputs = (declared?.outputs ?? [])
    .filter((port) => !port.when || differs(node, type, port.when))
    .map((port) => view(port.name, port, false));
  const offered = new Set(outputs.map((port) => port.name));
  for (const edge of outOf) {
    const name = splitPort(edge.source)[1];
    if (offered.has(name)) continue;
    offered.add(name);
    outputs.push(view(name, { name }, true));
  }
  return { inputs, outputs };
}

/** Whether an edge may run between ports of these kinds; `tests/cases/kinds.json` compares with Python. */
export function kindsFit(source: PortKind, target: PortKind): boolean {
  const flows = (kind: PortKind) => kind === "tensor" || kind === "value";
  return source === target || (flows(source) && (flows(target) || target === "loss"));
}

/** One past the highest wired index of a variadic port. */
function slots(name: string, into: ReadonlyMap<string, EdgeState>): number {
  let next = 0;
  for (const port of into.keys()) {
    const cut = port.lastIndexOf("_");
    const index = port.slice(cut + 1);
    if (port.slice(0, cut) === name && /^\d+$/.test(index)) next = Math.max(next, Number(index) + 1);
  }
  return next;
}

type Declared = Pick<NodeTypeState, "inputs" | "outputs">;

function declaredPorts(
  document: GraphDocument,
  node: NodeState,
  type: NodeTypeState | undefined,
): Declared | undefined {
  if (node.type === "Subgraph") {
    const id = definitionOf(node);
    const named = (kind: "Input" | "Output") => interfaceOf(document.graphs, id, kind).map(valuePort);
    return { inputs: named("Input"), outputs: named("Output") };
  }
  if (node.type === "Module") {
    const listed = (property: string) => {
      const declared = type?.properties?.find(({ name }) => name === property);
      const names = node.properties?.[property] ?? declared?.default;
      const listed = Array.isArray(names) ? names : [];
      return listed.filter((name) => typeof name === "string" && name !== KEYWORDS).map(valuePort);
    };
    return { inputs: listed("inputs"), outputs: listed("outputs") };
  }
  return type;
}

function valuePort(name: string): Port {
  return { name, kind: "value" };
}

/** Whether a property was set to something else than its default, so that the ports which depend on it exist. */
function differs(node: NodeState, type: NodeTypeState | undefined, name: string): boolean {
  const given = node.properties?.[name];
  const declared = type?.properties?.find((property) => property.name === name);
  return given !== undefined && JSON.stringify(given) !== JSON.stringify(declared?.default ?? null);
}

function view(name: string, port: Port, wired: boolean): PortView {
  return { name, kind: port.kind ?? "tensor", optional: port.optional ?? false, wired, doc: port.doc ?? "" };
}
