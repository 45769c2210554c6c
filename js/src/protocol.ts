// Generated from pnne_nb/protocol. Do not edit; regenerate with: python -m pnne_nb.protocol.typescript

/** Any JSON value. Property values are in the JSON form of pnne_nb/graph/schema/values.py. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export type PortKind =
  "tensor" | "value" | "dataset" | "loader" | "model" | "parameters" | "loss" | "optimizer" | "scheduler" |
  "metric";

export type NodeKind = "module" | "function" | "method" | "structural" | "training";

export type Severity = "error" | "warning" | "info";

export type Proof = "equal" | "edited" | "opaque";

export type Dtype =
  "float32" | "float64" | "float16" | "bfloat16" | "int64" | "int32" | "int16" | "int8" | "uint8" | "uint16" |
  "uint32" | "uint64" | "bool" | "complex32" | "complex64" | "complex128" | "float8_e4m3fn" | "float8_e5m2" |
  "float8_e4m3fnuz" | "float8_e5m2fnuz";

export type TrainingState = "idle" | "running" | "paused" | "finished" | "stopped" | "failed";

export type Command = "start" | "pause" | "resume" | "step" | "stop" | "validate" | "save" | "rewind" | "batch" | "skip";

export type Move = "next" | "previous" | "in" | "out" | "toggle";

export type PageTheme = "light" | "dark";

export type Op =
  AddNode | RemoveNode | RenameNode | SetProperty | ResetProperty | MoveNode | CollapseNode | SetOrigin |
  Connect | Disconnect | AddGraph | RemoveGraph | AddFrame | ChangeFrame | RemoveFrame | RenameDocument |
  SetSize;

export type PropertyType =
  BoolType | IntType | FloatType | NumberType | StringType | EnumType | DtypeType | DeviceType | ShapeType |
  TupleType | ListType | TensorType | OptionalType | UnionType | ConstantType | NodeRefType;

export type Request =
  Edit | Undo | Redo | Arrange | Group | Ungroup | Publish | Unpublish | LoadBlocks | Sync | GetCatalog |
  GetSource | GetBundle | GetPreview | RunToHere | GetSteps | Painted | HideTraining | GetExportFormats |
  StartExport | CancelExport | WatchExport | GetTrainChoices | StartTraining | ControlTraining;

export type Event =
  Committed | Rejected | DerivedChanged | Snapshot | Catalog | NodeTypeAdded | Blocks | Source | Steps | Bundle
  | Preview | SeenTensor | Training | Marks | ExportFormats | ExportState | ExportCheck | TrainChoices |
  TrainState;

export type ControlRequest =
  CommandMessage | ChooseMessage | ScaleMessage | RateMessage | ShowMessage | ExportMessage | DismissMessage |
  AckMessage;

export type ControlEvent = Reply | PictureMessage;

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
  /** The origin and the proof of an imported node. */
  readonly origin?: Origin | null;
  /** Whether only its name is shown. */
  readonly collapsed?: boolean;
}

/**
 * The origin of an imported node, and its proof.
 *
 * It is also a read-only mapping, as in a file: `node.origin["proof"]`. Fields with their default are left out.
 */
