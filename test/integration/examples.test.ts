// Every example of the tree that is an object, applied by gpvectl to a real `gpve up`.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { v1Kinds } from "@gpve/contracts/v1/kinds.ts";
import { type Ran, runCtl } from "../support/ctl.ts";
import { type Gpve, startGpve } from "../support/gpve.ts";

const examples = join(import.meta.dirname, "../../examples");
const files = readdirSync(examples).filter((name) => name.endsWith(".yaml"));
/** Needs Kubernetes on the node: test/integration/vcluster-sleep.test.ts applies it. */
const APPLIED_ELSEWHERE = "virtual-cluster.yaml";
let gpve: Gpve;
let folder: string;
let node: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpve-examples-"));
  gpve = await startGpve();
  node = (await namesOf("nodes"))[0] ?? "";
});
afterAll(async () => {
  await gpve.stop();
  rmSync(folder, { recursive: true, force: true });
});

const ctl = (...argv: string[]): Promise<Ran> => runCtl(folder, [...argv, "--data", gpve.data]);

async function namesOf(plural: string): Promise<string[]> {
  const { code, out, err } = await ctl("get", plural, "-o", "json");
  expect(code, `${plural}: ${err}`).toBe(0);
  return (JSON.parse(out) as { items: { metadata: { name: string } }[] }).items.map(
    ({ metadata }) => metadata.name,
  );
}

/** Its own folder and node in place of those that the example names; a VM stays stopped, other tests run one. */
function own(name: string): string {
  const text = readFileSync(join(examples, name), "utf8")
    .replaceAll("/srv/gpve-archive", join(folder, "archive"))
    .replaceAll("node-01", node)
    .replaceAll("running: true", "running: false");
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

test.each(files.filter((name) => name !== APPLIED_ELSEWHERE))(
  "examples/%s is applied, and applied again changes nothing",
  async (name) => {
    const file = own(name);
    const first = await ctl("apply", "-f", file);
    expect(first, first.err).toMatchObject({ code: 0 });
    const diff = await ctl("diff", "-f", file);
    expect(diff, diff.out).toMatchObject({ code: 0 });
    expect((await ctl("apply", "-f", file)).out).not.toMatch(/\b(created|updated|changed)\b/);
  },
);

test(`examples/${APPLIED_ELSEWHERE} would be made as it stands`, async () => {
  const { code, out } = await ctl("diff", "-f", own(APPLIED_ELSEWHERE));
  expect({ code, out }).toMatchObject({
    code: 1,
    out: expect.stringContaining("+ VirtualCluster default/idle: create"),
  });
});

test("every kind that can be applied has an example, and every kind is listed and described", async () => {
  const shown = files.flatMap((name) =>
    [...readFileSync(join(examples, name), "utf8").matchAll(/^kind: (\w+)$/gm)].map(([, kind]) => kind),
  );
  const appliable = v1Kinds.filter(({ applyOrder }) => applyOrder !== undefined);
  expect(appliable.map(({ kind }) => kind).filter((kind) => !shown.includes(kind))).toEqual([]);
  for (const { plural } of v1Kinds) {
    const [first] = await namesOf(plural);
    if (first === undefined) continue;
    const described = await ctl("describe", plural, first);
    expect(described, `${plural}: ${described.err}`).toMatchObject({ code: 0 });
    expect(described.out).toContain(first);
  }
  const network = join(folder, "network.yaml");
  writeFileSync(network, "apiVersion: gpve.io/v1\nkind: Network\nmetadata: { name: vmbr7 }\nspec: {}\n");
  expect((await ctl("apply", "-f", network)).err).toContain("shown as the nodes have them");
});
