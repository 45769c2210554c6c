import { useStore } from "@xyflow/react";
import { type ReactNode, useMemo, useState } from "react";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import { boxOf } from "../scene/boxes";
import { pictureOf } from "../scene/picture";
import { SceneMaker, type ShownScene } from "../scene/scene";

const GAP = 14;
/** What stays free at the view's edges. */
const EDGE = 8;
const WIDTH = 320;
const HEIGHT = 340;
/** The picture is shown a little smaller than the graph around it: it is a look, not a place to work. */
const SCALE = 0.72;

/** What is inside a block, as a picture beside it: a look without leaving the graph. */
export function Peek() {
  const scene = useScene();
  const name = useView((view) => view.peek);
  const card = name === null ? undefined : scene?.cards.get(name);
  return scene && card && name !== null ? <Inside key={card.path} scene={scene} name={name} /> : null;
}

interface BesideProps {
  readonly scene: ShownScene;
  /** The card that it stands beside. */
  readonly card: string;
  readonly label: string;
  readonly title: string;
  readonly note: string;
  /** Buttons in its head. */
  readonly actions?: ReactNode;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** What is shown beside a card, where there is room, else on its other side; null where the card is not drawn. */
export function Beside({ scene, card, label, title, note, actions, onClose, children }: BesideProps) {
  const moving = useView((view) => view.moving);
  const [canvasX, canvasY, zoom] = useStore((flow) => flow.transform);
  const at = useEditor().layer()?.at ?? [0, 0];
  const [x, y] = [canvasX + at[0] * zoom, canvasY + at[1] * zoom];
  const [width, height] = [useStore((flow) => flow.width), useStore((flow) => flow.height)];
  const box = boxOf(scene, card, moving);
  if (!box) return null;
  const [before, after] = [x + box.left * zoom, x + (box.left + box.width) * zoom];
  const isRight = after + GAP + WIDTH <= width || width - after > before;
  const wanted = isRight ? Math.min(after + GAP, width - WIDTH - EDGE) : before - GAP - WIDTH;
  const left = Math.max(EDGE, wanted);
  const top = Math.max(EDGE, Math.min(y + box.top * zoom, height - HEIGHT - EDGE));
  return (
    <div
      className="pnne-peek nowheel nopan nodrag"
      role="dialog"
      aria-label={label}
      style={{ left, top, width: WIDTH, maxHeight: HEIGHT }}
    >
      <header>
        <b>{title}</b>
        <span>{note}</span>
        {actions}
        <button type="button" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      {children}
    </div>
  );
}

function Inside({ scene, name }: { scene: ShownScene; name: string }) {
  const editor = useEditor();
  const state = useSession((session) => session);
  const path = useView((view) => view.path);
  const [maker] = useState(() => new SceneMaker());
  const here = useMemo(() => [...path, name], [path, name]);
  const inside = useMemo(() => maker.make(state, here, new Set()), [maker, state, here]);
  const { derived, pictures } = state;
  const picture = useMemo(
    () => inside && editor.root && pictureOf(inside, { derived, pictures }, editor.root),
    [inside, derived, pictures, editor],
  );
  if (!inside || !picture) return null;
  const names = [...inside.cards.values()].map((card) => card.label).join("; ");
  const drawn = Number(/width="([\d.]+)"/.exec(picture)?.[1]) * SCALE;
  return (
    <Beside
      scene={scene}
      card={name}
      label={`Inside of ${name}`}
      title={name}
      note={`${inside.cards.size} ${inside.cards.size === 1 ? "node" : "nodes"}`}
      actions={
        <button type="button" className="pnne-fix" onClick={() => editor.enter(here)}>
          Enter
        </button>
      }
      onClose={() => editor.patch({ peek: null })}
    >
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a tall picture is scrolled by keyboard */}
      <section className="pnne-peek-picture" tabIndex={0} aria-label={`Picture of ${name}`}>
        {/* The graph has been drawn by this editor; as an image, nothing in it can run. */}
        <img src={`data:image/svg+xml,${encodeURIComponent(picture)}`} width={drawn} alt={names} />
      </section>
    </Beside>
  );
}
