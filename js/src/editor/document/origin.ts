import type { NodeState, Proof } from "../../protocol";
import { isBox } from "./definitions";

/** The import's facts about a node. */
export interface Provenance {
  readonly proof: Proof | "pending";
  /** In words, for the card's tooltip, the panel and screen readers. */
  readonly text: string;
}

const EQUAL = "Imported: gave the same as the original when both ran";
const EDITED = "Imported, and changed since it was compared with the original";
const UNPROVED = "Imported, and not proved";
const NOT_CALLED = "Imported: was not called when both ran";

/** What a badge says while the proof of an import goes on: `unproved` in place of what it may prove. */
export function untilProved(origin: Provenance, unproved: string): Provenance {
  return unproved && origin.proof === "equal" ? { proof: "pending", text: unproved } : origin;
}

/** What is known of a node's origin; null for one that was drawn here, and for the ends of a graph. */
export function provenanceOf(node: NodeState): Provenance | null {
  const { origin } = node;
  if (!origin || node.type === "Input" || node.type === "Output") return null;
  const { proof, reason, called } = origin;
  switch (proof) {
    case "equal":
      return { proof, text: called === false ? NOT_CALLED : EQUAL };
    case "edited":
      return { proof, text: reason ? `${UNPROVED}: ${reason}` : EDITED };
    case "opaque": {
      const what = isBox(node)
        ? "Imported as a module that runs its own code on what is inside"
        : "Imported as one opaque node";
      return { proof, text: `${what}${reason ? `: ${reason}` : ""}` };
    }
    default: // what is pasted from elsewhere may say anything, until Python refuses it
      return null;
  }
}

/** The shape of an Input, with names in place of the numbers that its import was proved without. */
export function namedShape({ origin }: NodeState, shape: unknown): unknown {
  const free = origin?.sizes ?? [];
  if (!Array.isArray(shape) || free.length !== shape.length) return shape;
  return shape.map((size, axis) => (typeof size === "number" ? (free[axis]?.[0] ?? size) : size));
}
