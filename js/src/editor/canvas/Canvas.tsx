import {
  Background,
  type Connection,
  type EdgeChange,
  type FinalConnectionState,
  type NodeChange,
  type OnConnectStartParams,
  ReactFlow,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { useEditor, useScene, useSession, useView } from "../context";
import { whyNotConnect } from "../document/connection";
import { nodeOf } from "../document/document";
import { type CardNode, centre, FlowMaker, type WireEdge } from "./flow";
import { bounds, MiniMap } from "./MiniMap";
import { NodeCard } from "./NodeCard";
import type { Point } from "./placement";
import { Refusal } from "./Refusal";
import { Wire } from "./Wire";

const NODE_TYPES = { card: NodeCard };
const EDGE_TYPES = { wire: Wire };
const FIT = { padding: 0.1, maxZoom: 1 };
/** A view opens no further away than this: it shows the top of a large graph rather than all of it, unreadable. */
const OPENING_ZOOM = 0.65;
const OPENING_MARGIN = 24;
const LABELS_FROM_ZOOM = 0.45;

export function Canvas() {
  const editor = useEditor();
  const scene = useScene();
  const shapes = useSession((state) => state.derived.shapes);
  const selectedNodes = useView((view) => view.nodes);
  const selectedEdges = useView((view) => view.edges);
  const moving = useView((view) => view.moving);
  const active = useView((view) => view.active);
  const readOnly = useSession((state) => state.readOnly);
  const maker = useRef<FlowMaker>(null);
  maker.current ??= new FlowMaker();
  const flow = maker.current;
  const nodes = useMemo(
    () => (scene ? flow.makeNodes(scene, selectedNodes, moving) : []),
    [flow, scene, selectedNodes, moving],
  );
  const edges = useMemo(
    () => (scene ? flow.makeEdges(scene, selectedEdges, shapes) : []),
    [flow, scene, selectedEdges, shapes],
  );
  const distant = useStore((state) => state.transform[2] < LABELS_FROM_ZOOM);
  useViewport();

  const onNodesChange = useCallback(
    (changes: NodeChange<CardNode>[]) => {
      const view = editor.view.get();
      const cards = editor.scene()?.cards;
      let selected: Set<string> | null = null;
      let places: Map<string, Point> | null = null;
      for (const change of changes) {
        if (change.type === "select") {
          selected ??= new Set(view.nodes);
          if (change.selected) selected.add(change.id);
          else selected.delete(change.id);
        } else if (change.type === "position" && change.position && change.dragging) {
          const card = cards?.get(change.id);
          places ??= new Map(view.moving);
          if (card) places.set(change.id, centre(card, [change.position.x, change.position.y]));
        }
      }
      if (selected) editor.patch({ nodes: selected });
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
    },
    [editor],
  );
  const onDragStart = useCallback(
    (_: unknown, node: CardNode) => {
      if (!editor.view.get().nodes.has(node.id)) editor.select([node.id]);
    },
    [editor],
  );
  const onDragStop = useCallback(() => editor.move(editor.view.get().moving), [editor]);
  const onConnectStart = useCallback(
    (_: unknown, { nodeId, handleId, handleType }: OnConnectStartParams) =>
      editor.patch({
        connecting: { port: `${nodeId}.${handleId}`, side: handleType === "source" ? "output" : "input" },
      }),
    [editor],
  );
  const onConnectEnd = useCallback(
    (event: MouseEvent | TouchEvent, state: FinalConnectionState) => {
      const { connecting } = editor.view.get();
      editor.patch({ connecting: null });
      if (!connecting || state.isValid) return;
      if (state.toHandle) {
        const other = `${state.toHandle.nodeId}.${state.toHandle.id}`;
        if (other === connecting.port) return;
        if ((state.toHandle.type === "source") === (connecting.side === "output")) {
          editor.session.notify(
            `Connect an output to an input; ${other} and ${connecting.port} are both ${connecting.side}s.`,
          );
        } else if (connecting.side === "output") editor.connect(connecting.port, other);
        else editor.connect(other, connecting.port);
        return;
      }
      const point = "changedTouches" in event ? event.changedTouches[0] : event;
      const root = (event.target as Element | null)?.getRootNode() as Document | ShadowRoot | undefined;
      const under = point && root?.elementFromPoint(point.clientX, point.clientY);
      const id = under?.closest(".react-flow__node")?.getAttribute("data-id");
      if (id && id !== nodeOf(connecting.port)) editor.connectToNode(connecting.port, connecting.side, id);
    },
    [editor],
  );
  const onConnect = useCallback(
    (made: Connection) => editor.connect(`${made.source}.${made.sourceHandle}`, `${made.target}.${made.targetHandle}`),
    [editor],
  );
  const isValidConnection = useCallback(
    (made: Connection | WireEdge) => {
      const shown = editor.scene();
      return (
        shown !== null &&
        whyNotConnect(shown, `${made.source}.${made.sourceHandle}`, `${made.target}.${made.targetHandle}`) === null
      );
    },
    [editor],
  );
  const onDoubleClick = useCallback(
    (_: unknown, node: CardNode) => {
      if (node.data.card.type === "Subgraph") editor.enter([...editor.view.get().path, node.id]);
    },
    [editor],
  );

  return (
    <ReactFlow<CardNode, WireEdge>
      className={distant ? "pnne-distant" : ""}
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      onNodeDragStart={onDragStart}
      onNodeDragStop={onDragStop}
      onSelectionDragStop={onDragStop}
      onNodeDoubleClick={onDoubleClick}
      onConnectStart={onConnectStart}
      onConnectEnd={onConnectEnd}
      onConnect={onConnect}
      isValidConnection={isValidConnection}
      onlyRenderVisibleElements
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
      minZoom={0.05}
      maxZoom={2}
      proOptions={{ hideAttribution: true }}
    >
      <Background gap={24} size={1.3} />
      <MiniMap />
      <Refusal />
    </ReactFlow>
  );
}

/** Gives the commands their viewport, and fits the graph once it is there and the canvas has a size. */
function useViewport(): void {
  const editor = useEditor();
  const { fitView, screenToFlowPosition, setCenter, setViewport, getZoom, getInternalNode } = useReactFlow();
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  const domNode = useStore((state) => state.domNode);
  const scene = useScene();
  const arranged = scene !== null && scene.provisional.size === 0;
  const shownPath = useView((view) => view.path);

  useEffect(() => {
    const bounds = () => domNode?.getBoundingClientRect();
    editor.viewport = {
      centre: () => {
        const box = bounds();
        if (!box) return [0, 0];
        const { x, y } = screenToFlowPosition({ x: box.left + box.width / 2, y: box.top + box.height / 2 });
        return [x, y];
      },
      at: (clientX, clientY) => {
        const box = bounds();
        if (!box || clientX < box.left || clientX > box.right || clientY < box.top || clientY > box.bottom) return null;
        const { x, y } = screenToFlowPosition({ x: clientX, y: clientY });
        return [x, y];
      },
      fit: (names) => {
        void fitView(names ? { ...FIT, nodes: names.map((id) => ({ id })) } : FIT);
      },
      reveal: (name) =>
        requestAnimationFrame(() => {
          const node = getInternalNode(name);
          const box = bounds();
          if (!node || !box) return;
          const zoom = getZoom();
          const { x, y } = node.internals.positionAbsolute;
          const { width = 0, height = 0 } = node.measured;
          const start = screenToFlowPosition({ x: box.left, y: box.top });
          const end = screenToFlowPosition({ x: box.right, y: box.bottom });
          if (x >= start.x && y >= start.y && x + width <= end.x && y + height <= end.y) return;
          void setCenter(x + width / 2, y + height / 2, { zoom, duration: 200 });
        }),
    };
    return () => {
      editor.viewport = null;
    };
  }, [editor, domNode, fitView, screenToFlowPosition, setCenter, getZoom, getInternalNode]);

  // Nodes that came without a place are arranged once, when the view opens.
  const current = useSession((state) => state.current && !state.readOnly);
  const asked = useRef(false);
  useEffect(() => {
    if (!scene || !current || asked.current) return;
    asked.current = true;
    if (!arranged) editor.arrange();
  }, [editor, scene, current, arranged]);

  const fitted = useRef<string | null>(null);
  useEffect(() => {
    const place = shownPath.join(".");
    if (!scene || scene.cards.size === 0 || width === 0 || height === 0) return;
    if (fitted.current === `${place} ${arranged}` || fitted.current === `${place} true`) return;
    fitted.current = `${place} ${arranged}`;
    const box = bounds(scene);
    const wanted = Math.min((width - 2 * OPENING_MARGIN) / box.width, (height - 2 * OPENING_MARGIN) / box.height);
    const zoom = Math.max(OPENING_ZOOM, Math.min(1, wanted));
    const fits = box.height * zoom + 2 * OPENING_MARGIN <= height;
    const y = fits ? (height - box.height * zoom) / 2 : OPENING_MARGIN;
    void setViewport({ x: width / 2 - (box.left + box.width / 2) * zoom, y: y - box.top * zoom, zoom });
  }, [width, height, arranged, scene, shownPath, setViewport]);
}
