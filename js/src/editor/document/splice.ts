import type { EdgeState, Op } from "../../protocol";
import { findPort, matchPorts, type Scene } from "./connection";
import { nodeOf } from "./document";
import { kindsFit, type Ports } from "./ports";

/** The edge between `port` and whichever port of another node takes it; that node need not be in the graph yet. */
export function edgeFrom(
  scene: Scene,
  port: string,
  side: "input" | "output",
  other: string,
  theirs: Ports,
): EdgeState | null {
  const mine = findPort(scene, port, `${side}s`);
  if (!mine) return null;
  return side === "output"
    ? matchPorts(nodeOf(port), { inputs: [], outputs: [mine] }, other, theirs)
    : matchPorts(other, theirs, nodeOf(port), { inputs: [mine], outputs: [] });
}

/** The ops that put a node into an edge, or null when it does not fit there. */
export function insertOps(scene: Scene, name: string, ports: Ports, edge: EdgeState, graph: string): Op[] | null {
  if (nodeOf(edge.source) === name || nodeOf(edge.target) === name) return null;
  const into = edgeFrom(scene, edge.source, "output", name, ports);
  const kind = findPort(scene, edge.target, "inputs")?.kind;
  const out = kind && ports.outputs.find((candidate) => kindsFit(candidate.kind, kind));
  if (!into || !out) return null;
  return [
    { op: "disconnect", ...edge, graph },
    { op: "connect", ...into, graph },
    { op: "connect", source: `${name}.${out.name}`, target: edge.target, graph },
  ];
}

/** The edges that close the gap which removed nodes leave, when one thing went in; none otherwise. */
export function bridges(scene: Scene, removed: ReadonlySet<string>): EdgeState[] {
  const edges = [...scene.graph.edges.values()];
  const into = edges.filter((edge) => removed.has(nodeOf(edge.target)) && !removed.has(nodeOf(edge.source)));
  const [source] = new Set(into.map((edge) => edge.source));
  if (source === undefined || into.some((edge) => edge.source !== source)) return [];
  const kind = findPort(scene, source, "outputs")?.kind;
  return edges
    .filter((edge) => removed.has(nodeOf(edge.source)) && !removed.has(nodeOf(edge.target)))
    .filter((edge) => {
      const wanted = findPort(scene, edge.target, "inputs")?.kind;
      return kind && wanted && kindsFit(kind, wanted);
    })
    .map((edge) => ({ source, target: edge.target }));
}
