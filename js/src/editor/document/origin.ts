import type { NodeState, Proof } from "../../protocol";
import { isBox } from "./definitions";

/** The import's facts about a node. */
export interface Provenance {
  readonly proof: Proof;
  /** In words, for the card's tooltip, the panel and screen readers. */
  readonly text: string;
}

const EQUAL = "Imported: it gave the same as the original when both were run";
const EDITED = "Imported, and changed since: the comparison with the original was made before that";
const FAILED = "Imported, and compared with nothing, because the original fails";
const NOT_CALLED = "Imported: was not called when the model was compared with the original";

/** What is known of a node's origin; null for one that was drawn here, and for the ends of a graph. */
export function provenanceOf(node: NodeState): Provenance | null {
  const { origin } = node;
  if (!origin || node.type === "Input" || node.type === "Output") return null;
  const { proof, reason, called } = origin;
  switch (proof) {
    case "equal":
      return { proof, text: called === false ? NOT_CALLED : EQUAL };
    case "edited":
      return { proof, text: reason ? `${FAILED}: ${reason}` : EDITED };
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