export interface Origin {
  /** `"edited"` if the node, its inputs or its inside was changed after it was proved equal. */
  readonly proof: Proof;
  /** Why it stayed one opaque node, or why nothing is proved: the original failed with the example. Of an input, how far the original differs from itself. Else empty. */
  readonly reason?: string;
  /** Its place among the parameters, buffers and submodules of the module around it. */
  readonly member?: number | null;
  /** The attribute path of its module, if that is not its name; empty if the module is the model itself. */
  readonly held?: string | null;
  /** Assumptions of the import about an input, as text: `"x.shape[1] is 3"`. */
  readonly assumes?: readonly string[];
  /** Names of the arguments of the original that the example left out, kept with the last Input. */
  readonly omitted?: readonly string[];
  /** Names of its outputs in the original's code, by port. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Its tensors that belong to other nodes: their path below this node, and the path below the model. */
  readonly ties?: Readonly<Record<string, string>>;
  /** Paths below it of modules that were not trained and are no nodes of their own. In older files, of any: an empty path is the node itself. */
  readonly frozen?: readonly string[];
  /** The element type of its layer's weights, if that is not float32. */
  readonly dtype?: Dtype | null;
  /** Whether computing it again, for a checkpoint, changes its buffers again. */
  readonly twice?: boolean;
  /** `"absent"` if the tensor has too many values for the document; of a fixed table, the digest of its values, `"sha256:…"`, which a file beside the graph file has. */
  readonly values?: string | null;
  /** Whether the original calls it. */
  readonly called?: boolean;
  /** Whether it is the whole module that was imported. */
  readonly whole?: boolean;
  /** Of an Input, the sizes that the proof varied; empty if it varied none. */
  readonly sizes?: readonly (readonly [string, number] | null)[];
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

/** Reset a property to its default, or to missing if it is required. */
export interface ResetProperty {
  readonly op: "resetProperty";
  readonly node: string;
  readonly property: string;
  readonly graph?: string;
}

/** Place a node; None returns it to the automatic arrangement. */
export interface MoveNode {
  readonly op: "moveNode";
  readonly name: string;
  readonly position: readonly [number, number] | null;
  readonly graph?: string;
}

/** Show only the name of a node, or all of it again. */
export interface CollapseNode {
  readonly op: "collapseNode";
  readonly name: string;
  readonly collapsed: boolean;
  readonly graph?: string;
}

/** Set the origin and the proof of a node; it accompanies a change of an imported node. */
export interface SetOrigin {
  readonly op: "setOrigin";
  readonly name: string;
  readonly origin: Origin | null;
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
  /** One of `graph.model.annotation.COLOURS`. */
  readonly colour?: string;
  readonly graph?: string;
}

/** Change some fields of a frame; None leaves a field as it is, so that two simultaneous changes both count. */
export interface ChangeFrame {
  readonly op: "changeFrame";
  readonly name: string;
  readonly box?: readonly [number, number, number, number] | null;
  readonly title?: string | null;
  readonly text?: string | null;
  readonly colour?: string | null;
  readonly graph?: string;
}

/** Remove a frame; its contents stay. */
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

/** Give the document a named size, change it, or with None remove it. */
export interface SetSize {
  readonly op: "setSize";
  readonly name: string;
  /** A whole number, or a calculation of other sizes, such as `"4*hidden"`. */
  readonly value: Json;
}

/** `True` or `False`. */
export interface BoolType {
  readonly type: "bool";
}

/**
 * A whole number of at most 64 bits in the closed range `minimum` to `maximum` (None: unbounded).
 *
 * A float without a fraction is one too: in the browser, 1.0 and 1 are the same. So is a calculation, `"2*64"`
 * or `"4*hidden"`.
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

/** A device: `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"` and so on. */
export interface DeviceType {
  readonly type: "device";
}

/** A tuple of sizes: whole numbers ≥ 0, or names that stand for symbolic sizes; None and -1 leave a size open too. */
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

/** Any constant of `graph.schema.values`. */
export interface ConstantType {
  readonly type: "constant";
}

/** The name of another node in the same graph. */
export interface NodeRefType {
  readonly type: "nodeRef";
}

/** A request of a view. */
export interface ViewRequest {
  /** Rises by one per request of a client. */
  readonly id: number;
  /** Random name of the view that asks. */
  readonly client: string;
}

/** Apply `ops`, made against version `base`, as one undoable transaction. */
export interface Edit extends ViewRequest {
  readonly message: "edit";
  readonly base: number;
  readonly ops: readonly Op[];
  readonly label?: string;
}

/** Undo the last transaction, of whatever client. */
export interface Undo extends ViewRequest {
  readonly message: "undo";
}

/** Redo the transaction that was undone last. */
export interface Redo extends ViewRequest {
  readonly message: "redo";
}

/**
 * Lay out one graph, or some of its nodes, as one transaction.
 *
 * With `values`, sizes, constants and steps of an expression are cards, and not written on those that use them. `first`
 * says that nobody asked for it: the graph is seen for the first time, and Undo passes over it. `cell` is the width and
 * height of the view in pixels, `folded` the rows of nodes that it shows as one card each.
 */
export interface Arrange extends ViewRequest {
  readonly message: "arrange";
  readonly graph?: string;
  readonly direction?: "auto" | "columns" | "down" | "right";
  readonly values?: boolean;
  readonly first?: boolean;
  readonly cell?: readonly [number, number] | null;
  readonly nodes?: readonly string[];
  readonly folded?: readonly (readonly string[])[];
}

/** Move nodes of one graph into a nested graph, as one transaction; numbered if `name` is None. */
export interface Group extends ViewRequest {
  readonly message: "group";
  readonly nodes: readonly string[];
  readonly name?: string | null;
  readonly graph?: string;
}

/** Replace a Subgraph node by its contents, as one transaction. */
export interface Ungroup extends ViewRequest {
  readonly message: "ungroup";
  readonly node: string;
  readonly graph?: string;
}

/** Publish the contents of a Subgraph node as a block in every palette; `node` is its path from the root. */
export interface Publish extends ViewRequest {
  readonly message: "publish";
  readonly node: string;
  readonly name: string;
}

/** Remove a block from the palettes. */
export interface Unpublish extends ViewRequest {
  readonly message: "unpublish";
  readonly name: string;
}

/** Add the blocks of a graph file to the palettes; `text` is the contents of the file. */
export interface LoadBlocks extends ViewRequest {
  readonly message: "loadBlocks";
  readonly text: string;
}

/** Send a `Snapshot` to this view, which has the document at `version`; None: it has none. */
export interface Sync extends ViewRequest {
  readonly message: "sync";
  readonly version?: number | null;
}

/** Send the `Catalog` to this view. */
export interface GetCatalog extends ViewRequest {
  readonly message: "getCatalog";
}

/** Send the generated PyTorch source, as `Source`. */
export interface GetSource extends ViewRequest {
  readonly message: "getSource";
}

/** Send the editor's front end as `Bundle`, to a page that has not loaded it. */
export interface GetBundle extends ViewRequest {
  readonly message: "getBundle";
}

/** Send the effect of an edge between two ports, given by their paths, as `Preview`, without a change. */
export interface GetPreview extends ViewRequest {
  readonly message: "getPreview";
  readonly source: string;
  readonly target: string;
}

/** Run one example up to an output port, given by its path, and send its value as `SeenTensor`. */
export interface RunToHere extends ViewRequest {
  readonly message: "runToHere";
  readonly port: string;
}

/** Send the labels of what can be undone and redone, as `Steps`, to this view. */
export interface GetSteps extends ViewRequest {
  readonly message: "getSteps";
}

/** Update number `tick` of a training has been painted, so that the next one may be sent. Not answered. */
export interface Painted extends ViewRequest {
  readonly message: "painted";
  readonly tick: number;
}

/** Stop measuring and showing a training; answered by an empty `Training` to every view. */
export interface HideTraining extends ViewRequest {
  readonly message: "hideTraining";
}

/** Send the `ExportFormats` to this view. */
export interface GetExportFormats extends ViewRequest {
  readonly message: "getExportFormats";
}

/** Write the model to `path` on the kernel's machine and prove the file; answered by an `ExportState` to every view. */
export interface StartExport extends ViewRequest {
  readonly message: "startExport";
  readonly format: string;
  readonly path: string;
  readonly overwrite?: boolean;
}

/** End the export that is under way; no file stays. Answered by an `ExportState` to every view. */
export interface CancelExport extends ViewRequest {
  readonly message: "cancelExport";
}

/** Check after every edit what an export would do, as `ExportCheck` to every view; an empty `format` ends it. */
export interface WatchExport extends ViewRequest {
  readonly message: "watchExport";
  readonly format?: string;
}

/** Send what the graph can be trained on, as `TrainChoices`. */
export interface GetTrainChoices extends ViewRequest {
  readonly message: "getTrainChoices";
}

/** Train the graph, as `TrainState` says then. */
export interface StartTraining extends ViewRequest {
  readonly message: "startTraining";
  /** What the data is. */
  readonly kind: "dataset" | "drawn" | "variable";
  /** The name of the variable or data set; empty if it is drawn. */
  readonly data?: string;
  /** The name of a loss; empty lets the data decide. */
  readonly loss?: string;
  /** The name of an optimizer. */
  readonly optimizer?: string;
  /** Its learning rate. */
  readonly learningRate?: number;
  /** Passes over the data. */
  readonly epochs?: number;
  /** `"32"`, `"bf16"` or `"16"`. */
  readonly precision?: string;
}

/** Pause, resume or stop the training, show its dashboard under the editor, or only look; answered by `TrainState`. */
export interface ControlTraining extends ViewRequest {
  readonly message: "controlTraining";
  readonly action: "dashboard" | "look" | "pause" | "resume" | "stop";
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

/** Labels of the next undo and redo; None if there is nothing to undo or redo. */
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
  readonly fix: Fix | Retype | null;
}

/** A change that would remove a diagnostic: one property set to one value. */
export interface Fix {
  readonly kind: "set";
  /** Path of the node to change. */
  readonly node: string;
  /** Name of the property. */
  readonly property: string;
  /** The JSON form of the value to set (see `graph.schema.values`). */
  readonly value: Json;
  /** What a button says, e.g. `"Set in_features to 400"`. */
  readonly label: string;
}

/** A change that would remove a diagnostic: another type for a node, which keeps its edges and the values it can keep. */
export interface Retype {
  readonly kind: "retype";
  /** Path of the node to change. */
  readonly node: string;
  /** Its new type. */
  readonly type: string;
  /** What a button says, e.g. `"Change pool to MaxPool2d"`. */
  readonly label: string;
}

/** A delta of `Derived` for the document at `version`; `more` says that another piece of it follows. */
export interface DerivedChanged {
  readonly message: "derivedChanged";
  readonly version: number;
  readonly derived: Derived;
  readonly more: boolean;
}

/** Python's analysis of the document; as a delta, only the changes. */
export interface Derived {
  /** By output port path (`"block.conv1.output"`); None takes the entry away. */
  readonly shapes: Readonly<Record<string, TensorShape | null>>;
  /** Values inferred for properties left `"auto"`, by node path, in JSON form; None takes the entry away. */
  readonly resolved: Readonly<Record<string, Readonly<Record<string, Json>> | null>>;
  /** By node path (`""`: the whole graph), replacing that node's earlier ones. */
  readonly diagnostics: Readonly<Record<string, readonly Diagnostic[]>>;
  /** Costs of nodes by path; None removes the entry. */
  readonly costs: Readonly<Record<string, NodeCost | null>>;
  /** The symbolic sizes that the costs are for, the batch's being 1; None if they are as before. */
  readonly example: Readonly<Record<string, number>> | null;
}

/** The shape of an edge's tensor: sizes (numbers, or expressions such as `"N"` and `"H//2"`) and a dtype name. */
export interface TensorShape {
  /** As it is for the example where the document is an import. */
  readonly shape: readonly (number | string)[];
  /** Name of the element type. */
  readonly dtype: string;
  /** With names for the sizes that the proof of the import varied, `~16` for one that follows in an unknown way. */
  readonly named?: readonly (number | string)[] | null;
}

/** The cost of one node, inner nodes included. */
export interface NodeCost {
  /** Elements of its parameters; shared ones count at the node that has them. */
  readonly parameters: number;
  /** Multiply-adds of a forward pass: matrix products, convolutions and attention. */
  readonly multAdds: number;
  /** Bytes of its parameters and buffers. */
  readonly memory: number;
  /** Bytes of its outputs; for a container, of the outputs of its nodes. */
  readonly activation: number;
}

/**
 * The full state, for a view that opens or has missed a commit; without the document if the view has this version.
 *
 * The document is the JSON text of a `DocumentState`: ipywidgets looks at each value of a message, one by one.
 */
export interface Snapshot {
  readonly message: "snapshot";
  readonly version: number;
  readonly document: string | null;
  readonly derived: Derived;
  readonly history: HistoryState;
  readonly id: number | null;
  readonly client: string | null;
}

/** Every node type; `key` changes with the contents, so that a page loads it once. */
export interface Catalog {
  readonly message: "catalog";
  readonly key: string;
  /** Of all types, each once, in the order of their first types. */
  readonly categories: readonly Category[];
  /** Of all types, each once: many types have the same ones, and the list is half of the message. */
  readonly properties: readonly PropertyState[];
  readonly types: readonly CatalogEntry[];
  /** Networks to begin with: the Subgraph nodes of a document's outermost graph. */
  readonly templates: DocumentState;
  readonly id: number | null;
  readonly client: string | null;
}

/** A category of node types, and the look of its nodes. */
export interface Category {
  /** Heading in the palette. */
  readonly name: string;
  /** In degrees of oklch. */
  readonly hue: number;
  /** Of oklch; 0 is grey. */
  readonly chroma: number;
  /** Path of a 16 × 16 pictogram, drawn with strokes. */
  readonly icon: string;
}

/** A property for the browser; `default` in JSON form, absent when required. */
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
  readonly kind: NodeKind;
  readonly inputs?: readonly Port[];
  readonly outputs?: readonly Port[];
  readonly doc?: string;
  readonly url?: string;
  /** Place in the catalogue's list of categories. */
  readonly category: number;
  /** Places in the catalogue's list of properties. */
  readonly properties?: readonly number[];
}

