import type { NodeState } from "../../protocol";
import { definitionOf } from "./definitions";
import type { GraphDocument } from "./document";

/** A node where it is seen: under its path from the outermost graph. */
export interface Place {
  readonly path: string;
  readonly node: NodeState;
}

/** Definitions in definitions can be seen at more places than anybody could look through. */
const MOST_PLACES = 20_000;

/** Every node of a document at every place where it is seen, the outermost ones first. */
export function placesOf({ graphs }: GraphDocument, most = MOST_PLACES): Place[] {
  const places: Place[] = [];
  const left = [{ id: "", prefix: "" }];
  for (const { id, prefix } of left) {
    for (const node of graphs.get(id)?.nodes.values() ?? []) {
      if (places.length === most) return places;
      const path = prefix + node.name;
      places.push({ path, node });
      const inside = definitionOf(node);
      if (inside !== null) left.push({ id: inside, prefix: `${path}.` });
    }
  }
  return places;
}
