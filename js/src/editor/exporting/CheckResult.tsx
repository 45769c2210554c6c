import type { ExportCheck } from "../../protocol";
import { useSession } from "../commands/context";
import { ProblemList } from "../panels/Problems";

/** The findings of an export check, updated after each edit. */
export function CheckResult() {
  const check = useSession((state) => state.exportCheck);
  if (!check || check.state === "off") return null;
  const findings = [...(check.findings ?? [])];
  return (
    <section className="pnne-export-findings" aria-label="Check" aria-busy={check.state === "checking"}>
      <p role="status">
        <i className={`pnne-lamp${lampOf(check)}`} />
        {sentence(check)}
      </p>
      {findings.length > 0 && <ProblemList problems={findings} />}
    </section>
  );
}

function lampOf({ state, findings = [] }: ExportCheck): string {
  const has = (severity: string) => findings.some((each) => (each.severity ?? "error") === severity);
  if (state === "failed" || has("error")) return " pnne-severity-error";
  if (state === "checking") return " pnne-lamp-waiting";
  return has("warning") ? " pnne-severity-warning" : "";
}

function sentence({ state, format, findings = [], error }: ExportCheck): string {
  if (state === "checking") return `Checking for ${format}…`;
  if (state === "failed") return error ?? "";
  const count = (severity: string) => findings.filter((each) => (each.severity ?? "error") === severity).length;
  const [errors, warnings] = [count("error"), count("warning")];
  if (errors > 0) return `It cannot be exported to ${format}: ${errors} ${errors === 1 ? "problem" : "problems"}.`;
  if (warnings > 0)
    return `It can be exported to ${format}, with ${warnings} ${warnings === 1 ? "warning" : "warnings"}.`;
  return `It can be exported to ${format}.`;
}
