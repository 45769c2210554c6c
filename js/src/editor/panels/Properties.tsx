import type { NodeState, NodeTypeState, PropertyState } from "../../protocol";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import { isBox } from "../document/definitions";
import { provenanceOf } from "../document/origin";
import { Advanced, isRare } from "../fields/Advanced";
import { Ask, AskTabs } from "../fields/Ask";
import { Field } from "../fields/Field";
import { NameField } from "../fields/NameField";
import { OriginLine } from "../fields/OriginBadge";
import { Several } from "../fields/Several";
import { Sizes } from "../fields/Sizes";
import { Train } from "../fields/Train";
import type { ShownScene } from "../scene/scene";
import { exampleLabel, shapeLabel } from "../scene/shapes";
import { PROMOTED } from "../scene/summary";
import { exactText } from "../values/amounts";
import { textOf } from "../values/text";

import { BlockForm } from "./BlockForm";
import { BoxForm } from "./Box";
import { Costs } from "./Costs";
import { FrameForm } from "./FrameForm";
import { FixButton, ProblemList, useProblems } from "./Problems";

/** The right panel: the one selected node's properties, or what the document is. */
export function Properties({ readOnly }: { readOnly: boolean }) {
  const scene = useScene();
  const selected = useView((view) => view.nodes);
  const elsewhere = useView((view) => view.elsewhere);
  const [only] = selected;
  // The steps of one expression are one card, and one form after the other.
  const steps = only === undefined ? undefined : scene?.inlined.chains.find((chain) => chain.includes(only));
  const isOne =
    elsewhere.size === 0 &&
    (selected.size === 1 || (steps?.length === selected.size && steps.every((name) => selected.has(name))));
  const forms = isOne ? [...selected].flatMap((name) => scene?.graph.nodes.get(name) ?? []) : [];
  const [node] = forms;
  const frames = useView((view) => view.frames);
  const [chosen] = selected.size === 0 && frames.size === 1 ? frames : [];
  const frame = chosen === undefined ? undefined : scene?.graph.frames.get(chosen);
  const look = useSession((state) => state.look);
  const asking = useSession((state) => state.asking);
  return (
    <aside
      className={`pnne-properties nowheel${asking ? " pnne-asking" : ""}`}
      aria-label="Properties"
      // The help has nothing to focus, and is scrolled by keyboard.
      tabIndex={node || frame || selected.size > 1 ? undefined : 0}
    >
      {look && <AskTabs />}
      {asking ? (
        <Ask look={look} />
      ) : scene && node ? (
        <fieldset disabled={readOnly}>
          {forms.map((each) => (
            <NodeForm key={scene.prefix + each.name} scene={scene} node={each} />
          ))}
        </fieldset>
      ) : scene && frame ? (
        <fieldset disabled={readOnly}>
          <FrameForm key={scene.prefix + frame.name} frame={frame} />
        </fieldset>
      ) : (
        <Overview scene={scene} readOnly={readOnly} />
      )}
    </aside>
  );
}

function Overview({ scene, readOnly }: { scene: ShownScene | null; readOnly: boolean }) {
  const places = useEditor().located();
  const { wrong } = useProblems();
  const listed = useView((view) => view.problems);
  if (scene && places.length > 1) return <Several scene={scene} places={places} readOnly={readOnly} />;
  return (
    <div className="pnne-overview">
      <h2>{scene?.document.name || "Graph"}</h2>
      <p>Select a node to see its properties; ? shows all keys.</p>
      {wrong.length > 0 && !listed && <ProblemList problems={wrong.slice(0, MOST_LISTED)} />}
      {scene && <Contents scene={scene} />}
      {scene && <Sizes sizes={scene.document.sizes ?? {}} readOnly={readOnly} />}
      {!readOnly && <Train />}
    </div>
  );
}

/** Most problems, and most nodes whose share of the parameters is listed. */
const MOST_LISTED = 8;

