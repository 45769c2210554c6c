import {
  Background,
  type Connection,
  type EdgeChange,
  type FinalConnectionState,
  type NodeChange,
  type OnConnectStartParams,
  ReactFlow,
  useStore,
} from "@xyflow/react";
import { type MouseEvent as ReactMouseEvent, useCallback, useMemo, useRef } from "react";
import type { EdgeState } from "../../protocol";
import { dropCopy } from "../commands/clipboard";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import type { Editor } from "../commands/editor";
import { dragFrame, editFrame } from "../commands/framing";
import { dropNode, openPalette, overEdge, reconnect } from "../commands/gestures";
import { whyNotConnect } from "../document/connection";
import { centre } from "../scene/boxes";
import type { Point } from "../scene/placement";
import { addressOf } from "../scene/scene";
import { type Connecting, NOTHING } from "../scene/view";
import { FarView } from "./FarView";
import { FrameBox } from "./FrameBox";
import { type CardNode, FlowMaker, type FrameNode, frameName, type WireEdge } from "./flow";
import { Ghost } from "./Ghost";
import { MiniMap } from "./MiniMap";
import { NodeCard } from "./NodeCard";
import { Peek } from "./Peek";
import { usePointing } from "./pointing";
import { type Region, regionOf, useWindow } from "./region";
import { LARGEST_ZOOM, SMALLEST_ZOOM, useViewport } from "./viewport";
import { Wire } from "./Wire";

const NODE_TYPES = { card: NodeCard, frame: FrameBox };

type CanvasNode = CardNode | FrameNode;
const EDGE_TYPES = { wire: Wire };
const LABELS_FROM_ZOOM = 0.45;
/** Further away than this, a graph with many nodes is one picture. */
const FAR_ZOOM = 0.35;
const MANY_NODES = 150;

const GRID = 12;
const NOWHERE: Region = { names: NOTHING, edges: [] };

/** A port under the pointer, as the document calls it. */
function portAt(editor: Editor, place: string, handle: string | null): Connecting {
  const side = handle === "source" ? "output" : "input";
  const scene = editor.scene();
  return { port: scene ? addressOf(scene, place, side) : place, side };
}

/** The edge between two ports, as the document calls them. */
function endsOf(editor: Editor, { source, sourceHandle, target, targetHandle }: Connection | WireEdge): EdgeState {
  return {
    source: portAt(editor, `${source}.${sourceHandle}`, "source").port,
    target: portAt(editor, `${target}.${targetHandle}`, "target").port,
  };
}

function onGrid(value: number): number {
  return Math.round(value / GRID) * GRID;
}

