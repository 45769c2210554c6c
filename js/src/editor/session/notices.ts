import type { Diagnostic } from "../../protocol";

/** Something to tell the person once. */
export interface Notice {
  readonly id: number;
  readonly text: string;
  readonly diagnostics: readonly Diagnostic[];
  /** What can be done about it with one click. */
  readonly offer: Offer | null;
}

export interface Offer {
  readonly label: string;
  readonly run: () => void;
}