/** One place where an edge can end (input) or start (output). */
export interface Port {
  /** Name of the argument of `forward` or of the function; outputs are named `"output"` or as torch's documentation names them (`"h_n"`). */
  readonly name: string;
  /** The kind of its values. */
  readonly kind?: PortKind;
  /** Whether an input may stay unconnected. */
  readonly optional?: boolean;
  /** Whether an input takes any number of edges, addressed as `name_0`, `name_1` … */
  readonly variadic?: boolean;
  /** The element types that an input accepts; checked during shape inference. */
  readonly dtypes?: "any" | "floating" | "integer";
  /** Name of the property that an output depends on: the output exists only while that property differs from its default (`"return_indices"` of a pooling). Empty: it always exists. */
  readonly when?: string;
  /** One sentence. */
  readonly doc?: string;
}

/** A whole document, as in a `.pnne.json` file. */
export interface DocumentState {
  readonly format: string;
  readonly formatVersion: number;
  readonly name: string;
  /** `""` is the root; the others are definitions of Subgraph nodes. */
  readonly graphs: Readonly<Record<string, GraphState>>;
  /** Named sizes, by name, in their JSON form. */
  readonly sizes?: Readonly<Record<string, Json>>;
}

/** One graph: nodes in their order, edges in theirs, frames by name. */
export interface GraphState {
  readonly nodes?: readonly NodeState[];
  readonly edges?: readonly EdgeState[];
  readonly frames?: readonly Frame[];
}

