import { expect, test } from "vitest";
import type { Graph, GraphDocument } from "../src/editor/document/document";
import { fromState } from "../src/editor/document/document";
import { applyOps } from "../src/editor/document/reduce";
import { columnsOf } from "../src/editor/document/wiring";
import type { Op } from "../src/protocol";
import { chain, documentOf } from "./openEditor";

/** The columns of a graph that nothing is known of. */
function fresh({ nodes, edges, frames }: Graph) {
  return columnsOf({ nodes: new Map(nodes), edges: new Map(edges), frames });
}

test("the columns of an edited graph are those of a new one that is equal", () => {
  const state = chain("x Input", "a ReLU", "b ReLU", "c ReLU", "d ReLU");
  let document: GraphDocument = fromState(documentOf({ "": state }));
  const root = () => document.graphs.get("") as Graph;
  const [first, second] = [...root().edges.values()].slice(1, 3) as [{ source: string; target: string }, never];
  const edits: Op[][] = [
    [{ op: "moveNode", name: "b", position: [7, 8] }],
    [{ op: "disconnect", ...first }],
    [
      { op: "disconnect", ...(second as { source: string; target: string }) },
      { op: "connect", source: "a.output", target: "c.input" },
    ],
    [{ op: "connect", ...first }],
    [{ op: "addNode", name: "e", type: "ReLU", properties: {}, position: [0, 9] }],
    [{ op: "connect", source: "d.output", target: "e.input" }],
    [{ op: "removeNode", name: "c" }],
  ];
  columnsOf(root());
  for (const ops of edits) {
    document = applyOps(document, ops);
    expect(columnsOf(root()), JSON.stringify(ops)).toEqual(fresh(root()));
    expect(columnsOf(root())).toBe(columnsOf(root()));
  }
});
