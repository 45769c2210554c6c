import { makeOwn } from "../commands/blocks";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import { sharedWith } from "../document/blocks";

/** Says, inside a definition that several nodes show, that an edit here changes all of them. */
export function SharedNotice() {
  const editor = useEditor();
  const scene = useScene();
  const path = useView((view) => view.path);
  const readOnly = useSession((state) => state.readOnly);
  const shared = scene && sharedWith(scene.document, path);
  if (!shared) return null;
  return (
    <p className="pnne-shared" role="note" title={`${shared.uses} nodes show ${shared.name}`}>
      <span>
        <b>×{shared.uses}</b> A change here changes all {shared.uses} uses.
      </span>
      {!readOnly && (
        <button type="button" className="pnne-fix" onClick={() => makeOwn(editor)}>
          Make its own
        </button>
      )}
    </p>
  );
}