/** A node in a file; property values are in their JSON form. */
export interface NodeState {
  readonly name: string;
  readonly type: string;
  readonly properties?: Readonly<Record<string, Json>>;
  readonly position?: readonly [number, number] | null;
  readonly origin?: Origin | null;
  readonly collapsed?: boolean;
}

/** An edge, from output `"node.port"` to input `"node.port"`. */
export interface EdgeState {
  readonly source: string;
  readonly target: string;
}

/** A frame at the time of reading; a frame without nodes is a note. */
export interface Frame {
  /** Its name among the frames of its graph. */
  readonly name: string;
  /** Left, top, width and height in the editor's pixels. */
  readonly box: readonly [number, number, number, number];
  /** A line at its top. */
  readonly title?: string;
  /** The text under the title. */
  readonly text?: string;
  /** One of `"grey"`, `"blue"`, `"green"`, `"yellow"`, `"red"`, `"purple"`. */
  readonly colour?: string;
}

/** A type was registered while the editor is open. */
export interface NodeTypeAdded {
  readonly message: "nodeTypeAdded";
  readonly type: NodeTypeState;
}

/** A node type for the browser. */
export interface NodeTypeState {
  readonly type: string;
  readonly kind: NodeKind;
  readonly inputs?: readonly Port[];
  readonly outputs?: readonly Port[];
  readonly doc?: string;
  readonly url?: string;
  readonly category: Category;
  readonly properties?: readonly PropertyState[];
}

