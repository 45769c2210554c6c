import { expect, test, vi } from "vitest";
import { OwnModel } from "../src/canvas/own";

test("a state that comes again is no change, and what the page sets is told once", () => {
  const told: unknown[] = [];
  const model = new OwnModel((data) => told.push(data), { status: { state: "idle" }, tick: 1 });
  const [status, tick] = [vi.fn(), vi.fn()];
  model.on("change:status", status);
  model.on("change:tick", tick);
  model.take({ status: { state: "idle" }, tick: 2 });
  expect(status).not.toHaveBeenCalled();
  expect(tick).toHaveBeenCalledOnce();
  model.set("theme", "dark");
  model.save_changes();
  model.send({ kind: "ack" });
  expect(told).toEqual([
    { method: "update", state: { theme: "dark" }, buffer_paths: [] },
    { method: "custom", content: { kind: "ack" } },
  ]);
  model.off("change:tick", tick);
  model.take({ tick: 3 });
  expect(tick).toHaveBeenCalledOnce();
});
