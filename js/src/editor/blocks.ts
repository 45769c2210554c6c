import type { Op } from "../protocol";
import { addGraphOps, definitionOf, usesOf } from "./document/definitions";
import type { Graph, GraphDocument } from "./document/document";
import { freeIdentifier } from "./document/names";
import type { Editor } from "./editor";

/** The block that a view is inside of, when other nodes show the same definition: an edit there changes them all. */
export function sharedWith(document: GraphDocument, path: readonly string[]): { name: string; uses: number } | null {
  const place = innermost(document, path);
  const uses = place ? (usesOf(document).get(place.definition) ?? 0) : 0;
  return place && uses > 1 ? { name: place.definition, uses } : null;
}

/** Gives the node that a view is inside of a definition of its own. */
export function makeOwn(editor: Editor): void {
  const scene = editor.scene();
  const { path } = editor.view.get();
  const place = scene && innermost(scene.document, path);
  if (!scene || !place) return;
  const { graph, node, definition } = place;
  const own = freeIdentifier(definition, scene.document.graphs);
  const ops: Op[] = addGraphOps(own, scene.document.graphs.get(definition) as Graph, new Map());
  // Weights can be shared only by nodes that show the same.
  if (scene.document.graphs.get(graph)?.nodes.get(node)?.properties?.shares != null)
    ops.push({ op: "resetProperty", node, property: "shares", graph });
  ops.push({ op: "setProperty", node, property: "definition", value: own, graph });
  editor.edit(ops, `Make ${node} its own`);
}

/** The last node of a path: the graph that it stands in, and the definition that it shows. */
function innermost(
  { graphs }: GraphDocument,
  path: readonly string[],
): { graph: string; node: string; definition: string } | null {
  let place = null;
  let graph = "";
  for (const node of path) {
    const found = graphs.get(graph)?.nodes.get(node);
    const definition = found ? definitionOf(found) : null;
    if (definition === null) return null;
    place = { graph, node, definition };
    graph = definition;
  }
  return place;
}
