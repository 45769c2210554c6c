import {
  Background,
  type Connection,
  type EdgeChange,
  type FinalConnectionState,
  type NodeChange,
  type OnConnectStartParams,
  ReactFlow,
  SelectionMode,
  useStore,
} from "@xyflow/react";
import { type CSSProperties, type MouseEvent as ReactMouseEvent, useCallback, useEffect, useMemo, useRef } from "react";
import type { EdgeState } from "../../protocol";
import { dropCopy } from "../commands/clipboard";
import { useDrawn, useEditor, useScene, useSession, useView } from "../commands/context";
import type { Editor } from "../commands/editor";
import { dragFrame, editFrame } from "../commands/framing";
import { dropNode, openPalette, overEdge, reconnect } from "../commands/gestures";
import { ELSEWHERE, enterBlock, ownName } from "../commands/opened";
import { whyNotConnect } from "../document/connection";
import { centre, type Layer, layersOf } from "../scene/boxes";
import { type Box, detailFrom, legibleFrom } from "../scene/geometry";
import type { Point } from "../scene/placement";
import { addressOf } from "../scene/scene";
import { type Connecting, NOTHING, SETTLED, STILL } from "../scene/view";
import { FarView } from "./FarView";
import { FrameBox } from "./FrameBox";
import { type CardNode, FlowMaker, type FrameNode, frameName, type WireEdge } from "./flow";
import { Ghost } from "./Ghost";
import { MiniMap } from "./MiniMap";
import { DetailContext, NodeCard } from "./NodeCard";
import { Peek } from "./Peek";
import { type PointerPlace, usePanAtEdge, usePointing } from "./pointing";
import { type Region, regionOf, useDrawnZoom, useWindow } from "./region";
import { LARGEST_ZOOM, SMALLEST_ZOOM, useViewport } from "./viewport";
import { useSheet, Wire, WireSheet } from "./Wire";

const NOWHERE: Region = { names: NOTHING, ends: NOTHING, edges: [] };

/** What React Flow is given of one graph: all of it without a window. */
function regionIn({ scene, at }: Layer, window: Box | null, selected: ReadonlySet<string>): Region {
  if (!window) return { ...NOWHERE, names: new Set(scene.cards.keys()), edges: scene.wires };
  return regionOf(scene, { ...window, left: window.left - at[0], top: window.top - at[1] }, selected);
}

/** From far away: what is selected or under the pointer. */
function pointedAt(selected: ReadonlySet<string>, hovered: string | null): Region {
  return { ...NOWHERE, names: hovered === null ? selected : new Set([...selected, hovered]) };
}

const NODE_TYPES = { card: NodeCard, frame: FrameBox };

type CanvasNode = CardNode | FrameNode;
const EDGE_TYPES = { wire: Wire };
/** Further away than this, a graph with many nodes is one picture. */
const FAR_ZOOM = 0.35;
/** The same from nearer, where a screen is so large that it shows this much of the canvas: some 500 cards. */
const DENSE_ZOOM = 0.5;
const DENSE_AREA = 12_000_000;
const DENSE_CARDS = 500;
const MANY_NODES = 150;

const GRID = 12;
/** A port under the pointer, as the document calls it; null for one of another graph than that of the commands. */
function portAt(editor: Editor, node: string | null, port: string | null, handle: string | null): Connecting | null {
  const side = handle === "source" ? "output" : "input";
  const scene = editor.scene();
  const name = node === null ? null : ownName(editor, node);
  return scene && name !== null ? { port: addressOf(scene, `${name}.${port}`, side), side } : null;
}

/** The edge between two ports, as the document calls them; null for ports of two graphs. */
function endsOf(
  editor: Editor,
  { source, sourceHandle, target, targetHandle }: Connection | WireEdge,
): EdgeState | null {
  const from = portAt(editor, source, sourceHandle ?? null, "source");
  const to = portAt(editor, target, targetHandle ?? null, "target");
  return from && to && { source: from.port, target: to.port };
}

/** The name of a card in its graph. */
function nameOf(node: CanvasNode): string {
  return node.type === "frame" ? node.data.frame.name : node.data.card.name;
}