/** What goes in and out of the graph, and where its parameters are: each line leads to its node. */
function Contents({ scene }: { scene: ShownScene }) {
  const editor = useEditor();
  const { shapes, costs } = useSession((state) => state.derived);
  const nodes = [...scene.graph.nodes.values()];
  const line = (what: string, name: string, text: string, example = "") => (
    <div key={name}>
      <dt title={what}>
        <button type="button" onClick={() => editor.goTo(name)} title={`${what}: show it`}>
          {name}
        </button>
      </dt>
      <dd title={example || undefined}>{text}</dd>
    </div>
  );
  const ends = nodes.flatMap(({ name, type }) => {
    const port = type === "Input" ? `${name}.output` : scene.graph.edges.get(`${name}.input`)?.source;
    const isEnd = type === "Input" || type === "Output";
    const shape = shapes.get(scene.prefix + port);
    return isEnd ? [line(type, name, shapeLabel(shape), exampleLabel(shape))] : [];
  });
  const parameters = ({ name }: NodeState) => costs.get(scene.prefix + name)?.parameters ?? 0;
  const heavy = nodes.filter((node) => parameters(node) > 0).sort((a, b) => parameters(b) - parameters(a));
  if (nodes.length === 0) return null;
  return (
    <dl className="pnne-costs pnne-contents" aria-label="Contents">
      {ends}
      {heavy
        .slice(0, MOST_LISTED)
        .map((node) => line(node.type, node.name, `${exactText(parameters(node))} parameters`))}
      {heavy.length > MOST_LISTED && <dd>{heavy.length - MOST_LISTED} more</dd>}
    </dl>
  );
}

function NodeForm({ scene, node }: { scene: ShownScene; node: NodeState }) {
  const type = scene.types.get(node.type);
  const { diagnostics = [], loose = false } = scene.cards.get(node.name) ?? {};
  const origin = provenanceOf(node);
  return (
    <>
      <header>
        <NameField key={node.name} scene={scene} node={node} />
        <div className="pnne-type-line">
          <span>{node.type}</span>
          {type?.url && (
            <a href={type.url} target="_blank" rel="noreferrer">
              docs
            </a>
          )}
        </div>
        {type?.doc && <p className="pnne-doc">{type.doc}</p>}
        {origin && <OriginLine origin={origin} />}
        <Costs path={scene.prefix + node.name} />
      </header>
      {diagnostics.map((problem) => (
        <div
          className={`pnne-diagnostic pnne-severity-${loose ? "info" : (problem.severity ?? "error")}`}
          key={`${problem.code} ${problem.port} ${problem.message}`}
        >
          <p>
            {problem.message} {problem.hint} <code title={`pn.explain("${problem.code}")`}>{problem.code}</code>
          </p>
          <FixButton problem={problem} />
        </div>
      ))}
      {!type && node.type !== "Subgraph" && (
        <p className="pnne-hint">
          The type {node.type} is not registered in the kernel; its values are kept as they are.
        </p>
      )}
      {node.type === "Subgraph" && <BlockForm scene={scene} node={node} />}
      {isBox(node) && <BoxForm node={node} />}
      <PropertyList scene={scene} node={node} type={type} />
    </>
  );
}

/** Property groups in the order in which a person needs them. */
const ROLES = [
  ["init", ""],
  ["call", "When called"],
  ["node", "Node"],
] as const;

function PropertyList({ scene, node, type }: { scene: ShownScene; node: NodeState; type: NodeTypeState | undefined }) {
  const resolved = useSession((state) => state.derived.resolved.get(scene.prefix + node.name));
  const declared = type?.properties ?? [];
  const names = new Set(declared.map((property) => property.name));
  const others = Object.keys(node.properties ?? {}).filter((name) => !names.has(name));
  const field = (property: PropertyState) => (
    <Field
      key={property.name}
      scene={scene}
      places={[{ graph: scene.graphId, node }]}
      property={property}
      resolved={resolved?.[property.name]}
      wired={scene.graph.edges.get(`${node.name}.${property.name}`)?.source}
    />
  );
  return (
    <div className="pnne-fields">
      {ROLES.map(([role, title]) => {
        // The definition of a block has its own form, and the contents of a module come with it.
        // What the block around shows is chosen beside each field.
        const shown = declared.filter((each) => each.name !== "definition" && each.name !== PROMOTED && !isRare(each));
        const members = shown.filter((property) => (property.role ?? "init") === role);
        if (members.length === 0) return null;
        return (
          <section key={role}>
            {title && <h3>{title}</h3>}
            {members.map(field)}
          </section>
        );
      })}
      <Advanced nodes={[node]} properties={declared} field={field} />
      {others.length > 0 && (
        <section>
          {type && <h3>Unknown</h3>}
          {others.map((name) => (
            <div className="pnne-field" key={name}>
              <span className="pnne-field-label">{name}</span>
              <output data-property={`${scene.prefix}${node.name}.${name}`}>
                {textOf(null, node.properties?.[name])}
              </output>
            </div>
          ))}
        </section>
      )}
    </div>
  );
}