/** The blocks that the palette offers: the Subgraph nodes of a document's outermost graph. */
export interface Blocks {
  readonly message: "blocks";
  readonly document: DocumentState;
  readonly id: number | null;
  readonly client: string | null;
}

/** The answer to a request of a view, with the id and the client of the request. */
export interface Answer {
  readonly id: number;
  readonly client: string;
}

/**
 * Generated source of the model, with the lines of its nodes; the class of the whole graph is `""`.
 *
 * `error` says what is wrong with the graph, and whether nodes are missing in the source.
 */
export interface Source extends Answer {
  readonly message: "source";
  readonly text: string;
  readonly classes: Readonly<Record<string, SourceLines>>;
  readonly error: string;
}

/** The places of nodes in one class of the source: `lines` from 1 by name, and `members`, the classes of its blocks. */
export interface SourceLines {
  readonly lines: Readonly<Record<string, readonly number[]>>;
  readonly members?: Readonly<Record<string, string>>;
}

/** Answer to `GetSteps`: labels in the order in which it was done. */
export interface Steps extends Answer {
  readonly message: "steps";
  /** Steps that undo would revert, the latest first. */
  readonly done: readonly string[];
  /** Steps that redo would apply, the next first. */
  readonly undone: readonly string[];
  /** Number of earlier steps that `done` leaves out. */
  readonly earlier: number;
}

/** Answer to `GetBundle`: a JavaScript module. */
export interface Bundle extends Answer {
  readonly message: "bundle";
  readonly text: string;
}

/** Answer to `GetPreview`. */
export interface Preview extends Answer {
  readonly message: "preview";
  readonly consequence: Consequence;
}

/** The effect of an edge. */
export interface Consequence {
  /** Shape of its target's output, or at an Output of its input; None if unknown. */
  readonly shape: TensorShape | null;
  /** Findings that the edge would cause. */
  readonly diagnostics: readonly Diagnostic[];
}

/** Answer to `RunToHere`: a port's value for one example. */
export interface SeenTensor extends Answer {
  readonly message: "seenTensor";
  /** Of the document that has been run. */
  readonly version: number;
  /** Of the tensor; None if it is something else, which `text` says. */
  readonly shape: readonly number[] | null;
  /** Its element type, or the type of what is no tensor. */
  readonly dtype: string;
  /** The values, where they are few. */
  readonly text: string;
  /** The example, and which weights are not those of a model, as sentences. */
  readonly facts: readonly string[];
  /** By name, in the order in which they are shown; of a large tensor, of an even sample. */
  readonly statistics: Readonly<Record<string, number>>;
  /** How its values are spread; None if there are none. */
  readonly histogram: ValueHistogram | null;
  /** A `data:` address, where the tensor can be seen as a picture; else empty. */
  readonly picture: string;
  /** What it shows. */
  readonly caption: string;
}

/** A histogram: counts in equally wide bins from `low` to `high`, without the `left_out` values, such as infinite ones. */
export interface ValueHistogram {
  readonly low: number;
  readonly high: number;
  readonly counts: readonly number[];
  readonly leftOut: number;
}

/** The state of this graph's training, as update number `tick`; without layers, only its pictures are shown. */
export interface Training {
  readonly message: "training";
  readonly tick: number;
  /** The latest observed step. */
  readonly step: number;
  /** By node path. */
  readonly layers: Readonly<Record<string, LayerState>>;
  /** What nodes give, as the address of a PNG, by node path; they stay after the training. */
  readonly pictures: Readonly<Record<string, string>>;
}

/** A layer's measurements in the latest observed step of a training; None if unknown or not finite. */
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
  readonly fault?: LayerFault | null;
}

/** A fault of a layer in training: a stable name, and the observation with numbers. */
export interface LayerFault {
  readonly kind: "dead" | "exploding" | "notFinite" | "saturated" | "vanishing";
  readonly reason: string;
}

/** The marks of all nodes that have one, by path. */
export interface Marks {
  readonly message: "marks";
  readonly marks: Readonly<Record<string, NodeMark>>;
}

/** The mark on a node's card. */
export interface NodeMark {
  /** A few characters under the card. */
  readonly text: string;
  /** The colour of the card's edge: from good to bad; `"plain"` has none. */
  readonly level: "bad" | "good" | "near" | "plain" | "warning";
  /** The tooltip of the text, which a screen reader also says. */
  readonly title: string;
}

/** Answer to `GetExportFormats`. */
export interface ExportFormats extends Answer {
  readonly message: "exportFormats";
  /** In the order in which they are offered. */
  readonly formats: readonly ExportFormatState[];
  /** Where a path that is not absolute begins. */
  readonly folder: string;
  /** Which weights a file would get, as a sentence. */
  readonly weights: string;
}

