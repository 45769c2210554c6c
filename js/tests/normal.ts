import type { GraphDocument } from "../src/editor/document/document";

/** What two equal documents have in common: the order of edges and of properties means nothing. */
export function normal(document: GraphDocument) {
  return {
    sizes: document.sizes ?? {},
    name: document.name,
    graphs: Object.fromEntries(
      [...document.graphs].map(([id, graph]) => [
        id,
        {
          nodes: [...graph.nodes.values()].map(({ name, type, properties, position, origin, collapsed }) => ({
            name,
            type,
            properties: properties ?? {},
            position: position ?? null,
            origin: origin ?? null,
            collapsed: collapsed ?? false,
          })),
          frames: [...graph.frames.values()]
            .map(({ name, box, title = "", text = "", colour = "grey" }) => ({ name, box, title, text, colour }))
            .sort((a, b) => (a.name < b.name ? -1 : 1)),
          edges: [...graph.edges.values()].map((edge) => `${edge.source} ${edge.target}`).sort(),
        },
      ]),
    ),
  };
}
