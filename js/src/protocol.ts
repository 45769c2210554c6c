// Generated from pnne_nb/protocol/messages.py. Do not edit; regenerate with: python -m pnne_nb.protocol.typescript

/** Any JSON value. Property values are in the JSON form of pnne_nb/graph/values.py. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export type PortKind =
  | "tensor"
  | "value"
  | "dataset"
  | "loader"
  | "model"
  | "parameters"
  | "loss"
  | "optimizer"
  | "scheduler"
  | "metric";

export type NodeKind =
  | "module"
  | "function"
  | "method"
  | "structural"
  | "training";

export type Severity =
  | "error"
  | "warning"
  | "info";

export type Op =
  | AddNode
  | RemoveNode
  | RenameNode
  | SetProperty
  | ResetProperty
  | MoveNode
  | CollapseNode
  | SetOrigin
  | Connect
  | Disconnect
  | AddGraph
  | RemoveGraph
  | AddFrame
  | ChangeFrame
  | RemoveFrame
  | RenameDocument;

export type PropertyType =
  | BoolType
  | IntType
  | FloatType
  | NumberType
  | StringType
  | EnumType
  | DtypeType
  | DeviceType
  | ShapeType
  | TupleType
  | ListType
  | TensorType
  | OptionalType
  | UnionType
  | ConstantType
  | NodeRefType;

export type Request =
  | Edit
  | Undo
  | Redo
  | Arrange
  | Group
  | Ungroup
  | Publish
  | Unpublish
  | LoadBlocks
  | Sync
  | GetCatalog
  | GetSource
  | GetBundle
  | GetPreview
  | Painted
  | HideTraining;

export type Event =
  | Committed
  | Rejected
  | DerivedChanged
  | Snapshot
  | Catalog
  | NodeTypeAdded
  | Blocks
  | Source
  | Bundle
  | Preview
  | Training;

/** Add a node. */
export interface AddNode {
  readonly op: "addNode";
  readonly name: string;
  readonly type: string;
  readonly properties?: Readonly<Record<string, Json>>;
  /** Centre of the node in the editor's pixels, or None: the editor arranges it. */
  readonly position?: readonly [number, number] | null;
  readonly graph?: string;
  /** Its place in the order of nodes; None appends. */
  readonly index?: number | null;
  /** Where an imported node came from and its proof, as JSON (`compiler.importing`). */
  readonly origin?: Json;
  /** Whether only its name is shown. */
  readonly collapsed?: boolean;
}

/** Remove a node and every edge at it. */
export interface RemoveNode {
  readonly op: "removeNode";
  readonly name: string;
  readonly graph?: string;
}

/** Rename a node; edges and references follow. */
export interface RenameNode {
  readonly op: "renameNode";
  readonly name: string;
  readonly newName: string;
  readonly graph?: string;
}

/** Set one property to a value that its type accepts. */
export interface SetProperty {
  readonly op: "setProperty";
  readonly node: string;
  readonly property: string;
  readonly value: Json;
  readonly graph?: string;
}

/** Take a property's value back to its default (or to missing, if it is required). */
export interface ResetProperty {
  readonly op: "resetProperty";
  readonly node: string;
  readonly property: string;
  readonly graph?: string;
}

/** Place a node; None gives it back to the automatic arrangement. */
export interface MoveNode {
  readonly op: "moveNode";
  readonly name: string;
  readonly position: readonly [number, number] | null;
  readonly graph?: string;
}

/** Show of a node only its name, or all of it again. */
export interface CollapseNode {
  readonly op: "collapseNode";
  readonly name: string;
  readonly collapsed: boolean;
  readonly graph?: string;
}

/** Say where a node came from, and what is proved of it, as JSON; a change of an imported node brings it along. */
export interface SetOrigin {
  readonly op: "setOrigin";
  readonly name: string;
  readonly origin: Json;
  readonly graph?: string;
}

/** Add an edge from output `"node.port"` to input `"node.port"`. */
export interface Connect {
  readonly op: "connect";
  readonly source: string;
  readonly target: string;
  readonly graph?: string;
}

