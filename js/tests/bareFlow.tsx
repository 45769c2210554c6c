// React Flow as its documentation starts: what `benchmarks/bench_front_end.py` measures the editor's frames against.
import {
  Background,
  type Edge,
  type Node,
  ReactFlow,
  useEdgesState,
  useNodesState,
  type Viewport,
} from "@xyflow/react";
import { createRoot } from "react-dom/client";
import "@xyflow/react/dist/style.css";

interface Graph {
  readonly nodes: readonly { name: string; left: number; top: number; width: number; height: number }[];
  readonly edges: readonly { source: string; target: string }[];
  readonly viewport: Viewport;
}

function Flow({ graph }: { graph: Graph }) {
  const [nodes, , onNodesChange] = useNodesState<Node>(
    graph.nodes.map(({ name, left, top, width, height }) => ({
      id: name,
      position: { x: left, y: top },
      width,
      height,
      data: { label: name },
    })),
  );
  const [edges, , onEdgesChange] = useEdgesState<Edge>(
    graph.edges.map(({ source, target }) => ({ id: `${source}->${target}`, source, target })),
  );
  return (
    <ReactFlow
      nodes={nodes}
      edges={edges}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      defaultViewport={graph.viewport}
      minZoom={0.005}
      onlyRenderVisibleElements
      onInit={(flow) => Object.assign(window, { moveBare: (viewport: Viewport) => void flow.setViewport(viewport) })}
      proOptions={{ hideAttribution: true }}
    >
      <Background />
    </ReactFlow>
  );
}

Object.assign(window, {
  openBare: (element: HTMLElement, graph: Graph) => {
    const root = createRoot(element);
    root.render(<Flow graph={graph} />);
    return () => root.unmount();
  },
});
