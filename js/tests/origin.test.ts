import { describe, expect, test } from "vitest";
import { originOf } from "../src/editor/document/origin";
import type { Json, NodeState } from "../src/protocol";

const node = (origin: Json, type = "ReLU"): NodeState => ({ name: "a", type, origin });

describe("what the badge of a node says", () => {
  test("it was proved equal", () => {
    expect(originOf(node({ proof: "equal", member: 0 }))).toEqual({
      proof: "equal",
      text: expect.stringContaining("gave the same as the original"),
    });
  });
  test("it was never called", () => {
    expect(originOf(node({ proof: "equal", called: false }))?.text).toContain("was not called");
  });
  test("it has been changed since, whether it was called or not", () => {
    for (const origin of [{ proof: "edited" }, { proof: "edited", called: false }]) {
      expect(originOf(node(origin))).toEqual({ proof: "edited", text: expect.stringContaining("changed since") });
    }
  });
  test("it is kept as it was, and why", () => {
    const found = originOf(node({ proof: "opaque", reason: "its forward depends on data" }, "Module"));
    expect(found).toEqual({ proof: "opaque", text: "Imported as one opaque node: its forward depends on data" });
  });
  test("nothing, of what was drawn here, of a graph's ends, and of what this page does not know", () => {
    expect(originOf(node(null))).toBeNull();
    expect(originOf(node({ proof: "equal" }, "Input"))).toBeNull();
    expect(originOf(node({ proof: "edited" }, "Output"))).toBeNull();
    expect(originOf(node({ proof: "sealed" }))).toBeNull();
    expect(originOf(node("equal"))).toBeNull();
  });
});