/** Remove an edge. */
export interface Disconnect {
  readonly op: "disconnect";
  readonly source: string;
  readonly target: string;
  readonly graph?: string;
}

/** Add an empty definition for Subgraph nodes to refer to. */
export interface AddGraph {
  readonly op: "addGraph";
  readonly graph: string;
}

/** Remove a definition that is empty and that no Subgraph node refers to. */
export interface RemoveGraph {
  readonly op: "removeGraph";
  readonly graph: string;
}

/** Add a titled rectangle behind the nodes; without nodes in it, it is a note. */
export interface AddFrame {
  readonly op: "addFrame";
  readonly name: string;
  /** Left, top, width and height in the editor's pixels. */
  readonly box: readonly [number, number, number, number];
  readonly title?: string;
  readonly text?: string;
  /** One of `graph.frame.COLOURS`. */
  readonly colour?: string;
  readonly graph?: string;
}

/** Change some of a frame; None leaves as it is, so that two changes at the same time both count. */
export interface ChangeFrame {
  readonly op: "changeFrame";
  readonly name: string;
  readonly box?: readonly [number, number, number, number] | null;
  readonly title?: string | null;
  readonly text?: string | null;
  readonly colour?: string | null;
  readonly graph?: string;
}

/** Remove a frame; what stands in it stays. */
export interface RemoveFrame {
  readonly op: "removeFrame";
  readonly name: string;
  readonly graph?: string;
}

/** Give the document, and so the generated class, another name. */
export interface RenameDocument {
  readonly op: "renameDocument";
  readonly name: string;
}

/** `True` or `False`. */
export interface BoolType {
  readonly type: "bool";
}

/**
 * A whole number of at most 64 bits in the closed range `minimum` to `maximum` (None: unbounded).
 *
 * A float without a fraction is one too: in the browser, 1.0 and 1 are the same.
 */
export interface IntType {
  readonly type: "int";
  readonly minimum?: number | null;
  readonly maximum?: number | null;
}

/** A real number in the closed range `minimum` to `maximum`; a whole number is converted. */
export interface FloatType {
  readonly type: "float";
  readonly minimum?: number | null;
  readonly maximum?: number | null;
}

/** An int, float or bool, kept as it is: torch promotes dtypes by it. */
export interface NumberType {
  readonly type: "number";
}

/** Any text. */
export interface StringType {
  readonly type: "string";
}

/** One of a few strings. */
export interface EnumType {
  readonly type: "enum";
  readonly choices: readonly string[];
}

/** The name of a `torch.dtype`, stored without the `torch.` prefix. */
export interface DtypeType {
  readonly type: "dtype";
}

/** `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"` … */
export interface DeviceType {
  readonly type: "device";
}

/** A tuple of sizes: whole numbers ≥ 0, or names that stand for symbolic sizes. */
export interface ShapeType {
  readonly type: "shape";
}

/** A tuple of `item` values, with `length` of them (None: any number). */
export interface TupleType {
  readonly type: "tuple";
  readonly item: PropertyType;
  readonly length?: number | null;
  /** Whether one bare `item` is accepted too, and kept bare, as torch does for `kernel_size=3`. */
  readonly scalar?: boolean;
}

/** A list of `item` values; a tuple is converted. */
export interface ListType {
  readonly type: "list";
  readonly item: PropertyType;
}

/**
 * The numbers of a floating tensor: one, or a list of them, nested for more axes.
 *
 * Arrays and tensors are converted; all are kept as nested tuples.
 */
export interface TensorType {
  readonly type: "tensor";
}

/** None, or a value of `item`. */
export interface OptionalType {
  readonly type: "optional";
  readonly item: PropertyType;
}

/** A value of the first of `options` that accepts it. */
export interface UnionType {
  readonly type: "union";
  readonly options: readonly PropertyType[];
}

/** Any constant of `graph.values`. */
export interface ConstantType {
  readonly type: "constant";
}

/** The name of another node in the same graph. */
export interface NodeRefType {
  readonly type: "nodeRef";
}

