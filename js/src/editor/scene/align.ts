/** A node's centre and size. */
export interface Placed {
  readonly name: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export type Alignment = "left" | "centre" | "right" | "top" | "middle" | "bottom";

type Centres = Map<string, readonly [number, number]>;

/** New centres that bring one side or the middles of the nodes into one line. */
export function aligned(nodes: readonly Placed[], how: Alignment): Centres {
  const lefts = nodes.map((node) => node.x - node.width / 2);
  const rights = nodes.map((node) => node.x + node.width / 2);
  const tops = nodes.map((node) => node.y - node.height / 2);
  const bottoms = nodes.map((node) => node.y + node.height / 2);
  const [left, right, top, bottom] = [Math.min(...lefts), Math.max(...rights), Math.min(...tops), Math.max(...bottoms)];
  const place = ({ x, y, width, height }: Placed): [number, number] => {
    switch (how) {
      case "left":
        return [left + width / 2, y];
      case "right":
        return [right - width / 2, y];
      case "centre":
        return [(left + right) / 2, y];
      case "top":
        return [x, top + height / 2];
      case "bottom":
        return [x, bottom - height / 2];
      case "middle":
        return [x, (top + bottom) / 2];
    }
  };
  return new Map(nodes.map((node) => [node.name, place(node)]));
}

/** New centres with equal gaps between neighbours; the outermost nodes stay. */
export function distributed(nodes: readonly Placed[], axis: "x" | "y"): Centres {
  const size = axis === "x" ? "width" : "height";
  const sorted = [...nodes].sort((a, b) => a[axis] - b[axis]);
  const [first, last] = [sorted[0], sorted.at(-1)];
  if (!first || !last || sorted.length < 3) return new Map(nodes.map((node) => [node.name, [node.x, node.y]]));
  const span = last[axis] + last[size] / 2 - (first[axis] - first[size] / 2);
  const gap = (span - sorted.reduce((sum, node) => sum + node[size], 0)) / (sorted.length - 1);
  let next = first[axis] - first[size] / 2;
  return new Map(
    sorted.map((node) => {
      const at = next + node[size] / 2;
      next += node[size] + gap;
      return [node.name, axis === "x" ? [at, node.y] : [node.x, at]];
    }),
  );
}
