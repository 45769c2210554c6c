import { Fragment, type ReactNode } from "react";
import { type NodeState, type PropertyState, RARE } from "../../protocol";

const NAMES: ReadonlySet<string> = new Set(RARE);

export function isRare({ name }: PropertyState): boolean {
  return NAMES.has(name);
}

interface AdvancedProps {
  nodes: readonly NodeState[];
  properties: readonly PropertyState[];
  field: (property: PropertyState) => ReactNode;
}

/** The properties that few nodes need, each with a line of help; open where one is set. */
export function Advanced({ nodes, properties, field }: AdvancedProps) {
  const rare = properties.filter(isRare);
  if (rare.length === 0) return null;
  return (
    <details
      className="pnne-advanced"
      open={nodes.some((node) => rare.some(({ name }) => name in (node.properties ?? {})))}
    >
      <summary>Advanced</summary>
      {rare.map((property) => (
        <Fragment key={property.name}>
          {field(property)}
          <p className="pnne-hint">{/^.*?\.(?= |$)/.exec(property.doc ?? "")}</p>
        </Fragment>
      ))}
    </details>
  );
}
