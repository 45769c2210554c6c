import type { EdgeState, NodeState, NodeTypeState, Port, PortKind } from "../../protocol";
import { type GraphDocument, splitPort } from "./document";
import { UNWIRED } from "./wiring";

/** A port as a node shows it. */
export interface PortView {
  readonly name: string;
  readonly kind: PortKind;
  readonly optional: boolean;
  readonly wired: boolean;
  readonly doc: string;
}

export interface Ports {
  readonly inputs: readonly PortView[];
  readonly outputs: readonly PortView[];
}

export type NodeTypes = ReadonlyMap<string, NodeTypeState>;

/**
 * The ports of a node, in the order in which they are shown.
 *
 * A variadic input shows its wired slots, the gaps between them, and one spare slot; a property that
 * may be wired shows its port once it is; a Subgraph has the Input and Output nodes of its definition.
 */
export function portsOf(
  document: GraphDocument,
  node: NodeState,
  type: NodeTypeState | undefined,
  into: ReadonlyMap<string, EdgeState> = UNWIRED,
  outOf: readonly EdgeState[] = [],
): Ports {
  const declared = node.type === "Subgraph" ? definitionPorts(document, node) : type;
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
  const outputs = (declared?.outputs ?? []).map((port) => view(port.name, port, false));
  const offered = new Set(outputs.map((port) => port.name));
  for (const edge of outOf) {
    const name = splitPort(edge.source)[1];
    if (offered.has(name)) continue;
    offered.add(name);
    outputs.push(view(name, { name }, true));
  }
  return { inputs, outputs };
}

/** Whether an edge may run between ports of these kinds; mirrors `kinds_fit` in Python. */
export function kindsFit(source: PortKind, target: PortKind): boolean {
  const flows = (kind: PortKind) => kind === "tensor" || kind === "value";
  return source === target || (flows(source) && flows(target));
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

function definitionPorts(document: GraphDocument, node: NodeState): { inputs: Port[]; outputs: Port[] } {
  const definition = document.graphs.get(String(node.properties?.definition ?? ""));
  const inputs: Port[] = [];
  const outputs: Port[] = [];
  if (definition && node.properties?.definition) {
    for (const inner of definition.nodes.values()) {
      if (inner.type === "Input") inputs.push({ name: inner.name });
      else if (inner.type === "Output") outputs.push({ name: inner.name });
    }
  }
  return { inputs, outputs };
}

function view(name: string, port: Port, wired: boolean): PortView {
  return { name, kind: port.kind ?? "tensor", optional: port.optional ?? false, wired, doc: port.doc ?? "" };
}