function onGrid(value: number): number {
  return Math.round(value / GRID) * GRID;
}

export function Canvas() {
  const editor = useEditor();
  const scene = useDrawn();
  const here = useScene()?.prefix ?? "";
  const shapes = useSession((state) => state.derived.shapes);
  const selectedNodes = useView((view) => view.nodes);
  const selectedEdges = useView((view) => view.edges);
  const selectedFrames = useView((view) => view.frames);
  const moving = useView((view) => view.moving);
  const boxes = useView((view) => view.boxes);
  const active = useView((view) => view.active);
  const readOnly = useSession((state) => state.readOnly);
  const dragSelects = useView((view) => view.dragSelects);
  const makers = useRef(new Map<string, FlowMaker>());
  const makerOf = useCallback(({ id }: Layer) => {
    const maker = makers.current.get(id) ?? new FlowMaker();
    makers.current.set(id, maker);
    return maker;
  }, []);
  const small = useStore((state) => state.transform[2] < FAR_ZOOM);
  const dense = useStore(({ transform: [, , zoom], width, height }) => {
    return zoom < DENSE_ZOOM && (width / zoom) * (height / zoom) > DENSE_AREA;
  });
  const resting = useMemo(() => (scene ? layersOf(scene) : []), [scene]);
  // What is inside of a block moves with it.
  const isFollowed = resting.length > 1 && moving.size > 0;
  const layers = useMemo(
    () => (scene && isFollowed ? layersOf(scene, moving, here) : resting),
    [scene, resting, isFollowed, moving, here],
  );
  // A graph of ordinary size is in the page as a whole, so that the browser's search and assistive tools find all of it.
  const count = resting.reduce((sum, { scene }) => sum + scene.cards.size, 0);
  const whole = scene !== null && count <= MANY_NODES;
  const far = scene !== null && !whole && (small || (dense && count > DENSE_CARDS));
  const { hovered, ...pointing } = usePointing(far);
  const window = useWindow();
  const drawnZoom = useDrawnZoom();
  const legible = legibleFrom(useStore((state) => (whole ? state.transform[2] : drawnZoom)));
  const detail = useMemo(() => detailFrom(legible), [legible]);
  const regions = useMemo(() => {
    const region = (layer: Layer): Region => {
      const own = layer.scene.prefix === here ? selectedNodes : NOTHING;
      return far
        ? pointedAt(own, layer.scene.prefix === here ? hovered : null)
        : regionIn(layer, whole ? null : window, own);
    };
    return new Map(resting.map((layer) => [layer.id, region(layer)]));
  }, [resting, here, whole, far, window, hovered, selectedNodes]);
  const nodes = useMemo(() => {
    return layers.flatMap((layer): CanvasNode[] => {
      const isHere = layer.scene.prefix === here;
      const framed = isHere ? selectedFrames : NOTHING;
      const frames = [...layer.scene.frames.values()].filter(({ name }) => !far || framed.has(name));
      const own = isHere ? selectedNodes : NOTHING;
      return [
        ...makerOf(layer).makeFrames(layer, frames, framed, isHere ? boxes : SETTLED),
        ...makerOf(layer).makeNodes(layer, regions.get(layer.id) ?? NOWHERE, own, isHere ? moving : STILL),
      ];
    });
  }, [makerOf, layers, here, regions, far, selectedNodes, selectedFrames, moving, boxes]);
  const edges = useMemo(
    () =>
      layers.flatMap((layer) => {
        const selected = layer.scene.prefix === here ? selectedEdges : NOTHING;
        return makerOf(layer).makeEdges(layer, regions.get(layer.id) ?? NOWHERE, selected, shapes);
      }),
    [makerOf, layers, here, regions, selectedEdges, shapes],
  );
  const { lifted, onSheet, pointing: onWires } = useSheet(edges, !whole && !far);
  useViewport();
  // What is out of view has its cards made while nothing else is to be done.
  useEffect(() => {
    const ends = resting.map(({ scene }) => scene.cards.makeWhenIdle());
    return () => {
      for (const end of ends) end();
    };
  }, [resting]);

  const onNodesChange = useCallback(
    (changes: NodeChange<CanvasNode>[]) => {
      const view = editor.view.get();
      const cards = editor.scene()?.cards;
      const [dx, dy] = editor.layer()?.at ?? [0, 0];
      let selected: Set<string> | null = null;
      let chosenFrames: Set<string> | null = null;
      let places: Map<string, Point> | null = null;
      for (const change of changes) {
        const name = "id" in change ? ownName(editor, change.id) : null;
        if (name === null) continue;
        const frame = frameName(name);
        if (frame !== null) {
          if (change.type === "select") {
            chosenFrames ??= new Set(view.frames);
            if (change.selected) chosenFrames.add(frame);
            else chosenFrames.delete(frame);
          } else if (change.type === "position" && change.position && change.dragging) {
            const corner = [change.position.x - dx, change.position.y - dy] as const;
            dragFrame(editor, frame, view.snap ? [onGrid(corner[0]), onGrid(corner[1])] : corner);
          }
        } else if (change.type === "select") {
          selected ??= new Set(view.nodes);
          for (const each of editor.whole([name])) {
            if (change.selected) selected.add(each);
            else selected.delete(each);
          }
        } else if (change.type === "position" && change.position && change.dragging) {
          const card = cards?.get(name);
          places ??= new Map(editor.view.get().moving);
          if (!card) continue;
          const [x, y] = centre(card, [change.position.x - dx, change.position.y - dy]);
          places.set(name, view.snap ? [onGrid(x), onGrid(y)] : [x, y]);
        }
      }
      if (selected) editor.patch({ nodes: selected, elsewhere: NOTHING });
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
        const id = change.type === "select" ? ownName(editor, change.id) : null;
        if (id === null || change.type !== "select") continue;
        if (change.selected) selected.add(id);
        else selected.delete(id);
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
      const name = ownName(editor, node.id);
      if (name === null) return;
      // React Flow leaves several selected as they are; a click without a drag means this one.
      const frame = frameName(name);
      if (frame === null) editor.select([name]);
      else editor.select([], NOTHING, [frame]);
      editor.announceSelection();
    },
    [editor],
  );
  const panAtEdge = usePanAtEdge();
  const onDragStart = useCallback(
    (event: PointerPlace, node: CanvasNode) => {
      panAtEdge(event);
      const name = ownName(editor, node.id);
      if (name === null) return;
      const frame = frameName(name);
      const { nodes, frames } = editor.view.get();
      if (frame !== null && !frames.has(frame)) editor.select([], NOTHING, [frame]);
      else if (frame === null && !nodes.has(name)) editor.select([name]);
      else return;
      editor.announceSelection();
    },
    [editor, panAtEdge],
  );
  // React Flow names no node when the last of those that were dragged was removed meanwhile, from Python.
  const onDrag = useCallback(
    (event: PointerPlace, node?: CanvasNode) => {
      panAtEdge(event);
      if (node) overEdge(editor, nameOf(node));
    },
    [editor, panAtEdge],
  );
  const onDragStop = useCallback(
    (event: { altKey: boolean }, node?: CanvasNode) =>
      event.altKey && node ? dropCopy(editor) : dropNode(editor, node ? nameOf(node) : null),
    [editor],
  );
  const onSelectionDragStop = useCallback(
    (event: { altKey: boolean }) => (event.altKey ? dropCopy(editor) : editor.move(editor.view.get().moving)),
    [editor],
  );
  const onReconnectStart = useCallback(
    (_: unknown, edge: WireEdge) => {
      const target = endsOf(editor, edge)?.target ?? "";
      editor.patch({ reconnecting: editor.scene()?.graph.edges.get(target) ?? null });
    },
    [editor],
  );
  const onReconnect = useCallback(
    (edge: WireEdge, made: Connection) => {
      const { reconnecting } = editor.view.get();
      const ends = endsOf(editor, made);
      // The edge of a part begins at the whole on screen.
      const stays = edge.source === made.source && edge.sourceHandle === made.sourceHandle;
      if (reconnecting && ends) reconnect(editor, reconnecting, stays ? reconnecting.source : ends.source, ends.target);
    },
    [editor],
  );
  const onReconnectEnd = useCallback(() => editor.patch({ reconnecting: null }), [editor]);
  const onConnectStart = useCallback(
    (_: unknown, { nodeId, handleId, handleType }: OnConnectStartParams) =>
      editor.patch({ connecting: portAt(editor, nodeId, handleId, handleType) }),
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
        const { nodeId, id, type } = state.toHandle;
        const other = portAt(editor, nodeId, id ?? null, type)?.port;
        if (other === undefined) editor.session.notify(ELSEWHERE);
        if (other === undefined || other === connecting.port) return;
        if ((state.toHandle.type === "source") === (connecting.side === "output")) {
          // At a port of the same side, the node is meant.
          const node = ownName(editor, nodeId);
          if (node !== null) editor.connectToNode(connecting.port, connecting.side, node);
        } else if (connecting.side === "output") editor.connect(connecting.port, other);
        else editor.connect(other, connecting.port);
        return;
      }
      const point = "changedTouches" in event ? event.changedTouches[0] : event;
      const root = (event.target as Element | null)?.getRootNode() as Document | ShadowRoot | undefined;
      const under = point && root?.elementFromPoint(point.clientX, point.clientY);
      const id = under?.closest(".react-flow__node-card")?.getAttribute("data-id");
      const name = id ? ownName(editor, id) : null;
      if (id && name === null) editor.session.notify(ELSEWHERE);
      else if (name !== null) editor.connectToNode(connecting.port, connecting.side, name);
      else if (!id && point && under?.closest(".pnne-canvas"))
        openPalette(editor, [point.clientX, point.clientY], connecting);
    },
    [editor],
  );
  const onConnect = useCallback(
    (made: Connection) => {
      const ends = endsOf(editor, made);
      if (ends) editor.connect(ends.source, ends.target);
    },
    [editor],
  );
  const isValidConnection = useCallback(
    (made: Connection | WireEdge) => {
      const shown = editor.connectable();
      const ends = endsOf(editor, made);
      return shown !== null && ends !== null && whyNotConnect(shown, ends.source, ends.target) === null;
    },
    [editor],
  );
  const onDoubleClick = useCallback(
    (_: unknown, node: CanvasNode) => {
      if (node.type === "frame") editFrame(editor);
      else if (node.data.card.inside) enterBlock(editor, nameOf(node));
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
    <DetailContext value={detail}>
      <ReactFlow<CanvasNode, WireEdge>
        className={`pnne-tell-${detail.told}${whole && detail.shapes ? " pnne-tell-shapes" : ""}`}
        style={{ "--pn-scale": detail.scale } as CSSProperties}
        nodes={nodes}
        edges={lifted}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        onNodesChange={onNodesChange}
        onEdgesChange={onEdgesChange}
        {...pointing}
        {...onWires}
        onNodeClick={onNodeClick}
        onNodeDragStart={onDragStart}
        onNodeDrag={onDrag}
        onNodeDragStop={onDragStop}
        onSelectionDragStart={panAtEdge}
        onSelectionDrag={panAtEdge}
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
        nodesDraggable={!readOnly}
        nodesConnectable={!readOnly}
        nodesFocusable={false}
        edgesFocusable={false}
        disableKeyboardA11y
        deleteKeyCode={null}
        panActivationKeyCode={null}
        zoomActivationKeyCode={null}
        selectionKeyCode="Shift"
        selectionOnDrag={dragSelects}
        selectionMode={SelectionMode.Partial}
        // The middle button moves the view all the same; the right one opens the menu.
        panOnDrag={dragSelects ? [1] : true}
        multiSelectionKeyCode="Shift"
        // From the first pixel: with a threshold, the node would trail the pointer by as much.
        nodeDragThreshold={0}
        autoPanOnNodeDrag={false} // as long as `panAtEdge` does not say otherwise
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
        {onSheet.length > 0 && <WireSheet edges={onSheet} />}
        {far && <FarView layers={layers} here={here} moving={moving} selected={selectedNodes} />}
        <MiniMap />
        <Peek />
        <Ghost />
      </ReactFlow>
    </DetailContext>
  );
}