/** A format that a model can be exported to. */
export interface ExportFormatState {
  /** What `pn.export(format=...)` calls it. */
  readonly name: string;
  /** The usual end of its files' names. */
  readonly suffix: string;
  /** What a person should know before: that it takes minutes, that torch deprecates it. */
  readonly note: string;
  /** The packages that it needs and that are not installed, as a sentence; empty if none is. */
  readonly missing: string;
}

/** The state of the latest export. */
export interface ExportState {
  readonly message: "exportState";
  /** `"idle"`: there was none; `"done"`: a file was written, which `result` says how well it agrees. */
  readonly state: "cancelled" | "done" | "failed" | "idle" | "running";
  /** The name of its format. */
  readonly format: string;
  /** Where the file goes. */
  readonly path: string;
  /** How long it has taken so far. */
  readonly seconds: number;
  /** Whether it can be ended before it is done. */
  readonly cancellable: boolean;
  /** Whether the graph was edited since. */
  readonly stale: boolean;
  /** Why there is no file. */
  readonly error: string;
  /** The same at nodes. */
  readonly diagnostics: readonly Diagnostic[];
  /** How well the file agrees with the model. */
  readonly result: ExportResult | null;
  readonly id: number | null;
  readonly client: string | null;
}

/** The result of an export: a sentence, further facts, one per line, and every node in the order of execution. */
export interface ExportResult {
  readonly ok: boolean;
  readonly headline: string;
  readonly facts: readonly string[];
  readonly nodes: readonly NodeError[];
}

/** The error of an exported file at one node. */
export interface NodeError {
  /** Its path. */
  readonly node: string;
  /** Its type. */
  readonly type: string;
  /** The largest distance, in the unit of the values; None if it was not compared or is not finite. */
  readonly error: number | null;
  /** The error divided by what is tolerated; above 1, file and model differ. None as for `error`. */
  readonly ratio: number | null;
  /** Whether they agree, as far as they were compared. */
  readonly ok: boolean;
  /** Why it was not compared, or where it differs. */
  readonly note: string;
  /** How the values are spread; None if they were not compared. */
  readonly histograms: ValueHistograms | null;
}

/** Histograms of a node's values in the model and in an exported file. */
export interface ValueHistograms {
  /** Where the first bin begins. */
  readonly low: number;
  /** Where the last bin ends; all bins are equally wide. */
  readonly high: number;
  /** Counts of the model's values. */
  readonly model: readonly number[];
  /** Counts of the file's. */
  readonly file: readonly number[];
  /** Values of both that are in no bin, such as infinite ones. */
  readonly leftOut: number;
}

/** The findings of a check of the current graph for an export. */
export interface ExportCheck {
  readonly message: "exportCheck";
  /** `"checking"`: `findings` are those of the graph before the latest edits; `"failed"`: `error` says why there are none. */
  readonly state: "checking" | "done" | "failed" | "off";
  /** The name of the format; empty if none is watched. */
  readonly format: string;
  /** As of `pn.check_export`. */
  readonly findings: readonly Diagnostic[];
  /** Why the check could not be made. */
  readonly error: string;
  readonly id: number | null;
  readonly client: string | null;
}

/** Answer to `GetTrainChoices`: what the notebook has for the editor. */
export interface TrainChoices extends Answer {
  readonly message: "trainChoices";
  readonly data: readonly DataChoice[];
  readonly losses: readonly string[];
  readonly optimizers: readonly string[];
  readonly modules: readonly ModuleChoice[];
  /** The editor's id in the outputs of the notebook. */
  readonly widget: string;
}

/** Data that the graph can be trained on. */
export interface DataChoice {
  readonly kind: "dataset" | "drawn" | "variable";
  readonly name: string;
  /** What it is, in words. */
  readonly text: string;
}

/** A module of the notebook, which an empty editor offers to begin with. */
export interface ModuleChoice {
  readonly name: string;
  /** Its class. */
  readonly text: string;
  /** The code that opens it, on an example or a size that its first layer takes. */
  readonly line: string;
}

/** Answer to `StartTraining` and `ControlTraining`: how far the training is; without a state, there is none. */
export interface TrainState extends Answer {
  readonly message: "trainState";
  readonly state: string;
  readonly epoch: number;
  readonly epochs: number;
  readonly step: number;
  /** The latest loss of a step. */
  readonly loss: number | null;
  /** Some of the losses before, for a small picture. */
  readonly losses: readonly number[];
  /** What else is to be said: the loss that was chosen, or why the training failed. */
  readonly text: string;
  /** The code that shows its dashboard, by the names of the notebook; empty if it has none for the editor. */
  readonly line: string;
  /** The editor's id in the outputs of the notebook. */
  readonly widget: string;
}

/** A button was pressed. */
export interface CommandMessage {
  readonly kind: "command";
  readonly id: number;
  readonly command: Command;
}

/** A layer was chosen for the histogram. */
export interface ChooseMessage {
  readonly kind: "choose";
  readonly id: number;
  readonly layer: string;
}

