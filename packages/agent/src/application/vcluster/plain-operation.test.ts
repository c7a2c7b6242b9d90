import { expect, test } from "vitest";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { FakeClusterHost } from "../../testing/fake-cluster-host.ts";
import { plainly } from "./plain-operation.ts";

const KEY = "0-demo-au2lyy3xanxc";
type Args = { readonly name: string; readonly called?: string };

async function said(args: Args, kept?: { readonly called?: string }): Promise<readonly string[]> {
  const host = new FakeClusterHost();
  if (kept !== undefined)
    host.save({
      ...kept,
      name: args.name,
      tenant: "shop",
      spec: readVirtualClusterSpec({}),
      version: "1.36.4",
      phase: "Running",
      isWanted: true,
    });
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  const { steps = [] } = plainly<Args, Record<string, never>>(
    {
      type: "vctest",
      steps: [
        {
          name: "speak",
          run: ({ log, warn, progress, args: { name } }) => {
            log(`virtual cluster ${name} answers`);
            warn(`kept in clusters/${name}/saves`);
            progress(0.5, `${name}: half of it`);
            throw new Error(`virtual cluster '${name}' is Stopped`);
          },
          undo: ({ log, args: { name } }) => log(`${name} as before`),
        },
      ],
    },
    host,
  );
  const ctx = {
    args,
    log: write,
    warn: write,
    progress: (_fraction: number, text?: string) => write(text ?? ""),
  } as unknown as StepContext<Args, Record<string, never>>;
  await Promise.resolve(steps[0]?.run(ctx)).catch((err: unknown) => write((err as Error).message));
  await steps[0]?.undo?.(ctx);
  return lines;
}

const plain = [
  "virtual cluster demo answers",
  `kept in clusters/${KEY}/saves`,
  "demo: half of it",
  "virtual cluster 'demo' is Stopped",
  "demo as before",
];

test("what is said of a cluster names it as its tenant does", async () => {
  expect(await said({ name: KEY }, { called: "demo" })).toEqual(plain);
  expect(await said({ name: KEY, called: "demo" })).toEqual(plain);
});

test("a cluster whose key is its name is called by that", async () => {
  const lines = await said({ name: "plain" }, {});
  expect(lines[0]).toBe("virtual cluster plain answers");
  expect(lines[3]).toBe("virtual cluster 'plain' is Stopped");
});
