import type { NodeState } from "../../protocol";
import { useEditor } from "../commands/context";
import { togglePeek } from "../commands/gestures";
import { boxAround } from "../document/definitions";
import { provenanceOf } from "../document/origin";
import type { ShownScene } from "../scene/scene";

/** The buttons that enter a block, and that show its contents beside it. */
export function WaysInside({ node }: { node: NodeState }) {
  const editor = useEditor();
  return (
    <>
      <button type="button" className="pnne-fix" onClick={() => editor.enter([...editor.view.get().path, node.name])}>
        Enter
      </button>
      <button type="button" className="pnne-fix" onClick={() => togglePeek(editor, node.name)}>
        Look inside
      </button>
    </>
  );
}

/** The form of a module that runs its own code. */
export function BoxForm({ node }: { node: NodeState }) {
  return (
    <section className="pnne-block-form pnne-fields" aria-label="Inside">
      <h3>Inside</h3>
      <p>
        <WaysInside node={node} />
      </p>
      <p className="pnne-hint">Its own code calls what is inside, which can be edited.</p>
    </section>
  );
}

/** Says, inside such a module, why there are no edges. */
export function BoxNote({ scene }: { scene: ShownScene }) {
  const node = boxAround(scene.document.graphs, scene.graphId);
  if (!node) return null;
  const target = node.properties?.target;
  const name = typeof target === "string" ? target.split(".").at(-1) : node.name;
  const closed = provenanceOf(node)?.proof === "opaque";
  return (
    <p className="pnne-box-note" role="note">
      {closed
        ? `${name} runs its own code, which calls these by name: edit them, but draw no edges between them.`
        : `${name} only holds these, under their names: the code of the module around it calls them.`}
    </p>
  );
}
