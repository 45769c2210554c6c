import type { Catalog, CatalogEntry, NodeTypeState, PropertyState } from "../../protocol";

/** The node types, loaded once per page: every editor on it is its own module instance, so the page itself keeps them. */
export interface LoadedCatalog {
  readonly key: string;
  readonly types: ReadonlyMap<string, NodeTypeState>;
}

const PAGE_CACHE = Symbol.for("pnne_nb.catalogs");

type Page = { [PAGE_CACHE]?: Map<string, LoadedCatalog> };

function pageCache(): Map<string, LoadedCatalog> {
  const page = globalThis as Page;
  page[PAGE_CACHE] ??= new Map();
  return page[PAGE_CACHE];
}

export function cachedCatalog(key: unknown): LoadedCatalog | null {
  return typeof key === "string" && key !== "" ? (pageCache().get(key) ?? null) : null;
}

export function loadCatalog(message: Catalog): LoadedCatalog {
  const types = message.types.map((entry) => whole(entry, message.properties));
  const loaded = { key: message.key, types: new Map(types.map((type) => [type.type, type])) };
  pageCache().set(message.key, loaded);
  return loaded;
}

/** A type with its properties, which the message holds once for all types. */
function whole(entry: CatalogEntry, properties: readonly PropertyState[]): NodeTypeState {
  return { ...entry, properties: (entry.properties ?? []).flatMap((place) => properties[place] ?? []) };
}

export function withType(catalog: LoadedCatalog | null, type: NodeTypeState): LoadedCatalog {
  return { key: catalog?.key ?? "", types: new Map(catalog?.types ?? []).set(type.type, type) };
}