export function Canvas() {
  const editor = useEditor();
  const scene = useScene();
  const shapes = useSession((state) => state.derived.shapes);
  const selectedNodes = useView((view) => view.nodes);
  const selectedEdges = useView((view) => view.edges);
  const selectedFrames = useView((view) => view.frames);
  const moving = useView((view) => view.moving);
  const boxes = useView((view) => view.boxes);
  const active = useView((view) => view.active);
  const readOnly = useSession((state) => state.readOnly);
  const maker = useRef<FlowMaker>(null);
  maker.current ??= new FlowMaker();
  const flow = maker.current;
  const distant = useStore((state) => state.transform[2] < LABELS_FROM_ZOOM);
  const small = useStore((state) => state.transform[2] < FAR_ZOOM);
  // A graph of ordinary size is in the page as a whole, so that the browser's search and assistive tools find all of it.
  const whole = scene !== null && scene.cards.size <= MANY_NODES;
  const far = small && scene !== null && !whole;
  const { hovered, ...pointing } = usePointing(far);
  const window = useWindow();
  const region = useMemo(() => {
    if (!scene) return NOWHERE;
    if (whole) return { names: new Set(scene.cards.keys()), edges: scene.wires };
    if (!far) return regionOf(scene, window, selectedNodes);
    return { names: hovered === null ? selectedNodes : new Set([...selectedNodes, hovered]), edges: [] };
  }, [scene, whole, window, selectedNodes, far, hovered]);
  const cards = useMemo(
    () => (scene ? flow.makeNodes(scene, region.names, selectedNodes, moving) : []),
    [flow, scene, region, selectedNodes, moving],
  );
  const frames = useMemo(() => {
    const all = [...(scene?.graph.frames.values() ?? [])];
    return flow.makeFrames(far ? all.filter(({ name }) => selectedFrames.has(name)) : all, selectedFrames, boxes);
  }, [flow, scene, far, selectedFrames, boxes]);
  const nodes = useMemo<CanvasNode[]>(() => [...frames, ...cards], [frames, cards]);
  const edges = useMemo(
    () => (scene ? flow.makeEdges(scene, region.edges, selectedEdges, shapes) : []),
    [flow, scene, region, selectedEdges, shapes],
  );
  useViewport();

  const onNodesChange = useCallback(
    (changes: NodeChange<CanvasNode>[]) => {
      const view = editor.view.get();
      const cards = editor.scene()?.cards;
      let selected: Set<string> | null = null;
      let chosenFrames: Set<string> | null = null;
      let places: Map<string, Point> | null = null;
      for (const change of changes) {
        const frame = "id" in change ? frameName(change.id) : null;
        if (frame !== null) {
          if (change.type === "select") {
            chosenFrames ??= new Set(view.frames);
            if (change.selected) chosenFrames.add(frame);
            else chosenFrames.delete(frame);
          } else if (change.type === "position" && change.position && change.dragging) {
            const corner = [change.position.x, change.position.y] as const;
            dragFrame(editor, frame, view.snap ? [onGrid(corner[0]), onGrid(corner[1])] : corner);
          }
        } else if (change.type === "select") {
          selected ??= new Set(view.nodes);
          for (const name of editor.whole([change.id])) {
            if (change.selected) selected.add(name);
            else selected.delete(name);
          }
        } else if (change.type === "position" && change.position && change.dragging) {
          const card = cards?.get(change.id);
          places ??= new Map(editor.view.get().moving);
          if (!card) continue;
          const [x, y] = centre(card, [change.position.x, change.position.y]);
          places.set(change.id, view.snap ? [onGrid(x), onGrid(y)] : [x, y]);
        }
      }
      if (selected) editor.patch({ nodes: selected });
      if (chosenFrames) editor.patch({ frames: chosenFrames });
      if (selected || chosenFrames) editor.announceSelection();
      if (places) editor.patch({ moving: places });
    },
    [editor],
  );
  const onEdgesChange = useCallback(
    (changes: EdgeChange<WireEdge>[]) => {
      const selected = new Set(editor.view.get().edges);
      for (const change of changes) {
        if (change.type !== "select") continue;
        if (change.selected) selected.add(change.id);
        else selected.delete(change.id);
      }
      editor.patch({ edges: selected });
      editor.announceSelection();
    },
    [editor],
  );
  const onNodeClick = useCallback(
    (event: ReactMouseEvent, node: CanvasNode) => {
      const { nodes, frames } = editor.view.get();
      if (event.shiftKey || nodes.size + frames.size < 2) return;
      // React Flow leaves several selected as they are; a click without a drag means this one.
      const frame = frameName(node.id);
      if (frame === null) editor.select([node.id]);
      else editor.select([], NOTHING, [frame]);
      editor.announceSelection();
    },
    [editor],
  );
  const onDragStart = useCallback(
    (_: unknown, node: CanvasNode) => {
      const frame = frameName(node.id);
      const { nodes, frames } = editor.view.get();
      if (frame !== null && !frames.has(frame)) editor.select([], NOTHING, [frame]);
      else if (frame === null && !nodes.has(node.id)) editor.select([node.id]);
      else return;
      editor.announceSelection();
    },
    [editor],
  );
  // React Flow names no node when the last of those that were dragged was removed meanwhile, from Python.
  const onDrag = useCallback((_: unknown, node?: CanvasNode) => node && overEdge(editor, node.id), [editor]);
  const onDragStop = useCallback(
    (event: { altKey: boolean }, node?: CanvasNode) =>
      event.altKey && node ? dropCopy(editor) : dropNode(editor, node?.id ?? null),
    [editor],
  );
  const onSelectionDragStop = useCallback(
    (event: { altKey: boolean }) => (event.altKey ? dropCopy(editor) : editor.move(editor.view.get().moving)),
    [editor],
  );
  const onReconnectStart = useCallback(
    (_: unknown, edge: WireEdge) => {
      editor.patch({ reconnecting: endsOf(editor, edge) });
    },
    [editor],
  );
  const onReconnect = useCallback(
    (_: WireEdge, made: Connection) => {
      const { reconnecting } = editor.view.get();
      const { source, target } = endsOf(editor, made);
      if (reconnecting) reconnect(editor, reconnecting, source, target);
    },
    [editor],
  );
  const onReconnectEnd = useCallback(() => editor.patch({ reconnecting: null }), [editor]);
  const onConnectStart = useCallback(
    (_: unknown, { nodeId, handleId, handleType }: OnConnectStartParams) =>
      editor.patch({
        connecting: portAt(editor, `${nodeId}.${handleId}`, handleType),
      }),
    [editor],
  );
  const onConnectEnd = useCallback(
    (event: MouseEvent | TouchEvent, state: FinalConnectionState) => {
      const { connecting, reconnecting } = editor.view.get();
      editor.patch({ connecting: null });
      if (!connecting || state.isValid) return;
      // An end that is let go over nothing goes back to where it was.
      if (reconnecting && !state.toHandle) return;
      if (state.toHandle) {
        const { port: other } = portAt(editor, `${state.toHandle.nodeId}.${state.toHandle.id}`, state.toHandle.type);
        if (other === connecting.port) return;
        if ((state.toHandle.type === "source") === (connecting.side === "output")) {
          // At a port of the same side, the node is meant.
          const node = state.toHandle.nodeId;
          editor.connectToNode(connecting.port, connecting.side, node);
        } else if (connecting.side === "output") editor.connect(connecting.port, other);
        else editor.connect(other, connecting.port);
        return;
      }
      const point = "changedTouches" in event ? event.changedTouches[0] : event;
      const root = (event.target as Element | null)?.getRootNode() as Document | ShadowRoot | undefined;
      const under = point && root?.elementFromPoint(point.clientX, point.clientY);
      const id = under?.closest(".react-flow__node-card")?.getAttribute("data-id");
      if (id) editor.connectToNode(connecting.port, connecting.side, id);
      else if (!id && point && under?.closest(".pnne-canvas"))
        openPalette(editor, [point.clientX, point.clientY], connecting);
    },
    [editor],
  );
  const onConnect = useCallback(
    (made: Connection) => {
      const { source, target } = endsOf(editor, made);
      editor.connect(source, target);
    },
    [editor],
  );
  const isValidConnection = useCallback(
    (made: Connection | WireEdge) => {
      const shown = editor.connectable();
      const { source, target } = endsOf(editor, made);
      return shown !== null && whyNotConnect(shown, source, target) === null;
    },
    [editor],
  );
  const onDoubleClick = useCallback(
    (_: unknown, node: CanvasNode) => {
      if (node.type === "frame") editFrame(editor);
      else if (node.data.card.inside) editor.enter([...editor.view.get().path, node.id]);
    },
    [editor],
  );

  const onPaneDoubleClick = useCallback(
    (event: ReactMouseEvent) => {
      const target = event.target as Element;
      if (target.closest(".react-flow__pane, .react-flow__edge") && !target.closest(".react-flow__node"))
        openPalette(editor, [event.clientX, event.clientY]);
    },
    [editor],
  );

  return (
    <ReactFlow<CanvasNode, WireEdge>
      className={distant ? "pnne-distant" : ""}
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      {...pointing}
      onNodeClick={onNodeClick}
      onNodeDragStart={onDragStart}
      onNodeDrag={onDrag}
      onNodeDragStop={onDragStop}
      onSelectionDragStop={onSelectionDragStop}
      onDoubleClick={onPaneDoubleClick}
      edgesReconnectable={!readOnly}
      onReconnect={onReconnect}
      onReconnectStart={onReconnectStart}
      onReconnectEnd={onReconnectEnd}
      onNodeDoubleClick={onDoubleClick}
      onConnectStart={onConnectStart}
      onConnectEnd={onConnectEnd}
      onConnect={onConnect}
      isValidConnection={isValidConnection}
      onlyRenderVisibleElements={!whole}
      nodesDraggable={!readOnly}
      nodesConnectable={!readOnly}
      nodesFocusable={false}
      edgesFocusable={false}
      disableKeyboardA11y
      deleteKeyCode={null}
      panActivationKeyCode={null}
      zoomActivationKeyCode={null}
      selectionKeyCode="Shift"
      multiSelectionKeyCode="Shift"
      // From the first pixel: with a threshold, the node would trail the pointer by as much.
      nodeDragThreshold={0}
      selectNodesOnDrag={false}
      connectOnClick={false}
      connectionRadius={24}
      zoomOnScroll={active}
      zoomOnDoubleClick={false}
      preventScrolling={active}
      minZoom={SMALLEST_ZOOM}
      maxZoom={LARGEST_ZOOM}
      proOptions={{ hideAttribution: true }}
    >
      <Background gap={24} size={1.3} />
      {far && <FarView scene={scene} moving={moving} selected={selectedNodes} />}
      <MiniMap />
      {scene && <Peek scene={scene} />}
      <Ghost />
    </ReactFlow>
  );
}
