import type { NodeState } from "../../protocol";
import { isBox } from "./definitions";

/** What is known about a node of an imported model. */
export interface Origin {
  /** `edited`: the proof spoke of what it was, and it, what feeds it or what is inside it has been changed since. */
  readonly proof: "equal" | "edited" | "opaque";
  /** In words, for the card's tooltip, the panel and screen readers. */
  readonly text: string;
}

const EQUAL = "Imported: it gave the same as the original when both were run";
const EDITED = "Imported, and changed since: the comparison with the original was made before that";
const NOT_CALLED = "Imported: was not called when the model was compared with the original";

/** Where a node came from; null for one that was drawn here, and for the ends of a graph, which have no original. */
export function originOf(node: NodeState): Origin | null {
  const { origin } = node;
  if (typeof origin !== "object" || origin === null || node.type === "Input" || node.type === "Output") return null;
  const { proof, reason, called } = origin as { proof?: unknown; reason?: unknown; called?: unknown };
  if (proof === "equal") return { proof, text: called === false ? NOT_CALLED : EQUAL };
  if (proof === "edited") return { proof, text: EDITED };
  if (proof !== "opaque") return null;
  const what = isBox(node)
    ? "Imported as a module that runs its own code on what is inside"
    : "Imported as one opaque node";
  return { proof, text: `${what}${typeof reason === "string" ? `: ${reason}` : ""}` };
}
