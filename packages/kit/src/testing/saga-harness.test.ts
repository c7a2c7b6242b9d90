import { describe, expect, it } from "vitest";
import type { OperationDefinition } from "../operation/definition.ts";
import { killAt } from "./kill-at.ts";
import { testSaga } from "./saga-harness.ts";
import type { SagaTest } from "./saga-harness.ts";

/** Things that exist, as files would. */
type World = Set<string>;

const names = ["volume", "config", "identity"];

function saga(over: Partial<OperationDefinition<{ vmid: number }, object>> = {}): SagaTest<World> {
  return {
    prepare: () => new Set<string>(),
    define: (engine, world) => {
      engine.register<{ vmid: number }, object>({
        type: "qmcreate",
        steps: names.map((name) => ({
          name,
          run: (ctx) => void world.add(`${name}-${ctx.args.vmid}`),
          undo: (ctx) => void world.delete(`${name}-${ctx.args.vmid}`),
        })),
        ...over,
      });
      return { type: "qmcreate", args: { vmid: 100 }, resources: ["vm/100"] };
    },
    check: (world, outcome) => {
      const expected = outcome === "done" ? names.map((name) => `${name}-100`) : [];
      expect([...world].toSorted()).toEqual(expected.toSorted());
    },
  };
}

describe("testSaga", () => {
  it("passes a good saga through every crash, failure and cancel", async () => {
    const cleaned: World[] = [];
    const report = await testSaga({ ...saga(), cleanup: (world) => void cleaned.push(world) });
    expect(report.points.map(({ phase, step }) => `${phase} ${step}`.trim())).toEqual([
      ...names.flatMap((name) => [`before-run ${name}`, `after-run ${name}`]),
      "before-finish",
      "after-finish",
    ]);
    expect(report.undoPoints).toHaveLength(8);
    expect(report.runs).toBeGreaterThan(30);
    expect(cleaned).toHaveLength(report.runs);
  });

  it("passes a saga that resumes", async () => {
    const { points, runs } = await testSaga(saga({ onCrash: "resume" }));
    expect(points).toHaveLength(2 * names.length + 2);
    expect(runs).toBeGreaterThan(points.length);
  });

  const broken: readonly [string, Partial<OperationDefinition<{ vmid: number }, object>>, string][] = [
    [
      "forgets an undo",
      {
        steps: [
          { name: "volume", run: () => {} },
          { name: "config", run: () => {} },
        ],
      },
      "no trouble",
    ],
    [
      "cannot undo",
      {
        steps: names.map((name) => ({
          name,
          run: () => {},
          undo: () => {
            throw new Error("cannot");
          },
        })),
      },
      "the last step fails",
    ],
    ["has no steps", { steps: [] }, "no steps"],
  ];
  it.each(broken)("finds a saga that %s", async (_what, over, expected) => {
    const quiet = { ...saga(over), ...(expected === "no trouble" ? {} : { check: () => {} }) };
    await expect(testSaga(quiet)).rejects.toThrow(expected);
  });

  it("finds a step that cannot run twice, and one that leaks when it is cut off", async () => {
    const fragile = saga();
    await expect(
      testSaga({
        ...fragile,
        define: (engine, world) => {
          engine.register({
            type: "once",
            steps: [
              {
                name: "volume",
                run: () => {
                  if (world.has("volume-100")) throw new Error("exists");
                  for (const name of names) world.add(`${name}-100`);
                },
                undo: () => world.clear(),
              },
            ],
          });
          return { type: "once" };
        },
      }),
    ).rejects.toThrow("every step twice");
    await expect(
      testSaga({
        ...fragile,
        define: (engine, world) => {
          let didIt = false;
          engine.register({
            type: "leaky",
            steps: [
              {
                name: "volume",
                run: () => {
                  didIt = true;
                  for (const name of names) world.add(`${name}-100`);
                },
                undo: () => {
                  if (didIt) world.clear();
                },
              },
            ],
          });
          return { type: "leaky" };
        },
      }),
    ).rejects.toThrow("a crash after the last step");
  });
});

describe("killAt", () => {
  it("kills at the point, the nth time", () => {
    let kills = 0;
    const injector = killAt(
      { phase: "after-run", step: "copy", type: "qmclone" },
      { nth: 2, kill: () => (kills += 1) },
    );
    const point = { id: "1", type: "qmclone", phase: "after-run", step: "copy" } as const;
    void injector.hit({ ...point, type: "qmcreate" });
    void injector.hit(point);
    expect(kills).toBe(0);
    void injector.hit(point);
    void injector.hit(point);
    expect(kills).toBe(1);
  });
});
