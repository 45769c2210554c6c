import { useSession } from "../commands/context";
import { bytesText, countText, exactText, exampleText } from "../values/amounts";

/** What one node costs, those inside it included. */
export function Costs({ path }: { path: string }) {
  const cost = useSession((state) => state.derived.costs.get(path));
  const example = useSession((state) => state.derived.example);
  if (!cost) return null;
  const forWhat = exampleText(example);
  const rows = [
    ["Parameters", exactText(cost.parameters), cost.memory > 0 ? bytesText(cost.memory) : "", cost.memory],
    ["Mult-adds", countText(cost.multAdds), forWhat, cost.multAdds],
    ["Activations", bytesText(cost.activation), forWhat, cost.activation],
  ] as const;
  return (
    <dl className="pnne-costs" aria-label="Costs">
      {rows
        .filter(([, , , amount]) => amount > 0)
        .map(([name, value, more]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {value} <small>{more}</small>
            </dd>
          </div>
        ))}
    </dl>
  );
}