/** Apply `ops`, made against version `base`, as one undoable transaction. */
export interface Edit {
  readonly message: "edit";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly base: number;
  readonly ops: readonly Op[];
  readonly label?: string;
}

/** Take back the last transaction, whoever made it. */
export interface Undo {
  readonly message: "undo";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** Apply the transaction that was taken back last. */
export interface Redo {
  readonly message: "redo";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** Lay out one graph, as one transaction; its edges run down, or to the right. */
export interface Arrange {
  readonly message: "arrange";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly graph?: string;
  readonly direction?: "down" | "right";
}

/** Move nodes of one graph into a nested graph, as one transaction; numbered if `name` is None. */
export interface Group {
  readonly message: "group";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly nodes: readonly string[];
  readonly name?: string | null;
  readonly graph?: string;
}

/** Put what a Subgraph node shows in its place, as one transaction. */
export interface Ungroup {
  readonly message: "ungroup";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly node: string;
  readonly graph?: string;
}

/** Offer what a Subgraph node shows as a block in every palette; `node` is its path from the root. */
export interface Publish {
  readonly message: "publish";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly node: string;
  readonly name: string;
}

/** Offer a block no longer. */
export interface Unpublish {
  readonly message: "unpublish";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly name: string;
}

/** Offer the blocks of a graph file too; `text` is what it holds. */
export interface LoadBlocks {
  readonly message: "loadBlocks";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly text: string;
}

/** Send a `Snapshot` to this view. */
export interface Sync {
  readonly message: "sync";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** Send the `Catalog` to this view. */
export interface GetCatalog {
  readonly message: "getCatalog";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** Send the generated PyTorch source, as `Source`. */
export interface GetSource {
  readonly message: "getSource";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** Send the editor's front end as `Bundle`, to a page that has not loaded it. */
export interface GetBundle {
  readonly message: "getBundle";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** Say what an edge between two ports, given by their paths, would do, as `Preview`; nothing is changed. */
export interface GetPreview {
  readonly message: "getPreview";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly source: string;
  readonly target: string;
}

/** Picture number `tick` of a training has been painted: the next one may come. Not answered. */
export interface Painted {
  readonly message: "painted";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
  readonly tick: number;
}

/** Measure and show nothing of a training any more; answered by an empty `Training` to every view. */
export interface HideTraining {
  readonly message: "hideTraining";
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** A transaction was committed; `id` and `client` are those of the request, if one asked for it. */
export interface Committed {
  readonly message: "committed";
  readonly version: number;
  readonly ops: readonly Op[];
  readonly label: string;
  readonly history: HistoryState;
  readonly client: string | null;
  readonly id: number | null;
}

/** Labels of what undo and redo would do next; None where there is nothing. */
export interface HistoryState {
  readonly undo: string | null;
  readonly redo: string | null;
}

/** A request was refused; the document is as it was at `version`. */
export interface Rejected {
  readonly message: "rejected";
  readonly id: number | null;
  readonly client: string | null;
  readonly version: number;
  readonly error: string;
  readonly diagnostics: readonly Diagnostic[];
}

/** One finding about the document, shown as a badge at its node. */
export interface Diagnostic {
  /** Stable machine name in kebab case, e.g. `"unconnected-input"`. */
  readonly code: string;
  /** What is wrong and why, in one or two sentences. */
  readonly message: string;
  /** Path of the node as on screen (`"layer1.conv1"`), or None for the whole graph. */
  readonly node: string | null;
  /** Name of the port at that node, or None. */
  readonly port: string | null;
  /** What to do about it. */
  readonly hint: string | null;
  /** `"error"` keeps the graph from compiling. */
  readonly severity: Severity;
  /** A one-click repair, where one is known. */
  readonly fix: Fix | null;
}

/** A change that would remove a diagnostic: one property set to one value. */
export interface Fix {
  /** Path of the node to change. */
  readonly node: string;
  /** Name of the property. */
  readonly property: string;
  /** The JSON form of the value to set (see `graph.values`). */
  readonly value: Json;
  /** What a button says, e.g. `"Set in_features to 400"`. */
  readonly label: string;
}

/** A delta of `Derived` for the document at `version`. */
export interface DerivedChanged {
  readonly message: "derivedChanged";
  readonly version: number;
  readonly derived: Derived;
}

/** What Python has worked out about the document; as a delta, only what changed. */
export interface Derived {
  /** By output port path (`"block.conv1.output"`); None takes the entry away. */
  readonly shapes: Readonly<Record<string, TensorShape | null>>;
  /** Values inferred for properties left `"auto"`, by node path, in JSON form; None takes the entry away. */
  readonly resolved: Readonly<Record<string, Readonly<Record<string, Json>> | null>>;
  /** By node path (`""`: the whole graph), replacing that node's earlier ones. */
  readonly diagnostics: Readonly<Record<string, readonly Diagnostic[]>>;
  /** What nodes cost, by path; None takes the entry away. */
  readonly costs: Readonly<Record<string, NodeCost | null>>;
  /** The symbolic sizes that the costs are for, the batch's being 1; None if they are as before. */
  readonly example: Readonly<Record<string, number>> | null;
}

/** What an edge carries: sizes (numbers, or expressions such as `"N"` and `"H//2"`) and a dtype name. */
export interface TensorShape {
  readonly shape: readonly (number | string)[];
  readonly dtype: string;
}

/** What one node costs, those inside included. */
export interface NodeCost {
  /** Elements of its parameters; shared ones count at the node that has them. */
  readonly parameters: number;
  /** Multiply-adds of a forward pass: matrix products, convolutions and attention. */
  readonly multAdds: number;
  /** Bytes of its parameters and buffers. */
  readonly memory: number;
  /** Bytes of what it returns; of a node that contains others, of what those return. */
  readonly activation: number;
}

/** Everything, for a view that opens or has lost the thread. */
export interface Snapshot {
  readonly message: "snapshot";
  readonly version: number;
  readonly document: DocumentState;
  readonly derived: Derived;
  readonly history: HistoryState;
  readonly id: number | null;
  readonly client: string | null;
}

/** A whole document, exactly as a `.pnne.json` file holds it. */
export interface DocumentState {
  readonly format: string;
  readonly formatVersion: number;
  readonly name: string;
  /** `""` is the root; the others are definitions of Subgraph nodes. */
  readonly graphs: Readonly<Record<string, GraphState>>;
}

/** One graph: nodes in their order, edges in theirs, frames by name. */
export interface GraphState {
  readonly nodes?: readonly NodeState[];
  readonly edges?: readonly EdgeState[];
  readonly frames?: readonly Frame[];
}

/** A node as the file has it; property values in their JSON form. */
export interface NodeState {
  readonly name: string;
  readonly type: string;
  readonly properties?: Readonly<Record<string, Json>>;
  readonly position?: readonly [number, number] | null;
  readonly origin?: Json;
  readonly collapsed?: boolean;
}

/** An edge, from output `"node.port"` to input `"node.port"`. */
export interface EdgeState {
  readonly source: string;
  readonly target: string;
}

/** A frame as it was when it was read; without nodes in it, it is a note. */
export interface Frame {
  /** Its name among the frames of its graph. */
  readonly name: string;
  /** Left, top, width and height in the editor's pixels. */
  readonly box: readonly [number, number, number, number];
  /** A line at its top. */
  readonly title?: string;
  /** What is written under the title. */
  readonly text?: string;
  /** One of `"grey"`, `"blue"`, `"green"`, `"yellow"`, `"red"`, `"purple"`. */
  readonly colour?: string;
}

/** Every node type; `key` changes when the content does, so that a page loads it once. */
export interface Catalog {
  readonly message: "catalog";
  readonly key: string;
  /** Of all types, each once: many types have the same ones, and the list is half of the message. */
  readonly properties: readonly PropertyState[];
  readonly types: readonly CatalogEntry[];
  readonly id: number | null;
  readonly client: string | null;
}

/** A property as the browser needs it; `default` in JSON form, absent when required. */
export interface PropertyState {
  readonly name: string;
  readonly type: PropertyType;
  readonly required?: boolean;
  readonly default?: Json;
  readonly role?: "call" | "init" | "node";
  readonly doc?: string;
}

/** A node type in a `Catalog`. */
export interface CatalogEntry {
  readonly type: string;
  readonly category: string;
  readonly kind: NodeKind;
  readonly inputs?: readonly Port[];
  readonly outputs?: readonly Port[];
  readonly doc?: string;
  readonly url?: string;
  /** Places in the catalogue's list of properties. */
  readonly properties?: readonly number[];
}

/** One place where an edge can end (input) or start (output). */
export interface Port {
  /** Name of the argument of `forward` or of the function; outputs are named `"output"` or as torch's documentation names them (`"h_n"`). */
  readonly name: string;
  /** What travels. */
  readonly kind?: PortKind;
  /** Whether an input may stay unconnected. */
  readonly optional?: boolean;
  /** Whether an input takes any number of edges, addressed as `name_0`, `name_1` … */
  readonly variadic?: boolean;
  /** Which element types an input accepts; checked during shape inference. */
  readonly dtypes?: "any" | "floating" | "integer";
  /** Name of the property that an output depends on: the output exists only while that property differs from its default (`"return_indices"` of a pooling). Empty: it always exists. */
  readonly when?: string;
  /** One sentence. */
  readonly doc?: string;
}

/** A type was registered while the editor is open. */
export interface NodeTypeAdded {
  readonly message: "nodeTypeAdded";
  readonly type: NodeTypeState;
}

/** A node type as the browser needs it. */
export interface NodeTypeState {
  readonly type: string;
  readonly category: string;
  readonly kind: NodeKind;
  readonly inputs?: readonly Port[];
  readonly outputs?: readonly Port[];
  readonly doc?: string;
  readonly url?: string;
  readonly properties?: readonly PropertyState[];
}

/** The blocks that the palette offers: the Subgraph nodes of a document's outermost graph. */
export interface Blocks {
  readonly message: "blocks";
  readonly document: DocumentState;
  readonly id: number | null;
  readonly client: string | null;
}

/** Generated source of the model. */
export interface Source {
  readonly message: "source";
  readonly id: number;
  readonly client: string;
  readonly text: string;
}

/** Answer to `GetBundle`: a JavaScript module. */
export interface Bundle {
  readonly message: "bundle";
  readonly id: number;
  readonly client: string;
  readonly text: string;
}

/** Answer to `GetPreview`. */
export interface Preview {
  readonly message: "preview";
  readonly id: number;
  readonly client: string;
  readonly consequence: Consequence;
}

/** What an edge would do. */
export interface Consequence {
  /** What its target would give; at an Output, what would arrive; None where that is not known. */
  readonly shape: TensorShape | null;
  /** What would be wrong. */
  readonly diagnostics: readonly Diagnostic[];
}

/** How the training of this graph stands, as picture number `tick`; without layers, nothing is shown. */
export interface Training {
  readonly message: "training";
  readonly tick: number;
  /** The latest observed step. */
  readonly step: number;
  /** By node path. */
  readonly layers: Readonly<Record<string, LayerState>>;
}

/** What a layer does in the latest observed step of a training; None where it is not known or not finite. */
export interface LayerState {
  /** Of its output. */
  readonly mean?: number | null;
  /** Of its output. */
  readonly std?: number | null;
  /** Share of its output's elements that are 0. */
  readonly zeros?: number | null;
  /** Norm of the gradient of its own parameters. */
  readonly weights?: number | null;
  /** Norm of the gradient that comes back through its first output. */
  readonly flow?: number | null;
  /** What is wrong with it over the last observations. */
  readonly ailment?: Ailment | null;
}

/** What is wrong with a layer in training: a stable name, and what was seen, with numbers. */
export interface Ailment {
  readonly kind: "dead" | "exploding" | "notFinite" | "saturated" | "vanishing";
  readonly reason: string;
}