/** Switch a plot between a linear and a logarithmic axis. */
export interface ScaleMessage {
  readonly kind: "scale";
  readonly id: number;
  readonly log: boolean;
}

/** A learning rate was typed. */
export interface RateMessage {
  readonly kind: "rate";
  readonly id: number;
  readonly rate: number;
}

/** Show the training on its graph, or hide it. */
export interface ShowMessage {
  readonly kind: "show";
  readonly id: number;
  readonly on: boolean;
}

/** Show the export dialog under the bar, or hide it. */
export interface ExportMessage {
  readonly kind: "export";
  readonly id: number;
  readonly on: boolean;
}

/** Dismiss a finding by its number; null shows all of them again. */
export interface DismissMessage {
  readonly kind: "dismiss";
  readonly id: number;
  readonly number: number | null;
}

/** Frame number `tick` was painted. Not answered. */
export interface AckMessage {
  readonly kind: "ack";
  readonly tick: number;
}

/** The answer to a request: None, or why it was refused. */
export interface Reply {
  readonly kind: "reply";
  readonly id: number;
  readonly error: string | null;
}

/**
 * The updates of several widgets in one message; the binary parts of all are the message's buffers, in order.
 *
 * A dictionary, because a widget's state is sent as ipywidgets has prepared it, and is not looked at again.
 */
export interface PictureMessage {
  readonly kind: "picture";
  readonly updates: readonly Update[];
}

/** The update of one widget. */
export interface Update {
  /** The widget's id. */
  readonly model: string;
  /** Where in the state its binary parts belong; as many of the message's buffers are this update's. */
  readonly paths: readonly Json[];
  /** Its traits that have changed. */
  readonly state: Readonly<Record<string, Json>>;
}

/** A key was pressed in the explorer's graph. Not answered. */
export interface MoveMessage {
  readonly kind: "move";
  readonly move: Move;
}

/** A number or a cell with `data-pnne-ask` was pressed in the page. Not answered. */
export interface AskMessage {
  readonly kind: "ask";
  readonly ask: string;
}

/** A file was dropped on the example. Its content is the message's buffer; there is none if it is too large. Not answered. */
export interface DropMessage {
  readonly kind: "drop";
  readonly name: string;
}

/** The status of a training in the control bar. */
export interface TrainingStatus {
  readonly state: TrainingState;
  /** What the running training waits for, in words, or None. */
  readonly waiting: string | null;
  /** Whether the graph says something else than what is in training. */
  readonly edited: boolean;
  /** Why it failed, or None. */
  readonly error: string | null;
  /** The node that failed, by its path on screen, or None. */
  readonly node: string | null;
  readonly epoch: number;
  readonly epochs: number;
  readonly batch: number;
  readonly batches: number | null;
  readonly step: number;
  readonly stepsPerSecond: number;
  /** Estimate to the end, in seconds, or None. */
  readonly secondsLeft: number | null;
  readonly learningRate: number | null;
  /** Share of the time that watching the layers takes, 0 to 1, or None before it was measured. */
  readonly cost: number | null;
  /** Half of its 95 % interval, or None while there are too few observed steps to tell. */
  readonly costMargin: number | null;
  readonly framesPerSecond: number;
  /** The factor of scaled gradients (float16), or None without scaling. */
  readonly lossScale: number | null;
  /** Steps that left the parameters as they were, because a scaled gradient overflowed. */
  readonly skippedSteps: number;
  /** The latest checkpoint, or None while there is none. */
  readonly saved: Saved | null;
  /** Frames that came too fast to be looked at. */
  readonly dropped: number;
  /** What was found, the most probable cause first, and what has happened, in its order. */
  readonly notices: readonly Notice[];
  /** Findings that a person has dismissed. */
  readonly dismissed: number;
  /** What can be done about a NaN that has ended the training. */
  readonly remedies: readonly Command[];
  /** The batch that it came from, in words, while it is shown; else empty. */
  readonly batchText: string;
}

/** A checkpoint: the last step that it holds, and its file. */
export interface Saved {
  readonly step: number;
  readonly path: string;
}

/** A finding: its step and node, its meaning, the remedy, and the evidence for a small picture. */
export interface Notice {
  readonly number: number;
  readonly step: number;
  readonly message: string;
  readonly node: string | null;
  readonly hint: string | null;
  /** Its kind, which `pn.explain` takes, or None of an event. */
  readonly code: string | null;
  /** How often its kind is wrong, in words, or None of an event. */
  readonly alarms: string | null;
  readonly bars: readonly EvidenceBar[];
  readonly curves: readonly EvidenceCurve[];
}

/** One of the numbers that show a finding. */
export interface EvidenceBar {
  readonly label: string;
  readonly value: number;
}

/** The curve of a quantity up to a finding; null where it was not finite. */
export interface EvidenceCurve {
  readonly label: string;
  readonly values: readonly (number | null)[];
}

export const DTYPES = [
  "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32",
  "uint64", "bool", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
  "float8_e5m2fnuz"
] as const;

