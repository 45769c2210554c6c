import type { EdgeState, NodeState, Op } from "../../protocol";
import { reach } from "./cycles";
import { type Graph, type GraphDocument, nodeOf, splitPort } from "./document";
import { kindsFit, type NodeTypes, type Ports, type PortView, portsOf } from "./ports";
import { wiringOf } from "./wiring";

/** One graph of a document, with the definitions and types of its nodes. */
export interface Scene {
  readonly document: GraphDocument;
  readonly graph: Graph;
  readonly types: NodeTypes;
  /** Properties that are shown as ports although nothing feeds them, as `"node.property"`. */
  readonly exposed?: ReadonlySet<string>;
}

export function portsIn(scene: Scene, node: NodeState): Ports {
  const { into, outOf } = wiringOf(scene.graph);
  const type = scene.types.get(node.type);
  return portsOf(scene.document, node, type, into.get(node.name), outOf.get(node.name), scene.exposed);
}

/**
 * Why no edge can run from output `source` to input `target` (both `"node.port"`), or null when one can.
 *
 * What feeds `target` already is no reason: the new edge takes its place (`connectOps`).
 */
export function whyNotConnect(scene: Scene, source: string, target: string): string | null {
  return refusalsFrom(scene, source, "output")(target);
}

/** Answers, for a connection that starts at `port`, why it cannot end at another port (null: it can). */
export function refusalsFrom(scene: Scene, port: string, side: "input" | "output"): (other: string) => string | null {
  return (other) => {
    const [source, target] = side === "output" ? [port, other] : [other, port];
    const [from, to] = [nodeOf(source), nodeOf(target)];
    if (from === to) return "A node cannot feed itself.";
    const sourcePort = findPort(scene, source, "outputs");
    const targetPort = findPort(scene, target, "inputs");
    if (!sourcePort) return `${source} is not an output.`;
    if (!targetPort) return `${target} is not an input.`;
    if (scene.graph.edges.get(target)?.source === source) return "They are connected already.";
    if (!kindsFit(sourcePort.kind, targetPort.kind)) {
      return `${source} gives ${article(sourcePort.kind)}, but ${target} takes ${article(targetPort.kind)}.`;
    }
    const reached = reach(scene.graph, nodeOf(port), side === "output" ? "upstream" : "downstream");
    if (reached.has(nodeOf(other))) return `${to} already leads to ${from}: the edge would close a loop.`;
    return null;
  };
}

/** The ops that connect two ports; an input accepts one edge, so that what fed `target` goes. */
export function connectOps({ graph }: Scene, source: string, target: string, graphId: string): Op[] {
  const before = graph.edges.get(target);
  const connect: Op = { op: "connect", source, target, graph: graphId };
  return before ? [{ op: "disconnect", ...before, graph: graphId }, connect] : [connect];
}

/** The first free pair of ports that match; the nodes need not be in the graph yet. */
export function matchPorts(from: string, source: Ports, to: string, target: Ports): EdgeState | null {
  for (const output of source.outputs) {
    for (const required of [true, false]) {
      const input = target.inputs.find(
        (port) => !port.wired && port.optional !== required && kindsFit(output.kind, port.kind),
      );
      if (input) return { source: `${from}.${output.name}`, target: `${to}.${input.name}` };
    }
  }
  return null;
}

/** The port of an address; undefined where the graph has none. */
export function findPort(scene: Scene, address: string, side: keyof Ports): PortView | undefined {
  const [name, port] = splitPort(address);
  const node = scene.graph.nodes.get(name);
  return node && portsIn(scene, node)[side].find((candidate) => candidate.name === port);
}

function article(kind: string): string {
  if (kind === "parameters") return "parameters";
  return /^[aeiou]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}
