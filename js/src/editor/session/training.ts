import type { LayerFault, LayerState, Training } from "../../protocol";

export interface LiveTraining {
  readonly tick: number;
  readonly step: number;
  readonly layers: Readonly<Record<string, LayerState>>;
  /** Least and largest gradient norm along an edge; null while none is known. */
  readonly range: readonly [number, number] | null;
  /** Faults by node path; the object stays the same while they do. */
  readonly faulty: ReadonlyMap<string, LayerFault["kind"]>;
}

export const HEALTHY: ReadonlyMap<string, LayerFault["kind"]> = new Map();

/** Takes over a picture; null where it shows nothing. */
export function liveTraining(picture: Training, earlier: LiveTraining | null): LiveTraining | null {
  const layers = Object.entries(picture.layers ?? {});
  if (layers.length === 0) return null;
  const flows = layers.flatMap(([, layer]) => (layer.flow ? [layer.flow] : []));
  const faulty = new Map<string, LayerFault["kind"]>();
  for (const [path, { fault }] of layers) if (fault) faulty.set(path, fault.kind);
  return {
    tick: picture.tick,
    step: picture.step,
    layers: picture.layers,
    range: flows.length > 0 ? [Math.min(...flows), Math.max(...flows)] : null,
    faulty: sameMap(faulty, earlier?.faulty ?? HEALTHY) ? (earlier?.faulty ?? HEALTHY) : faulty,
  };
}

export function picturesOf({ pictures = {} }: Training, earlier: ReadonlySet<string>) {
  const paths = Object.keys(pictures);
  const isSame = paths.length === earlier.size && paths.every((path) => earlier.has(path));
  return { pictures, pictured: isSame ? earlier : new Set(paths) };
}

/** How strong a gradient is among those that are shown, 0 to 1, by its magnitude. */
export function strength(flow: number, range: LiveTraining["range"]): number {
  if (!range || flow <= 0) return 0;
  const [low, high] = [Math.log(range[0]), Math.log(range[1])];
  return high - low < 1e-6 ? 0.5 : (Math.log(flow) - low) / (high - low);
}

function sameMap(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}
