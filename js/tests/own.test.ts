import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
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

const path = fileURLToPath(new URL("../../tests/cases/own.json", import.meta.url));
const { cases } = JSON.parse(readFileSync(path, "utf8")) as { cases: Case[] };

describe("a node gets a definition of its own as in Python", () => {
  test.each(cases)("$about", ({ document, graph, node, after }) => {
    const before = fromState(document);
    expect(normal(applyOps(before, ownOps(before, graph, node)))).toEqual(normal(fromState(after)));
  });
});
