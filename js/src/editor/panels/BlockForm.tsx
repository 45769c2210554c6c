import { useEffect, useState } from "react";
import type { NodeState } from "../../protocol";
import { useEditor, useSession } from "../commands/context";
import { blockTypes, shownType } from "../document/blocks";
import { contains, definitionOf, usesOf } from "../document/definitions";
import { whyReserved } from "../document/names";
import { Field } from "../fields/Field";
import { Reason } from "../fields/Reason";
import { NOTHING_INLINED } from "../scene/inlining";
import type { ShownScene } from "../scene/scene";
import { promotedOf } from "../scene/summary";
import { WaysInside } from "./Box";

/** The properties of nodes inside that the block shows as its own: an edit changes them there, for all that show it. */
function PromotedFields({ scene, node }: { scene: ShownScene; node: NodeState }) {
  const definition = definitionOf(node) ?? "";
  const graph = scene.document.graphs.get(definition);
  const derived = useSession((state) => state.derived);
  if (!graph) return null;
  const prefix = `${scene.prefix}${node.name}.`;
  const inside: ShownScene = { ...scene, graph, graphId: definition, prefix, inlined: NOTHING_INLINED };
  return [...graph.nodes.values()].flatMap((inner) =>
    promotedOf(inner, scene.types.get(inner.type)).map((property) => (
      <div className="pnne-fields" key={`${inner.name} ${property.name}`}>
        <h4>{inner.name}</h4>
        <Field
          scene={inside}
          places={[{ graph: definition, node: inner }]}
          property={property}
          resolved={derived.resolved.get(prefix + inner.name)?.[property.name]}
          wired={graph.edges.get(`${inner.name}.${property.name}`)?.source}
        />
      </div>
    )),
  );
}

/** What can be done with a block as such: look into it, enter it, offer it in the palette. */
export function BlockForm({ scene, node }: { scene: ShownScene; node: NodeState }) {
  const editor = useEditor();
  const library = useSession((state) => state.blocks);
  const definition = definitionOf(node) ?? "";
  const [name, setName] = useState(definition);
  const published = blockTypes(library).some(({ type }) => shownType(type) === name);
  const uses = usesOf(scene.document).get(definition) ?? 0;
  const reason = whyReserved(name);
  const { graphs } = scene.document;
  const possible = [...graphs.keys()].filter((id) => id !== "" && !contains(graphs, id, scene.graphId));
  useEffect(() => setName(definition), [definition]);
  return (
    <>
      <section className="pnne-block-form pnne-fields" aria-label="Block">
        <h3>Block</h3>
        <p>
          <WaysInside node={node} />
          {uses > 1 && <span>shown by {uses} nodes</span>}
        </p>
        <label>
          <span>Shows</span>
          <select
            aria-label="Definition"
            data-property={`${scene.prefix}${node.name}.definition`}
            value={definition}
            onChange={(event) => editor.setProperty([{ graph: scene.graphId, node }], "definition", event.target.value)}
          >
            {possible.map((id) => (
              <option key={id}>{id}</option>
            ))}
          </select>
        </label>
        <p>
          <input
            aria-label="Name of the block"
            aria-invalid={reason !== null}
            value={name}
            spellCheck={false}
            onChange={(event) => setName(event.target.value)}
          />
          <button
            type="button"
            className="pnne-fix"
            disabled={reason !== null}
            title="Offer this block in the palette of every open editor"
            onClick={() => editor.session.publish(scene.prefix + node.name, name)}
          >
            {published ? "Publish again" : "Publish"}
          </button>
          {published && (
            <button type="button" className="pnne-fix" onClick={() => editor.session.unpublish(name)}>
              Withdraw
            </button>
          )}
        </p>
        <Reason text={reason} />
      </section>
      <PromotedFields scene={scene} node={node} />
    </>
  );
}
