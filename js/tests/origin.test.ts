import { describe, expect, test } from "vitest";
import { namedShape, provenanceOf, untilProved } from "../src/editor/document/origin";
import type { NodeState, Origin } from "../src/protocol";

const node = (origin: Origin | null, type = "ReLU"): NodeState => ({ name: "a", type, origin });

describe("what the badge of a node says", () => {
  test("it was proved equal", () => {
    expect(provenanceOf(node({ proof: "equal", member: 0 }))).toEqual({
      proof: "equal",
      text: expect.stringContaining("gave the same as the original"),
    });
  });
  test("it was never called", () => {
    expect(provenanceOf(node({ proof: "equal", called: false }))?.text).toContain("was not called");
  });
  test("it has been changed since, whether it was called or not", () => {
    for (const called of [true, false]) {
      expect(provenanceOf(node({ proof: "edited", called }))).toEqual({
        proof: "edited",
        text: expect.stringContaining("changed since"),
      });
    }
  });
  test("it was never compared, because the original fails", () => {
    const found = provenanceOf(node({ proof: "edited", reason: "shapes do not fit (net.py, line 3)" }));
    expect(found?.text).toMatch(/not proved: shapes do not fit \(net\.py, line 3\)$/);
  });
  test("it is being proved, unless it is known already what it is", () => {
    const equal = provenanceOf(node({ proof: "equal" }));
    const kept = provenanceOf(node({ proof: "opaque" }, "Module"));
    if (!equal || !kept) throw new Error("both have an origin");
    expect(untilProved(equal, "Being proved")).toEqual({ proof: "pending", text: "Being proved" });
    expect(untilProved(equal, "")).toBe(equal);
    expect(untilProved(kept, "Being proved")).toBe(kept);
  });
  test("it is kept as it was, and why", () => {
    const found = provenanceOf(node({ proof: "opaque", reason: "its forward depends on data" }, "Module"));
    expect(found).toEqual({ proof: "opaque", text: "Imported as one opaque node: its forward depends on data" });
  });
  test("nothing, of what was drawn here, of a graph's ends, and of what this page does not know", () => {
    expect(provenanceOf(node(null))).toBeNull();
    expect(provenanceOf(node({ proof: "equal" }, "Input"))).toBeNull();
    expect(provenanceOf(node({ proof: "edited" }, "Output"))).toBeNull();
    for (const pasted of [{ proof: "sealed" }, "equal", 3]) {
      expect(provenanceOf(node(pasted as unknown as Origin))).toBeNull();
    }
  });
});

test("sizes that a proof varied have names, except where another shape was given since", () => {
  const sizes = [["N", 3], null] as const;
  expect(namedShape(node({ proof: "equal", sizes }, "Input"), [2, 8])).toEqual(["N", 8]);
  expect(namedShape(node({ proof: "equal", sizes }, "Input"), ["B", 8])).toEqual(["B", 8]);
  expect(namedShape(node({ proof: "equal", sizes }, "Input"), [2, 8, 4])).toEqual([2, 8, 4]);
  expect(namedShape(node(null, "Input"), [2, 8])).toEqual([2, 8]);
});
