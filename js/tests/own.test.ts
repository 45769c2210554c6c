import { describe, expect, test } from "vitest";
import given from "../../tests/cases/own.json";
import { ownOps } from "../src/editor/document/definitions";
import { fromState } from "../src/editor/document/document";
import { applyOps } from "../src/editor/document/reduce";
import type { DocumentState } from "../src/protocol";
import { normal } from "./normal";

interface Case {
  about: string;
  document: DocumentState;
  graph: string;
  node: string;
  after: DocumentState;
}

const cases = given.cases as unknown as Case[];

describe("a node gets a definition of its own as in Python", () => {
  test.each(cases)("$about", ({ document, graph, node, after }) => {
    const before = fromState(document);
    expect(normal(applyOps(before, ownOps(before, graph, node)))).toEqual(normal(fromState(after)));
  });
});
