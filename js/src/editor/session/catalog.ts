import { type Catalog, type CatalogEntry, type NodeTypeState, UNKNOWN } from "../../protocol";
import { fromState, type GraphDocument } from "../document/document";
import { onPage } from "./model";

/** The node types, loaded once per page. */
export interface LoadedCatalog {
  readonly key: string;
  readonly types: ReadonlyMap<string, NodeTypeState>;
  /** Networks to begin with: the Subgraph nodes of the outermost graph. */
  readonly templates: GraphDocument;
}

const NO_TEMPLATES: GraphDocument = { name: "templates", graphs: new Map() };

function pageCache(): Map<string, LoadedCatalog> {
  return onPage("pnne_nb.catalogs");
}

export function cachedCatalog(key: unknown): LoadedCatalog | null {
  return typeof key === "string" && key !== "" ? (pageCache().get(key) ?? null) : null;
}

export function loadCatalog(message: Catalog): LoadedCatalog {
  const types = message.types.map((entry) => whole(entry, message));
  const loaded = {
    key: message.key,
    types: new Map(types.map((type) => [type.type, type])),
    templates: fromState(message.templates),
  };
  pageCache().set(message.key, loaded);
  return loaded;
}

/** A type with its category and properties, which the message holds once for all types. */
function whole(entry: CatalogEntry, { categories, properties }: Catalog): NodeTypeState {
  return {
    ...entry,
    category: categories[entry.category] ?? UNKNOWN,
    properties: (entry.properties ?? []).flatMap((place) => properties[place] ?? []),
  };
}

export function withType(catalog: LoadedCatalog | null, type: NodeTypeState): LoadedCatalog {
  const templates = catalog?.templates ?? NO_TEMPLATES;
  return { key: catalog?.key ?? "", templates, types: new Map(catalog?.types ?? []).set(type.type, type) };
}
