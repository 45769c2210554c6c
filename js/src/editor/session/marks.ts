import type { NodeMark } from "../../protocol";

/** What the cards of nodes are marked with, by path. */
export type Lens = ReadonlyMap<string, NodeMark>;

const LEVELS: readonly NodeMark["level"][] = ["plain", "good", "near", "warning", "bad"];

/** A block is as bad as the worst node inside it. */
export function withBlocks(lens: Lens): Lens {
  const whole = new Map(lens);
  for (const [path, mark] of lens) {
    for (let end = path.lastIndexOf("."); end > 0; end = path.lastIndexOf(".", end - 1)) {
      const block = path.slice(0, end);
      const known = whole.get(block);
      if (known && LEVELS.indexOf(known.level) >= LEVELS.indexOf(mark.level)) continue;
      whole.set(block, { ...mark, title: `${path}: ${mark.title}` });
    }
  }
  return whole;
}
