import { useStore } from "@xyflow/react";
import { useMemo, useState } from "react";
import { useEditor, useSession, useView } from "../commands/context";
import { boxesOf } from "../scene/boxes";
import { pictureOf } from "../scene/picture";
import { SceneMaker, type ShownScene } from "../scene/scene";

const GAP = 14;
const WIDTH = 320;
const HEIGHT = 340;
/** The picture is shown a little smaller than the graph around it: it is a look, not a place to work. */
const SCALE = 0.72;

/** What is inside a block, as a picture beside it: a look without leaving the graph. */
export function Peek({ scene }: { scene: ShownScene }) {
  const name = useView((view) => view.peek);
  const card = name === null ? undefined : scene.cards.get(name);
  return card && name !== null ? <Inside key={card.path} scene={scene} name={name} /> : null;
}

function Inside({ scene, name }: { scene: ShownScene; name: string }) {
  const editor = useEditor();
  const state = useSession((session) => session);
  const path = useView((view) => view.path);
  const moving = useView((view) => view.moving);
  const [maker] = useState(() => new SceneMaker());
  const [x, y, zoom] = useStore((flow) => flow.transform);
  const [width, height] = [useStore((flow) => flow.width), useStore((flow) => flow.height)];
  const here = useMemo(() => [...path, name], [path, name]);
  const inside = useMemo(() => maker.make(state, here, new Set()), [maker, state, here]);
  const picture = useMemo(
    () => inside && editor.root && pictureOf(inside, state.derived.shapes, editor.root),
    [inside, state.derived.shapes, editor],
  );
  const box = boxesOf(scene, moving).find((candidate) => candidate.name === name);
  if (!box || !inside || !picture) return null;
  // Beside the block where there is room, else on its other side.
  const right = x + (box.left + box.width) * zoom + GAP;
  const left = right + WIDTH > width ? Math.max(8, x + box.left * zoom - GAP - WIDTH) : right;
  const top = Math.max(8, Math.min(y + box.top * zoom, height - HEIGHT - 8));
  const names = [...inside.cards.values()].map((card) => card.label).join("; ");
  const drawn = Number(/width="([\d.]+)"/.exec(picture)?.[1]) * SCALE;
  return (
    <div
      className="pnne-peek nowheel nopan nodrag"
      role="dialog"
      aria-label={`Inside of ${name}`}
      style={{ left, top, width: WIDTH, maxHeight: HEIGHT }}
    >
      <header>
        <b>{name}</b>
        <span>
          {inside.cards.size} {inside.cards.size === 1 ? "node" : "nodes"}
        </span>
        <button type="button" className="pnne-fix" onClick={() => editor.enter(here)}>
          Enter
        </button>
        <button type="button" aria-label="Close" onClick={() => editor.patch({ peek: null })}>
          ×
        </button>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a tall picture is scrolled by keyboard */}
      <section className="pnne-peek-picture" tabIndex={0} aria-label={`Picture of ${name}`}>
        {/* The graph has been drawn by this editor; as an image, nothing in it can run. */}
        <img src={`data:image/svg+xml,${encodeURIComponent(picture)}`} width={drawn} alt={names} />
      </section>
    </div>
  );
}
