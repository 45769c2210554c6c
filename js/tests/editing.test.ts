import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { fromState } from "../src/editor/document/document";
import { applyOps, Refusal } from "../src/editor/document/reduce";
import type { DocumentState, Op } from "../src/protocol";
import { normal } from "./normal";

interface Step {
  ops?: Op[];
  expect: "committed" | "rejected";
  document?: DocumentState;
}
interface Case {
  name: string;
  document: DocumentState;
  steps: Step[];
}

/** The cases that are kept, or those that a test of Python's has just made. */
const folder = process.env.PNNE_CASES ?? fileURLToPath(new URL("../../tests/cases/editing", import.meta.url));
const cases = readdirSync(folder)
  .filter((file) => file.endsWith(".json"))
  .map((file) => JSON.parse(readFileSync(join(folder, file), "utf8")) as Case);

describe("the reducer does what Python's document does", () => {
  test.each(cases)("$name", ({ document, steps }) => {
    let current = fromState(document);
    for (const step of steps) {
      const before = normal(current);
      if (!step.ops) {
        // Undo and redo are Python's: their outcome arrives as ops of a commit.
        if (step.document) current = fromState(step.document);
        continue;
      }
      if (step.expect === "rejected") {
        expect(() => applyOps(current, step.ops as Op[]), JSON.stringify(step.ops)).toThrow(Refusal);
      } else {
        const next = applyOps(current, step.ops);
        expect(normal(next), JSON.stringify(step.ops)).toEqual(normal(fromState(step.document as DocumentState)));
        expect(normal(current)).toEqual(before);
        current = next;
      }
    }
  });
});