export const DEVICE = /^(?:(?:cpu|cuda|mps|xpu|meta)(?::[0-9]{1,3})?)$/;

export const SIZE_NAME = /^(?:[A-Za-z_][A-Za-z0-9_]*)$/;

export const NODE_NAME = /^(?:[A-Za-z0-9_]+)$/;

export const MAX_NAME_LENGTH = 100;

export const RESERVED_NAMES = [
  "F", "False", "None", "T_destination", "True", "_apply", "_backward_hooks", "_backward_pre_hooks", "_buffers",
  "_call_impl", "_compiled_call_impl", "_forward_hooks", "_forward_hooks_always_called",
  "_forward_hooks_with_kwargs", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_get_backward_hooks",
  "_get_backward_pre_hooks", "_get_name", "_is_full_backward_hook", "_load_from_state_dict",
  "_load_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_maybe_warn_non_full_backward_hook", "_modules",
  "_named_members", "_non_persistent_buffers_set", "_parameters", "_register_load_state_dict_pre_hook",
  "_register_state_dict_hook", "_replicate_for_data_parallel", "_save_to_state_dict", "_slow_forward",
  "_state_dict_hooks", "_state_dict_pre_hooks", "_version", "_wrapped_call_impl", "add_module", "and", "apply",
  "as", "assert", "async", "await", "bfloat16", "break", "buffers", "call_super_init", "children", "class",
  "compile", "continue", "cpu", "cuda", "def", "del", "double", "dump_patches", "elif", "else", "eval",
  "except", "extra_repr", "finally", "float", "for", "forward", "from", "get_buffer", "get_extra_state",
  "get_parameter", "get_submodule", "global", "half", "if", "import", "in", "ipu", "is", "lambda",
  "load_state_dict", "modules", "mtia", "named_buffers", "named_children", "named_modules", "named_parameters",
  "nn", "nonlocal", "not", "or", "parameters", "pass", "raise", "register_backward_hook", "register_buffer",
  "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
  "register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
  "register_module", "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook",
  "requires_grad_", "return", "self", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to",
  "to_empty", "torch", "train", "training", "try", "type", "while", "with", "xpu", "yield", "zero_grad"
] as const;

export const KEYWORDS = "*";

export const FRAME_COLOURS = ["grey", "blue", "green", "yellow", "red", "purple"] as const;

export const FARTHEST = 1000000000;

export const MAX_TITLE = 200;

export const MAX_TEXT = 5000;

export const FRAME_PADDING = 14.0;

export const FRAME_TITLE_HEIGHT = 26.0;

export const SIZES_OF_TENSORS = ["size", "dim", "numel", "len"] as const;

export const LITERALS = ["Constant", "slice", "dtype"] as const;

export const COMPUTED_VALUES = [
  "getitem", "tuple", "list", "math_sqrt", "math_floor", "math_ceil", "math_trunc", "operator_add",
  "operator_sub", "operator_mul", "operator_truediv", "operator_floordiv", "operator_mod", "operator_pow",
  "operator_neg", "operator_pos", "operator_abs", "operator_eq", "operator_ne", "operator_lt", "operator_le",
  "operator_gt", "operator_ge", "choose"
] as const;

export const COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"] as const;

export const VALUE_ATTRIBUTES = ["shape", "ndim", "dtype", "device"] as const;

export const SPLITS = ["chunk", "split", "tensor_split", "unbind", "hsplit", "vsplit", "dsplit", "unsafe_chunk"] as const;

export const RESHAPES = [
  "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "t", "swapaxes",
  "swapdims", "movedim", "moveaxis", "view", "expand"
] as const;

export const CASTS = ["to", "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "contiguous", "detach"] as const;

export const PRODUCTS = ["matmul", "bmm", "einsum"] as const;

export const ARITHMETIC = [
  "add", "sub", "mul", "div", "pow", "neg", "sqrt", "rsqrt", "exp", "mean", "clamp", "masked_fill", "where",
  "softmax"
] as const;

export const RARE = ["shares", "checkpoint", "device", "inside", "ablate", "trainable", "eval_mode"] as const;

export const SNOWFLAKE = "M8 2v12M2.8 5l10.4 6M2.8 11l10.4-6M6.5 3.4L8 4.9l1.5-1.5M6.5 12.6L8 11.1l1.5 1.5";

export const STRUCTURE: Category = {"name": "Structure", "hue": 255, "chroma": 0.03, "icon": "M2.5 8h8M7.5 4.5L11 8l-3.5 3.5M13.5 3v10"};

export const BLOCK: Category = {"name": "Block", "hue": 240, "chroma": 0.07, "icon": "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6"};

export const MY_BLOCKS: Category = {"name": "My blocks", "hue": 240, "chroma": 0.07, "icon": "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6"};

export const TEMPLATES: Category = {"name": "Templates", "hue": 151.3, "chroma": 0.1, "icon": "M8 4.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7"};

export const UNKNOWN: Category = {"name": "Unknown", "hue": 252.2, "chroma": 0.1, "icon": "M8 4.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7"};
