import { Component, type ReactNode } from "react";
import { EditorContext } from "../commands/context";
import { copyDocument } from "../commands/files";

/** In the place of an editor that cannot be drawn: why, and the graph as text, so that nothing is lost. */
export class Failure extends Component<{ children: ReactNode }, { error: Error | null }> {
  static override contextType = EditorContext;
  declare context: React.ContextType<typeof EditorContext>;
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div className="pnne-failure" role="alert">
        <p>The editor failed to draw the graph: {error.message}</p>
        <button type="button" className="pnne-fix" onClick={() => this.setState({ error: null })}>
          Try again
        </button>
        <button type="button" className="pnne-fix" onClick={() => this.context && void copyDocument(this.context)}>
          Copy graph as JSON
        </button>
      </div>
    );
  }
}
