import { MY_BLOCKS, type NodeState, type NodeTypeState, type Op, TEMPLATES } from "../../protocol";
import { definitionOf, usesOf } from "./definitions";
import { type GraphDocument, graphAt } from "./document";
import { definitionOps, fragmentOf, pasteOps } from "./fragment";
import { type Ports, portsOf } from "./ports";

/** No node type is called so. */
const PREFIX = "block:";
const TEMPLATE = "template:";

/** The templates as the palette offers them. */
export function templateTypes(library: GraphDocument): NodeTypeState[] {
  return blockTypes(library).map((block) => ({
    ...block,
    type: TEMPLATE + shownType(block.type),
    category: TEMPLATES,
    doc: `A network to begin with: in an empty graph, all ${sizeOf(library, shownType(block.type))} nodes of it; else one block.`,
  }));
}

/** The name of a template that the palette offers as a type; null for any other type. */
export function templateNamed(type: string): string | null {
  return type.startsWith(TEMPLATE) ? type.slice(TEMPLATE.length) : null;
}

function sizeOf(library: GraphDocument, id: string): number {
  return library.graphs.get(id)?.nodes.size ?? 0;
}

/** The blocks as the palette offers them: like node types, of a category of their own. */
export function blockTypes(library: GraphDocument): NodeTypeState[] {
  return [...(library.graphs.get("")?.nodes.values() ?? [])].flatMap((node): NodeTypeState[] => {
    const definition = definitionOf(node);
    if (definition === null) return [];
    const ports = portsOf(library, node, undefined);
    const doc = `A block of ${sizeOf(library, definition)} nodes that you have published.`;
    return [{ type: PREFIX + node.name, category: MY_BLOCKS, kind: "structural", ...ports, doc }];
  });
}

/** What the palette calls a type. */
export function shownType(type: string): string {
  return type.startsWith(PREFIX) ? type.slice(PREFIX.length) : (templateNamed(type)?.replaceAll("_", " ") ?? type);
}

/** A node to add: its type, its ports, and the ops that must come first. */
export interface Fresh {
  readonly type: string;
  readonly properties: NonNullable<NodeState["properties"]>;
  readonly ports: Ports;
  readonly before: readonly Op[];
}

/** What adding a block to a graph takes: its definition, unless an equal one is there; null for a node type. */
export function freshBlock(type: string, library: GraphDocument, document: GraphDocument, graph: string): Fresh | null {
  const name = templateNamed(type) ?? shownType(type);
  const root = library.graphs.get("");
  const node = type === name ? undefined : root?.nodes.get(name);
  if (!root || !node) return null;
  const fragment = fragmentOf(library, root, new Set([name]), new Set());
  const { ops, ids } = definitionOps(fragment, document, graph);
  const definition = ids.get(definitionOf(node) ?? "") ?? "";
  return { type: "Subgraph", properties: { definition }, ports: portsOf(library, node, undefined), before: ops };
}

/** The ops that draw a template node by node in a graph, and the names of its nodes; null for an unknown template. */
export function templateOps(
  template: string,
  library: GraphDocument,
  document: GraphDocument,
  graph: string,
): { ops: readonly Op[]; names: readonly string[] } | null {
  const drawn = library.graphs.get(template);
  if (!drawn) return null;
  const fragment = fragmentOf(library, drawn, new Set(drawn.nodes.keys()), new Set());
  return pasteOps(fragment, document, graph, [0, 0]);
}

/** The block that a view is inside, when other nodes show the same definition: an edit there changes them all. */
export function sharedWith(document: GraphDocument, path: readonly string[]): { name: string; uses: number } | null {
  const place = innermost(document, path);
  const uses = place ? (usesOf(document).get(place.definition) ?? 0) : 0;
  return place && uses > 1 ? { name: place.definition, uses } : null;
}

/** The last node of a path: its graph, and the definition that it shows. */
export function innermost(
  document: GraphDocument,
  path: readonly string[],
): { graph: string; node: string; definition: string } | null {
  const [graph, node, definition] = [graphAt(document, path.slice(0, -1)), path.at(-1), graphAt(document, path)];
  return graph === null || node === undefined || definition === null ? null : { graph, node, definition };
}
