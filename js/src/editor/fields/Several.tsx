import type { NodeState, PropertyState } from "../../protocol";
import { useEditor, useView } from "../commands/context";
import { align, distribute } from "../commands/gestures";
import type { Located } from "../document/definitions";
import type { Alignment } from "../scene/align";
import type { ShownScene } from "../scene/scene";
import { PROMOTED } from "../scene/summary";
import { Action } from "./Action";
import { Advanced, isRare } from "./Advanced";
import { Field } from "./Field";

const ALIGNMENTS: readonly (readonly [Alignment, string])[] = [
  ["left", "M2.5 2v12M5 4h8v2.5H5zM5 9.5h5V12H5z"],
  ["centre", "M8 2v12M4 4h8v2.5H4zM5.5 9.5h5V12h-5z"],
  ["right", "M13.5 2v12M3 4h8v2.5H3zM6 9.5h5V12H6z"],
  ["top", "M2 2.5h12M4 5v8h2.5V5zM9.5 5v5H12V5z"],
  ["middle", "M2 8h12M4 4v8h2.5V4zM9.5 5.5v5H12v-5z"],
  ["bottom", "M2 13.5h12M4 3v8h2.5V3zM9.5 6v5H12V6z"],
];

/** What can be done with several selected nodes: align them, and set what they have in common. */
export function Several({ scene, places, readOnly }: { scene: ShownScene; places: Located[]; readOnly: boolean }) {
  const editor = useEditor();
  const nodes = places.map(({ node }) => node);
  const inside = useView((view) => view.elsewhere.size);
  const here = useView((view) => view.nodes.size);
  const common = commonProperties(scene, nodes);
  const field = (property: PropertyState) => (
    <Field
      key={`${property.name} ${nodes.map((node) => node.name).join()}`}
      scene={scene}
      places={places}
      property={property}
      resolved={undefined}
      wired={undefined}
    />
  );
  return (
    <fieldset disabled={readOnly} aria-label="Selected nodes">
      <header>
        <h2>{here + inside} nodes selected</h2>
        {inside > 0 && <p>{inside} of them inside blocks: the fields, T, B and L change them too.</p>}
        <div className="pnne-aligns">
          {ALIGNMENTS.map(([how, icon]) => (
            <Action key={how} name={`Align ${how}`} icon={icon} onClick={() => align(editor, how)} />
          ))}
          <Action
            name="Distribute horizontally"
            icon="M2.5 2v12M13.5 2v12M6.5 4.5h3v7h-3z"
            onClick={() => distribute(editor, "x")}
          />
          <Action
            name="Distribute vertically"
            icon="M2 2.5h12M2 13.5h12M4.5 6.5v3h7v-3z"
            onClick={() => distribute(editor, "y")}
          />
          <Action
            name="Zoom to selection"
            icon="M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.4 10.4L14 14M5 7h4M7 5v4"
            onClick={() => editor.viewport?.fit(editor.view.get().nodes)}
          />
        </div>
      </header>
      {common.length > 0 && (
        <div className="pnne-fields">
          <h3>In common</h3>
          {common.filter((property) => !isRare(property)).map(field)}
          <Advanced nodes={nodes} properties={common} field={field} />
        </div>
      )}
    </fieldset>
  );
}

/** Properties that all of the nodes have, with the same type. */
function commonProperties(scene: ShownScene, nodes: readonly NodeState[]): PropertyState[] {
  const [first, ...others] = nodes.map((node) => scene.types.get(node.type)?.properties ?? []);
  return (first ?? []).filter(
    (property) =>
      property.name !== PROMOTED &&
      !JSON.stringify(property.type).includes("nodeRef") &&
      others.every((list) =>
        list.some(
          (other) => other.name === property.name && JSON.stringify(other.type) === JSON.stringify(property.type),
        ),
      ),
  );
}
